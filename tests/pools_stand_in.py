"""Pools of a GPU's memory whose CuPy is played; no GPU is needed.

Its pool is a small one, its objects are Python's, or laid out in C so that native code makes them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from types import SimpleNamespace
from typing import Any

from adjoint.engine.backends.array.gpu import device_memory
from adjoint.engine.backends.array.gpu.device_memory import COUNTS, TRACKING, Pools
from adjoint.engine.backends.array.libraries.cudnn import Planned
from tests import arrays_in_c

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
    """The device's memory: addresses that go up, and how much is taken.

    Pools that native code knows stay after their test, with what they keep: it is no one else's.
    """

    at, taken = 1 << 32, 0
    test = object()  # whose memory is counted

    @classmethod
    def give_back(cls, size: int, test: object) -> None:
        if test is cls.test:
            cls.taken -= size


class Memory(BaseMemory):
    def __init__(self, size: int) -> None:
        if Driver.taken + size > TOTAL:
            raise CUDARuntimeError(2)
        Driver.taken += size
        Driver.at += size
        self.size, self.ptr, self.device_id = size, Driver.at - size, INDEX
        weakref.finalize(
            self, Driver.give_back, size, Driver.test
        )  # whatever a subclass's `__del__` does


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
        self.device = current_device()

    def record(self, stream: Any) -> None:
        self.stream = stream

    @property
    def done(self) -> bool:
        return self.stream in Event.passed

    def synchronize(self) -> None:
        Event.passed.append(self.stream)


class Stream:
    ptr = 0  # of the current one
    waited: Any = []

    def wait_event(self, event: Event) -> None:
        Stream.waited.append(event)


CURRENT = [INDEX]


def current_device() -> int:
    return CURRENT[0]


def set_device(index: int) -> None:
    CURRENT[0] = index


class Device:
    def __init__(self, index: int) -> None:
        assert index == INDEX

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


class BaseArray:
    """What says where an array is, and how it lies."""

    base, flags = None, "C"

    def _init(self, shape: Any, dtype: Any, data: Any, strides: Any = None) -> None:
        self.shape, self.dtype, self.data, self.strides = shape, dtype, data, strides
        self.size = prod(shape)
        self.nbytes = self.size * dtype.itemsize


class DeviceArray(BaseArray):
    def __init__(self, shape: Any, dtype: Any, data: Any = None, strides: Any = None) -> None:
        pools = device_memory.POOLS[0] if data is None else None
        data = pools.cupy.cuda.alloc(prod(shape) * dtype.itemsize) if pools else data
        self._init(shape, dtype, data, strides)


class Plan(Planned):
    """What runs a convolution."""

    def __init__(self, run: Any, workspace: int) -> None:
        self.run, self.workspace = run, workspace
        self.owner: Any = SimpleNamespace(current=Stream)

    def __call__(self, *given: Any) -> None:
        self.run(*given)


class ArrayInC(arrays_in_c.BaseArray):
    """The same, laid out so that native code makes it."""

    __slots__ = ()

    def __init__(self, shape: Any, dtype: Any, data: Any = None, strides: Any = None) -> None:
        alloc = device_memory.POOLS[0].cupy.cuda.alloc
        self._init(shape, dtype, data or alloc(prod(shape) * dtype.itemsize), strides)


@contextmanager
def made_pools(natively: bool) -> Iterator[Pools]:
    """Pools in which arrays are made by native code or not."""
    memory = SimpleNamespace(
        BaseMemory=BaseMemory, Memory=Memory, MemoryPool=MemoryPool, MemoryPointer=MemoryPointer,
        OutOfMemoryError=Full,
    )  # fmt: skip
    if natively:
        memory.BaseMemory, memory.MemoryPointer = arrays_in_c.BaseMemory, arrays_in_c.MemoryPointer
    runtime = SimpleNamespace(
        getDevice=current_device,
        setDevice=set_device,
        CUDARuntimeError=CUDARuntimeError,
        memGetInfo=lambda: (TOTAL - Driver.taken, TOTAL),
    )
    allocators: list[Any] = []
    cuda = SimpleNamespace(
        memory=memory, runtime=runtime, set_allocator=allocators.append, Event=Event,
        Device=Device, get_current_stream=Stream, get_allocator=lambda: allocators[-1],
        alloc=lambda size: allocators[-1](size),
    )  # fmt: skip
    Event.passed, Stream.ptr = [], 0
    outer, Driver.test, Driver.taken = (Driver.test, Driver.taken), object(), 0
    made = Pools(SimpleNamespace(cuda=cuda, ndarray=ArrayInC if natively else DeviceArray))
    before, device_memory.POOLS[:] = device_memory.POOLS[:], [made]
    try:
        yield made
        assert (made.natively is not None) <= natively
    finally:
        TRACKING.stop()
        made.others.waiting.clear()  # native code holds pools for good
        made.let_go()
        device_memory.POOLS[:] = before
        COUNTS.pop(INDEX, None)
        Driver.test, Driver.taken = outer
