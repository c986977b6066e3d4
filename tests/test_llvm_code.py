"""Machine code from IR, and Python callables around it."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import platform
import sys
import threading
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adjoint.engine.backends.llvm.linking import elf, host, placing
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


# -- object code placed without LLVM (Note [placed code]) ------------------------------------------

PLACED = {
    "a call inside": """
define internal i64 @twice(i64 %x) noinline { %y = shl i64 %x, 1 ret i64 %y }
define i64 @f(i64 %x) { %y = call i64 @twice(i64 %x) %z = add i64 %y, 3 ret i64 %z }""",
    "a call outside": """
declare i64 @given(i64)
define i64 @f(i64 %x) { %y = call i64 @given(i64 %x) %z = call i64 @given(i64 %y) ret i64 %z }""",
    "a call of the process": """
declare i64 @labs(i64)
define i64 @f(i64 %x) { %y = call i64 @labs(i64 %x) ret i64 %y }""",
    "a variable outside": """
@given = external global i64
define i64 @f(i64 %x) { %y = ptrtoint ptr @given to i64 %z = xor i64 %x, %y ret i64 %z }""",
    "constants": """
@table = private constant [5 x i64] [i64 3, i64 -1, i64 4, i64 1, i64 -5]
define i64 @f(i64 %x) {
  %k = urem i64 %x, 5
  %p = getelementptr [5 x i64], ptr @table, i64 0, i64 %k
  %v = load i64, ptr %p
  %d = uitofp i64 %k to double
  %e = fmul double %d, 0x4005BF0A8B145769
  %i = fptosi double %e to i64
  %w = insertelement <2 x i64> <i64 7, i64 11>, i64 %v, i64 0
  %s = mul <2 x i64> %w, <i64 13, i64 17>
  %a = extractelement <2 x i64> %s, i64 0
  %b = extractelement <2 x i64> %s, i64 1
  %c = add i64 %a, %b
  %r = add i64 %c, %i
  ret i64 %r
}""",
    "variables": """
@count = internal global i64 5
@empty = internal global [3 x i64] zeroinitializer
define i64 @f(i64 %x) {
  %c = load i64, ptr @count
  %k = urem i64 %x, 3
  %p = getelementptr [3 x i64], ptr @empty, i64 0, i64 %k
  %e = load i64, ptr %p
  %n = add i64 %c, %x
  store i64 %n, ptr @count
  store i64 %c, ptr %p
  %r = mul i64 %n, 1000003
  %s = add i64 %r, %e
  ret i64 %s
}""",
    "addresses in a table": """
define internal i64 @one(i64 %x) noinline { %y = add i64 %x, 1 ret i64 %y }
define internal i64 @two(i64 %x) noinline { %y = mul i64 %x, 3 ret i64 %y }
@both = internal global [2 x ptr] [ptr @one, ptr @two]
define i64 @f(i64 %x) {
  %k = and i64 %x, 1
  %p = getelementptr [2 x ptr], ptr @both, i64 0, i64 %k
  %g = load ptr, ptr %p
  %y = call i64 %g(i64 %x)
  ret i64 %y
}""",
    "a table of branches": """
declare i64 @given(i64)
define i64 @f(i64 %x) {
  %k = and i64 %x, 7
  switch i64 %k, label %other [i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %d
                               i64 4, label %a  i64 5, label %c  i64 6, label %e]
a:
  %ra = call i64 @given(i64 %x)
  ret i64 %ra
b:
  ret i64 17
c:
  %rc = mul i64 %x, %x
  ret i64 %rc
d:
  %rd = sub i64 9, %x
  ret i64 %rd
e:
  %re = xor i64 %x, -1
  ret i64 %re
other:
  ret i64 %x
}""",
}
ON_LINUX = pytest.mark.skipif(not placing.is_able(), reason="code is placed on Linux alone")


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
def _given(x: int) -> int:
    return 5 * x - 2


@ON_LINUX
@pytest.mark.parametrize("what", PLACED)
def test_placed_code_does_what_linked_code_does(what: str) -> None:
    code = jit.assemble(PLACED[what])
    names, image = jit.unpack(code)
    symbols = {"given": ctypes.cast(_given, ctypes.c_void_p).value or 0}
    placed = placing.place(image, names, symbols)  # no refusal: LLVM would not be needed
    linked = jit.link_by_llvm(code, symbols)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    one, other = call(placed["f"]), call(linked.address("f"))
    numbers = [*range(24), -1, -7, 2**40 + 3, *range(8)]
    assert [one(x) for x in numbers] == [other(x) for x in numbers]
    placed.close()


@ON_LINUX
def test_object_files_that_are_not_understood_are_refused() -> None:
    """Damaged in any place they are placed, without being run, or refused; nothing else."""
    names, image = jit.unpack(jit.assemble(PLACED["constants"]))
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        damaged = bytearray(image)
        for at in rng.integers(0, len(image), 2):
            damaged[at] = rng.integers(256)
        cut = len(image) if rng.integers(4) else int(rng.integers(len(image)))
        try:
            placing.place(bytes(damaged[:cut]), names, {}).close()
        except elf.Unplaceable:
            refused += 1
    assert 50 < refused < 400
    text = "@t = thread_local global i64 3\ndefine i64 @f() { %x = load i64, ptr @t ret i64 %x }"
    names, image = jit.unpack(jit.assemble(text))
    with pytest.raises(elf.Unplaceable):
        placing.place(image, names, {})


@ON_LINUX
def test_where_no_file_can_be_written_llvm_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of the size of files hold for those in memory too."""
    code = jit.assemble(PLACED["a call inside"])

    def refuse(file: int, data: bytes) -> int:
        raise OSError(errno.EFBIG, "File too large")

    with monkeypatch.context() as limited:
        limited.setattr(os, "write", refuse)
        library = jit.link(code)
    assert not isinstance(library._tracker, placing.PlacedCode)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address("f"))(20) == 43


@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"])
@pytest.mark.parametrize("what", ["a call outside", "a variable outside"])
def test_places_beside_symbols_of_others_are_refused(what: str, triple: str) -> None:
    """A stub and an entry of the table stand for a symbol's address, not for one beside it."""
    found = elf.read_object(jit.object_for(PLACED[what], triple, "", "", level=1))
    machine, base = placing.MACHINES[found.machine], 0x7F12_3456_7000
    placing.CodeLayout(found, machine, {"given": 16}).filled(base)
    for relocation in found.relocations:
        relocation.addend += 8
    with pytest.raises(elf.Unplaceable):
        placing.CodeLayout(found, machine, {"given": 16}).filled(base)


@pytest.mark.parametrize("base", [0x7F12_3456_7000, 0x10_0000])
def test_relocations_of_the_other_processor(base: int) -> None:
    """Read back from the bytes that x86 would execute: calls, constants, entries of the table."""
    text = """
declare i64 @given(i64)
@there = external global i64
@own = private constant [2 x i64] [i64 1234, i64 5678]
define i64 @f(i64 %x) {
  %b = call i64 @given(i64 %x)
  %v = load volatile i64, ptr @there
  %p = getelementptr [2 x i64], ptr @own, i64 0, i64 1
  %w = load volatile i64, ptr %p
  %s = add i64 %b, %v
  %r = add i64 %s, %w
  ret i64 %r
}"""
    image = jit.object_for(text, "x86_64-unknown-linux-gnu", "x86-64", "", level=1)
    found = elf.read_object(image)
    symbols = {"given": 0x1111_2222_3333, "there": 0x4444_5555_6666}
    layout = placing.CodeLayout(found, placing.MACHINES[found.machine], symbols)
    memory = layout.filled(base)

    def word(at: int) -> int:
        return int.from_bytes(memory[at - base :][:8], "little")

    def reached(at: int) -> int:  # by a displacement from behind it
        return at + 4 + int.from_bytes(memory[at - base :][:4], "little", signed=True)

    places = {r.symbol.name: base + layout.starts[r.section] + r.offset for r in found.relocations}
    stub = reached(places["given"])
    assert memory[places["given"] - base - 1] == 0xE8  # call
    assert memory[stub - base :][:2] == b"\xff\x25"  # jmp through memory
    assert word(reached(stub + 2)) == symbols["given"]
    assert word(reached(places["there"])) == symbols["there"]
    (own,) = [at for name, at in places.items() if name not in symbols]
    assert word(reached(own)) == 5678


@pytest.mark.skipif(sys.platform != "linux", reason="what Linux tells of its processors")
def test_the_name_of_the_machine_is_kept_for_this_machine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path / "cache"))
    about = tmp_path / "cpuinfo"
    monkeypatch.setattr(host, "CPUINFO", str(about))
    asked: list[str] = []

    def ask() -> str:
        asked.append(about.read_text() if about.exists() else "")
        return f"machine {len(asked)}"

    def told(text: str) -> str:
        about.write_text(text)
        return host.kept_name(ask)

    named = host.INSTRUCTIONS.get(platform.machine())
    if named is None:
        pytest.skip("an unknown processor")
    one = f"processor : 0\nmodel : 1\nMHz : 800\n{named} : a b\n\n"
    assert told(one) == "machine 1"
    assert told(one.replace("800", "1700")) == "machine 1"
    assert told(one.replace("a b", "a b c")) == "machine 2"
    assert told(one.replace("model : 1", "model : 2")) == "machine 3"
    assert told(one) == "machine 1"
    other = one.replace("model : 1", "CPU part : 0xd0c")
    assert told(one + other) == (
        "machine 4" if platform.machine() in host.ALL_CORES else "machine 1"
    )
    count = len(asked)
    for text in ("", one.replace(named, "frequencies")):  # nothing is known: asked each time
        assert told(text) != told(text)
    assert len(asked) == count + 4
    about.unlink()
    assert host.kept_name(ask) != host.kept_name(ask)


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


@pytest.mark.parametrize("callers", [1, 3, 8])
def test_a_routine_counts_once_in_each_part_that_calls_it(callers: int) -> None:
    routine = "define internal void @long()" + "\n" * 2000
    needed = [{routine} if k < callers else set() for k in range(24)]
    texts: Any = {f"f{k}": ("\n" * 500, needs) for k, needs in enumerate(needed)}
    parts = library._parts(texts, 2)
    assert Counter(name for part in parts for name in part) == Counter(list(texts))
    sizes = [500 * len(part) + 2000 * any(needs for _, needs in part.values()) for part in parts]
    assert max(sizes) - min(sizes) <= 500


def test_blocks_are_weighed_besides_lines() -> None:
    blocks = "".join(f"b{k}:\n" for k in range(100))
    texts: Any = {"blocks": (blocks, set()), "lines": ("\n" * 1600, set())}
    texts |= {f"few{k}": ("\n" * 100, set()) for k in range(15)}
    parts = library._parts(texts, 2)
    (apart,) = [set(part) for part in parts if "blocks" in part]
    assert "lines" not in apart
    assert len(apart) < 3
