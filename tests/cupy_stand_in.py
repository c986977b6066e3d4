"""A stand-in for CuPy: its arrays are NumPy's of a class of their own, on a device that is none.

With Triton's interpreter it runs eager mode on "cuda" without a GPU, in a process of its own
(`tests/test_cuda_fragments.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import sys
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import scipy.special

from tests.toy_device import ToyLibrary


class Pointer:
    """Where an array begins, and in whose memory."""

    def __init__(self, ptr: int, mem: Any = None) -> None:
        self.ptr, self.device_id, self.mem = ptr, 0, mem

    def __add__(self, count: int) -> Pointer:
        return Pointer(self.ptr + count, self.mem)

    def memset_async(self, value: int, size: int) -> None:
        ctypes.memset(self.ptr, value, size)

    def copy_from_device_async(self, source: Pointer, size: int) -> None:
        ctypes.memmove(self.ptr, source.ptr, size)

    def copy_to_host_async(self, address: int, size: int) -> None:
        ctypes.memmove(address, self.ptr, size)


class DeviceNumber:
    id = 0

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def use(self) -> None: ...


def address_of(array: Any) -> int:
    """Where an array begins: `ctypes.data` takes longer than what the host is timed for."""
    return int(array.__array_interface__["data"][0])


LARGE = 1 << 15  # bytes


def keep_large_memory() -> None:
    """Have the C library keep large memory that nobody has: to map it anew takes 50 us."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # glibc
        library.mallopt(-4, 0)  # M_MMAP_MAX
        library.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD


class CupyArray(np.ndarray[Any, Any]):
    """An array that only the stand-in's functions may touch."""

    is_run = True  # whether kernels write to it
    handed_out = False  # whether it has memory that only it and its views show, as a pool's block

    def __new__(
        cls, shape: Any, dtype: Any = np.float64, memptr: Any = None, strides: Any = None
    ) -> CupyArray:
        sizes = shape if isinstance(shape, tuple) else (shape,)
        if memptr is not None:  # a view of what is there, which its room keeps
            least = memptr.mem.ctypes.data
            size = memptr.mem.nbytes + 512
            room: Any = (ctypes.c_char * size).from_address(least)
            room.held = memptr.mem
            found = np.ndarray.__new__(cls, sizes, dtype, room, memptr.ptr - least, strides)
            found.__dict__["pointer"] = memptr
            return found
        size = prod(sizes) * np.dtype(dtype).itemsize
        # What kernels do not write to is zero, where that takes no time.
        room = (np.empty if cls.is_run or size > LARGE else np.zeros)(size + 512, np.uint8)
        start = -address_of(room) % 256
        found = np.ndarray.__new__(cls, sizes, dtype, room.data, start)
        found.handed_out = True
        return found

    @property
    def data(self) -> Any:
        found = self.__dict__.get("pointer")
        if found is None:  # as of CuPy's arrays, which have it at once
            owner: Any = self
            while isinstance(owner.base, CupyArray):
                owner = owner.base
            known = owner.__dict__.get("pointer")
            # The room that all of its views are in.
            room = owner if known is None else known.mem
            found = self.__dict__["pointer"] = Pointer(address_of(self), room)
        return found

    @property
    def device(self) -> Any:
        return DeviceNumber()

    def get(self) -> Any:
        return np.array(self)

    def min(self, axis: Any = None, out: Any = None, keepdims: Any = False, **_: Any) -> Any:
        refuse_to_fill(out)
        return np.ndarray.min(self, axis, keepdims=keepdims)

    def max(self, axis: Any = None, out: Any = None, keepdims: Any = False, **_: Any) -> Any:
        refuse_to_fill(out)
        return np.ndarray.max(self, axis, keepdims=keepdims)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        """As CuPy's functions of elements, their results lie in rows whatever operands do."""
        into = kwargs.pop("out", ())
        if into:
            kwargs["out"] = tuple([None if x is None else on_host(x) for x in into])
        found = getattr(ufunc, method)(*map(on_host, args), **kwargs)
        several = found if isinstance(found, tuple) else (found,)
        kept = into or (None,) * len(several)
        made = [in_rows(x) if o is None else o for x, o in zip(several, kept, strict=True)]
        return None if found is None else tuple(made) if isinstance(found, tuple) else made[0]


def refuse_to_fill(out: Any) -> None:
    """CuPy's least and greatest elements go through CUB where they can, which fills no array."""
    if out is not None:
        raise TypeError("an extreme of CuPy's cannot be put into an array that is there")


def on_host(x: Any) -> Any:
    """An array of the stand-in's as NumPy's, of the same memory."""
    return np.asarray(x) if isinstance(x, CupyArray) else x


def in_rows(x: Any) -> Any:
    """A result of NumPy's as the stand-in's, row by row."""
    if not isinstance(x, (np.ndarray, np.generic)):
        return x
    made = CupyArray(x.shape, x.dtype)
    np.copyto(np.asarray(made), np.asarray(x))
    return made


def on_device(x: Any) -> Any:
    """What lies on the host as the stand-in's, which lies the same way."""
    base = np.asarray(x)
    made = CupyArray(base.shape, base.dtype)
    if base.ndim > 1 and not base.flags.c_contiguous:
        order = sorted(range(base.ndim), key=lambda d: -abs(base.strides[d]))
        sizes = tuple(base.shape[d] for d in order)
        made = CupyArray(sizes, base.dtype).transpose(np.argsort(order))
    made[...] = base
    return made


def shown(view: Any, source: CupyArray) -> CupyArray:
    """A view of an array that may be written to."""
    at = source.data + (view.ctypes.data - source.ctypes.data)
    return CupyArray(view.shape, view.dtype, at, view.strides)


# What gives a new array that lies as one that is there; all else of CuPy's gives rows. Of views
# NumPy forbids some to be written to.
KEEPING = frozenset({"copy", "empty_like", "full_like", "ones_like", "zeros_like"})
SHOWING = frozenset({"broadcast_to", "broadcast_arrays", "diagonal"})


class Function:
    """A function of NumPy's whose results are the stand-in's."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.__name__ = fn.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self.fn(*args, **kwargs)
        if self.__name__ not in SHOWING:
            return self.given(found)
        if not isinstance(found, tuple):
            return shown(found, args[0])
        return tuple([shown(x, source) for x, source in zip(found, args, strict=True)])

    def given(self, x: Any) -> Any:
        """A result: a view stays one."""
        if isinstance(x, tuple):
            return tuple(map(self.given, x))
        if isinstance(x, CupyArray) and not x.flags.owndata:
            return x
        if self.__name__ in KEEPING:
            return x if isinstance(x, CupyArray) else on_device(x)
        return in_rows(x)

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

    @staticmethod
    def asarray(x: Any, dtype: Any = None) -> Any:
        """An array of the stand-in's: itself, if it is one."""
        is_one = isinstance(x, CupyArray) and (dtype is None or x.dtype == dtype)
        return x if is_one else on_device(np.asarray(x, dtype))

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


class PinnedMemory:
    """Page-locked memory."""

    def __init__(self, size: int) -> None:
        self.words = (ctypes.c_byte * size)()
        self.ptr = ctypes.addressof(self.words)


class Cuda:
    runtime = Runtime()
    alloc_pinned_memory = staticmethod(PinnedMemory)
    Device = staticmethod(lambda index=0: DeviceNumber())
    get_current_stream = staticmethod(Stream)
    alloc = staticmethod(lambda size: CupyArray((size,), np.uint8).data)


def install() -> Any:
    """Have `import cupy` find the stand-in."""
    made: Any = StandIn(np)
    made.special = StandIn(scipy.special)
    made.cuda = Cuda()
    sys.modules["cupy"] = made
    return made


# What native code launches: kernels, given a grid and words, and products.
KERNELS: list[Callable[[tuple[int, int], Any], None]] = []
PRODUCTS: list[Callable[[Any], None]] = []
BIASES: dict[int, int] = {}  # what was set last, by the number of a product


@ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 2,
    ctypes.POINTER(ctypes.c_void_p),
)  # fmt: skip
def LAUNCH_KERNEL(function: int | None, across: int, down: int, *rest: Any) -> int:
    """The driver's function, as the stand-in has it."""
    extra = rest[-1]
    size = ctypes.c_size_t.from_address(extra[3]).value
    KERNELS[function or 0]((across, down), (ctypes.c_int64 * (size // 8)).from_address(extra[1]))
    return 0


@ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 14, ctypes.c_size_t, ctypes.c_void_p)
def MULTIPLY(handle: int | None, description: int, *rest: Any) -> int:
    """cuBLASLt's product."""
    _, b, _, a, _, _, c, *_ = rest
    PRODUCTS[description - 1]((ctypes.c_int64 * 4)(a, b, c, BIASES.get(description, 0)))
    return 0


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
def SET_BIAS(description: int, attribute: int, at: int, size: int) -> int:
    """cuBLASLt's function that tells a product its bias."""
    BIASES[description] = ctypes.c_int64.from_address(at).value
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


WORKSPACE = 64  # an address that nothing reads; without one native code finds no product


class InterpretedGpu:
    """What launches kernels: Triton's interpreter, or nothing at all."""

    index = 0

    def __init__(self, is_run: bool = True) -> None:
        from adjoint.engine.backends.triton.program.faults import FaultBoard

        self.is_run = is_run
        self.launched = 0
        self.asked: list[str] = []  # kernels that nobody waits for
        self.functions: dict[str, int] = {}  # of kernels, by name
        self.empty = CupyArray
        self.faults = FaultBoard(self)

    @staticmethod
    def strided(shape: Any, dtype: Any, strides: Any) -> Any:
        """An array whose dimensions lie in the order of their steps."""
        order = sorted(range(len(shape)), key=lambda d: -strides[d])
        return CupyArray(tuple(shape[d] for d in order), dtype).transpose(np.argsort(order))

    def maker(self, shape: Any, dtype: Any, strides: Any = None) -> Callable[[int], Any]:
        if strides is None:
            return lambda stream: CupyArray(shape, dtype)
        return lambda stream: self.strided(shape, dtype, strides)

    def read(self, word: Any, streams: Any = ()) -> int:
        return int(word[0])

    @staticmethod
    def clear(word: Any) -> None:
        word[:] = 0

    stream = Stream

    def enter(self) -> tuple[int, Any]:
        return 0, None

    def leave(self, before: Any) -> None: ...

    @staticmethod
    def address(array: Any) -> int:
        return address_of(array)

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

        words = (ctypes.c_int64 * max(count, 1)).from_address(at)
        if isinstance(work, MatrixProduct):
            multiply = self.product(work)
            return lambda stream: multiply(words)
        kernel = self.kernel(name, work)
        return lambda stream: kernel(work.grid, words)

    def kernel(self, name: str, work: Any) -> Callable[[tuple[int, int], Any], None]:
        """What runs a kernel, given its grid and its words."""
        if not self.is_run:
            return lambda grid, words: self.count()
        from adjoint.engine.backends.triton.runtime.compile import function_of, scope
        from tests.triton_interpreter import Library

        function = function_of(work.source, f"direct {name}", {**scope(), "libdevice": Library()})

        def run(grid: tuple[int, int], words: Any) -> None:
            self.count()
            with np.errstate(all="ignore"):
                function[grid](*words)

        return run

    def product(self, work: Any) -> Callable[[Any], None]:
        """What multiplies, given addresses."""
        if not self.is_run:
            return lambda words: self.count()
        from tests.triton_interpreter import Interpreter, multiply

        def run(words: Any) -> None:
            self.count()
            multiply(Interpreter(), work, ctypes.addressof(words))

        return run

    def together(self, works: Any, words: Any, patches: Any, room: int) -> Any:
        """All kernels by native code (Note [native launches]), which calls the interpreter."""
        from adjoint.engine.backends.triton.runtime import launching

        into = launching.by_work(works, patches)
        launches = []
        for (name, work, start, count), own in zip(works, into, strict=True):
            launch = self.plain(name, work, count, own)
            if launch is None:
                return None
            if launch.is_product:
                own.append((launching.ROOM, room, 0))
            else:
                launch = replace(launch, words=[int(words[start + k]) for k in range(count)])
            launches.append(launch)
        run = launching.launch_all(launching.kernel_address(LAUNCH_KERNEL))
        record = launching.recorded(launches, into)
        return launching.NativeLaunches(run, record, lambda code, again: 1 // 0)

    def plain(self, name: str, work: Any, count: int, into: Any) -> Any:
        """A launch without its words; of a product with them."""
        from adjoint.engine.backends.triton.runtime import launching
        from adjoint.engine.backends.triton.templates.product import MatrixProduct

        if count < 0:
            return None
        if isinstance(work, MatrixProduct):
            PRODUCTS.append(self.product(work))
            told = [0] * (launching.ATTRIBUTE + 1)
            told[launching.DESCRIPTION] = len(PRODUCTS)
            told[launching.SET] = launching.kernel_address(SET_BIAS) if work.biased else 0
            function = launching.kernel_address(MULTIPLY)
            return launching.PlainLaunch(function, 1, 1, 0, 0, told, Held(work))
        if name not in self.functions:
            KERNELS.append(self.kernel(name, work))
            self.functions[name] = len(KERNELS) - 1
        return launching.PlainLaunch(self.functions[name], *work.grid, 32, 0, ())

    def ask(self, works: Any) -> None:
        self.asked += [name for name, work, _, _ in works if hasattr(work, "source")]

    def workspace_on(self, stream: int) -> int:
        return WORKSPACE

    def count(self) -> None:
        self.launched += 1


class Held:
    """What a launch of a product holds."""

    def __init__(self, product: Any) -> None:
        self.product = product


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
    if not is_run:
        keep_large_memory()
        calls = importlib.import_module("adjoint.engine.graph.eager.device_calls")
        calls.alike_there = lambda a, b, loosely: True  # nothing is computed
    from adjoint.engine.backends.array import buffers, devices, executor
    from adjoint.engine.backends.array.gpu import transfers
    from adjoint.engine.backends.array.kernels.shape import copies
    from adjoint.engine.backends.triton.program import compile as programs
    from adjoint.engine.backends.triton.runtime import meeting
    from adjoint.engine.core.operations.record import HOOKS

    gpu = InterpretedGpu(is_run)
    found = HOOKS.meeting_on(CupyArray, LAYOUT)
    meet, HOOKS.meet_straight, HOOKS.note_there, HOOKS.show_there = found or (None,) * 4
    here = 0, 0, WORKSPACE  # device, stream, and where products have their workspace

    def meet_on_device(
        name: str, programs: Any, operands: Any, params: Any, rest: Any, record: Any = None
    ) -> Any:
        return meet(programs, operands, params, rest, *here, record)

    HOOKS.meet_on_device = meet_on_device
    HOOKS.meet_into = lambda name, *given: meet(*given[:-1], *here, None, given[-1])
    meeting.ready = lambda: found is not None  # type: ignore[assignment]
    programs.direct_gpu = lambda index: gpu  # type: ignore[assignment]
    devices.install = lambda module: None  # NumPy has the memory
    plain = transfers.transfer

    def transfer(array: Any, device: Any, non_blocking: bool = False) -> Any:
        is_there = type(array) is CupyArray  # which is NumPy's to `isinstance`
        if device.type == "cpu":
            return transfers.on_host(array) if is_there else plain(array, device)
        return array if is_there else on_device(np.asarray(array))

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
