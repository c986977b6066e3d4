"""Memory of GPUs: CuPy's pool, with what it holds counted, limited and, if asked, traced to lines.

Note [counted memory]
    All device memory comes from pools made here: CuPy keeps and splits the memory, and each piece
    is handed out as a `Block` whose making and end are counted. So peaks are true, whoever asks
    for memory: eager operations, arenas of compiled programs, workspaces. Counting takes about a
    microsecond a piece. Counters are plain integers: Python switches threads, and collects
    garbage, at calls and jumps only, of which `n += x` has none.
"""

from __future__ import annotations

import gc
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os.path import dirname
from typing import Any

from adjoint.engine.core.errors import OutOfMemoryError, pass_over
from adjoint.engine.core.origins import Where, place_now, told_place
from adjoint.engine.tensor.holders import largest_storages

GIB, MIB = 1 << 30, 1 << 20
VARIABLE = "ADJOINT_TRACK_MEMORY"  # has lines noted from the beginning
FULL = 2  # the runtime's number for an allocation that failed


@dataclass(slots=True)
class MemoryCount:
    """How much of something there is and was."""

    current: int = 0
    peak: int = 0
    allocated: int = 0  # all that ever was

    def add(self, n: int) -> None:
        """More of it."""
        self.allocated += n
        self.current += n
        if self.current > self.peak:
            self.peak = self.current

    @property
    def freed(self) -> int:
        """What went again."""
        return self.allocated - self.current

    def reset_peak(self) -> None:
        """Begin to look for the peak anew."""
        self.peak = self.current

    def reset_accumulated(self) -> None:
        """Forget what is no longer there."""
        self.allocated = self.current


# A block that somebody has: its bytes, those asked for, the line, if lines are noted. A plain
# tuple: one is made for every piece.
Piece = tuple[int, int, Where | None]


@dataclass(slots=True)
class DeviceCounts:
    """What one GPU's pools hold."""

    used: MemoryCount = field(default_factory=MemoryCount)  # bytes of blocks
    blocks: MemoryCount = field(default_factory=MemoryCount)
    reserved: MemoryCount = field(default_factory=MemoryCount)  # bytes taken from the driver
    segments: MemoryCount = field(default_factory=MemoryCount)
    retries: int = 0
    failures: int = 0
    limit: int = 0  # bytes that may be taken from the driver; 0: all there is
    live: dict[int, Piece] = field(default_factory=dict)  # blocks, by address
    segment_sizes: dict[int, int] = field(default_factory=dict)  # sizes of segments, by address

    def counts(self) -> dict[str, MemoryCount]:
        """All counts, by PyTorch's names."""
        return {
            "active": self.blocks, "active_bytes": self.used, "allocated_bytes": self.used,
            "allocation": self.blocks, "reserved_bytes": self.reserved, "segment": self.segments,
        }  # fmt: skip

    def asked(self) -> int:
        """Bytes that were asked for, of the blocks there are."""
        return sum(asked for _, asked, _ in list(self.live.values()))


@dataclass(frozen=True, slots=True)
class Happened:
    """One entry of the history: a block came or went."""

    action: str  # "alloc", "free_completed"
    address: int
    size: int
    where: Where | None
    time_us: int


class Tracking:
    """Whether lines that ask for memory are noted, and what happened since."""

    def __init__(self) -> None:
        self.on = False
        self.history: deque[Happened] | None = None

    def start(self, history: int | None) -> None:
        """Note lines from now on; and the latest `history` events, unless that is None."""
        self.on = True
        self.history = None if history is None else deque(maxlen=history)

    def stop(self) -> None:
        """Note nothing more."""
        self.on, self.history = False, None

    def note(self, action: str, address: int, piece: Piece) -> None:
        """Remember an event."""
        if self.history is not None:
            now = time.time_ns() // 1000
            self.history.append(Happened(action, address, piece[0], piece[2], now))


TRACKING = Tracking()
COUNTS: dict[int, DeviceCounts] = {}


def counts_of(index: int) -> DeviceCounts:
    """What a GPU's pools hold."""
    counts = COUNTS.get(index)
    if counts is None:
        counts = COUNTS[index] = DeviceCounts()
    return counts


class Pools:
    """The pools of a process; one serves all who do not ask for another."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.memory = cupy.cuda.memory
        self.elsewhere: dict[int, list[Any]] = {}  # other streams that use blocks, by address
        self.block, self.segment = _classes(self.memory, self.elsewhere)
        self.waiting: deque[tuple[Any, list[Any]]] = deque()  # used by other streams until then
        self.default = self.fresh()
        self.serve: Callable[[int], Any] = self.serving(self.default)
        cupy.cuda.set_allocator(self.serve)

    def fresh(self) -> Any:
        """A pool of its own."""
        return self.memory.MemoryPool(self.take)

    def take(self, size: int) -> Any:
        """Memory from the driver, within the limit; CuPy lets go of what is unused and asks again
        where this fails."""
        runtime = self.cupy.cuda.runtime
        index = int(runtime.getDevice())
        counts = counts_of(index)
        try:
            if counts.limit and counts.reserved.current + size > counts.limit:
                raise runtime.CUDARuntimeError(FULL)
            segment = self.segment(size)
        except runtime.CUDARuntimeError:
            counts.retries += 1
            raise
        counts.reserved.add(size)
        counts.segments.add(1)
        counts.segment_sizes[segment.ptr] = size
        segment.counts = counts
        return self.memory.MemoryPointer(segment, 0)

    def serving(self, pool: Any) -> Callable[[int], Any]:
        """What hands out memory of a pool in counted blocks."""
        malloc, pointer, block_class = pool.malloc, self.memory.MemoryPointer, self.block
        full, waiting = self.memory.OutOfMemoryError, self.waiting

        def serve(size: int) -> Any:
            if waiting:
                self.release()
            try:
                memory = malloc(size).mem
            except full:
                memory = self.last_try(pool, size)
            if not size:
                return pointer(memory, 0)
            block = block_class()
            block.ptr = address = memory.ptr
            block.size = room = memory.size
            block.device_id = index = memory.device_id
            block.memory = memory
            block.counts = counts = COUNTS.get(index) or counts_of(index)
            piece = (room, size, place_now() if TRACKING.on else None)
            counts.live[address] = piece
            blocks, used = counts.blocks, counts.used  # `Count.add`, without its calls
            blocks.allocated += 1
            blocks.current = many = blocks.current + 1
            if many > blocks.peak:
                blocks.peak = many
            used.allocated += room
            used.current = much = used.current + room
            if much > used.peak:
                used.peak = much
            if TRACKING.history is not None:
                TRACKING.note("alloc", address, piece)
            return pointer(block, 0)

        return serve

    def last_try(self, pool: Any, size: int) -> Any:
        """Memory after all that can be let go was, of every pool; or an error that tells."""
        gc.collect()
        while self.waiting:
            event, _ = self.waiting.popleft()
            event.synchronize()
        for other in {id(p): p for p in (pool, self.default)}.values():
            other.free_all_blocks()
        try:
            return pool.malloc(size).mem
        except self.memory.OutOfMemoryError:
            pass
        index = int(self.cupy.cuda.runtime.getDevice())
        counts = counts_of(index)
        counts.failures += 1
        raise out_of_memory(self.cupy, index, size)

    def used_by(self, array: Any, stream: Any) -> None:
        """Have an array's memory stay until a stream, which is not its own, is done with it."""
        block: Any = array.data.mem
        while not isinstance(block, self.block):
            owner = getattr(block, "_owner", None)  # a window on memory of another array's
            if owner is None or not hasattr(owner, "data"):
                return  # memory of another library's, which knows its own streams
            block = owner.data.mem
        streams = self.elsewhere.setdefault(int(block.ptr), [])
        if all(other.ptr != stream.ptr for other in streams):
            streams.append(stream)

    def release(self) -> None:
        """Let go of blocks that other streams are done with."""
        while self.waiting and self.waiting[0][0].done:
            self.waiting.popleft()


def _classes(memory: Any, elsewhere: dict[int, list[Any]]) -> tuple[Any, Any]:
    """The classes of blocks and of segments, which are CuPy's kinds of memory."""

    class MemoryBlock(memory.BaseMemory):  # type: ignore[misc]
        """A piece of a pool's memory that somebody has."""

        __slots__ = ("counts", "memory")
        handed_out = True  # to one array and its views

        def __del__(self, tracking: Tracking = TRACKING) -> None:
            counts, address = self.counts, self.ptr
            piece = counts.live.pop(address)
            counts.blocks.current -= 1
            counts.used.current -= piece[0]
            if elsewhere and address in elsewhere:
                _wait_for(self.memory, elsewhere.pop(address))
            if tracking.history is not None:
                tracking.note("free_completed", address, piece)

    class MemorySegment(memory.Memory):  # type: ignore[misc]
        """Memory of the driver's that a pool keeps."""

        __slots__ = ("counts",)

        def __del__(self) -> None:
            counts = getattr(self, "counts", None)
            if counts is not None:
                counts.segment_sizes.pop(self.ptr, None)
                counts.reserved.current -= self.size
                counts.segments.current -= 1

    return MemoryBlock, MemorySegment


def _wait_for(memory: Any, streams: list[Any]) -> None:
    """Keep memory until other streams have done what was asked of them so far."""
    pools = POOLS[0]
    for stream in streams:
        event = pools.cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        pools.waiting.append((event, [memory]))


POOLS: list[Pools] = []  # one, once CuPy is there


def install(cupy: Any) -> None:
    """Have all of CuPy's memory come from counted pools."""
    POOLS[:] = [Pools(cupy)]
    pass_over(dirname(cupy.__file__))
    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        TRACKING.start(history=None)


@contextmanager
def using(pool: Any) -> Iterator[None]:
    """A block in which this thread's memory comes from a pool."""
    pools = POOLS[0]
    with pools.cupy.cuda.using_allocator(pools.serving(pool)):
        yield


# -- what is told -------------------------------------------------------------------------------


def shown(n: int) -> str:
    """Bytes as PyTorch's messages have them.

    >>> shown(3 << 29), shown(100)
    ('1.50 GiB', '100 bytes')
    """
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if n >= unit:
            return f"{n / unit:.2f} {name}"
    return f"{n} bytes"


def pool_state(cupy: Any, index: int) -> str:
    """What a GPU's memory is taken by, in a sentence or two."""
    counts = counts_of(index)
    with cupy.cuda.Device(index):
        free, total = cupy.cuda.runtime.memGetInfo()
    unused = counts.reserved.current - counts.used.current
    limit = f"{shown(counts.limit)} allowed; " if counts.limit else ""
    return (
        f"GPU {index} has a total capacity of {shown(total)} of which {shown(free)} is free. "
        f"{limit}{shown(counts.used.current)} is in use by tensors and compiled programs, "
        f"{shown(unused)} is kept by the pool in pieces that do not do."
    )


def holders(index: int, count: int = 8) -> list[str]:
    """Lines about the largest pieces: tensors by shape, and the lines that asked for them."""
    pieces = sorted(counts_of(index).live.items(), key=lambda piece: -piece[1][0])[:count]
    names = {holder.address: holder for holder in largest_storages()}
    lines = []
    for address, (room, _, place) in pieces:
        storage = names.get(address)
        what = "no tensor's (a program's or a library's)" if storage is None else storage.what
        if storage is not None and storage.grad:
            what += ", requires grad"
        where = "" if place is None else f"  {told_place(place)}"
        lines.append(f"  {shown(room):>11}  {what}{where}")
    return lines


def out_of_memory(cupy: Any, index: int, size: int) -> OutOfMemoryError:
    """The error for memory that cannot be had: what was asked, the pool's state, who has it."""
    head = f"CUDA out of memory. Tried to allocate {shown(size)}. {pool_state(cupy, index)}"
    lines = [head, "The largest pieces:", *holders(index)]
    if not TRACKING.on:
        lines.append(
            "To see which lines made them, call cuda.memory._record_memory_history() first or set "
            f"{VARIABLE}=1."
        )
    lines.append(
        "Take a smaller batch, let go of what is not needed, or compile with "
        "options={'remat': 'memory'}."
    )
    return OutOfMemoryError("\n".join(lines))
