"""A stand-in for CuPy: its arrays are NumPy's of a class of their own, on a device that is none.

With Triton's interpreter it runs eager mode on "cuda" without a GPU, in a process of its own
(`tests/test_cuda_fragments.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from tests.toy_device import ToyLibrary


class Pointer:
    """Where an array begins, and in whose memory."""

    def __init__(self, ptr: int, mem: Any = None) -> None:
        self.ptr, self.device_id, self.mem = ptr, 0, mem

    def memset_async(self, value: int, size: int) -> None:
        ctypes.memset(self.ptr, value, size)

    def copy_from_device_async(self, source: Pointer, size: int) -> None:
        ctypes.memmove(self.ptr, source.ptr, size)


class DeviceNumber:
    id = 0

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def use(self) -> None: ...


class CupyArray(np.ndarray[Any, Any]):
    """An array that only the stand-in's functions may touch."""

    is_run = True  # whether kernels write to it

    def __new__(cls, shape: Any, dtype: Any = np.float64) -> CupyArray:
        sizes = shape if isinstance(shape, tuple) else (shape,)
        size = int(np.prod(sizes)) * np.dtype(dtype).itemsize
        room = (np.empty if cls.is_run else np.zeros)(size + 512, np.uint8)
        start = -room.ctypes.data % 256
        found = np.ndarray.__new__(cls, sizes, dtype, room.data, start)
        return found

    @property
    def data(self) -> Any:
        owner: Any = self
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        return Pointer(self.ctypes.data, owner)  # the room that all of its views are in

    @property
    def device(self) -> Any:
        return DeviceNumber()

    def get(self) -> Any:
        return np.array(self)


def on_device(x: Any) -> Any:
    """A result of NumPy's as the stand-in's."""
    if isinstance(x, tuple):
        return tuple(map(on_device, x))
    if isinstance(x, CupyArray) or not isinstance(x, (np.ndarray, np.generic)):
        return x
    made = CupyArray(x.shape, x.dtype)
    base = np.asarray(x)
    if base.ndim > 1 and not base.flags.c_contiguous:  # results keep the order of dimensions
        order = sorted(range(base.ndim), key=lambda d: -abs(base.strides[d]))
        made = CupyArray(tuple(base.shape[d] for d in order), x.dtype).transpose(np.argsort(order))
    made[...] = base
    return made


class Function:
    """A function of NumPy's whose results are the stand-in's."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.__name__ = fn.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return on_device(self.fn(*args, **kwargs))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.fn, name)
        return Function(found) if callable(found) else found


class StandIn(ToyLibrary):
    """The module."""

    ndarray = CupyArray  # type: ignore[assignment]

    def _find(self, name: str) -> Any:
        found = getattr(self.module, name)
        return Function(found) if callable(found) and not isinstance(found, type) else found

    asnumpy = staticmethod(lambda x: np.array(np.asarray(x)))

    @staticmethod
    def matmul(x: Any, y: Any) -> Any:
        """A product; that of halves is a half."""
        wide = np.result_type(x.dtype, np.float32) if x.dtype.itemsize == 2 else x.dtype
        out = np.matmul(np.asarray(x).astype(wide), np.asarray(y).astype(wide))
        return on_device(out.astype(x.dtype))

    @staticmethod
    def argsort(x: Any, axis: int = -1) -> Any:
        """As CuPy's, equal elements keep their order."""
        return on_device(np.argsort(np.asarray(x), axis, kind="stable"))

    def array(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return on_device(np.array(np.asarray(x), *args, **kwargs))


class Stream:
    ptr = 0

    def synchronize(self) -> None: ...


class Runtime:
    getDevice = staticmethod(lambda: 0)
    setDevice = staticmethod(lambda index: None)
    getDeviceCount = staticmethod(lambda: 1)
    deviceSynchronize = staticmethod(lambda: None)


class Cuda:
    runtime = Runtime()
    Device = staticmethod(lambda index=0: DeviceNumber())
    get_current_stream = staticmethod(Stream)


def install() -> Any:
    """Have `import cupy` find the stand-in."""
    made: Any = StandIn(np)
    made.special = StandIn(scipy.special)
    made.cuda = Cuda()
    sys.modules["cupy"] = made
    return made


# What native code launches: words, and what is called when they are filled in.
KERNELS: list[tuple[Any, Any]] = []


@ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 2,
    ctypes.POINTER(ctypes.c_void_p),
)  # fmt: skip
def LAUNCH_KERNEL(function: int | None, *sizes_and_extra: Any) -> int:
    """The driver's function, as the stand-in has it."""
    words, run = KERNELS[function or 0]
    extra = sizes_and_extra[-1]
    size = ctypes.c_size_t.from_address(extra[3]).value
    ctypes.memmove(words, extra[1], size)
    run(0)
    return 0


# How the stand-in's arrays are laid out: as NumPy's (Note [met launches]).
LAYOUT = """
define ptr @sizes_of(ptr %a) { %p = getelementptr i8, ptr %a, i64 32 %q = load ptr, ptr %p ret ptr %q }
define ptr @steps_of(ptr %a) { %p = getelementptr i8, ptr %a, i64 40 %q = load ptr, ptr %p ret ptr %q }
define i64 @dtype_of(ptr %a) { %p = getelementptr i8, ptr %a, i64 56 %q = load i64, ptr %p ret i64 %q }
define i64 @place_of(ptr %a) { %p = getelementptr i8, ptr %a, i64 16 %q = load i64, ptr %p ret i64 %q }
define i64 @rank_of(ptr %a) {
  %p = getelementptr i8, ptr %a, i64 24 %q = load i32, ptr %p %r = sext i32 %q to i64 ret i64 %r
}
define i64 @device_of(ptr %a) { ret i64 0 }
"""


class InterpretedGpu:
    """What launches kernels: Triton's interpreter, or nothing at all."""

    index = 0
    array = CupyArray

    def __init__(self, is_run: bool = True) -> None:
        from adjoint.engine.backends.triton.program.faults import FaultBoard

        self.is_run = is_run
        self.launched = 0
        self.empty = CupyArray
        self.faults = FaultBoard(self)

    @staticmethod
    def strided(shape: Any, dtype: Any, strides: Any) -> Any:
        """An array whose dimensions lie in the order of their steps."""
        order = sorted(range(len(shape)), key=lambda d: -strides[d])
        return CupyArray(tuple(shape[d] for d in order), dtype).transpose(np.argsort(order))

    def strider(self, shape: Any, strides: Any, dtype: Any) -> Callable[[], Any]:
        return lambda: self.strided(shape, dtype, strides)

    def read(self, word: Any) -> int:
        return int(word[0])

    def enter(self) -> tuple[int, Any]:
        return 0, None

    def leave(self, before: Any) -> None: ...

    @staticmethod
    def address(array: Any) -> int:
        return int(array.ctypes.data)

    def arguments(self, count: int) -> tuple[Any, int]:
        words = (ctypes.c_int64 * max(count, 1))()
        return words, ctypes.addressof(words)

    def tables(self, symbols: Any) -> Any:
        from adjoint.engine.backends.triton.program.tables import tables

        return tables(self, symbols)

    @staticmethod
    def pinned(count: int) -> Any:
        return np.empty(count, np.int64)

    @staticmethod
    def uploader(there: Any, staged: Any) -> Callable[[], None]:
        return lambda: np.copyto(there, staged)

    def mark(self, last: Any) -> None: ...

    def table(self, words: Any, start: int, count: int) -> Any:
        return Table(self, ctypes.addressof(words) + 8 * start)

    def launcher(self, name: str, work: Any, at: int, count: int) -> Callable[[int], None]:
        from adjoint.engine.backends.triton.templates.product import MatrixProduct

        if not self.is_run:
            return self.count
        from adjoint.engine.backends.triton.runtime.compile import function_of, scope
        from tests.triton_interpreter import Interpreter, Library, multiply

        if isinstance(work, MatrixProduct):

            def product(stream: int) -> None:
                self.count(0)
                multiply(Interpreter(), work, at)

            return product
        function = function_of(work.source, f"direct {name}", {**scope(), "libdevice": Library()})

        def run(stream: int) -> None:
            self.count(0)
            with np.errstate(all="ignore"):
                function[work.grid](*(ctypes.c_int64 * count).from_address(at))

        return run

    def together(self, works: Any, words: Any, patches: Any, room: int) -> Any:
        """All kernels by native code (Note [native launches]), which calls the interpreter."""
        from adjoint.engine.backends.triton.runtime import launching
        from adjoint.engine.backends.triton.templates.product import MatrixProduct

        if any(isinstance(work, MatrixProduct) or count < 0 for _, work, _, count in works):
            return None
        starts = [start for _, _, start, _ in works]
        into: list[Any] = [[] for _ in works]
        for which, at, plus in patches:
            n = bisect_right(starts, at) - 1
            into[n].append((at - starts[n], which, plus))
        launches = []
        for name, work, start, count in works:
            memory, at = self.arguments(count)
            KERNELS.append((memory, self.launcher(name, work, at, count)))
            told = [int(words[start + k]) for k in range(count)]
            launches.append(launching.PlainLaunch(len(KERNELS) - 1, 1, 1, 32, 0, told))
        record, held = launching.recorded(launches, into)
        KERNELS.append((record, held))
        run = launching.launch_all(launching.kernel_address(LAUNCH_KERNEL))
        return run, record.ctypes.data, lambda code, again: 1 // 0

    def workspace_on(self, stream: int) -> int:
        return 0

    def count(self, stream: int) -> None:
        self.launched += 1


class Table:
    """Words in memory."""

    def __init__(self, gpu: InterpretedGpu, address: int) -> None:
        self.gpu, self.address = gpu, address

    def launcher(self, name: str, work: Any) -> Callable[[int], None]:
        given, at = self.gpu.arguments(1)
        given[0] = self.address
        run = self.gpu.launcher(name, work, at, 1)
        return lambda stream, hold=given: run(stream)


def connect(is_run: bool = True) -> InterpretedGpu:
    """Eager mode on "cuda" by the stand-in; returns what launches its kernels."""
    install()
    CupyArray.is_run = is_run
    from adjoint.engine.backends.array import buffers, devices, executor
    from adjoint.engine.backends.array.gpu import transfers
    from adjoint.engine.backends.array.kernels.shape import copies
    from adjoint.engine.backends.triton.program import compile as programs
    from adjoint.engine.backends.triton.runtime import meeting
    from adjoint.engine.core.operations.record import HOOKS

    gpu = InterpretedGpu(is_run)
    found = HOOKS.meeting_on(CupyArray, LAYOUT)
    meet, HOOKS.meet_straight = found or (None, None)
    HOOKS.meet_on_device = lambda name, *given: meet(*given, 0, 0, 0)
    HOOKS.meet_into = lambda name, *given: meet(*given[:-1], 0, 0, 0, given[-1])
    meeting.ready = lambda: found is not None  # type: ignore[assignment]
    programs.direct_gpu = lambda index: gpu  # type: ignore[assignment]
    devices.install = lambda module: None  # NumPy has the memory
    plain = transfers.transfer

    def transfer(array: Any, device: Any, non_blocking: bool = False) -> Any:
        is_there = type(array) is CupyArray  # which is NumPy's to `isinstance`
        if device.type == "cpu":
            return transfers.on_host(array) if is_there else plain(array, device)
        return on_device(np.asarray(array))

    def to_host(array: Any) -> Any:
        return transfers.on_host(array) if type(array) is CupyArray else np.asarray(array)

    for module in (transfers, buffers, executor, copies):
        module.transfer = transfer  # type: ignore[attr-defined]
    buffers.to_host = to_host
    HOOKS.array.to_host = staticmethod(to_host)
    return gpu


@contextlib.contextmanager
def by_the_table() -> Any:
    """A block in which no operation is a fragment."""
    from adjoint.engine.core.state.context import CONTEXT

    with CONTEXT.having(reference=True):
        yield
