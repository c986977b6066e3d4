"""Order: sort, topk, kthvalue, median, mode. Each finds positions; values are gathered there."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import float64, int64
from adjoint.engine.core.operations.families import composite, primitive
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS, LONG_LINE, is_large
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.operations.reductions import infer_reduction, shift_reduction
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.ops.common.arguments import whole
from adjoint.engine.ops.reduce.extremes import (
    picked,
    refuse_bool,
    refuse_complex,
    refuse_empty,
    share,
    share_tangent,
    to_picked,
)
from adjoint.engine.ops.reduce.scan import along, infer_positions, like, shift_dim
from adjoint.engine.ops.shape.convert import lying_as

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _infer_some(x: Spec, dim: int, k: int, **_: Any) -> Spec:
    return Spec((*x.shape[:dim], k, *x.shape[dim + 1 :]), int64, x.device)


def _infer_one(x: Spec, dim: int, **_: Any) -> Spec:
    return _infer_some(x, dim, 1)


FEW = 64  # elements of a line that are found one after another


def _is_long_line(operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    """Whether all elements are one long line; a graph cannot capture what sorts it."""
    array = operands[0]._array
    if array.size < LONG_LINE:
        return False
    shape = array.shape
    dims = params["dims"] if "dims" in params else (params["dim"],)
    long = LONG_LINE <= prod(shape[d] for d in dims) == prod(shape)
    return bool(long) and STREAM_CAPTURE.graph is None


def _takes_many(operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    """The same, of a line of which more are taken than are found one after another."""
    return bool(params["k"] > FEW) and _is_long_line(operands, params)


# Positions along `dim`; NaN is larger than every number. Equal elements of short rows, and of all
# if `stable`, keep their order.
ARGSORT = primitive(
    "argsort",
    infer_positions,
    None,
    batched_params=shift_dim,
    native_check=True,
    fragment="looped",
    by_table=_is_long_line,
    in_steps=True,
)
TOPK = primitive(
    "topk",
    _infer_some,
    None,
    batched_params=shift_dim,
    native_check=True,
    fragment="looped",
    by_table=_takes_many,
    in_steps=True,
)
KTHVALUE = primitive(
    "kthvalue",
    _infer_one,
    None,
    batched_params=shift_dim,
    native_check=True,
    fragment="looped",
    by_table=_is_long_line,
    in_steps=True,
)
# The lower median; with `omit` NaN do not count, else any NaN is the median.
ARGMEDIAN = primitive(
    "argmedian",
    _infer_one,
    None,
    batched_params=shift_dim,
    native_check=True,
    fragment="looped",
    by_table=_is_long_line,
    in_steps=True,
)
ARGMODE = primitive(
    "argmode", _infer_one, None, batched_params=shift_dim, native_check=True, fragment="looped"
)
# The median of all of `dims`, whose equal elements share the gradient as amax's do.
MEDIAN = primitive(
    "median",
    lambda x, dims, keepdim, omit: infer_reduction(x, dims, keepdim),
    share,
    jvp=share_tangent,
    batched_params=shift_reduction,
    native_check=True,
    fragment="device",  # of one line: NumPy's partition takes less than loops that order it
    by_table=_is_long_line,
)


def _sorted(x: Tensor, dim: int, descending: bool, stable: bool) -> tuple[Tensor, Tensor]:
    at = ARGSORT(x, dim=dim, descending=descending, stable=stable)
    return x.gather(dim, at), at


def _largest(x: Tensor, dim: int, k: int, largest: bool, in_order: bool) -> tuple[Tensor, Tensor]:
    at = TOPK(x, dim=dim, k=k, largest=largest, in_order=in_order)
    return x.gather(dim, at), at


# Positions and the values there as one fragment, where there is one: half of what each of two costs
# is the call. A long line on a GPU is put in order by one kernel of the eager table.
SORT = composite(
    "sort",
    _sorted,
    to_picked,
    operands=("x",),
    outputs=2,
    fragment="looped",
    by_table=_is_long_line,
)
LARGEST = composite("largest", _largest, to_picked, operands=("x",), outputs=2, fragment="looped")


def _is_whole(record: Record, x: Tensor) -> bool:
    """Whether a composition in the CPU's memory is a fragment, or one node of the tape."""
    return is_large(x._array, 1 if x.requires_grad else record.large) and CONTEXT.plain


def _is_one_call(x: Tensor, dim: int) -> bool:
    """Whether a line on a GPU, which nobody looks at, is put in order by one kernel."""
    array = x._array
    there = array.__class__ in DEVICE_LAYOUTS and array.dtype.names is None  # float8 has some
    plain = there and CONTEXT.plain and not x.requires_grad
    return plain and _is_long_line((x,), {"dim": dim})


@public(method=True, out=True)
def sort(input: Tensor, dim: Any = -1, descending: bool = False, stable: bool | None = None) -> Any:
    """Elements in order along `dim`, and where they were; equal elements keep their order.

    >>> import adjoint as ad
    >>> ad.tensor([3, 1, 2]).sort().values
    tensor([1, 2, 3])
    """
    if isinstance(dim, bool):  # sort(x, stable): flags in another order are keywords in PyTorch
        raise TypeError(f"sort: dim must be an int, received {dim!r}")
    refuse_complex("sort", input)
    x, d = along("sort", input, dim)
    order = SORT if _is_whole(SORT, x) or _is_one_call(x, d) else _sorted
    values, at = order(x, dim=d, descending=descending, stable=bool(stable))
    values, at = (lying_as(input, like(input, found)) for found in (values, at))
    return RETURN_TYPES["sort"](values, at)


@public(method=True)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The positions that put the elements in order along `dim`.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([3, 1, 2]).argsort()
        tensor([1, 2, 0])
    """
    refuse_complex("argsort", input)
    x, d = along("argsort", input, dim)
    at = like(input, ARGSORT(x, dim=d, descending=descending, stable=stable))
    return lying_as(input, at)


@public(method=True, out=True)
def msort(input: Tensor) -> Tensor:
    """Elements in order along the first dimension."""
    return sort(input, 0).values


@public(method=True, out=True)
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest (or smallest) elements along `dim`, and where they are.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([3, 1, 2]).topk(2).values
        tensor([3, 2])
    """
    refuse_complex("topk", input)
    refuse_bool("topk", input)
    k = whole("topk", "k", k)
    x, d = along("topk", input, dim)
    if not input.ndim and not k:
        k = 1  # as in PyTorch: what has no dimension is not cut off
    if not 0 <= k <= x.shape[d]:
        raise RuntimeError(
            f"topk: selected index k out of range: k={k}, dimension {d} has size {x.shape[d]}"
        )
    order = LARGEST if k and _is_whole(LARGEST, x) else _largest
    values, at = order(x, dim=d, k=k, largest=largest, in_order=sorted)
    if not input.ndim and k == 1:
        values, at = values.reshape(()), at.reshape(())
    return RETURN_TYPES["topk"](values, at)


@public(method=True, out=True)
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest element along `dim` (counting from 1), and where it is."""
    refuse_bool("kthvalue", input)
    k = whole("kthvalue", "k", k)

    def positions(x: Tensor, d: int) -> Tensor:
        if not 1 <= k <= x.shape[d]:
            raise RuntimeError(
                f"kthvalue: selected number k out of range for dimension {d}: received k={k}, "
                f"the dimension has size {x.shape[d]}"
            )
        return KTHVALUE(x, dim=d, k=k)

    return picked("kthvalue", input, dim, keepdim, positions)


def _median(name: str, input: Tensor, dim: int | None, keepdim: bool, omit: bool) -> Any:
    refuse_bool(name, input)
    if dim is None:
        if keepdim:
            raise TypeError(f"{name}: keepdim is for one dimension. Name it with dim=.")
        refuse_complex(name, input)
        if input.numel() == 0:
            nan = input.new_full((), float("nan"), dtype=float64)
            return nan.to(input.dtype)  # of integers, what NaN is as one
        return MEDIAN(input, dims=tuple(range(input.ndim)), keepdim=False, omit=omit)
    return picked(name, input, dim, keepdim, lambda x, d: ARGMEDIAN(x, dim=d, omit=omit))


@public(method=True, out=True)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median (of an even number the lower one); with `dim` (values, indices).

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([3, 1, 2]).median()
        tensor(2)
    """
    return _median("median", input, dim, keepdim, omit=False)


@public(method=True, out=True)
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of the elements that are not NaN; with `dim` (values, indices)."""
    return _median("nanmedian", input, dim, keepdim, omit=True)


@public(method=True, out=True)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element along `dim`, and where it is last.

    Of several that are as frequent it is the smallest, on every device. So it is in PyTorch on the
    CPU; on a GPU PyTorch may give another of them.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([3, 1, 3, 1, 2]).mode()
        adjoint.return_types.mode(
        values=tensor(1),
        indices=tensor(3))
    """
    refuse_empty("mode", input.shape, dim if input.ndim else None)
    return picked("mode", input, dim, keepdim, lambda x, d: ARGMODE(x, dim=d))
