"""What a kernel finds wrong on a GPU is told once, and nothing writes state meanwhile.

TRITON_INTERPRET=1 python -m tests.faults_on_a_gpu [name ...]

Without a GPU eager operations and compiled programs run on one stand-in, by Triton's interpreter.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.engine.core.errors import pass_over
from adjoint.nn import functional as F

LOOKS: list[int] = []  # one for each time that the stand-in was waited for
BLOCKING = os.environ.get("ADJOINT_LAUNCH_BLOCKING") == "1"


def on_gpu(*values: Any) -> tuple[Any, ...]:
    """Arrays as tensors there."""
    return tuple([ad.tensor(np.asarray(x), device="cuda") for x in values])


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


TABLE, GOOD, BAD = numbers(7, 4), np.array([1, 6, 0]), np.array([1, 7, 0])


class Task:
    """A small network with an optimizer, and what a fault must leave as it was."""

    def __init__(self, optimizer: Callable[..., Any]) -> None:
        ad.manual_seed(0)
        self.net = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 3)).to("cuda")
        self.optimizer = optimizer(self.net.parameters(), lr=0.5)
        self.classes = ad.tensor([0, 2, 1], device="cuda")
        self.table, self.good, self.bad = on_gpu(TABLE, GOOD, BAD)

    def loss(self, i: Any) -> Any:
        return F.cross_entropy(self.net(i), self.classes)

    def step(self, i: Any) -> Any:
        loss = self.loss(i)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> list[Any]:
        """Parameters and the optimizer's state, as NumPy's arrays."""
        found = [p.detach() for p in self.net.parameters()]
        found += [x for s in self.optimizer.state.values() for x in s.values() if is_tensor(x)]
        return [np.array(x.cpu().numpy()) for x in found]

    def stays(self, fault: Callable[[], int]) -> None:
        """An eager step after a fault, which gives its line, changes nothing until it is told."""
        before = self.state()
        line = fault()
        told(line, lambda: waited(self.step, self.good))
        same(self.state(), before)
        self.step(self.good)
        assert not np.array_equal(self.state()[1], before[1])  # as ever


def is_tensor(x: Any) -> bool:
    return isinstance(x, ad.Tensor)


def same(found: list[Any], wanted: list[Any]) -> None:
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


def line_here(back: int = 0) -> int:
    """The line that asks, or one before it."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno - back


def waited(call: Callable[..., Any], *given: Any) -> None:
    """A call, and what it launched."""
    call(*given)
    ad.cuda.synchronize()


def told(line: int, wait: Callable[[], Any], index: int = 7) -> None:
    """An index out of bounds is told, with the line that launched its kernel; once."""
    error: IndexError | None = None
    try:
        wait()
    except IndexError as caught:
        error = caught
    assert error is not None, "nothing was told"
    assert f"index {index} is out of bounds" in str(error), error
    if not BLOCKING:  # where the error comes from the line itself, perhaps without a note
        assert f"{__file__}:{line}" in error.__notes__[0], (error.__notes__, line)
    ad.cuda.synchronize()


# -- cases --------------------------------------------------------------------------------------


def eager_before_compiled(optimizer: Callable[..., Any] = ad.optim.AdamW) -> None:
    """A compiled step writes nothing after an eager operation's fault, and need not fail itself."""
    task = Task(optimizer)
    step = ad.compile(task.step)
    for _ in range(3):
        step(task.good)

    def steps() -> None:
        for _ in range(3):
            step(task.good)

    ad.cuda.synchronize()
    before = task.state()
    looks = len(LOOKS)
    task.table[task.bad]
    line = line_here(1)
    step(task.good)
    assert len(LOOKS) == looks  # nobody waited
    told(line, ad.cuda.synchronize)
    same(task.state(), before)
    task.table[task.bad]
    line = line_here(1)
    told(line, steps)  # at the latest by the next call that could fail itself
    same(task.state(), before)
    step(task.good)
    assert not np.array_equal(task.state()[1], before[1])


def compiled_before_eager(optimizer: Callable[..., Any] = ad.optim.AdamW) -> None:
    """An eager backward pass and update, after a compiled function that writes no state."""
    task = Task(optimizer)
    loss = ad.compile(task.loss)
    for _ in range(3):
        loss(task.good).backward()
        task.optimizer.step()
        task.optimizer.zero_grad()
    ad.cuda.synchronize()
    before, looks = task.state(), len(LOOKS)
    found = loss(task.bad)
    line = line_here(1)
    found.backward()
    task.optimizer.step()
    assert len(LOOKS) == looks
    told(line, found.item)
    same(task.state(), before)
    task.optimizer.zero_grad()
    loss(task.good).backward()
    task.optimizer.step()
    assert not np.array_equal(task.state()[1], before[1])


def compiled_before_compiled() -> None:
    """A program that writes sees what another one found."""
    task = Task(ad.optim.SGD)
    step, picks = ad.compile(task.step), ad.compile(lambda i: task.table[i] * 2)
    for _ in range(3):
        step(task.good)
        picks(task.good)
    before = task.state()
    picks(task.bad)
    line = line_here(1)
    step(task.good)
    told(line, ad.cuda.synchronize)
    same(task.state(), before)


def compiled_alone() -> None:
    """A program sees what it found itself, with an optimizer that counts its steps on the host."""
    task = Task(ad.optim.AdamW)
    step = ad.compile(task.step)
    for _ in range(3):
        step(task.good)
    before = task.state()
    loss = step(task.bad)
    line = line_here(1)
    told(line, loss.item)
    same(task.state(), before)
    step(task.bad)
    line = line_here(1)
    told(line, lambda: [step(task.good) for _ in range(3)])
    same(task.state(), before)


def counts_of_steps() -> None:
    """The host counts steps that were done, whichever of several failed and whoever failed it."""
    task = Task(ad.optim.AdamW)
    step = ad.compile(task.step)
    for _ in range(3):
        step(task.good)
    weight, done = task.net[1].weight, 3
    for bad in range(3):
        for eager in (False, True):

            def steps(bad: int = bad, eager: bool = eager) -> None:
                for k in range(4):
                    if k == bad and eager:
                        task.table[task.bad]
                    step(task.bad if k == bad and not eager else task.good)

            line = steps.__code__.co_firstlineno + (3 if eager else 4)
            told(line, lambda steps=steps: waited(steps))  # type: ignore[misc]
            done += bad
            assert task.optimizer.state[weight]["step"].item() == done, (bad, eager)
            step(task.good)
            ad.cuda.synchronize()
            done += 1
    assert task.optimizer.state[weight]["step"].item() == done


def eager_before_eager() -> None:
    task = Task(ad.optim.AdamW)
    for _ in range(3):
        task.step(task.good)

    def fault() -> int:
        task.table[task.bad]
        return line_here(1)

    for _ in range(3):
        task.stays(fault)


def first_alone() -> None:
    """Of several faults the first is told, whoever found it."""
    task = Task(ad.optim.SGD)
    picks = ad.compile(lambda i: task.table[i] * 2)
    picks(task.good)
    ad.cuda.synchronize()
    picks(task.bad)
    line = line_here(1)
    task.table[task.bad + 5]
    told(line, ad.cuda.synchronize)
    task.table[task.bad + 5]
    line = line_here(1)
    told(line, lambda: waited(picks, task.bad), 12)


def another_thread() -> None:
    """A fault of a thread's is told by whoever waits, with that thread's line."""
    task = Task(ad.optim.SGD)
    lines: list[int] = []

    def work() -> None:
        task.table[task.bad]
        lines.append(line_here(1))

    def fault() -> int:
        thread = Thread(target=work)
        thread.start()
        thread.join()
        return lines.pop()

    for _ in range(3):
        task.stays(fault)


def blocking() -> None:
    """With ADJOINT_LAUNCH_BLOCKING=1 each call raises its own."""
    task = Task(ad.optim.SGD)
    step = ad.compile(task.step)
    step(task.good)
    before = task.state()
    calls: tuple[Callable[[], Any], ...] = (
        lambda: step(task.bad),
        lambda: task.table[task.bad],
        lambda: task.loss(task.bad),
    )
    for call in calls:
        told(0, call)
        same(task.state(), before)
    step(task.good)
    assert not np.array_equal(task.state()[1], before[1])


def graph_by_hand() -> None:
    """A replay's fault is seen by a compiled step, and a replayed update sees another's."""
    task = Task(ad.optim.SGD)
    step, index = ad.compile(task.step), task.good.clone()
    weights, more = ad.zeros(7, 4, device="cuda"), ad.ones(7, 4, device="cuda")
    picked, graph = task.table[index], ad.cuda.CUDAGraph()
    for _ in range(3):
        step(task.good)
    updates = ad.optim.SGD([weights], lr=1.0)
    weights.grad = more
    updates.step()
    ad.cuda.synchronize()
    with ad.cuda.graph(graph):
        picked = task.table[index]
        updates.step()
    graph.replay()
    ad.cuda.synchronize()
    before, weight = task.state(), weights.cpu().numpy()
    index.copy_(task.bad)
    graph.replay()
    line = line_here(1)
    step(task.good)
    told(line, picked.cpu)
    same([*task.state(), weights.cpu().numpy()], [*before, weight])
    index.copy_(task.good)
    task.table[task.bad]
    line = line_here(1)
    graph.replay()
    told(line, ad.cuda.synchronize)
    same([*task.state(), weights.cpu().numpy()], [*before, weight])
    graph.replay()
    same([weights.cpu().numpy()], [weight - 1])


def several_streams() -> None:
    """What one stream reports is seen on another that comes after it by an event."""
    task = Task(ad.optim.AdamW)
    step, other = ad.compile(task.step), ad.cuda.Stream()
    for _ in range(3):
        step(task.good)
    ad.cuda.synchronize()
    for _ in range(3):
        before = task.state()
        with ad.cuda.stream(other):
            task.table[task.bad]
            line = line_here(1)
        ad.cuda.current_stream().wait_stream(other)
        step(task.good)
        told(line, ad.cuda.synchronize)
        same(task.state(), before)
        step(task.good)
        ad.cuda.synchronize()
        assert not np.array_equal(task.state()[1], before[1])
        with ad.cuda.stream(other):  # of the program's own
            step(task.bad)
            line = line_here(1)
        told(line, lambda: [step(task.good) for _ in range(4)])


EVERYWHERE: dict[str, Callable[[], None]] = {
    "eager, then compiled": eager_before_compiled,
    "eager, then compiled SGD": lambda: eager_before_compiled(ad.optim.SGD),
    "compiled, then eager": compiled_before_eager,
    "compiled, then eager SGD": lambda: compiled_before_eager(ad.optim.SGD),
    "compiled, then compiled": compiled_before_compiled,
    "compiled": compiled_alone,
    "counts": counts_of_steps,
    "eager": eager_before_eager,
    "the first": first_alone,
    "a thread": another_thread,
}
ON_A_GPU: dict[str, Callable[[], None]] = {
    **EVERYWHERE,
    "a graph by hand": graph_by_hand,
    "streams": several_streams,
}


def connect() -> None:
    """One stand-in for eager operations and for programs."""
    stand_in = importlib.import_module("tests.cupy_stand_in")
    interpreter = importlib.import_module("tests.triton_interpreter")
    programs = importlib.import_module("adjoint.engine.backends.triton.program.compile")
    gpu = stand_in.connect()
    pass_over(str(stand_in.__file__))  # whose frames are not a program's

    class Machine(interpreter.Interpreter):  # type: ignore[name-defined]
        """The stand-in, as programs see it."""

        faults = gpu.faults

        def empty(self, shape: Any, dtype: Any) -> Any:
            return stand_in.CupyArray(shape, dtype)

        def window(self, address: int, owner: Any, shape: Any, strides: Any, dtype: Any) -> Any:
            return super().window(address, owner, shape, strides, dtype).view(stand_in.CupyArray)

        def on_host(self, array: Any) -> Any:
            return array.get()

    def read(word: Any, streams: Any = ()) -> int:
        LOOKS.append(1)
        return int(word[0])

    gpu.read = read
    programs.machine = lambda index: Machine()
    programs.CudnnConvolver = lambda index: interpreter.Library8()


def main(names: list[str]) -> None:
    """All of it on the stand-in."""
    connect()
    for name in names or EVERYWHERE:
        blocking() if name == "blocking" else EVERYWHERE[name]()
    print("all cases hold")


if __name__ == "__main__":
    main(sys.argv[1:])
