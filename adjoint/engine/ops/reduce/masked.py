"""Reductions and normalisations in which a mask says which elements count.

An element that is masked out is replaced by the operation's identity, or left out of its count.
"""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import DType, float32, int64
from adjoint.engine.core.errors import DTypeValueError, ShapeIndexError
from adjoint.engine.core.operations.families import Fn
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.spec import wrap_dims
from adjoint.engine.ops.reduce import extremes, norms, reduction, scan
from adjoint.engine.ops.reduce import softmax as normal
from adjoint.engine.ops.reduce.product import PROD

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def masked(fn: Fn) -> Fn:
    """Publish in `adjoint.masked`."""
    return public(namespaces=("masked",), name=fn.__name__.removeprefix("masked_"))(fn)


def _dims(name: str, dim: Any, ndim: int) -> tuple[int, ...]:
    """The dimensions meant: None is all of them; () stays empty."""
    if dim is None:
        return tuple(range(ndim))
    dims = wrap_dims(name, (dim,) if isinstance(dim, int) else dim, ndim)
    return dims if ndim else ()


def _whole(name: str, mask: Tensor, input: Tensor) -> Tensor:
    """A mask in the shape of the input it belongs to."""
    if mask.ndim > input.ndim:
        raise ShapeIndexError(
            f"masked.{name}: expected a mask with at most {input.ndim} dimensions, as its input "
            f"has, received {mask.ndim}"
        )
    return mask.bool().expand(input.shape)


def _filled(name: str, input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """The input with `value` where the mask is False."""
    if mask is None:
        return input
    return input.masked_fill(_whole(name, mask, input).logical_not(), value)


def _lowest(name: str, dtype: DType, sign: int) -> Any:
    """The identity of max (sign -1) or min (sign 1)."""
    if dtype.is_floating_point:
        return sign * inf
    if dtype.name == "bool" or dtype.is_complex:
        raise NotImplementedError(f"masked.{name}: identity of {name} on {dtype.name} input")
    bits = 8 * dtype.itemsize
    if not dtype.is_signed:
        return 0 if sign < 0 else 2**bits - 1
    return -(2 ** (bits - 1)) if sign < 0 else 2 ** (bits - 1) - 1


@masked
def masked_sum(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum over `dim` of the elements that `mask` keeps.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0, 4.0])
    >>> ad.masked.sum(x, mask=ad.tensor([True, False, True]))
    tensor(5.)
    """
    dims = _dims("sum", dim, input.ndim)
    return reduction.sum(_filled("sum", input, mask, 0), dims, bool(keepdim), dtype=dtype)


@masked
def masked_prod(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product over `dim` of the elements that `mask` keeps."""
    x = reduction.in_dtype(_filled("prod", input, mask, 1), dtype)
    dims = _dims("prod", dim, input.ndim)
    return PROD(x, dims=dims, keepdim=bool(keepdim)) if dims or isinstance(dim, int) else x


@masked
def masked_cumsum(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The running sum along `dim` of the elements that `mask` keeps."""
    x = _filled("cumsum", input, mask, 0)
    return scan.cumsum(x, dim, dtype=dtype or input.dtype)


@masked
def masked_cumprod(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The running product along `dim` of the elements that `mask` keeps."""
    x = _filled("cumprod", input, mask, 1)
    return scan.cumprod(x, dim, dtype=dtype or input.dtype)


def _extreme(
    name: str, input: Tensor, dim: Any, keepdim: bool, dtype: Any, mask: Any, sign: int
) -> Tensor:
    x = input if mask is None else _filled(name, input, mask, _lowest(name, input.dtype, sign))
    return getattr(extremes, name)(x, dim, bool(keepdim)).to(dtype or input.dtype)


@masked
def masked_amax(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The largest over `dim` of the elements that `mask` keeps."""
    dims = _dims("amax", dim, input.ndim)
    return _extreme("amax", input, dims, keepdim, dtype, mask, -1)


@masked
def masked_amin(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The smallest over `dim` of the elements that `mask` keeps."""
    dims = _dims("amin", dim, input.ndim)
    return _extreme("amin", input, dims, keepdim, dtype, mask, 1)


@masked
def masked_argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the largest of the elements that `mask` keeps is, in the dtype of the input."""
    return _extreme("argmax", input, dim, keepdim, dtype, mask, -1)


@masked
def masked_argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the smallest of the elements that `mask` keeps is, in the dtype of the input."""
    return _extreme("argmin", input, dim, keepdim, dtype, mask, 1)


def _count(name: str, input: Tensor, mask: Tensor | None, dim: Any, keepdim: bool) -> Tensor:
    """How many elements over `dim` count."""
    if mask is None:
        ones = input.detach().new_ones(input.shape, dtype=int64)
        return reduction.sum(ones, dim, keepdim)
    return reduction.sum(_whole(name, mask, input), dim, keepdim)


@masked
def masked_mean(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean over `dim` of the elements that `mask` keeps; NaN where it keeps none."""
    wanted = dtype or input.dtype
    if not wanted.is_inexact:
        raise DTypeValueError(
            "masked.mean: could not infer output dtype. Input dtype must be either a floating "
            f"point or complex dtype. Got: {wanted.name}"
        )
    total = masked_sum(input, dim, keepdim=keepdim, dtype=wanted, mask=mask)
    return total / _count("mean", input, mask, dim, bool(keepdim))


@masked
def masked_median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The median along `dim` of the elements that `mask` keeps; NaN where it keeps none."""
    exact = not input.dtype.is_floating_point
    x = _filled("median", input.to(float32) if exact else input, mask, nan)
    out = x.nanmedian(dim, keepdim).values
    if exact and bool(out.isnan().any()):
        raise DTypeValueError(
            "masked.median: expects no fully masked out rows if dtype is not floating point, "
            f"received {input.dtype.name}"
        )
    return out.to(dtype or input.dtype) if exact else out


@masked
def masked_logsumexp(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of exponentials of the elements that `mask` keeps."""
    kind = input.dtype
    low = -inf if kind.is_inexact or mask is None else _lowest("logsumexp", kind, -1)
    x = _filled("logsumexp", input, mask, low)
    return normal.logsumexp(x, _dims("logsumexp", dim, input.ndim), keepdim).to(dtype or kind)


@masked
def masked_logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """`logaddexp` of two tensors, an element that is masked out counting as -inf."""
    x = _filled("logaddexp", input, input_mask, -inf)
    y = _filled("logaddexp", other, other_mask, -inf)
    return x.logaddexp(y).to(dtype or input.dtype)


@masked
def masked_norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The norm over `dim` of the elements that `mask` keeps."""
    order = 2.0 if ord is None else ord
    x = _filled("norm", input, mask, inf if order == -inf else 0)
    dims = _dims("norm", dim, input.ndim)
    return norms.p_norm("masked.norm", x, order, dims, bool(keepdim), dtype)


def _spread(
    name: str,
    input: Tensor,
    dim: Any,
    unbiased: bool | None,
    correction: Any,
    keepdim: bool,
    dtype: DType | None,
    mask: Tensor | None,
) -> Tensor:
    """The variance of what the mask keeps."""
    if unbiased is not None and correction is not None:
        raise AssertionError(f"masked.{name}: only one of unbiased and correction may be given")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    wanted = dtype or (input.dtype if input.dtype.is_inexact else float32)
    compute = wanted if wanted.is_inexact else float32
    number = _count(name, input, mask, dim, keepdim=True)
    centre = masked_sum(input, dim, keepdim=True, dtype=wanted, mask=mask) / number
    x = input - centre
    total = masked_sum(x * x.conj(), dim, keepdim=keepdim, dtype=compute, mask=mask)
    number = number.reshape(total.shape)
    if correction != 0:
        number = (number.to(compute.to_real()) - correction).clamp(min=0)
    return (total / number).to(wanted)


@masked
def masked_var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance over `dim` of the elements that `mask` keeps."""
    return _spread("var", input, dim, unbiased, correction, bool(keepdim), dtype, mask)


@masked
def masked_std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation over `dim` of the elements that `mask` keeps."""
    return _spread("std", input, dim, unbiased, correction, bool(keepdim), dtype, mask).sqrt()


@masked
def masked_softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Softmax along `dim` of the elements that `mask` keeps; 0 elsewhere."""
    return normal.softmax(_filled("softmax", input, mask, -inf), dim, dtype=dtype or input.dtype)


@masked
def masked_log_softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of softmax along `dim` of the elements that `mask` keeps."""
    x = _filled("log_softmax", input, mask, -inf)
    return normal.log_softmax(x, dim, dtype=dtype or input.dtype)


@masked
def masked_softmin(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Softmax of the negated elements that `mask` keeps."""
    return normal.softmax(-_filled("softmin", input, mask, inf), dim, dtype=dtype or input.dtype)


@masked
def masked_normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The elements that `mask` keeps over their norm along `dim`."""
    size = masked_norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    x = _filled("normalize", input, mask, 0)
    return x / size.clamp(min=eps)
