"""Views of the same bytes as another dtype; real and imaginary parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import linear, primitive
from adjoint.engine.core.operations.public import PROPERTIES, method, public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.common.arguments import ints
from adjoint.engine.ops.common.memory_looks import place_in_memory
from adjoint.engine.ops.shape.views import viewed

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]
Window = tuple[Shape, int]


def _same_params(params: dict[str, Any], size: int) -> dict[str, Any]:
    return params


# -- complex as pairs of reals ------------------------------------------------------------------


def _as_real_window(x: Tensor) -> Window:
    return (*[2 * s for s in x.stride()], 1), 2 * x.storage_offset()


def _as_complex_window(x: Tensor) -> Window:
    return tuple([s // 2 for s in x.stride()[:-1]]), x.storage_offset() // 2


def _as_complex_infer(x: Spec) -> Spec:
    return Spec(x.shape[:-1], x.dtype.to_complex(), x.device)


# A gradient may lie anyhow in memory, and only pairs that lie together can be seen as complex.
VIEW_AS_REAL: Record = linear(
    "view_as_real",
    lambda x: Spec((*x.shape, 2), x.dtype.to_real(), x.device),
    lambda g: VIEW_AS_COMPLEX(g.contiguous()),
    window=_as_real_window,
    batched_params=_same_params,
    native_check=True,
    reinterprets=True,
)
VIEW_AS_COMPLEX: Record = linear(
    "view_as_complex",
    _as_complex_infer,
    lambda g: VIEW_AS_REAL(g),
    window=_as_complex_window,
    batch=lambda size, x: VIEW_AS_COMPLEX(x if pairs_adjoin(x) else x.contiguous()),
    native_check=True,
    reinterprets=True,
)


def pairs_adjoin(x: Tensor) -> bool:
    """Whether the last dimension's pairs can be read as complex numbers where they lie."""
    strides = x.stride()
    return (
        strides[-1] == 1
        and all(s % 2 == 0 or n == 1 for s, n in zip(strides[:-1], x.shape, strict=False))
        and place_in_memory(x) % 2 == 0
    )


@public()
def view_as_real(input: Tensor) -> Tensor:
    """A view of complex numbers as pairs of reals, in a new last dimension."""
    if not input.dtype.is_complex:
        raise DTypeError(
            f"view_as_real: is only supported for complex tensors, received {input.dtype.name}"
        )
    return VIEW_AS_REAL(input)


@public()
def view_as_complex(input: Tensor) -> Tensor:
    """A view of pairs of reals, the last dimension, as complex numbers."""
    if (
        input.dtype.to_real() is not input.dtype
        or input.dtype.to_complex().to_real() is not input.dtype
    ):
        raise DTypeError(
            "view_as_complex: is only supported for float32 and float64 tensors, received "
            f"{input.dtype.name}"
        )
    if not input.ndim:
        raise ShapeError("view_as_complex: input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise ShapeError(
            "view_as_complex: tensor must have a last dimension of size 2, received "
            f"{list(input.shape)}"
        )
    if not pairs_adjoin(input):
        raise ShapeError(
            "view_as_complex: the last dimension must have stride 1, the others and the storage "
            f"offset must be divisible by 2; received strides {input.stride()}, offset "
            f"{input.storage_offset()}. Call .contiguous() first."
        )
    return VIEW_AS_COMPLEX(input)


@public()
def real(input: Tensor) -> Tensor:
    """The real parts, as a view; a real tensor is returned as it is."""
    return VIEW_AS_REAL(input).select(-1, 0) if input.dtype.is_complex else input


@public()
def imag(input: Tensor) -> Tensor:
    """The imaginary parts of a complex tensor, as a view."""
    if not input.dtype.is_complex:
        raise DTypeError(
            "imag: is not implemented for tensors with non-complex dtypes, received "
            f"{input.dtype.name}"
        )
    return VIEW_AS_REAL(input).select(-1, 1)


# -- bytes as another dtype ---------------------------------------------------------------------


def _dtype_infer(x: Spec, dtype: DType) -> Spec:
    old, new = x.dtype.itemsize, dtype.itemsize
    shape = x.shape if old == new else (*x.shape[:-1], x.shape[-1] * old // new)
    return Spec(shape, dtype, x.device)


def _dtype_window(x: Tensor, dtype: DType) -> Window:
    old, new = x.dtype.itemsize, dtype.itemsize
    strides, offset = x.stride(), x.storage_offset()
    if old == new:
        return strides, offset
    return (*[s * old // new for s in strides[:-1]], 1), offset * old // new


VIEW_DTYPE: Record = primitive(
    "view_dtype",
    _dtype_infer,
    None,
    window=_dtype_window,
    batched_params=_same_params,
    native_check=True,
    reinterprets=True,
)


def _check_bytes(x: Tensor, dtype: DType) -> None:
    old, new = x.dtype.itemsize, dtype.itemsize
    if old == new:
        return
    if not x.ndim:
        raise DTypeError(
            f"view: self.dim() cannot be 0 to view {x.dtype.name} as {dtype.name} (different "
            "element sizes)"
        )
    strides = x.stride()
    if strides[-1] != 1 and x.shape[-1] != 1:
        raise DTypeError(
            f"view: self.stride(-1) must be 1 to view {x.dtype.name} as {dtype.name} (different "
            f"element sizes), but got {strides[-1]}"
        )
    if new > old:
        ratio = new // old
        places = (x.shape[-1], place_in_memory(x), *strides[:-1])
        if any(p % ratio for p in places):
            raise DTypeError(
                f"view: the last size, the storage offset and the other strides must be divisible "
                f"by {ratio} to view {x.dtype.name} as {dtype.name}, received shape "
                f"{list(x.shape)}, strides {strides}, offset {x.storage_offset()}"
            )


@method
def view(self: Tensor, *args: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """The same memory in another shape or as another dtype; an error where that needs a copy."""
    if len(args) == 1 and isinstance(args[0], DType):
        dtype, args = args[0], ()
    if dtype is None:
        return viewed(self, ints("view", args, size))
    if dtype is self.dtype:
        return viewed(self, tuple(self.shape))
    _check_bytes(self, dtype)
    return VIEW_DTYPE(self, dtype=dtype)


def _set_real(self: Tensor, value: Any) -> None:
    real(self).copy_(value)


def _set_imag(self: Tensor, value: Any) -> None:
    imag(self).copy_(value)


def _get_real(self: Tensor) -> Tensor:
    return real(self) if self.dtype.is_complex else self  # which has no program to look for


PROPERTIES["real"] = property(_get_real, _set_real, doc=real.__doc__)
PROPERTIES["imag"] = property(imag, _set_imag)
