"""Programs on two devices that do not meet are two programs; memory of results is used again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from adjoint.engine.backends.triton.program.apart import Apart, parts_of
from adjoint.engine.backends.triton.program.banks import MOVES, DeviceBank, Numbers, Results
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import float32
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.record.sources import CallArgument

CUDA = Device("cuda", 0)


def task(meeting: bool = False, fails: bool = False) -> Task:
    """x + 1 on the GPU, counter + 1 on the CPU; perhaps the two meet, or the latter can fail."""
    graph = DataflowGraph()
    on_gpu, on_cpu = (Spec((3,), float32, device) for device in (CUDA, CPU))
    x, counter = graph.add_input(on_gpu), graph.add_input(on_cpu)
    add = REGISTRY["add"]
    (y,) = graph.add_node(add, (x, counter if meeting else 1), {}, (on_gpu,))
    name = "gather" if fails else "add"
    (n,) = graph.add_node(REGISTRY[name], (counter, 1), {}, (on_cpu,))
    graph.outputs = [n, y]
    arrays = (np.zeros(3, np.float32), np.zeros(3, np.float32))
    sources = (CallArgument(0, whole=True), CallArgument(1, whole=True))
    return Task(graph, sources, ((sources[1], 0),), frozenset({1}), arrays, (arrays[1],))


@pytest.mark.parametrize("kind", [{"meeting": True}, {"fails": True}])
def test_what_meets_or_fails_is_one_program(kind: Any) -> None:
    assert parts_of(task(**kind)) is None


def test_parts_have_their_own_inputs_outputs_and_writes() -> None:
    parts = parts_of(task())
    assert parts is not None
    device, host = parts
    assert (device.inputs, device.outputs, device.writes) == ([0], [1], [])
    assert (host.inputs, host.outputs, host.writes) == ([1], [0], [0])
    calls: list[str] = []

    class Run:
        """A program that adds 1; what it failed at may be known later, if it says anything."""

        def __init__(self, name: str) -> None:
            self.name = name
            self.kept: list[Any] = []
            board = SimpleNamespace(streams={}, keep=self.kept.append)
            self.reports = SimpleNamespace(board=board)

        def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
            calls.append(self.name)
            out = inputs[0] + 1
            for target in targets:
                target[...] = out
            return [out]

    def maker(name: str) -> Any:
        return lambda part: Run(name)

    run = Apart(device, host, maker("gpu"), maker("cpu"))
    x, counter = np.full(3, 5.0), np.full(3, 2.0)
    n, y = run([x, counter], [counter])
    assert calls == ["gpu", "cpu"]  # what can fail comes first
    assert (y == 6).all()
    assert (counter == 3).all()
    assert (n == 3).all()
    assert run.shown.kept == []  # no kernel said anything
    run.shown.reports.board.streams[0] = "a stream"
    run([x, counter], [counter])
    (undo,) = run.shown.kept
    assert (counter == 4).all()
    undo()  # the GPU's part did nothing
    assert (counter == 3).all()


class Memory:
    """A machine that only has memory."""

    def empty(self, shape: Any, dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def pinned(self, count: int) -> Any:
        return np.zeros(count, np.int64)

    def uploader(self, target: Any, source: Any) -> Any:
        return lambda: None

    def reuse(self, arrays: Any) -> None:
        """There is one stream."""


@pytest.mark.parametrize("fixed", [False, True])
def test_results_are_used_again_once_nobody_holds_them(fixed: bool) -> None:
    machine = Memory()
    bank = DeviceBank(machine, np.zeros(4, np.int64))
    captured = {1} if fixed else set()
    results = Results(machine, [(0, (5,), np.float32)], {"result 0": [(1, 8)]}, captured)
    results.allocate(bank)
    (first,), copied = results.take(bank, 1)
    where = machine.address(first)
    assert bank.words[1] == where + 8
    assert not copied
    shown = first[1:]  # a view holds it as well
    del first
    held = [shown]
    for turn in range(MOVES + 2):
        (second,), copied = results.take(bank, 1)
        assert machine.address(second) not in [machine.address(x) - 4 * (x is shown) for x in held]
        assert bank.words[1] == machine.address(second) + 8
        moves = fixed and turn <= MOVES  # a captured product knows one address
        assert bank.moved is moves
        copies = fixed and turn >= MOVES
        assert [k for k, _ in copied] == ([0] if copies else [])
        bank.moved = False
        if not copies:
            held.append(second)
        del second
    where = bank.words[1] - 8
    held.clear()
    del shown
    (third,), copied = results.take(bank, 1)
    assert [k for k, _ in copied] == ([0] if fixed else [])
    assert not bank.moved
    assert machine.address(third) == where
    assert bank.words[1] == machine.address(third) + 8


@pytest.mark.parametrize("count", [2, 40])
def test_numbers_go_to_all_their_words(count: int) -> None:
    words = np.zeros(2 * count, np.int64)
    floats, whole = range(0, 2 * count, 2), range(1, 2 * count, 2)
    numbers = Numbers(
        words, [(1, True, [(at, 0) for at in floats]), (0, False, [(at, at) for at in whole])]
    )
    for n, x in ((2**63 - 2, 0.5), (2**63 - 2, 0.0), (7, -0.0), (7, np.float64(2))):
        numbers.put([n, x])
        shown = words.view(np.float64)[floats]
        assert (shown == x).all()
        assert (np.signbit(shown) == np.signbit(x)).all()
        sums = [(n + at + 2**63) % 2**64 - 2**63 for at in whole]  # they wrap, as words do
        assert words[whole].tolist() == sums
