"""Kernels that are asked for before they are waited for: when they are there, and what is told."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from adjoint.engine.backends.triton.runtime import asked_kernels
from adjoint.engine.backends.triton.runtime.asked_kernels import AskedKernels
from tests.interpreted_process import needs_interpreter, run_by_interpreter

SOON = 300.0  # seconds that nothing here takes


class SlowWorkers:
    """Workers that end a kernel when they are told to; several stay, of which one is left alone."""

    can_begin = True

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go = threading.Semaphore(0)
        self.answers: dict[str, Any] = {}

    @staticmethod
    def staying() -> int:
        return 3

    def compile(self, work: Any) -> Any:
        self.begun.append(work[0])
        assert self.go.acquire(timeout=SOON)
        return self.answers.get(work[0], (f"code of {work[0]}".encode(), ""))


class Kept(dict[str, bytes]):
    """A disk."""

    def put(self, key: str, code: bytes) -> None:
        self[key] = code

    def place(self) -> str | None:
        return "here"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    workers, disk = SlowWorkers(), Kept()
    monkeypatch.setattr(asked_kernels, "WORKERS", workers)
    monkeypatch.setattr(asked_kernels, "store", disk)
    made: Any = AskedKernels()
    made.workers, made.disk = workers, disk
    yield made
    for _ in range(20):
        workers.go.release()


def until(done: Any) -> None:
    """Wait for other threads."""
    waited = threading.Event()
    for _ in range(3000):
        if done():
            return
        waited.wait(0.01)
    raise AssertionError("it never came")


def test_nobody_waits_and_some_workers_are_left_to_others(asked: Any) -> None:
    for name in "abcd":
        asked.ask(name, (name,))
    asked.ask("a", ("a",))
    until(lambda: len(asked.workers.begun) == 2)
    assert asked.most() == 2
    for _ in "abcd":
        asked.workers.go.release()
    until(lambda: asked.threads == 0)
    assert sorted(asked.workers.begun) == [*"abcd"]
    assert sorted(asked.disk) == [*"abcd"]
    assert not asked.futures  # nothing is held of what is on disk
    assert asked.answer("a") is None


def test_what_is_under_way_is_waited_for_and_what_has_not_begun_is_not(asked: Any) -> None:
    for name in "abc":
        asked.ask(name, (name,))
    until(lambda: len(asked.workers.begun) == 2)
    assert asked.answer("c") is None  # whoever needs it compiles it now
    later = threading.Timer(0.05, lambda: [asked.workers.go.release() for _ in "ab"])
    later.start()
    assert asked.answer("a") == (b"code of a", "")
    until(lambda: asked.threads == 0)
    assert sorted(asked.workers.begun) == ["a", "b"]
    assert not asked.futures


def test_what_is_wrong_is_for_whoever_needs_the_kernel(asked: Any) -> None:
    asked.workers.answers = {"bad": (None, "no such operation"), "odd": (b"code", "it was slow")}
    for name in ("bad", "odd"):
        asked.ask(name, (name,))
        asked.workers.go.release()
    until(lambda: asked.threads == 0)
    assert asked.answer("bad") is None  # it is compiled again, and refused there
    assert asked.answer("odd") == (b"code", "it was slow")
    assert asked.answer("odd") is None
    assert [*asked.disk] == ["odd"]


def test_an_error_of_a_worker_ends_nothing(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(work: Any) -> Any:
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(asked.workers, "compile", fail)
        asked.ask("a", ("a",))
        until(lambda: asked.threads == 0)
    assert asked.answer("a") is None


def test_nothing_is_asked_without_workers_or_a_disk(asked: Any) -> None:
    asked.workers.can_begin = False
    asked.ask("a", ("a",))
    asked.workers.can_begin, asked.disk.place = True, lambda: None
    asked.ask("a", ("a",))
    assert not asked.futures
    assert not asked.threads


def test_a_child_of_a_fork_waits_for_nothing(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked.ask("a", ("a",))
    until(lambda: asked.workers.begun == ["a"])
    asked.lock.acquire()  # by a thread that the child does not have
    parent = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: parent + 1)
        before = asked.lock
        assert asked.answer("a") is None
    before.release()


@needs_interpreter
def test_interpreted() -> None:
    run_by_interpreter("tests.rules_ahead_on_a_gpu", says="all cases hold")
