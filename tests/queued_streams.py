"""Streams that do their work late: Triton's interpreter launches nothing before it must.

Each stream is a queue. Which goes on next is drawn, so that work of two streams comes in any order
that their marks allow, and memory that is used too soon shows as a wrong number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.backends.array.gpu.other_streams import OtherStreams
from adjoint.engine.backends.triton.program.faults import FaultBoard
from adjoint.engine.backends.triton.program.program import GpuProgram
from adjoint.engine.backends.triton.runtime.cuda import StreamOrder
from adjoint.engine.compiler.executors import register_backend
from adjoint.engine.compiler.options import chosen
from tests.triton_interpreter import CpuTriton, Interpreter


class Mark:
    """A place in a queue."""

    def __init__(self, streams: QueuedStreams) -> None:
        self.streams, self.reached = streams, True

    def record(self, stream: Queue | None = None) -> None:
        self.reached = False
        (stream or self.streams.current).work.append(self.reach)

    def reach(self) -> bool:
        self.reached = True
        return True

    def synchronize(self) -> None:
        self.streams.run_until(lambda: self.reached)


class Queue:
    """A stream."""

    is_capturing = False

    def __init__(self, streams: QueuedStreams, number: int) -> None:
        self.streams, self.ptr = streams, number
        self.work: deque[Callable[[], bool]] = deque()  # each gives whether it could be done

    def wait_event(self, mark: Mark) -> None:
        self.work.append(lambda: mark.reached)

    def synchronize(self) -> None:
        self.streams.run_until(lambda: not self.work)


class QueuedStreams(Interpreter):
    """A machine with streams."""

    def __init__(self, count: int, seed: int) -> None:
        super().__init__()
        self.queues = [Queue(self, number) for number in range(16, 16 + count)]
        self.current = self.queues[0]
        self.rng = np.random.default_rng(seed)
        self.order_of_queues = np.arange(count)
        self.held: list[Any] = []  # memory, which work that is put off is told by address
        self.running = False
        self.cuda: Any = SimpleNamespace(
            get_current_stream=lambda: self.current,
            Event=lambda disable_timing: Mark(self),
            runtime=SimpleNamespace(getDevice=lambda: 0),
        )
        self.others = OtherStreams(SimpleNamespace(cuda=self.cuda))

    def order(self, by_library: bool) -> Any:
        return StreamOrder(self.cuda)

    def share(self, arrays: Any) -> None:
        for array in arrays:
            self.others.add(self.address(array), 0, self.current)

    def reuse(self, arrays: Any) -> None:
        for array in filter(lambda x: x is not None, arrays):
            self.others.follow(self.address(array), 0, self.current)

    def mark(self, again: Any) -> Mark:
        mark = again or Mark(self)
        mark.record()
        return mark

    @contextmanager
    def on(self, number: int) -> Iterator[None]:
        """A block in which work goes to a stream."""
        before, self.current = self.current, self.queues[number]
        try:
            yield
        finally:
            self.current = before

    def asked(self, run: Callable[[], Any]) -> None:
        if self.captured is not None or self.running:
            super().asked(run)
            return

        def done() -> bool:
            self.running = True
            try:
                run()
            finally:
                self.running = False
            return True

        self.current.work.append(done)

    def call(self, run: Callable[[int], None], count: int, words: int) -> None:
        if self.captured is not None or self.running:
            super().call(run, count, words)
            return
        told = self.window(words, None, (count,), (8,), np.dtype(np.int64)).copy()
        self.asked(lambda: run(self.address(told)))

    def step(self) -> bool:
        """Some stream goes on; whether any could.

        For a while one of them has to wait for all others that can.
        """
        if self.rng.random() < 0.05:
            self.order_of_queues = self.rng.permutation(len(self.queues))
        for k in self.order_of_queues:
            work = self.queues[k].work
            if work and work[0]():
                work.popleft()
                return True
        return False

    def finish(self) -> None:
        """Wait for all streams."""
        for queue in self.queues:
            queue.synchronize()

    def run_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            assert self.step(), "every stream waits for another"

    @cached_property
    def faults(self) -> Any:
        return FaultBoard(self)

    def stream(self) -> Any:
        return self.current

    def join(self, other: Any) -> None:
        mark = Mark(self)
        mark.record(other)
        self.current.wait_event(mark)

    def read(self, word: Any, streams: Any = MappingProxyType({})) -> int:
        for stream in (self.current, *streams.values()):
            stream.synchronize()
        return int(word[0])

    def empty(self, shape: Any, dtype: Any) -> Any:
        self.held.append(super().empty(shape, dtype))
        return self.held[-1].view()


def compiled_on(machine: QueuedStreams, fn: Any) -> Any:
    """A function whose programs run there."""
    register_backend(
        "queued-triton",
        lambda mode, options: (
            lambda task: GpuProgram(task, chosen(mode, options), machine, CpuTriton)
        ),
    )
    return ad.compile(fn, backend="queued-triton")


def read_later(machine: QueuedStreams, x: Any) -> Any:
    """Have the current stream copy a tensor, of which only the memory is known until it does."""
    array = x._array
    copy = np.empty(array.shape, array.dtype)
    address = machine.address(array)
    shown = machine.window(address, None, array.shape, array.strides, array.dtype)
    machine.asked(lambda: np.copyto(copy, shown))
    return copy


def check(seed: int, calls: int = 12) -> None:
    """One program's calls on several streams, and what reads their results there, give what they
    give one after the other."""
    machine = QueuedStreams(3, seed)
    ad.manual_seed(seed)
    state = ad.zeros(6)

    def step(x: Any, k: float) -> Any:
        shifted = (x - x.amax(0)).exp()
        state.add_(shifted.sum(0) * k)
        return shifted / shifted.sum(1, keepdim=True), state * 2

    compiled = compiled_on(machine, step)
    given = [(ad.randn(5, 6), 1.5 + k) for k in range(calls)]
    for _, k in given[:2]:  # by which the number is known to change
        compiled(given[0][0], k)
    machine.finish()
    state.zero_()
    traces = compiled.traces
    found: list[Any] = []
    held: list[Any] = []
    for x, k in given:
        with machine.on(int(machine.rng.integers(3))):
            results = compiled(x, k)
            found.append([read_later(machine, each) for each in results])
        if machine.rng.random() < 0.3:
            held.append((results, found[-1]))
        del results
        for _ in range(int(machine.rng.integers(6))):
            machine.step()
    machine.finish()
    assert compiled.traces == traces  # several programs would be in no order
    state.zero_()
    for (x, k), copies in zip(given, found, strict=True):
        for got, want in zip(copies, step(x, k), strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)
    for results, copies in held:
        for got, want in zip(results, copies, strict=True):
            np.testing.assert_array_equal(got.numpy(), want)


def is_told(machine: QueuedStreams) -> bool:
    """Whether something was reported, which is told with the line that called."""
    error: IndexError | None = None
    try:
        machine.faults.look()
    except IndexError as caught:
        error = caught
    if error is not None:
        assert __file__ in error.__notes__[0]
        assert "is out of bounds" in str(error)
    return error is not None


def check_faults(seed: int, calls: int = 40) -> None:
    """A program writes all or nothing, whatever another stream's kernels report meanwhile."""
    machine = QueuedStreams(2, seed)
    first, second = ad.zeros(5), ad.zeros(3, 5)

    def update(x: Any) -> None:
        first.add_(x.sum())
        second.sub_(x.amax(1).sum() * first.sign())

    writes = compiled_on(machine, update)
    picks = compiled_on(machine, lambda table, i: table[i])
    table, x, count, told = ad.randn(7, 2), ad.ones(3, 4), 0, 0
    good, bad = ad.tensor([0, 6]), ad.tensor([3, 7])
    for k in range(calls):
        with machine.on(0):
            try:
                writes(x)
            except IndexError:
                told += 1
        with machine.on(1):
            try:
                picks(table, bad if machine.rng.random() < 0.4 else good)
            except IndexError:
                told += 1
        for _ in range(int(machine.rng.integers(12))):
            machine.step()
        if k % 4 == 3:
            told += is_told(machine)
            machine.finish()
            count = int(first[0]) // 12
            np.testing.assert_array_equal(first.numpy(), 12 * count)
            np.testing.assert_array_equal(second.numpy(), -3 * count)
    assert told
    assert 0 < count < calls


def check_fault_before() -> None:
    """What a stream reports is found by those that come after it by a mark."""
    machine = QueuedStreams(2, 3)
    state, bad = ad.zeros(6), ad.tensor([9])

    def add(x: Any) -> None:
        state.add_(x)

    writes = compiled_on(machine, add)
    picks = compiled_on(machine, lambda table, i: table[i])
    for others in range(4):
        with machine.on(1):
            picks(ad.ones(4), bad)
            mark = machine.mark(None)
        machine.current.wait_event(mark)
        for _ in range(others):
            writes(ad.ones(6))
        assert is_told(machine)
        machine.finish()
        np.testing.assert_array_equal(state.numpy(), others)
        writes(ad.ones(6))  # the word is cleared for all streams
        machine.finish()
        np.testing.assert_array_equal(state.numpy(), others + 1)


def check_reader() -> None:
    """What another stream reads is written again only when it is done with that."""
    machine = QueuedStreams(2, 0)
    compiled = compiled_on(machine, lambda x: (x * 2).exp())
    given = [ad.full((7,), 0.1 * k) for k in range(6)]
    reader = machine.queues[1]
    copies = []
    for x in given:
        result = compiled(x)
        reader.wait_event(machine.mark(None))
        machine.others.add(machine.address(result._array), 0, reader)  # record_stream
        with machine.on(1):
            copies.append(read_later(machine, result))
        del result
        machine.order_of_queues = np.array([0, 1])  # the reader last
    machine.finish()
    for x, copy in zip(given, copies, strict=True):
        np.testing.assert_allclose(copy, (x * 2).exp().numpy(), rtol=1e-5)
