"""Memory of GPUs: CuPy's pool, with what it holds counted, limited and, if asked, traced to lines.

Note [counted memory]
    All device memory comes from pools made here: CuPy keeps and splits the memory, and each piece
    is handed out as a `Block` whose making and end are counted. So peaks are true, whoever asks
    for memory: eager operations, arenas of compiled programs, workspaces. Counting takes about a
    microsecond a piece, by native code next to nothing (Note [native pieces]). Counters are words
    of an array: Python switches threads, and collects garbage, at calls and jumps only, of which
    `words[k] += n` has none.

Note [kept pieces]
    A step asks for the same sizes as the one before. So pieces of the default pool that nobody has
    any longer are kept by device, stream and size, and handed out again without CuPy's pool being
    asked: its order is the stream's, as it is in that pool. There they count as taken, and could
    not be joined with what is beside them; so all of them go back to it before it takes a segment
    from the driver, before its unused memory is let go, and before memory is said to be out. What
    other streams use, and memory of other pools (of graphs that are captured), is not kept.
"""

from __future__ import annotations

import gc
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from math import prod
from os.path import dirname
from typing import Any, Protocol

import numpy as np

from adjoint.engine.backends.array.gpu.memory_counts import (
    CURRENT_BYTES,
    CURRENT_PIECES,
    TOP_BYTES,
    TOP_PIECES,
    TOTAL_BYTES,
    TOTAL_PIECES,
    DeviceCounts,
    Piece,
    Room,
)
from adjoint.engine.backends.array.gpu.other_streams import OtherStreams
from adjoint.engine.core.errors import OutOfMemoryError, pass_over
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.origins import Where, place_now, told_place
from adjoint.engine.tensor.holders import largest_storages

GIB, MIB = 1 << 30, 1 << 20
VARIABLE = "ADJOINT_TRACK_MEMORY"  # has lines noted from the beginning
FULL = 2  # the runtime's number for an allocation that failed
UNIT = 512  # bytes that CuPy's pool rounds sizes up to a multiple of
TRIES = 8  # while other threads keep pieces
RECENT = 10_000  # pieces handed out since they went back: about ten steps
GROWTH = 1.25  # times what was used at a time, which may be taken to have them stay
SPARE = 1 << 29  # bytes of the device that others than the pool are left
PER_THREAD = 2  # the driver's handle of a stream that is another one in every thread


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

    __slots__ = ("history", "on")

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


Show = Callable[[Any], Any]  # from an array to a view of it


class NativePieces(Protocol):
    """What makes arrays of pieces, and what a block's end does, as native code."""

    let_go: Any

    def maker(self, template: Any, piece: Piece, slow: Callable[[int], Any]) -> tuple[Any, Any]:
        """What makes arrays like a template, each on such a piece, and the words it reads.

        Where anything is not usual it calls Python's way.
        """

    def remember(self, words: Any, stream: int, rooms: list[Room]) -> None:
        """Have it take pieces of this list on a stream."""

    def viewer(self, like: Any, show: Show, template: Callable[..., Any]) -> Show:
        """What shows arrays that lie as `like` does the way `show` does (Note [native views])."""


class PiecesKept(Exception):
    """Raised through CuPy's pool that would take a segment while pieces are kept."""


class Pools:
    """The pools of a process; one serves all who do not ask for another."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.memory = cupy.cuda.memory
        self.others = OtherStreams(cupy)
        self.block, self.segment = _classes(self.memory, self.others)
        self.kept: dict[tuple[int, int, int], list[Room]] = {}  # by device, stream and units
        self.given_back: dict[int, int] = {}  # by device: how many were handed out until then
        self.natively: NativePieces | None = None
        self.tried = False  # whether it can be so
        self.default = self.memory.MemoryPool(self.take_last)
        self.hand_out = self.handing()
        self.serve: Callable[[int], Any] = self.keeping(self.serving(self.default))
        cupy.cuda.set_allocator(self.serve)

    def fresh(self) -> Any:
        """A pool of its own."""
        return self.memory.MemoryPool(self.take)

    def take_last(self, size: int) -> Any:
        """`take` for the pool whose pieces are kept: they go back first, and it looks again."""
        if any(self.kept.values()) and not self.may_grow(size):
            raise PiecesKept
        return self.take(size)

    def may_grow(self, size: int) -> bool:
        """Whether pieces may stay while a segment is taken (Note [kept pieces])."""
        runtime = self.cupy.cuda.runtime
        index = int(runtime.getDevice())
        counts = counts_of(index)
        before, taken = self.given_back.get(index), counts.reserved.current + size
        if before is None or counts.blocks.allocated - before > RECENT:
            return False
        if taken > GROWTH * counts.used.peak or (counts.limit and taken > counts.limit):
            return False
        return bool(size + SPARE <= runtime.memGetInfo()[0])

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

    def handing(self) -> Callable[[Room, int], Any]:
        """What hands out a room as a counted block, for so many bytes."""
        pointer, block_class = self.memory.MemoryPointer, self.block

        def hand_out(room: Room, size: int) -> Any:
            block = block_class()
            block.room = room
            _, address, much, index, counts, _, _ = room
            block.ptr, block.size, block.device_id = address, much, index
            piece = (much, size, place_now() if TRACKING.on else None)
            counts.live[address] = piece
            words = counts.words  # `MemoryCount.add`, without its calls
            words[TOTAL_PIECES] += 1
            words[CURRENT_PIECES] = many = words[CURRENT_PIECES] + 1
            if many > words[TOP_PIECES]:
                words[TOP_PIECES] = many
            words[TOTAL_BYTES] += much
            words[CURRENT_BYTES] = held = words[CURRENT_BYTES] + much
            if held > words[TOP_BYTES]:
                words[TOP_BYTES] = held
            if TRACKING.history is not None:
                TRACKING.note("alloc", address, piece)
            return pointer(block, 0)

        return hand_out

    def serving(self, pool: Any) -> Callable[..., Any]:
        """What hands out memory of a pool in counted blocks, which are kept in a list or not."""
        malloc, hand_out = pool.malloc, self.hand_out
        waiting, release = self.others.waiting, self.others.release
        full, pointer = self.memory.OutOfMemoryError, self.memory.MemoryPointer

        def serve(size: int, kept: list[Room] | None = None) -> Any:
            if waiting:
                release()
            try:
                memory = malloc(size).mem
            except full:
                memory = self.last_try(pool, size)
            except PiecesKept:
                memory = self.second_try(pool, size)
            if not size:
                return pointer(memory, 0)
            index = memory.device_id
            counts = COUNTS.get(index) or counts_of(index)
            room = memory, memory.ptr, memory.size, index, counts, kept, counts.address
            return hand_out(room, size)

        return serve

    def keeping(self, serve: Callable[..., Any]) -> Callable[[int], Any]:
        """What hands out memory that was kept, or else new (Note [kept pieces])."""
        kept, hand_out = self.kept, self.hand_out
        waiting, release = self.others.waiting, self.others.release
        device, stream = self.cupy.cuda.runtime.getDevice, self.cupy.cuda.get_current_stream

        def serve_kept(size: int) -> Any:
            current = stream().ptr
            if current == PER_THREAD:
                return serve(size)
            place = device(), current, (size + UNIT - 1) // UNIT
            rooms = kept.get(place)
            if rooms is None:
                rooms = kept.setdefault(place, [])
            if waiting:
                release()
            if rooms:
                try:
                    return hand_out(rooms.pop(), size)
                except IndexError:  # another thread has taken it
                    pass
            return serve(size, rooms)

        return serve_kept

    def maker(
        self, index: int, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
    ) -> Callable[[int], Any]:
        """What makes arrays on a device that is the current one, given the current stream.

        Where a piece was kept this asks nobody: to find out device, stream and allocator takes as
        long as to make the array.
        """
        array, alloc = self.cupy.ndarray, self.cupy.cuda.alloc
        size = prod(shape) * dtype.itemsize
        units = (size + UNIT - 1) // UNIT
        kept, waiting, hand_out = self.kept, self.others.waiting, self.hand_out
        serve, allocator = self.serve, self.cupy.cuda.get_allocator
        new, fill = self.quick

        def asked() -> Any:
            if strides is None:
                return array(shape, dtype)
            return array(shape, dtype, alloc(size), strides)

        def make(stream: int) -> Any:
            rooms = kept.get((index, stream, units))
            if natively is not None and words is not None and rooms is not None:
                natively.remember(words, stream, rooms)  # which are never another list
            if not rooms or waiting or allocator() is not serve:
                return asked()
            try:
                room = rooms.pop()
            except IndexError:  # another thread has taken it
                return asked()
            made = new(array)
            fill(made, shape, dtype, hand_out(room, size), strides)
            return made

        if not size or new is None:
            return lambda stream: asked()
        words, natively = None, self.native()
        if natively is None:
            return make
        piece: Piece = (units * UNIT, size, None)
        native, words = natively.maker(self.template(shape, dtype, strides), piece, make)
        return native

    def lender(self, index: int, size: int) -> Callable[[int, Callable[..., None], Any], None]:
        """What has a stream's work use memory that nobody has afterwards, given the stream, what
        asks for the work, and what that is told before the memory's address and the stream.

        A kept piece is lent as it is: what takes it next comes after that work in the stream.
        """
        serve, units = self.serve, (size + UNIT - 1) // UNIT
        kept, waiting, allocator = self.kept, self.others.waiting, self.cupy.cuda.get_allocator
        counts = counts_of(index)

        def lend(stream: int, work: Callable[..., None], told: Any) -> None:
            rooms = kept.get((index, stream, units)) or []
            room = None
            if rooms and not (waiting or TRACKING.on) and allocator() is serve:
                with suppress(IndexError):  # another thread has taken it
                    room = rooms.pop()
            if room is None:
                memory = self.cupy.cuda.alloc(size)
                work(told, memory.ptr, stream)
                return
            for count, much in ((counts.blocks, 1), (counts.used, room[2])):
                count.add(much)
                count.less(much)
            try:
                work(told, room[1], stream)
            finally:
                rooms.append(room)

        return lend

    @cached_property
    def quick(self) -> tuple[Any, Any]:
        """CuPy's functions that make an array and say how it lies; None where they are not so.

        Its class does the same, and looks after classes that people derive from it, which takes as
        long again.
        """
        array, base = self.cupy.ndarray, self.cupy.ndarray.__base__
        new, fill = getattr(base, "__new__", None), getattr(base, "_init", None)
        if new is None or fill is None or base is object:
            return None, None
        data = self.nowhere()
        for strides in (None, (4, 8)):
            try:
                made = new(array)
                fill(made, (2, 3), np.dtype(np.float32), data, strides)
                same = array((2, 3), np.dtype(np.float32), data, strides)
            except (TypeError, AttributeError):
                return None, None
            told = [
                (x.shape, x.strides, x.dtype, x.size, x.data, x.base, str(x.flags), x.nbytes)
                for x in (made, same)
            ]
            if type(made) is not array or told[0] != told[1]:
                return None, None
        return new, fill

    def nowhere(self) -> Any:
        """A pointer to memory that nobody looks at."""
        block = self.memory.BaseMemory()
        block.ptr, block.size, block.device_id = UNIT, UNIT, 0
        return self.memory.MemoryPointer(block, 0)

    def template(self, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None) -> Any:
        """An array of a kind that nobody looks into."""
        new, fill = self.quick
        made = new(self.cupy.ndarray)
        fill(made, shape, dtype, self.nowhere(), strides)
        return made

    def native(self) -> NativePieces | None:
        """What makes arrays of pieces natively, and puts them back (Note [native pieces]); None
        where it cannot, or not now, when it could not be tried."""
        if self.tried:
            return self.natively
        if TRACKING.on or self.others.waiting or self.cupy.cuda.get_allocator() is not self.serve:
            return None
        self.tried = True
        found: NativePieces | None = HOOKS.native_pieces(self, TRACKING, self.block.__del__)
        if found is not None:
            self.block.__del__, self.natively = found.let_go, found
        return found

    def viewer(self, like: Any, show: Show) -> Show:
        """What shows all arrays that lie as `like` does the way `show` does, natively if it can."""
        natively = self.native()
        return show if natively is None else natively.viewer(like, show, self.template)

    def give_back(self) -> None:
        """Have the default pool have what is kept again."""
        for rooms in list(self.kept.values()):  # which blocks that there are go on to know
            rooms.clear()

    def let_go(self) -> None:
        """Give what nobody has back to the driver."""
        self.give_back()
        self.default.free_all_blocks()

    def second_try(self, pool: Any, size: int) -> Any:
        """Memory after what was kept is the pool's again."""
        index = int(self.cupy.cuda.runtime.getDevice())
        self.given_back[index] = counts_of(index).blocks.allocated
        memory = self.after(self.give_back, pool, size)
        return self.last_try(pool, size) if memory is None else memory

    def last_try(self, pool: Any, size: int) -> Any:
        """Memory after all that can be let go was, of every pool; or an error that tells."""
        gc.collect()
        self.others.finish()

        def let_go() -> None:
            self.let_go()
            if pool is not self.default:
                pool.free_all_blocks()

        memory = self.after(let_go, pool, size)
        if memory is not None:
            return memory
        index = int(self.cupy.cuda.runtime.getDevice())
        counts = counts_of(index)
        counts.failures += 1
        raise out_of_memory(self.cupy, index, size)

    def after(self, let_go: Callable[[], None], pool: Any, size: int) -> Any:
        """Memory after some was let go of; None where there is none even then."""
        for _ in range(TRIES):
            let_go()
            try:
                return pool.malloc(size).mem
            except self.memory.OutOfMemoryError:
                return None
            except PiecesKept:  # by another thread meanwhile
                pass
        return None

    def used_by(self, array: Any, stream: Any, device: int | None = None) -> None:
        """Have an array's memory stay until a stream, which is not its own, is done with it.

        It is a stream of the array's device unless told.
        """
        block = self.block_of(array)
        if block is not None:
            index = block.device_id if device is None else device
            self.others.add(int(block.ptr), index, stream)

    def written_by(self, arrays: Sequence[Any], device: int) -> None:
        """The current stream, of that device, is to write to arrays: it waits for others."""
        if not self.others.uses:
            return
        stream = self.cupy.cuda.get_current_stream()
        for array in arrays:
            block = None if array is None else self.block_of(array)
            if block is not None:
                self.others.follow(int(block.ptr), device, stream)

    def block_of(self, array: Any) -> Any:
        """The block that an array shows part of; None for memory that is none of ours."""
        block: Any = array.data.mem
        while not isinstance(block, self.block):
            owner = getattr(block, "_owner", None)  # a window on memory of another array's
            if owner is None or not hasattr(owner, "data"):
                return None  # memory of another library's, which knows its own streams
            block = owner.data.mem
        return block


def _classes(memory: Any, others: OtherStreams) -> tuple[Any, Any]:
    """The classes of blocks and of segments, which are CuPy's kinds of memory."""
    uses = others.uses

    class MemoryBlock(memory.BaseMemory):  # type: ignore[misc]
        """A piece of a pool's memory that somebody has."""

        __slots__ = ("room",)
        handed_out = True  # to one array and its views

        def __del__(self, tracking: Tracking = TRACKING) -> None:
            room = self.room
            if room is None:  # which was tried
                return
            memory, address, much, _, counts, rooms, _ = room
            piece = counts.live.pop(address)
            words = counts.words
            words[CURRENT_PIECES] -= 1
            words[CURRENT_BYTES] -= much
            if tracking.history is not None:
                tracking.note("free_completed", address, piece)
            if uses and address in uses:
                others.keep(address, memory)
            elif rooms is not None:
                rooms.append(room)

    class MemorySegment(memory.Memory):  # type: ignore[misc]
        """Memory of the driver's that a pool keeps."""

        __slots__ = ("counts",)

        def __del__(self) -> None:
            counts = getattr(self, "counts", None)
            if counts is not None:
                counts.segment_sizes.pop(self.ptr, None)
                counts.reserved.less(self.size)
                counts.segments.less(1)

    return MemoryBlock, MemorySegment


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
