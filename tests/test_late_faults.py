"""What a GPU finds late is told once, wherever it was found: with boards and machines that are none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from adjoint.distributed.communication.ways import LaneWay
from adjoint.engine.backends.array import in_place
from adjoint.engine.backends.array.buffers import copy_into
from adjoint.engine.backends.triton.program import faults
from adjoint.engine.backends.triton.program.faults import CALL_BITS, CALLS, FaultBoard
from adjoint.engine.backends.triton.runtime.cuda import LibraryOrder, StreamOrder
from adjoint.engine.compiler.package.status import CODE_BITS
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.state import late_faults
from adjoint.engine.tensor.tensor import wrap

FAULT = "IndexError", "index {number} is out of bounds"


class Machine:
    """Launches on streams, of which the host waits for one."""

    def __init__(self) -> None:
        self.current: Any = SimpleNamespace(ptr=0)
        self.found: dict[int, int] = {}  # what streams will have reported when they are done

    def empty(self, count: int, dtype: Any) -> Any:
        return np.empty(count, dtype)

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def stream(self) -> Any:
        return self.current

    def read(self, word: Any, streams: Any) -> int:
        for number in {self.current.ptr, *streams}:
            if self.found.get(number) and not word[0]:
                word[0] = self.found.pop(number)
        return int(word[0])


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(faults, "LOOKS", [])
    monkeypatch.setattr(faults, "KEEPERS", [])
    return FaultBoard(Machine())


def reported(board: FaultBoard, slot: int, number: int = 7) -> int:
    return number << CODE_BITS | board.number(FAULT) << CALL_BITS | slot


def test_other_streams_are_waited_for(board: FaultBoard) -> None:
    machine = board.machine
    machine.current = SimpleNamespace(ptr=5)
    machine.found[5] = reported(board, board.launched())
    machine.current = SimpleNamespace(ptr=0)
    with pytest.raises(IndexError, match="7") as caught:
        board.look()
    assert __file__ in "".join(caught.value.__notes__)
    board.look()  # once
    assert not board.streams


def test_an_interrupt_forgets_nothing(board: FaultBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = board.machine
    machine.current = SimpleNamespace(ptr=5)
    machine.found[5] = reported(board, board.launched())

    def interrupted(word: Any, streams: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(machine, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            board.look()
    machine.current = SimpleNamespace(ptr=0)
    with pytest.raises(IndexError):
        board.look()


@pytest.mark.parametrize("more", [0, CALLS])
def test_a_replay_is_looked_at(board: FaultBoard, more: int) -> None:
    """What a captured call finds is told, and undone is what came after the replay."""
    slot = board.launched()
    board.look()
    for _ in range(more):
        board.launched()
    board.look()
    undone: list[str] = []
    board.launched()
    board.keep(lambda: undone.append("before"))
    board.replay()
    board.machine.found[0] = reported(board, slot)
    board.launched()
    board.keep(lambda: undone.append("after"))
    with pytest.raises(IndexError) as caught:
        board.look()
    assert undone == ["after"]
    assert __file__ in "".join(caught.value.__notes__)


def test_writes_in_place_wait_for_what_is_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Array(np.ndarray[Any, Any]):
        """A GPU's, or so."""

    monkeypatch.setitem(DEVICE_LAYOUTS, Array, None)
    target, source = np.zeros(3).view(Array), np.ones(3).view(Array)
    record = SimpleNamespace(
        name="add", family="elementwise", fails="", met=["one"], given_floats=False
    )

    def raising() -> None:
        late_faults.UNSEEN.remove(raising)
        raise IndexError("late")

    writes = {
        "a copy": lambda: copy_into(target, source),
        "a fragment": lambda: in_place.compute_on_device(
            record,  # type: ignore[arg-type]
            SimpleNamespace(_array=target),
        ),
        "results": lambda: in_place.put_into(record, (), {}, SimpleNamespace(_array=target)),  # type: ignore[arg-type]
        "a collective": lambda: LaneWay(SimpleNamespace(), SimpleNamespace(xp=np)).written(  # type: ignore[arg-type]
            wrap(target)
        ),
    }
    for write in writes.values():
        late_faults.UNSEEN.append(raising)
        with pytest.raises(IndexError, match="late"):
            write()
        assert not late_faults.UNSEEN
        assert not target.any()


@pytest.mark.parametrize("how", ["__dlpack__", "__cuda_array_interface__"])
def test_what_other_libraries_are_given_was_made(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    class Array(np.ndarray[Any, Any]):
        """A GPU's, or so."""

        __cuda_array_interface__ = "where it lies"

    def raising() -> None:
        raise IndexError("late")

    def exported() -> Any:
        found = getattr(x, how)
        return found() if callable(found) else found

    monkeypatch.setattr(type(wrap(np.ones(3))), "device", SimpleNamespace(type="cuda"))
    x = wrap(np.ones(3).view(Array))
    monkeypatch.setattr(late_faults, "LOOKS", [raising])
    assert exported() is not None  # nothing of a GPU's, so nothing to wait for
    monkeypatch.setitem(DEVICE_LAYOUTS, Array, None)
    with pytest.raises(IndexError, match="late"):
        exported()
    monkeypatch.setattr(late_faults, "LOOKS", [])
    assert exported() is not None


class Cuda:
    """Streams and marks."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.current: Any = None
        self.runtime = SimpleNamespace(deviceSynchronize=lambda: self.told.append("all"))

    def stream(self, number: int) -> Any:
        waits = self.told.append
        return SimpleNamespace(ptr=number, wait_event=lambda mark: waits((mark.of, number)))

    def get_current_stream(self) -> Any:
        return self.current

    def Event(self, disable_timing: bool) -> Any:
        event = SimpleNamespace(of=None)
        event.record = lambda stream: setattr(event, "of", stream.ptr)
        return event


def test_calls_wait_for_the_stream_before(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda()
    cuda.current = cuda.stream(0)
    order = StreamOrder(cuda)
    assert not order.follow()
    cuda.current = cuda.stream(5)
    assert order.follow()
    assert not order.follow()
    cuda.current = cuda.stream(2)  # of every thread its own
    assert order.follow()
    assert not order.follow()
    assert cuda.told == [(0, 5), (5, 2)]
    monkeypatch.setattr("adjoint.engine.backends.triton.runtime.cuda.get_ident", lambda: -1)
    assert order.follow()
    assert cuda.told[2:] == ["all"]


def test_what_calls_cublas_is_in_one_order() -> None:
    cuda = Cuda()
    cuda.current = cuda.stream(0)
    shared = StreamOrder(cuda)
    one, other = (LibraryOrder(StreamOrder(cuda), shared, None) for _ in range(2))
    assert not one.follow()
    cuda.current = cuda.stream(5)
    assert one.follow()
    cuda.told.clear()
    cuda.current = cuda.stream(0)
    assert not other.follow()  # on the stream that it was on
    assert cuda.told == [(5, 0)]
