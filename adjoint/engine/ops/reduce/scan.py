"""Scans: running sums, products and extremes along a dimension.

Note [linear recurrence]
    y[t] = b[t] + a[t] * y[t-1] is one primitive, LINEAR_SCAN. Its derivatives are recurrences of
    the same form, and so are those of cumprod and logcumsumexp, written without any division: they
    stay right where elements are zero, to every order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import (
    DType,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int64,
)
from adjoint.engine.core.operations.families import composite, linear, primitive
from adjoint.engine.core.operations.large import is_large
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.spec import Spec, wrap_dim
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.reduce.reduction import in_dtype
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def shift_dim(params: dict[str, Any], size: int) -> dict[str, Any]:
    """The same operation along one dimension, with a batch dimension in front."""
    return {**params, "dim": params["dim"] + 1}


def infer_along(x: Spec, *_: Spec, **__: Any) -> Spec:
    """An operation along a dimension that keeps shape and dtype."""
    return x


def infer_positions(x: Spec, **_: Any) -> Spec:
    """Positions along a dimension, one per element."""
    return Spec(x.shape, int64, x.device)


def delay(x: Tensor, dim: int, reverse: bool, fill: int = 0) -> Tensor:
    """x one step later along `dim` (earlier if `reverse`); `fill`, 0 or 1, enters."""
    n = x.shape[dim]
    if n == 0:
        return x
    shape = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    edge = x.new_zeros(shape) if fill == 0 else x.new_ones(shape)
    if reverse:
        return cat([x.narrow(dim, 1, n - 1), edge], dim)
    return cat([edge, x.narrow(dim, 0, n - 1)], dim)


CUMSUM: Record = linear(
    "cumsum",
    infer_along,
    lambda g, dim, reverse: CUMSUM(g, dim=dim, reverse=not reverse),
    keeps_layout=True,
    batched_params=shift_dim,
    native_check=True,
    running=True,
    fragment="computed",
)


def _scan_offset(g: Tensor, x: Tensor, dim: int, reverse: bool) -> Tensor:
    """The cotangent of b: the recurrence run backwards."""
    return LINEAR_SCAN(delay(x, dim, not reverse).conj(), g, dim=dim, reverse=not reverse)


def _scan_tangent(
    tx: Any, ty: Any, x: Tensor, out: Tensor, dim: int, reverse: bool
) -> Tensor | None:
    push = ty
    if tx is not None:
        carried = tx * delay(out, dim, reverse)
        push = carried if ty is None else carried + ty
    return LINEAR_SCAN(x, push, dim=dim, reverse=reverse)


# LINEAR_SCAN(a, b, dim, reverse): y[t] = b[t] + a[t] * y[t-1], or y[t+1] if reverse.
LINEAR_SCAN: Record = primitive(
    "linear_scan",
    infer_along,
    lambda g, x, out, dim, reverse: (
        _scan_offset(g, x, dim, reverse) * delay(out, dim, reverse).conj()
    ),
    _scan_offset,
    jvp=_scan_tangent,
    batched_params=shift_dim,
    native_check=True,
    rounding="sum",
    running=True,
    fragment="computed",
)


def before(x: Tensor, dim: int, reverse: bool = False) -> Tensor:
    """The product of all elements before each one along `dim` (after it, if `reverse`)."""
    return CUMPROD(delay(x, dim, reverse, fill=1), dim=dim, reverse=reverse)


def _cumprod_vjp(g: Tensor, x: Tensor, dim: int, reverse: bool) -> Tensor:
    """d out[j] / d x[i] for j >= i is before[i] * (x[i+1] ... x[j]); the tail is a recurrence."""
    tail = LINEAR_SCAN(delay(x, dim, not reverse).conj(), g, dim=dim, reverse=not reverse)
    return tail * before(x, dim, reverse).conj()


def _cumprod_jvp(tx: Tensor, x: Tensor, dim: int, reverse: bool) -> Tensor:
    return LINEAR_SCAN(x, tx * before(x, dim, reverse), dim=dim, reverse=reverse)


CUMPROD: Record = primitive(
    "cumprod",
    infer_along,
    _cumprod_vjp,
    jvp=_cumprod_jvp,
    keeps_layout=True,
    batched_params=shift_dim,
    native_check=True,
    rounding="product",
    running=True,
    fragment="computed",
)


def _safe_exp(low: Tensor, high: Tensor) -> Tensor:
    """exp(low - high), 0 where low is -inf (whatever high is).

    Such elements are left out before the difference is taken, or its derivative would be a NaN.
    """
    empty = low.isinf() & ((low.real if low.dtype.is_complex else low) < 0)
    difference = low.masked_fill(empty, 0) - high.masked_fill(empty, 0)
    return difference.exp().masked_fill(empty, 0)


def _falling(out: Tensor, dim: int) -> Tensor:
    """exp(out[t] - out[t+1]) of running sums, at most 1; 0 at the last, which none follows."""
    n = out.shape[dim]
    if n == 0:
        return out
    low, high = out.narrow(dim, 0, n - 1), out.narrow(dim, 1, n - 1)
    endless = low.isinf() & high.isinf() & (low == high)  # from here on it grows no more
    steps = _safe_exp(low, high.masked_fill(endless, 0)).masked_fill(endless, 1)
    return cat([steps, out.new_zeros((*out.shape[:dim], 1, *out.shape[dim + 1 :]))], dim)


WIDER = {float16: float32, bfloat16: float32, float32: float64, complex64: complex128}


def _logcumsumexp_vjp(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    """sum over j >= i of g[j] exp(x[i] - out[j]); every exponent that appears is at most 0.

    Steps of long rows are all near 1, where roundings have one sign: products of thousands of them
    would be off by as many, so they are computed in twice the bits.
    """
    kept, wide = x.dtype, WIDER.get(x.dtype, x.dtype)
    g, x, out = (t.to(wide) for t in (g, x, out))
    tail = LINEAR_SCAN(_falling(out, dim).conj(), g, dim=dim, reverse=True)
    return (tail * _safe_exp(x, out).conj()).to(kept)


LOGCUMSUMEXP = primitive(
    "logcumsumexp",
    infer_along,
    _logcumsumexp_vjp,
    keeps_layout=True,
    batched_params=lambda params, size: {"dim": params["dim"] + 1},
    native_check=True,
    rounding="product",
    running=True,
    fragment="computed",
)
# The position of the running extreme; the latest of equal ones, a NaN being more extreme than all.
CUMEXTREME = primitive(
    "cumextreme",
    infer_positions,
    None,
    keeps_layout=True,
    batched_params=shift_dim,
    native_check=True,
    rounding="exact",
    fragment="computed",
)


def along(name: str, input: Tensor, dim: int) -> tuple[Tensor, int]:
    """An input with at least one dimension and the wrapped dim; 0-d counts as one element."""
    d = wrap_dim(name, dim, input.ndim)
    return (input, d) if input.ndim else (input.reshape(1), 0)


def along_rows(name: str, input: Tensor, dim: int) -> tuple[Tensor, int]:
    """`along`, of elements that lie row after row, as PyTorch's running results do."""
    x, d = along(name, input, dim)
    return (x if x.is_contiguous() else x.contiguous()), d


def like(input: Tensor, out: Tensor) -> Tensor:
    """What came of `along`, without the dimension that was added for a 0-d input."""
    return out if input.ndim else out.reshape(())


@public(method=True, inplace=True, out=True)
def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The running sum along `dim`.

    >>> import adjoint as ad
    >>> ad.tensor([1, 2, 3]).cumsum(0)
    tensor([1, 3, 6])
    """
    x, d = along_rows("cumsum", in_dtype(input, dtype), dim)
    return like(input, CUMSUM(x, dim=d, reverse=False))


@public(method=True, inplace=True, out=True)
def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The running product along `dim`.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([1, 2, 3]).cumprod(0)
        tensor([1, 2, 6])
    """
    x, d = along_rows("cumprod", in_dtype(input, dtype), dim)
    return like(input, CUMPROD(x, dim=d, reverse=False))


@public(method=True, out=True)
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """The logarithm of the running sum of exponentials along `dim`."""
    if not input.dtype.is_inexact:
        raise NotImplementedError(f"logcumsumexp: not implemented for {input.dtype.name}")
    x, d = along_rows("logcumsumexp", input, dim)
    return like(input, LOGCUMSUMEXP(x, dim=d))


def _running_extreme(x: Tensor, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    at = CUMEXTREME(x, dim=dim, largest=largest)
    return x.gather(dim, at), at


# Values and where they are as one program, which carries both along.
RUNNING_EXTREME = composite(
    "running_extreme", _running_extreme, operands=("x",), outputs=2, fragment="computed"
)


def _cumulative(name: str, input: Tensor, dim: int, largest: bool) -> Any:
    if input.dtype.is_complex:
        raise NotImplementedError(f"{name}: not implemented for {input.dtype.name}")
    x, d = along_rows(name, input, dim)
    whole = is_large(x._array, RUNNING_EXTREME.large) and CONTEXT.plain and not x.requires_grad
    both = RUNNING_EXTREME if whole else _running_extreme
    values, at = both(x, dim=d, largest=largest)
    return RETURN_TYPES[name](like(input, values), like(input, at))


@public(method=True, out=True)
def cummax(input: Tensor, dim: int) -> Any:
    """The running maximum along `dim` and where it is."""
    return _cumulative("cummax", input, dim, largest=True)


@public(method=True, out=True)
def cummin(input: Tensor, dim: int) -> Any:
    """The running minimum along `dim` and where it is."""
    return _cumulative("cummin", input, dim, largest=False)
