"""What a GPU finds late is told once, wherever it was found: with boards and machines that are none."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from adjoint.distributed.communication.ways import LaneWay
from adjoint.engine.backends.array import in_place
from adjoint.engine.backends.array.buffers import copy_into
from adjoint.engine.backends.array.gpu import transfers
from adjoint.engine.backends.triton.program import faults
from adjoint.engine.backends.triton.program.codes import (
    CALL_BITS,
    CALLS,
    KNOWN,
    UNTOLD,
    ErrorNumbers,
)
from adjoint.engine.backends.triton.program.faults import FaultBoard, board_of
from adjoint.engine.backends.triton.runtime.cuda import CudaMachine, LibraryOrder, StreamOrder
from adjoint.engine.compiler.package.status import CODE_BITS
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.state import late_faults
from adjoint.engine.graph.eager import updates
from adjoint.engine.ops.common.checks import failure
from adjoint.engine.tensor.tensor import wrap

FAULT = "IndexError", "index {number} is out of bounds"


class Machine:
    """Launches on streams, of which the host waits for one."""

    index = 0

    def __init__(self) -> None:
        self.current: Any = SimpleNamespace(ptr=0)
        self.found: dict[int, int] = {}  # what streams will have reported when they are done

    def empty(self, count: int, dtype: Any) -> Any:
        return np.empty(count, dtype)

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def clear(self, word: Any) -> None:
        word[:] = 0

    def join(self, other: Any) -> None: ...

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
    monkeypatch.setattr(faults, "KEEPERS", {})
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


def test_what_is_launched_while_somebody_looks_is_looked_at(
    board: FaultBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever looks next; who looks meanwhile waits until the first one knows."""
    machine, read = board.machine, board.machine.read
    reading, go_on = threading.Event(), threading.Event()

    def slowly(word: Any, streams: Any) -> int:
        reading.set()
        assert go_on.wait(30)
        return int(read(word, streams))

    told: list[BaseException | None] = []

    def looks() -> None:
        try:
            board.look()
        except IndexError as error:
            told.append(error)
        else:
            told.append(None)

    machine.found[0] = reported(board, board.launched())
    with monkeypatch.context() as patch:
        patch.setattr(machine, "read", slowly)
        first = threading.Thread(target=looks)
        first.start()
        assert reading.wait(30)
        second = threading.Thread(target=looks)
        second.start()
        second.join(0.05)
        assert second.is_alive()
        assert not told
        slot = board.launched()
        go_on.set()
        first.join()
        second.join()
    assert isinstance(told[0], IndexError)
    assert told[1] is None
    machine.found[0] = reported(board, slot, 8)
    assert not board.streams  # the second one has seen that call, too
    board.launched()
    with pytest.raises(IndexError, match="8"):
        board.look()


def test_what_is_undone_is_one_device_s(board: FaultBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what another one does, nothing is known here."""
    undone: list[str] = []
    kept: list[Any] = []
    monkeypatch.setattr(late_faults, "KEEPERS", {0: board.keep, 1: kept.append})
    board.machine.found[0] = reported(board, board.launched())
    late_faults.keep(lambda: undone.append("another device's"), 1)
    late_faults.keep(lambda: undone.append("its own"), 0)
    late_faults.keep(lambda: undone.append("of a device without kernels"), 2)
    with pytest.raises(IndexError):
        board.look()
    assert undone == ["its own"]
    assert len(kept) == 1


def test_what_is_kept_to_be_undone_is_bounded(board: FaultBoard) -> None:
    board.launched()
    for _ in range(3 * faults.UNDOS):
        board.keep(lambda: None)
        assert len(board.undos) <= faults.UNDOS


def test_errors_beyond_those_that_have_numbers_are_told_by_their_type() -> None:
    numbers = ErrorNumbers()
    known = {numbers.number(("ValueError", f"message {k}")) for k in range(KNOWN)}
    assert 0 in known
    assert max(known) == KNOWN
    assert numbers.number(("ValueError", "message 3"))
    assert not numbers.number(("ValueError", "new"))
    number = numbers.some_number(("ValueError", "new"))
    kind, message = numbers.error(number)
    assert kind == "ValueError"
    assert message == UNTOLD
    assert numbers.error(numbers.some_number(("ValueError", "message 3")))[1] == "message 3"
    told = failure(message, kind, 7)
    assert isinstance(told, ValueError)
    assert "a kernel found that 7 is wrong" in str(told)


def test_calls_of_long_ago_have_no_line(board: FaultBoard) -> None:
    """Rather than that of another call."""
    slot = board.launched()
    for _ in range(CALLS):
        board.launched()
    board.machine.found[0] = reported(board, slot)
    with pytest.raises(IndexError) as caught:
        board.look()
    notes = "".join(caught.value.__notes__)
    assert __file__ not in notes
    assert "ADJOINT_LAUNCH_BLOCKING=1" in notes


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


@pytest.mark.parametrize("non_blocking", [False, True])
def test_copies_to_pinned_memory_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, non_blocking: bool
) -> None:
    """Where they are waited for: else whoever waits for them does."""
    stream = SimpleNamespace(synchronize=lambda: None)
    cuda = SimpleNamespace(
        get_current_stream=lambda: stream,
        Event=lambda disable_timing: SimpleNamespace(record=lambda stream: None, done=True),
    )
    monkeypatch.setattr(transfers, "cupy", lambda: SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(transfers, "is_pinned", lambda array: True)
    looks: list[int] = []
    monkeypatch.setattr(late_faults, "LOOKS", [lambda: looks.append(1)])
    copied: list[int] = []
    there = SimpleNamespace(
        __cuda_array_interface__="where it lies",
        flags=SimpleNamespace(c_contiguous=True),
        device=nullcontext(),
        data=SimpleNamespace(
            copy_to_host_async=lambda to, size: copied.append(size),
            copy_from_host_async=lambda source, size: copied.append(size),
        ),
    )
    here = np.zeros(3)
    assert transfers.copy_across(here, there, non_blocking)
    assert len(looks) == (not non_blocking)
    assert transfers.copy_across(there, here, non_blocking)
    assert len(looks) == (not non_blocking)
    assert copied == [24, 24]


def test_updates_wait_for_what_other_devices_may_have_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their own device's kernels look for themselves, but for what comes in no order with them."""

    class Array(np.ndarray[Any, Any]):
        """A GPU's, or so."""

    looked: list[str] = []

    def board_of(index: int) -> Any:
        return SimpleNamespace(
            look=lambda: looked.append(f"all of {index}"),
            settle_apart=lambda: looked.append(f"others of {index}"),
        )

    monkeypatch.setitem(DEVICE_LAYOUTS, Array, lambda array: (1, False))
    boards = {0: board_of(0)}
    monkeypatch.setattr(late_faults, "BOARDS", boards)
    updates.settle_apart(np.zeros(3).view(Array))
    assert looked == ["others of 0"]
    boards |= {1: board_of(1), 2: board_of(2)}
    looked.clear()
    updates.settle_apart(np.zeros(3).view(Array))
    assert looked == ["all of 0", "all of 2", "others of 1"]
    looked.clear()
    updates.settle_apart(np.zeros(3))  # the host's, from what a GPU made
    assert looked == ["all of 0", "all of 1", "all of 2"]


def test_an_update_waits_for_streams_that_it_is_in_no_order_with(board: FaultBoard) -> None:
    machine = board.machine
    streams = [SimpleNamespace(ptr=number) for number in (5, 6)]
    machine.current = streams[0]
    machine.found[5] = reported(board, board.launched())
    board.settle_apart()  # its own stream's
    assert not board.is_shared
    machine.current = streams[1]
    board.meet()
    assert board.is_shared
    with pytest.raises(IndexError):
        board.settle_apart()
    board.settle_apart()
    board.launched()
    board.settle_apart()
    assert board.streams  # which nobody looked at


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

    def get_current_stream(self, device: int = 0) -> Any:
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


class Words:
    """Words of a device's, of which the elements are the host's."""

    def __init__(self, told: list[Any]) -> None:
        self.told, self.value, self.nbytes = told, 5, 8
        self.data = SimpleNamespace(ptr=id(self))

    def get(self) -> list[int]:
        self.told.append("read")
        return [self.value]

    def fill(self, value: int) -> None:
        self.value = value
        self.told.append("filled")


def test_a_machine_waits_for_all_streams_that_may_have_reported() -> None:
    """And for one that is being captured for nothing: its work is not done."""
    cuda = Cuda()
    machine: Any = object.__new__(CudaMachine)
    machine.index, machine.cupy = 0, SimpleNamespace(cuda=cuda)
    cuda.runtime.getDevice = lambda: 0
    cuda.runtime.memcpyAsync = lambda *given: cuda.told.append(given)

    def stream(number: int, is_capturing: bool = False) -> Any:
        waited = cuda.stream(number)
        waited.is_capturing = is_capturing
        waited.synchronize = lambda: cuda.told.append(number)
        return waited

    cuda.current = stream(0)
    words = Words(cuda.told)
    others = [stream(0), stream(5), stream(6, is_capturing=True), stream(7)]
    assert machine.read(words, {s.ptr: s for s in others}) == 5
    assert cuda.told == [5, 7, "read"]
    cuda.told.clear()
    assert machine.read(words, {(2, -1): stream(2)}) == 5
    assert cuda.told == ["all", "read"]  # a stream of another thread's, which has no name here
    cuda.told.clear()
    machine.clear(words)
    assert cuda.told == ["filled", 0]
    assert words.value == 0
    cuda.told.clear()
    machine.join(stream(5))
    machine.join(stream(2))
    assert cuda.told == [(5, 0), "all"]
    cuda.told.clear()
    other = Words(cuda.told)
    machine.copier(words, other)()
    assert cuda.told == [(words.data.ptr, other.data.ptr, 8, 3, 0)]  # between places of the device


def test_a_device_has_one_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for it first."""
    monkeypatch.setattr(faults, "LOOKS", [])
    monkeypatch.setattr(faults, "KEEPERS", {})
    monkeypatch.setattr(faults, "BOARDS", {})
    made: list[Any] = []

    class Slow(Machine):
        def active(self) -> Any:
            return nullcontext()

        def empty(self, count: int, dtype: Any) -> Any:
            made.append(count)
            time.sleep(0.05)
            return super().empty(count, dtype)

    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(board_of(Slow()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert all(board is found[0] for board in found)
