"""Kernels of the GPU are compiled by other processes, which may end in the middle of one."""

from __future__ import annotations

import importlib
import inspect
import os
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from adjoint.engine.backends.triton.launch_words import Written
from adjoint.engine.backends.triton.runtime import compile as made
from adjoint.engine.backends.triton.runtime import kernel_workers
from adjoint.engine.backends.triton.runtime.kernel_workers import KernelWorkers

# In the place of Triton: says which process answers, and how; or ends.
ANSWERING = f"""
import os, pickle, signal, sys
print("a greeting of the interpreter's", flush=True)
folders, root = pickle.load(sys.stdin.buffer), pickle.load(sys.stdin.buffer)
assert root in folders
plain = os.environ.get("DISABLE_LLVM_OPT")
sys.stdout.buffer.write({kernel_workers.READY!r})
sys.stdout.buffer.flush()
while True:
    work = pickle.load(sys.stdin.buffer)
    if work[0] == "hangs":
        signal.pause()
    if work[0] == "noise":
        print("no answer", flush=True)
    if work[0] == "ends" or (work[0] == "ends unless plain" and not plain):
        sys.exit("an assertion failed")
    pickle.dump((f"{{os.getpid()}} {{plain}}".encode(), ""), sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(kernel_workers, "BEGIN", ANSWERING)
    monkeypatch.setattr(kernel_workers, "available_processors", lambda: 2)
    monkeypatch.delenv("DISABLE_LLVM_OPT", raising=False)
    found = KernelWorkers()
    yield found
    found.rest(0)


def answered(workers: KernelWorkers, what: str) -> list[str]:
    """The process that answered, and what it knows."""
    answer = workers.compile((what,))
    assert answer is not None
    assert answer[0] is not None
    return answer[0].decode().split()


def test_a_worker_is_kept_and_replaced_when_it_is_gone(workers: KernelWorkers) -> None:
    first, _ = answered(workers, "one")
    assert answered(workers, "another")[0] == first
    os.kill(int(first), signal.SIGKILL)
    workers.idle[0].process.wait()
    assert answered(workers, "a third")[0] != first
    assert len(workers.idle) == 1


def test_what_ends_a_worker_is_compiled_without_optimisations(workers: KernelWorkers) -> None:
    _, plain = answered(workers, "ends unless plain")
    assert plain == "1"
    assert not workers.idle
    assert answered(workers, "one")[1] == "None"


def test_code_without_optimisations_is_told_once(
    workers: KernelWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = workers.compile(("ends unless plain",))
    assert answer is not None
    assert answer[0] is not None
    why = "its compiler ended with code 1: an assertion failed"
    assert answer[1] == why
    monkeypatch.setattr(made.WORKERS, "compile", lambda work: (b"code", why))
    monkeypatch.setattr(made.store, "get", lambda key: None)
    monkeypatch.setattr(made.store, "put", lambda key, code: None)
    monkeypatch.setattr(made, "unpack", lambda code: code)
    monkeypatch.setattr(made, "UNOPTIMISED", set())
    monkeypatch.setattr(made, "cubin_key", lambda written, capability: "key")
    written = Written("", (1, 1), 4, "exp, mul")
    with pytest.warns(UserWarning, match="kernel of exp, mul was compiled without.*an assertion"):
        found: Any = made.compiled(written, 90)
    assert found == b"code"
    made.compiled(written, 90)  # no second warning, which would be an error


def test_what_ends_every_worker_is_told(workers: KernelWorkers) -> None:
    answer = workers.compile(("ends",))
    assert answer == (None, "its compiler ended with code 1: an assertion failed")
    assert answered(workers, "one")[1] == "None"


def test_many_at_a_time_of_which_one_is_kept_in_the_end(
    workers: KernelWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_workers, "SHARE", 1)
    monkeypatch.setattr(kernel_workers, "available_processors", lambda: 3)
    found: list[Any] = []
    workers.each(lambda way: found.append(workers.compile((way,))), ["one"] * 9)
    assert len(found) == 9
    assert all(answer is not None and answer[0] for answer in found)
    assert 1 <= len(workers.idle) <= 3
    assert workers.kept == 3  # the rest of them may stay for a while
    assert workers.later is not None
    workers.later.cancel()
    workers.keep_one()
    assert len(workers.idle) == 1


def test_the_third_kernel_has_others_begin_and_small_groups_leave_them(
    workers: KernelWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_workers, "available_processors", lambda: 6)
    for _ in range(kernel_workers.FEW - 1):
        answered(workers, "one")
    assert len(workers.idle) == 1
    answered(workers, "one")
    assert len(workers.idle) == workers.staying() == 3
    began = {worker.process.pid for worker in workers.idle}
    workers.each(lambda way: workers.compile((way,)), ["one"] * 2)  # as many as there are
    answered(workers, "another")
    assert {worker.process.pid for worker in workers.idle} == began
    workers.keep_while_asked()
    assert len(workers.idle) == 3
    assert workers.later is not None
    workers.later.cancel()
    monkeypatch.setattr(kernel_workers, "STAY", 0.0)  # nothing was asked for since
    workers.keep_while_asked()
    assert len(workers.idle) == 1


def test_workers_begin_first_where_no_kernel_is_on_the_disk(
    workers: KernelWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, bytes] = {}
    monkeypatch.setattr(made.store, "get", kept.get)
    monkeypatch.setattr(made.store, "put", kept.__setitem__)
    monkeypatch.setattr(made, "WORKERS", workers)
    monkeypatch.setattr(kernel_workers, "available_processors", lambda: 6)
    made.note_first.__wrapped__()
    made.expect_kernels.__wrapped__()
    assert not workers.idle
    kept.clear()
    made.expect_kernels.__wrapped__()
    assert len(workers.idle) == 3
    began = {str(worker.process.pid) for worker in workers.idle}
    for _ in range(2 * kernel_workers.FEW):
        assert answered(workers, "one")[0] in began
    assert len(workers.idle) == 3
    assert workers.later is not None
    workers.later.cancel()


def test_what_is_on_the_disk_is_found_without_loading_triton() -> None:
    program = (
        "import sys\n"
        "from adjoint.engine.backends.triton.launch_words import Written\n"
        "from adjoint.engine.backends.triton.runtime import compile as made\n"
        "print(made.cubin_key(Written('', (1, 1), 4, 'one'), 90))\n"
        "assert 'triton' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    key = made.cubin_key(Written("", (1, 1), 4, "one"), 90)
    assert done.stdout.strip() == key


def test_the_text_of_the_prelude_is_what_is_loaded() -> None:
    pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) compiles kernels")
    prelude = importlib.import_module("adjoint.engine.backends.triton.prelude")
    assert made.prelude_text() == inspect.getsource(prelude)


def test_two_processors_have_one_worker(
    workers: KernelWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_workers, "available_processors", lambda: 2)
    for _ in range(2 * kernel_workers.FEW):
        answered(workers, "one")
    assert len(workers.idle) == 1


def test_another_program_is_not_begun(
    workers: KernelWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("", None, "/opt/studio/studio"):
        monkeypatch.setattr("sys.executable", name)
        assert workers.compile(("one",)) is None


def test_what_has_no_answer_is_given_up(
    workers: KernelWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = answered(workers, "one")
    with monkeypatch.context() as impatient:
        impatient.setattr(kernel_workers, "PATIENCE", 0.1)
        answer = workers.compile(("hangs",))
    assert answer == (None, "its compiler gave no answer in 0.1 seconds")
    assert answered(workers, "one")[0] != first


def test_what_is_no_answer_does_not_wait_for_one(workers: KernelWorkers) -> None:
    answer = workers.compile(("noise",))
    assert answer is not None
    assert answer[0] is None
    assert answered(workers, "one")


def test_one_that_is_never_ready_leaves_it_to_the_caller(
    workers: KernelWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_workers, "BEGIN", "print('a greeting'); import no_such_module")
    assert workers.compile(("one",)) is None
    monkeypatch.setattr(kernel_workers, "begun", None)  # no further one is tried
    assert workers.compile(("one",)) is None


def test_threads_leave_one_worker(workers: KernelWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_workers, "MOST", 3)
    workers.forget()
    found: list[Any] = []
    group = [
        threading.Thread(target=lambda: found.append(answered(workers, "one"))) for _ in "12345"
    ]
    for thread in group:
        thread.start()
    for thread in group:
        thread.join()
    assert len(found) == 5
    assert len({process for process, _ in found}) <= 5
    assert len(workers.idle) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_child_has_workers_of_its_own(workers: KernelWorkers) -> None:
    first, _ = answered(workers, "one")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, answered(workers, "one")[0].encode())
            workers.rest(0)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        second = told.read()
    os.waitpid(child, 0)
    assert second.isdigit()
    assert second != first
    assert answered(workers, "another")[0] == first


def test_what_workers_leave_out_changes_no_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without lines of the source, all sections but those about them are the same bytes."""
    pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) compiles kernels")
    monkeypatch.delenv("TRITON_DISABLE_LINE_INFO", raising=False)
    text = (
        "@triton.jit\ndef kernel(words):\n"
        "    x = tl.arange(0, 1024)\n"
        "    at = words.to(tl.pointer_type(tl.float32)) + x\n"
        "    y = tl.load(at, mask=x < 1000, other=0.0)\n"
        "    tl.store(at, tl.exp(y) / tl.sum(y, 0), mask=x < 1000)\n"
    )
    written = Written(text, (1, 1), 4, "quotient")
    codes = []
    for brief in (kernel_workers.BRIEF, dict.fromkeys(kernel_workers.BRIEF, "0")):
        monkeypatch.setattr(kernel_workers, "BRIEF", {**brief, "TRITON_ALWAYS_COMPILE": "1"})
        workers = KernelWorkers()
        try:
            code, wrong = workers.compile((written, "quotient", 80)) or (None, "no worker")
            assert code is not None, wrong
            codes.append(made.unpack(code).cubin)
        finally:
            workers.rest(0)
    briefly, fully = map(instructions, codes)
    assert briefly == fully
    assert len(codes[0]) < len(codes[1])  # which has lines


def test_sums_that_are_not_compared_are_the_same_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And to leave comparisons out is what makes Triton's own IR shorter."""
    pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) compiles kernels")
    if not made.knows(made.COMPARES):
        pytest.skip("this version of Triton compares nothing")
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    text = (
        "@triton.jit\ndef kernel(words):\n"
        "    n = tl.load(words.to(tl.pointer_type(tl.int64))).to(tl.int32)\n"
        "    x = tl.program_id(0) * 128 + tl.arange(0, 128)\n"
        "    at = words.to(tl.pointer_type(tl.int32)) + 8 + x % n * 3 + x // n\n"
        "    tl.store(at, (x - n) * n + x, mask=x < n * 2 - 1)\n"
    )
    written, knows = Written(text, (1, 1), 4, "sums"), made.knows
    codes, lengths = [], []
    for is_told in (True, False):
        monkeypatch.setattr(
            made, "knows", lambda o, t=is_told: knows(o) and (t or o != made.COMPARES)
        )
        before = set(tmp_path.rglob("*.source"))
        codes.append(made.build(written, f"sums{is_told}", 80).cubin)
        (source,) = set(tmp_path.rglob("*.source")) - before
        lengths.append(len(source.read_text()))
    assert instructions(codes[0]) == instructions(codes[1])
    assert lengths[0] < lengths[1]


def instructions(cubin: bytes) -> bytes:
    """The section of an ELF file that has a kernel's instructions."""
    start, size, count, names = (
        *struct.unpack_from("<Q", cubin, 40),
        *struct.unpack_from("<3H", cubin, 58),
    )
    sections = [struct.unpack_from("<IIQQQQ", cubin, start + size * k) for k in range(count)]
    strings = sections[names][4]
    found = []
    for name, _, _, _, at, length in sections:
        text = cubin[strings + name :].split(b"\0", 1)[0]
        if text.startswith(b".text."):
            found.append(cubin[at : at + length])
    (only,) = found
    return only


def test_triton_is_known_by_its_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    caching = pytest.importorskip("triton.runtime.cache")
    monkeypatch.setattr(caching, "triton_key", caching.triton_key)  # is put back
    (tmp_path / "language").mkdir()
    (tmp_path / "__init__.py").write_text("")
    file = tmp_path / "language" / "core.py"
    file.write_text("one")
    monkeypatch.setattr(made.triton(), "__file__", str(tmp_path / "__init__.py"))

    def known() -> str:
        made.know_by_files()
        return str(caching.triton_key())

    first = known()
    assert known() == first
    file.write_text("another")
    assert known() != first


def test_code_and_errors_come_from_triton() -> None:
    pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) compiles kernels")
    text = (
        "@triton.jit\ndef kernel(words):\n    tl.store(words.to(tl.pointer_type(tl.int64)), {})\n"
    )
    workers = KernelWorkers()
    try:
        code, wrong = workers.compile((Written(text.format("1"), (1, 1), 1, "one"), "one", 80)) or (
            None,
            "no worker",
        )
        assert code is not None, wrong
        assert made.unpack(code).cubin.startswith(b"\x7fELF")
        answer = workers.compile((Written(text.format("unheard"), (1, 1), 1, "two"), "two", 80))
        assert answer is not None
        assert answer[0] is None
        assert "unheard is not defined" in answer[1]
    finally:
        workers.rest(0)
