"""The array object: a Tensor whose operators follow the array API standard.

PyTorch's rules for 0-d operands, `//` of infinities and slices with negative steps differ from the
standard's, so they cannot both hold for one class. `Array` shares its memory and its place on the
tape with the tensor it is made of, and every function of Adjoint takes it as the Tensor it is.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.core.device import CPU
from adjoint.engine.core.dtype import DType, uint16, uint32, uint64
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.operations.overrides import disabled_torch_function
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.engine.tensor.watching import show

# Types the engine keeps but does not compute with; NumPy, whose functions conform, does it here.
WIDE_UNSIGNED = (uint16, uint32, uint64)
Function = TypeVar("Function", bound=Callable[..., Any])


class ElementCount(int):
    """The number of elements, which also answers PyTorch's `x.size()` and `x.size(0)`."""

    _shape: tuple[int, ...]

    def __new__(cls, shape: tuple[int, ...]) -> ElementCount:
        count = super().__new__(cls, int(np.prod(shape, dtype=np.int64)))
        count._shape = shape
        return count

    def __call__(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        return Size(self._shape) if dim is None else self._shape[dim]


class Array(Tensor):
    """A Tensor that computes by the array API standard.

    >>> from adjoint import array_api as xp
    >>> x = xp.asarray([1, 2, 3], dtype=xp.int8)
    >>> (x + xp.asarray(1, dtype=xp.int64)).dtype, x[::-1].tolist(), x.size
    (adjoint.int64, [3, 2, 1], 3)
    """

    __slots__ = ()
    __torch_function__ = staticmethod(disabled_torch_function)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return ElementCount(tuple(self._array.shape))

    @property
    def T(self) -> Any:
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ShapeValueError(
                f"T: expected a matrix, received shape {tuple(self.shape)}. Use mT."
            )
        return as_arrays(self.transpose(0, 1))

    @property
    def mT(self) -> Any:
        """The transpose of each matrix of a stack."""
        if self.ndim < 2:
            raise ShapeValueError(f"mT: expected matrices, received shape {tuple(self.shape)}")
        return as_arrays(self.transpose(-2, -1))

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The array on a device."""
        if stream is not None:
            raise ValueError("to_device: streams are chosen by `adjoint.cuda`; pass stream=None")
        return as_arrays(self.to(device))

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:  # fmt: skip
        given = {
            "stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy,
        }  # fmt: skip
        return Tensor.__dlpack__(self, **{k: v for k, v in given.items() if v is not None})

    def __iter__(self) -> Any:
        return iter(as_arrays(list(Tensor.__iter__(self))))


def as_arrays(result: Any) -> Any:
    """A result whose tensors are Arrays; containers keep their kind."""
    if isinstance(result, Tensor):
        return result if type(result) is Array else result.as_subclass(Array)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(as_arrays(part) for part in result))
    if isinstance(result, (tuple, list)):
        return type(result)(as_arrays(part) for part in result)
    return result


def standard(function: Function) -> Function:
    """A function of the namespace: what it gives are Arrays, and NumPy computes wide unsigned."""
    part = "" if function.__module__.rpartition(".")[2] not in ("linalg", "fft") else "linalg"

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _is_wide(args) or (kwargs and _is_wide(kwargs.values())):
            return by_numpy(function.__name__, part, args, kwargs)
        return as_arrays(function(*args, **kwargs))

    return call  # type: ignore[return-value]


def anything(function: Function) -> Function:
    """A function of the namespace that handles every dtype itself."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return as_arrays(function(*args, **kwargs))

    return call  # type: ignore[return-value]


def _is_wide(values: Any) -> bool:
    for value in values:
        if isinstance(value, Tensor):
            if value.dtype in WIDE_UNSIGNED:
                return True
        elif isinstance(value, (tuple, list)):
            if _is_wide(value):
                return True
        elif isinstance(value, DType) and value in WIDE_UNSIGNED:
            return True
    return False


def by_numpy(name: str, part: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """What NumPy's function of that name gives, as Arrays."""
    library = getattr(np, part) if part else np
    function = getattr(library, name, None)
    if function is None:
        raise NotImplementedError(
            f"{name}: not implemented for uint16, uint32 and uint64 with NumPy {np.__version__}. "
            "Convert first: astype(x, int64)."
        )
    kwargs = {key: value for key, value in kwargs.items() if key != "device"}
    given = {key: to_numpy(name, value) for key, value in kwargs.items()}
    return from_numpy(function(*(to_numpy(name, value) for value in args), **given))


def to_numpy(name: str, value: Any) -> Any:
    """A tensor's NumPy array, a dtype's NumPy dtype; anything else as it is."""
    if isinstance(value, Tensor):
        if value.device is not CPU:
            raise NotImplementedError(
                f"{name}: uint16, uint32 and uint64 are computed on the CPU only, received a "
                f"tensor on {value.device}. Move it there or convert it: astype(x, int64)."
            )
        return value.detach().numpy()
    if isinstance(value, DType):
        return NUMPY_OF[value]
    if isinstance(value, (tuple, list)):
        return type(value)(to_numpy(name, part) for part in value)
    return value


def from_numpy(result: Any) -> Any:
    """NumPy's results as Arrays."""
    if isinstance(result, (np.ndarray, np.generic)):
        array = np.asarray(result)
        shared = wrap(array if _is_plain(array) else np.array(array, order="C"))
        show(shared._storage)
        return as_arrays(shared)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(from_numpy(part) for part in result))
    if isinstance(result, (tuple, list)):
        return type(result)(from_numpy(part) for part in result)
    return result


def _is_plain(array: Any) -> bool:
    """Whether a tensor may show this memory: writable, with no negative steps."""
    return bool(array.flags.writeable) and all(step >= 0 for step in array.strides)


def namespace(self: Any, /, *, api_version: str | None = None) -> Any:
    """The module whose functions take this array."""
    module = sys.modules[__name__.rpartition(".")[0]]
    if api_version not in (None, *module.SUPPORTED_VERSIONS):
        raise ValueError(
            f"__array_namespace__: the standard of {api_version!r} is not supported, only "
            f"{', '.join(module.SUPPORTED_VERSIONS)}"
        )
    return module


setattr(Array, "__array_namespace__", namespace)  # noqa: B010
