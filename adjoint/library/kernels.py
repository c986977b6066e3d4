"""Kernels of one's own, called inside a custom operation: Triton, CUDA C, LLVM.

Each is an object that is given a grid (Triton, CUDA C) and then arguments: tensors stand for the
address of their first element, numbers for themselves. What it writes to are tensors that the
operation has made.

Example:
    >>> import adjoint as ad
    >>> scale = llvm_kernel(
    ...     '''
    ... define void @scale(ptr %x, ptr %out, i64 %n, double %by) {
    ... entry:
    ...   br label %loop
    ... loop:
    ...   %i = phi i64 [ 0, %entry ], [ %next, %loop ]
    ...   %from = getelementptr double, ptr %x, i64 %i
    ...   %to = getelementptr double, ptr %out, i64 %i
    ...   %a = load double, ptr %from
    ...   %b = fmul double %a, %by
    ...   store double %b, ptr %to
    ...   %next = add i64 %i, 1
    ...   %more = icmp slt i64 %next, %n
    ...   br i1 %more, label %loop, label %end
    ... end:
    ...   ret void
    ... }
    ... ''',
    ...     "scale",
    ... )
    >>> x = ad.arange(3.0, dtype=ad.float64)
    >>> out = ad.empty_like(x)
    >>> scale(x, out, x.numel(), 2.0)
    >>> out
    tensor([0., 2., 4.], dtype=adjoint.float64)
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.core.errors import DeviceError
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.watching import show
from adjoint.library.functions import custom_op

# Triton's names of types, as pointers point to them.
POINTED = {
    "bool": "i1", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
}  # fmt: skip
LAUNCH_OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion")


def triton_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any = (),
    schema: Any = None,
) -> Any:
    """`custom_op` for a function that launches Triton kernels (`wrap_triton`)."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(kernel: Any) -> TritonKernel:
    """A `@triton.jit` function, launched by Adjoint: `wrap_triton(kernel)[grid](x, n, BLOCK=64)`.

    On a CUDA device it is compiled by Triton and launched on the current stream; on the CPU it runs
    where Triton's interpreter does (`TRITON_INTERPRET=1`), and is refused otherwise.
    """
    return TritonKernel(kernel)


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """A Triton kernel that waits for its grid."""

    kernel: Any

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: self.launch(grid, args, kwargs)

    @property
    def interpreted(self) -> bool:
        """Whether Triton's interpreter runs it."""
        return type(self.kernel).__name__ == "InterpretedFunction"

    def launch(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run it once for each point of the grid."""
        called = f"wrap_triton({getattr(self.kernel, '__name__', self.kernel)!s})"
        options = {k: kwargs.pop(k) for k in LAUNCH_OPTIONS if k in kwargs}
        if not hasattr(self.kernel, "arg_names") or not hasattr(self.kernel, "fn"):
            raise TypeError(
                f"{called}: a function decorated by @triton.jit is wanted, received "
                f"{type(self.kernel).__name__}. Decorators around it (autotune, heuristics) are "
                "not taken: choose the constants yourself."
            )
        given = {**dict(zip(self.kernel.arg_names, args, strict=False)), **kwargs}
        devices = {x.device for x in given.values() if isinstance(x, Tensor)}
        if len(devices) != 1:
            raise DeviceError(
                f"{called}: its tensors must be on one device, received "
                f"{', '.join(sorted(map(str, devices))) or 'no tensors'}"
            )
        device = devices.pop()
        blocks = tuple(grid(given)) if callable(grid) else tuple(grid)
        if device.type == "cuda":
            _launch_on_gpu(self.kernel, blocks, given, options, device.index or 0)
        elif self.interpreted:
            pointers = {k: Pointer(v) if isinstance(v, Tensor) else v for k, v in given.items()}
            self.kernel[blocks](**pointers)
        else:
            raise DeviceError(
                f"{called}: its tensors are on {device}, for which Triton makes no code. Move them "
                "to a CUDA device, or run under Triton's interpreter (TRITON_INTERPRET=1)."
            )


class Pointer:
    """A tensor of the CPU's as Triton's interpreter takes one: it reads and writes the memory."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor  # which keeps the memory
        self.dtype = tensor.dtype.name

    def data_ptr(self) -> int:
        """The address of its first element."""
        show(self.tensor._storage)
        return int(self.tensor._array.ctypes.data)

    # The interpreter copies tensors to the host and back: these are there.
    def untyped_storage(self) -> Pointer:
        return self

    cpu = untyped_storage

    def new_empty(self, *_: Any, **__: Any) -> Pointer:
        return self

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return ()

    stride = size

    def set_(self, *_: Any) -> None:
        return None

    copy_ = set_


# -- on a GPU --------------------------------------------------------------------------------------


def typed(kernel: Any, given: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """The types that a kernel is compiled for, and its constants, by the names of its arguments."""
    constant = {p.name for p in kernel.params if p.is_constexpr}
    signature, constants = {}, {}
    for name in kernel.arg_names:
        if name not in given:
            raise TypeError(f"{kernel.__name__}: its argument {name!r} is missing")
        value = given[name]
        if name in constant or value is None:
            signature[name], constants[name] = "constexpr", value
        elif isinstance(value, Tensor):
            signature[name] = "*" + POINTED[value.dtype.name]
        elif isinstance(value, bool):
            signature[name] = "i1"
        elif isinstance(value, int):
            signature[name] = "i32" if -(2**31) <= value < 2**31 else "i64"
        elif isinstance(value, float):
            signature[name] = "fp32"
        else:
            raise TypeError(
                f"{kernel.__name__}: its argument {name!r} is a {type(value).__name__}. Tensors "
                "and numbers are taken, all else as tl.constexpr."
            )
    return signature, constants


def compiled_for(
    kernel: Any, given: dict[str, Any], options: dict[str, Any], capability: int
) -> Any:
    """A kernel's code for a compute capability; no GPU is needed for it."""
    triton = importlib.import_module("triton")
    compiler = importlib.import_module("triton.compiler")
    targets = importlib.import_module("triton.backends.compiler")
    signature, constants = typed(kernel, given)
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = compiler.ASTSource(fn=kernel, signature=signature, constexprs=places, attrs={})
    return triton.compile(
        source,
        target=targets.GPUTarget("cuda", capability, 32),
        options={"enable_fp_fusion": True, **options},  # Triton's default, said aloud
    )


NUMBERS = {"i1": np.int8, "i32": np.int32, "i64": np.int64, "fp32": np.float32}
SHARED = 48 << 10  # bytes of shared memory that need not be asked for
MAX_SHARED = 8  # the attribute of a function that asks for more
_LOADED: dict[Any, tuple[Any, Any]] = {}


def _launch_on_gpu(
    kernel: Any, grid: tuple[int, ...], given: dict[str, Any], options: dict[str, Any], index: int
) -> None:
    module = cupy()
    signature, constants = typed(kernel, given)
    key = (kernel, index, *signature.items(), repr(constants), *sorted(options.items()))
    with module.cuda.Device(index) as device:
        if key not in _LOADED:
            compiled = compiled_for(kernel, given, options, int(device.compute_capability))
            code = module.cuda.function.Module()
            code.load(compiled.asm["cubin"])
            function = code.get_function(compiled.metadata.name)
            if compiled.metadata.shared > SHARED:
                module.cuda.driver.funcSetAttribute(
                    function.ptr, MAX_SHARED, compiled.metadata.shared
                )
            _LOADED[key] = function, compiled.metadata
        function, metadata = _LOADED[key]
        blocks = (*grid, 1, 1)[:3]
        size = int(getattr(metadata, "global_scratch_size", 0) or 0) * int(np.prod(blocks))
        scratch = module.empty(size, np.uint8) if size else None
        words: list[Any] = [
            np.uint64(given[n]._array.data.ptr) if t[0] == "*" else NUMBERS[t](given[n])
            for n, t in signature.items()
            if t != "constexpr"
        ]
        words += [np.uint64(0 if scratch is None else scratch.data.ptr), np.uint64(0)]
        function(blocks, (metadata.num_warps * 32, 1, 1), tuple(words), shared_mem=metadata.shared)


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A kernel in CUDA C, compiled by NVRTC through CuPy when it is first launched."""

    source: str
    name: str
    options: tuple[str, ...] = ()

    def __getitem__(self, shape: Any) -> Callable[..., None]:
        grid, block = shape

        def launch(*args: Any) -> None:
            kernel = cupy().RawKernel(self.source, self.name, options=self.options)
            kernel(tuple(grid), tuple(block), tuple(map(self._word, args)))

        return launch

    def _word(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value  # as CuPy takes numbers: NumPy's of the type that the kernel declares
        if value.device.type != "cuda":
            raise DeviceError(
                f"cuda_kernel {self.name}: its tensors must be on a CUDA device, received one on "
                f"{value.device}. Move it there with .to('cuda')."
            )
        return value._array


def cuda_kernel(source: str, name: str, options: tuple[str, ...] = ()) -> CudaKernel:
    """A kernel in CUDA C: `cuda_kernel(source, "name")[grid, block](x, out, np.int32(n))`.

    Args:
        source: CUDA C, with the kernel declared `extern "C" __global__`.
        name: the kernel's.
        options: NVRTC's.
    """
    return CudaKernel(source, name, tuple(options))


# -- on the CPU ------------------------------------------------------------------------------------


def llvm_kernel(source: str, name: str) -> Callable[..., None]:
    """A function in LLVM IR that takes addresses (`ptr`), `i64` and `double`, and returns nothing.

    Args:
        source: the text of a module, verified and compiled for this processor.
        name: the function's; tensors given to it are contiguous and on the CPU.
    """
    jit = importlib.import_module("adjoint.engine.backends.llvm.runtime.jit")
    linked = jit.link(jit.assemble(source))
    address = linked.address(name)

    def call(*args: Any) -> None:
        words = [_host_word(name, x) for x in args]
        kinds = [type(w) for w in words]
        ctypes.CFUNCTYPE(None, *kinds)(address)(*words)

    call.__name__ = name
    call.linked = linked  # type: ignore[attr-defined]  # the code lives as long as this does
    return call


def _host_word(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        if value.device.type != "cpu" or not value.is_contiguous():
            where = (
                f"on {value.device}"
                if value.device.type != "cpu"
                else f"of strides {value.stride()}"
            )
            raise RuntimeError(
                f"llvm_kernel {name}: its tensors must be contiguous and on the CPU, received one "
                f"{where}. Give it x.contiguous() or x.cpu()."
            )
        show(value._storage)
        return ctypes.c_void_p(int(value._array.ctypes.data))
    if isinstance(value, int):
        return ctypes.c_int64(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    raise TypeError(
        f"llvm_kernel {name}: tensors, integers and floats are taken, received "
        f"{type(value).__name__}"
    )
