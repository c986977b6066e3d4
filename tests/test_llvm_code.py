"""Machine code from IR, and Python callables around it."""

from __future__ import annotations

import ctypes
import gc
import platform
import sys
import threading
import weakref
from collections import Counter
from typing import Any

import numpy as np
import pytest

from adjoint.engine.backends.llvm.runtime import emitting, fastcall, guarding, jit, library, peeking

# -- calls ----------------------------------------------------------------------------------------

ADD3 = "define i64 @f(i64 %x, i64 %y, i64 %z) { %s = add i64 %x, %y\n %r = add i64 %s, %z\n ret i64 %r }"


def test_fast_calls() -> None:
    library = jit.link(jit.assemble(ADD3))
    for release in (False, True):
        f = fastcall.from_integers(library.address("f"), 3, name="add3", release=release)
        assert f(1, 2, 3) == 6
        assert f(-1, -1, 1) == -1
        assert f(2**62, 2**61, -5) == 2**62 + 2**61 - 5
        assert f.__name__ == "add3"
        with pytest.raises(TypeError, match="add3 takes 3 integers"):
            f(1, 2)
        with pytest.raises(TypeError):
            f(1, "2", 3)
        with pytest.raises(OverflowError):
            f(1, 2**64, 3)
        with pytest.raises(TypeError):
            f(1, 2, z=3)


def test_fast_calls_leak_nothing() -> None:
    library = jit.link(jit.assemble(ADD3))
    f = fastcall.from_integers(library.address("f"), 3, name="add3")
    big = 2**60 + 12345
    references = sys.getrefcount(big)
    blocks = sys.getallocatedblocks()
    for _ in range(10_000):
        f(big, 1, 2)
    assert sys.getallocatedblocks() - blocks < 100
    assert sys.getrefcount(big) == references


def test_a_callable_keeps_what_it_needs_and_no_longer() -> None:
    class Kept:
        pass

    kept = Kept()
    watch = weakref.ref(kept)
    library = jit.link(jit.assemble(ADD3))
    f = fastcall.from_integers(library.address("f"), 3, name="add3", keep=(library, kept))
    del kept, library
    gc.collect()
    assert watch() is not None
    assert f(1, 2, 3) == 6
    del f
    gc.collect()
    assert watch() is None


def test_a_builtin_of_one_object() -> None:
    text = """
declare void @Py_IncRef(ptr)
define ptr @same(ptr %self, ptr %x) { call void @Py_IncRef(ptr %x) ret ptr %x }"""
    api = ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value
    assert api is not None
    library = jit.link(jit.assemble(text), {"Py_IncRef": api})
    same = fastcall.builtin(library.address("same"), name="same", doc="it", keep=library)
    thing = object()
    count = sys.getrefcount(thing)
    assert all(same(thing) is thing for _ in range(1000))
    assert sys.getrefcount(thing) == count
    assert same.__doc__ == "it"


def test_native_looks_agree_with_python() -> None:
    """Addresses and strides of arrays of any kind."""
    address, guard = peeking.quick_address(), guarding.guard_walk()
    if sys.implementation.name == "cpython" and peeking.COUNTED:
        assert address is not peeking.slow_address  # the quick way is taken where it can be
        assert guard is not None
    base = np.arange(24.0)
    arrays = [base, base[3:], base[::-2], base.reshape(4, 6).T, base[:0], np.ones(()), base[5:6]]
    arrays += [np.ones(3, kind) for kind in (bool, np.int8, np.float16, np.complex128)]
    arrays += [np.frombuffer(b"readonly"), np.broadcast_to(base, (2, 24))]
    for array in arrays:
        assert address(array) == array.__array_interface__["data"][0]
        steps = peeking.steps()
        if steps is None:
            continue
        plain = array.size and all(step > 0 for step in array.strides)
        wanted = tuple(step // array.itemsize for step in array.strides) if plain else None
        assert steps(array, array.itemsize) == wanted


# -- code -----------------------------------------------------------------------------------------


def test_bad_syntax_names_the_line() -> None:
    with pytest.raises(jit.AssemblyError, match=r"undefined value '%z'\n(.*\n)* +3  ret i64 %z\n"):
        jit.assemble("define i64 @f(i64 %x) {\n%y = add i64 %x, 1\nret i64 %z\n}")


def test_a_bad_module_names_the_line() -> None:
    text = "define i64 @f(i64 %x) {\n br label %q\na:\n %y = add i64 %x, 1\n br label %q\nq:\n ret i64 %y\n}"
    with pytest.raises(jit.AssemblyError, match=r"does not dominate(.*\n)* +4   %y = add"):
        jit.assemble(text)


def test_nothing_visible() -> None:
    with pytest.raises(jit.AssemblyError, match="defines nothing"):
        jit.assemble("declare void @f()")


def test_foreign_bytes() -> None:
    with pytest.raises(jit.AssemblyError, match="not made by assemble"):
        jit.link(b"\x7fELF")


def test_a_missing_function(capfd: pytest.CaptureFixture[str]) -> None:
    code = jit.assemble(
        "declare void @no_such_function()\ndefine void @f() { call void @no_such_function() ret void }"
    )
    with pytest.raises(jit.AssemblyError, match="name its address in `symbols`"):
        jit.link(code)
    capfd.readouterr()


def test_symbols_and_unknown_names() -> None:
    code = jit.assemble(
        "declare i64 @g(i64)\ndefine i64 @f(i64 %x) { %y = call i64 @g(i64 %x) ret i64 %y }"
    )
    other = jit.link(jit.assemble("define i64 @ten(i64 %x) { %y = mul i64 %x, 10 ret i64 %y }"))
    library = jit.link(code, {"g": other.address("ten")})
    f = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address("f"))
    assert f(7) == 70
    with pytest.raises(KeyError, match="no symbol 'ten'; there are f"):
        library.address("ten")


def test_the_target_names_the_processor() -> None:
    assert platform.machine().replace("arm64", "aarch64").lower() in jit.target_key().lower()
    assert "llvmlite" in jit.target_key()


def test_compiling_in_several_threads() -> None:
    wrong = []

    def compile_and_call(k: int) -> None:
        for i in range(20):
            text = f"define i64 @f(i64 %x) {{ %y = add i64 %x, {k * 100 + i} ret i64 %y }}"
            library = jit.link(jit.assemble(text))
            f = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address("f"))
            if f(1) != k * 100 + i + 1:
                wrong.append((k, i))

    group = [threading.Thread(target=compile_and_call, args=(k,)) for k in range(4)]
    for thread in group:
        thread.start()
    for thread in group:
        thread.join(60)
    assert not wrong


# -- several modules at once ----------------------------------------------------------------------


def no_threads(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("way", ["beside the lock", "under the lock", "no more threads"])
def test_modules_assembled_at_once_are_those_assembled_one_by_one(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert emitting._unlocked() is not None  # of the llvmlite that is installed
    if way == "under the lock":
        monkeypatch.setattr(emitting, "_unlocked", lambda: None)
    if way == "no more threads":
        monkeypatch.setattr(threading.Thread, "start", no_threads)
    texts = [
        f"define i64 @f{k}(i64 %x) {{ %y = add i64 %x, {k}\n %z = mul i64 %y, %x ret i64 %z }}"
        for k in range(5)
    ]
    for _ in range(20):
        assert jit.assemble_all(texts) == [jit.assemble(text) for text in texts]


def test_one_bad_module_among_several_is_told() -> None:
    good = "define void @f() { ret void }"
    with pytest.raises(jit.AssemblyError, match="undefined value '%z'"):
        jit.assemble_all([good, "define i64 @g() {\nret i64 %z\n}"])


def test_an_interrupt_waits_for_the_threads_that_make_code() -> None:
    class Interrupted(threading.Thread):
        joins = 0

        def join(self, timeout: float | None = None) -> None:
            self.joins += 1
            if self.joins == 1:
                raise KeyboardInterrupt
            over.set()
            super().join(timeout)

    over = threading.Event()
    workers = [Interrupted(target=over.wait) for _ in range(3)]
    for worker in workers:
        worker.start()
    with pytest.raises(KeyboardInterrupt):
        emitting._join(workers)
    assert not any(worker.is_alive() for worker in workers)


@pytest.mark.parametrize("lengths", [[5], [900] * 3, [5000, 10, 900, 900, 300], [100] * 60])
@pytest.mark.parametrize("threads", [1, 2, 16])
def test_functions_are_cut_into_modules_of_about_the_same_length(
    lengths: list[int], threads: int
) -> None:
    texts: Any = {f"f{k}": ("\n" * length, set()) for k, length in enumerate(lengths)}
    parts = library._parts(texts, threads)
    assert Counter(name for part in parts for name in part) == Counter(list(texts))
    assert 1 <= len(parts) <= min(threads, library.MODULES)
    sizes = [sum(text.count("\n") for text, _ in part.values()) for part in parts]
    assert max(sizes) - min(sizes) <= max(lengths)
    assert len(parts) == 1 or sum(lengths) >= library.WORTH * len(parts)
