"""Counting a GPU's memory, with CuPy's pool played by a small one: no GPU is needed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from adjoint.engine.backends.array.buffers import is_alone
from adjoint.engine.backends.array.gpu import device_memory
from adjoint.engine.backends.array.gpu.device_memory import COUNTS, TRACKING, Pools, counts_of
from adjoint.engine.backends.array.lists.apart import UNKNOWN, owner_of
from adjoint.engine.core.errors import OutOfMemoryError

INDEX = 7  # of a device that no other test has
UNIT = 512
TOTAL = 1 << 20  # bytes of the device


class CUDARuntimeError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"cuda error {status}")
        self.status = status


class Full(MemoryError):
    pass


class BaseMemory:
    ptr = size = device_id = 0


class Driver:
    """The device's memory: addresses that go up, and how much is taken."""

    at, taken = 1 << 32, 0

    @classmethod
    def give_back(cls, size: int) -> None:
        cls.taken -= size


class Memory(BaseMemory):
    def __init__(self, size: int) -> None:
        if Driver.taken + size > TOTAL:
            raise CUDARuntimeError(2)
        Driver.taken += size
        Driver.at += size
        self.size, self.ptr, self.device_id = size, Driver.at - size, INDEX
        weakref.finalize(self, Driver.give_back, size)  # whatever a subclass's `__del__` does


class MemoryPointer:
    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset


class Pooled(BaseMemory):
    def __init__(self, pool: MemoryPool, segment: Any) -> None:
        self.pool, self.segment = pool, segment
        self.ptr, self.size, self.device_id = segment.ptr, segment.size, INDEX

    def __del__(self) -> None:
        self.pool.free.append(self.segment)


class MemoryPool:
    """Keeps what is freed, by size."""

    def __init__(self, take: Any) -> None:
        self.take = take
        self.free: list[Any] = []

    def malloc(self, size: int) -> MemoryPointer:
        size = -(-size // UNIT) * UNIT
        for k, segment in enumerate(self.free):
            if segment.size == size:
                return MemoryPointer(Pooled(self, self.free.pop(k)), 0)
        try:
            segment = self.take(size).mem
        except CUDARuntimeError:
            self.free_all_blocks()
            try:
                segment = self.take(size).mem
            except CUDARuntimeError:
                raise Full from None
        return MemoryPointer(Pooled(self, segment), 0)

    def free_all_blocks(self) -> None:
        self.free.clear()


class Event:
    passed: Any = []  # streams whose work is done

    def __init__(self, **_: Any) -> None:
        self.stream: Any = None

    def record(self, stream: Any) -> None:
        self.stream = stream

    @property
    def done(self) -> bool:
        return self.stream in Event.passed

    def synchronize(self) -> None:
        Event.passed.append(self.stream)


class Device:
    def __init__(self, index: int) -> None:
        assert index == INDEX

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pools]:
    memory = SimpleNamespace(
        BaseMemory=BaseMemory, Memory=Memory, MemoryPool=MemoryPool, MemoryPointer=MemoryPointer,
        OutOfMemoryError=Full,
    )  # fmt: skip
    runtime = SimpleNamespace(
        getDevice=lambda: INDEX,
        CUDARuntimeError=CUDARuntimeError,
        memGetInfo=lambda: (TOTAL - Driver.taken, TOTAL),
    )
    cuda = SimpleNamespace(
        memory=memory, runtime=runtime, set_allocator=lambda f: None, Event=Event, Device=Device
    )
    Event.passed = []
    made = Pools(SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(device_memory, "POOLS", [made])
    yield made
    TRACKING.stop()
    made.default.free_all_blocks()
    COUNTS.pop(INDEX, None)


def test_blocks_and_segments_are_counted(pools: Pools) -> None:
    counts = counts_of(INDEX)
    a, b = pools.serve(1000), pools.serve(100)
    assert (counts.used.current, counts.blocks.current) == (1024 + 512, 2)
    assert counts.asked() == 1100
    del a
    assert (counts.used.current, counts.used.peak) == (512, 1536)
    assert (counts.reserved.current, counts.segments.current) == (1536, 2)
    again = pools.serve(1024)
    assert counts.segments.allocated == 2  # kept, and given out again
    counts.used.reset_peak()
    del b
    assert (counts.used.peak, counts.used.freed) == (1536, 1024 + 512)
    pools.default.free_all_blocks()
    assert (counts.reserved.current, counts.reserved.peak) == (1024, 1536)
    del again
    assert counts.live == {}
    assert pools.serve(0).ptr == pools.serve(0).ptr or counts.blocks.current == 0


def test_a_limit_is_one(pools: Pools) -> None:
    counts = counts_of(INDEX)
    counts.limit = 10 * UNIT
    kept = [pools.serve(UNIT) for _ in range(8)]
    with pytest.raises(OutOfMemoryError) as caught:
        pools.serve(4 * UNIT)
    text = str(caught.value)
    assert "CUDA out of memory. Tried to allocate 2.00 KiB" in text
    assert "5.00 KiB allowed" in text
    assert "4.00 KiB is in use" in text
    assert "ADJOINT_TRACK_MEMORY" in text
    assert (counts.failures, counts.used.current) == (1, 8 * UNIT)
    kept.clear()
    assert pools.serve(9 * UNIT).mem.size == 9 * UNIT  # what was kept unused is let go
    assert counts.retries > 0


def test_all_of_the_device(pools: Pools) -> None:
    most = pools.serve(TOTAL - UNIT)
    with pytest.raises(OutOfMemoryError, match="1023.50 KiB is in use"):
        pools.serve(2 * UNIT)
    assert isinstance(pools.serve(UNIT).mem, pools.block)
    del most


def test_lines_are_noted(pools: Pools) -> None:
    before = pools.serve(UNIT)
    TRACKING.start(history=3)
    kept = pools.serve(6 * UNIT)
    assert kept.mem.size == 6 * UNIT
    where = [place for _, _, place in counts_of(INDEX).live.values()]
    assert where[0] is None
    assert where[1] is not None
    assert where[1].file == __file__
    assert "kept = pools.serve(6 * UNIT)" in "\n".join(device_memory.holders(INDEX))
    del kept, before
    actions = [each.action for each in TRACKING.history or ()]
    assert actions == ["alloc", "free_completed", "free_completed"]


def test_blocks_wait_for_other_streams(pools: Pools) -> None:
    stream = SimpleNamespace(ptr=5)
    given = pools.serve(UNIT)
    address = given.ptr
    pools.used_by(SimpleNamespace(data=given), stream)
    pools.used_by(SimpleNamespace(data=given), stream)
    del given
    gc.collect()
    assert len(pools.waiting) == 1
    assert pools.serve(UNIT).ptr != address  # the stream is not done with it
    Event.passed.append(stream)
    assert address in {pools.serve(UNIT).ptr for _ in range(2)}
    assert not pools.waiting
    other = SimpleNamespace(data=SimpleNamespace(mem=BaseMemory()))  # another library's
    pools.used_by(other, stream)


def test_memory_of_a_pool_is_one_arrays_and_its_views(pools: Pools) -> None:
    first, second = (SimpleNamespace(data=pools.serve(UNIT)) for _ in range(2))
    view = SimpleNamespace(data=MemoryPointer(first.data.mem, 8))
    others = SimpleNamespace(data=SimpleNamespace(mem=BaseMemory()))
    assert owner_of(first) == owner_of(view) != owner_of(second)
    assert UNKNOWN not in (owner_of(first), owner_of(second))
    assert owner_of(others) == UNKNOWN


class SharedMemory:
    """What an array of CuPy's shows part of."""


class Address:
    def __init__(self, mem: SharedMemory) -> None:
        self.mem = mem


class ShownArray:
    """An array as CuPy lays its objects out: views have what they are views of, and its address."""

    def __init__(self, data: Address, base: ShownArray | None = None) -> None:
        self.data, self.base = data, base


def test_memory_is_only_taken_over_from_an_array_that_is_alone() -> None:
    def fresh() -> ShownArray:
        return ShownArray(Address(SharedMemory()))

    alone = fresh()
    assert is_alone(alone)
    inside = fresh()
    view = ShownArray(inside.data, inside)
    assert not is_alone(inside)  # somebody shows it otherwise
    assert not is_alone(view)
    del inside
    assert is_alone(view)
    mine = fresh()
    pointer = mine.data  # somebody could make an array of it
    assert not is_alone(mine)
    del pointer
    memory = mine.data.mem
    assert not is_alone(mine)
    del memory
    assert is_alone(mine)
    elsewhere = ShownArray(Address(mine.data.mem))
    assert not is_alone(mine)
    assert not is_alone(elsewhere)
