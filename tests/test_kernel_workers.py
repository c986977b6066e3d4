"""Kernels of the GPU are compiled by other processes, which may end in the middle of one."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from adjoint.engine.backends.triton.launch_words import Written
from adjoint.engine.backends.triton.runtime import compile as made
from adjoint.engine.backends.triton.runtime import kernel_workers
from adjoint.engine.backends.triton.runtime.kernel_workers import KernelWorkers

# In the place of Triton: says which process answers, and how; or ends.
ANSWERING = """
import os, pickle, sys
pickle.load(sys.stdin.buffer)
plain = os.environ.get("DISABLE_LLVM_OPT")
while True:
    work = pickle.load(sys.stdin.buffer)
    if work[0] == "ends" or (work[0] == "ends unless plain" and not plain):
        sys.exit("an assertion failed")
    pickle.dump((f"{os.getpid()} {plain}".encode(), ""), sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(kernel_workers, "BEGIN", ANSWERING)
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


def test_what_ends_every_worker_is_told(workers: KernelWorkers) -> None:
    answer = workers.compile(("ends",))
    assert answer == (None, "its compiler ended with code 1: an assertion failed")
    assert answered(workers, "one")[1] == "None"


def test_many_at_a_time_and_one_is_kept(
    workers: KernelWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_workers, "SHARE", 1)
    monkeypatch.setattr(kernel_workers, "available_processors", lambda: 3)
    found: list[Any] = []
    workers.each(lambda way: found.append(workers.compile((way,))), ["one"] * 9)
    assert len(found) == 9
    assert all(answer is not None and answer[0] for answer in found)
    assert len(workers.idle) == 1


def test_another_program_is_not_begun(
    workers: KernelWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("", None, "/opt/studio/studio"):
        monkeypatch.setattr("sys.executable", name)
        assert workers.compile(("one",)) is None


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
