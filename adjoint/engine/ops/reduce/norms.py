"""Norms of vectors of elements, and distances made of them."""

from __future__ import annotations

from math import inf, isinf, prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import DType, bool_, complex128, float32, float64
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import COMPUTED
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.reductions import Dims
from adjoint.engine.core.spec import Spec, broadcast_shapes, wrap_dim
from adjoint.engine.ops.reduce.reduction import SUM, all_dims, at_once, restore
from adjoint.engine.ops.reduce.statistics import squared

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _p_norm(x: Tensor, ord: float, dims: Dims, keepdim: bool) -> Tensor:
    if x.dtype.is_half:
        return _p_norm(x.to(float32), ord, dims, keepdim).to(x.dtype)
    if ord == 0:
        return SUM(x.ne(0).to(x.dtype.to_real()), dims=dims, keepdim=keepdim)
    if ord == 1 or of_single(x.shape, dims):
        return SUM(x.abs(), dims=dims, keepdim=keepdim)
    if isinf(ord):
        size = x.abs()
        if not dims:
            return size
        return size.amax(dims, keepdim) if ord > 0 else size.amin(dims, keepdim)
    total = SUM(squared(x) if ord == 2 else _power(x.abs(), ord), dims=dims, keepdim=keepdim)
    # At zero the root has no derivative; 0 is taken for it.
    zero = total.eq(0)
    return _power(total.masked_fill(zero, 1), 1 / ord).masked_fill(zero, 0 if ord > 0 else inf)


def of_single(shape: tuple[int, ...], dims: Dims) -> bool:
    """Whether norms are of one element each: its size, which no power need leave the range for."""
    return all(shape[d] == 1 for d in dims)


def _power(x: Tensor, exponent: float) -> Tensor:
    if exponent == 0.5:
        return x.sqrt()
    if exponent >= 1:
        return x**exponent
    zero = x.eq(0)  # the derivative of the power is infinite there; 0 is taken for it
    return (x.masked_fill(zero, 1) ** exponent).masked_fill(zero, 0 if exponent > 0 else inf)


def _p_norm_vjp(
    g: Tensor, x: Tensor, out: Tensor, x_spec: Spec, ord: float, dims: Dims, keepdim: bool
) -> Tensor | None:
    if ord == 0:
        return None
    if x.dtype.is_half:
        g, wide, out = g.to(float32), x.to(float32), out.to(float32)
        gradient = _p_norm_vjp(g, wide, out, x_spec, ord, dims, keepdim)
        return None if gradient is None else gradient.to(x.dtype)
    g, out = restore(g, x_spec, dims, keepdim), restore(out, x_spec, dims, keepdim)
    if ord == 1:
        return x.sgn() * g
    zero = out.eq(0)
    if ord == 2:
        return (x / out.masked_fill(zero, 1)) * g.masked_fill(zero, 0)
    size = x.abs()
    if isinf(ord):
        # NaNs are as far out as each other: their sign, 0, is then the gradient.
        hit = size.eq(out).logical_or(size.isnan().logical_and(out.isnan())).to(size.dtype)
        return x.sgn() * (g * hit / SUM(hit, dims=dims, keepdim=True))
    none = size.eq(0).logical_or(zero)  # divided and raised where that is safe, 0 elsewhere
    ratio = (size / out.masked_fill(zero, 1)).masked_fill(none, 1)
    return x.sgn() * (_power(ratio, ord - 1).masked_fill(none, 0) * g)


def _p_norm_spec(x: Spec, ord: float, dims: Dims, keepdim: bool) -> Spec | None:
    if 0 in x.shape:
        return None
    return SUM.infer(x, dims=dims, keepdim=keepdim)._replace(dtype=x.dtype.to_real())


P_NORM = composite(
    "p_norm",
    _p_norm,
    _p_norm_vjp,
    native_check=True,
    infer_specs=_p_norm_spec,
    fragment="composed",
    in_any_order=True,
)


def p_norm(
    name: str, x: Tensor, ord: float, dim: Any, keepdim: bool, dtype: DType | None = None
) -> Tensor:
    """(sum |x|^ord)^(1/ord) over `dim`, and its limits for ord = 0, inf, -inf."""
    if not (dtype or x.dtype).is_inexact or not x.dtype.is_inexact:
        raise DTypeError(
            f"{name}: expected a floating point or complex tensor as input. Got "
            f"{(dtype or x.dtype).name}. Convert it first."
        )
    if dtype is not None:
        if x.dtype.is_complex and not dtype.is_complex:
            raise DTypeError(f"{name}: dtype should be complex for complex inputs, got {dtype}")
        x = x.to(dtype)
    dims = all_dims(name, dim, x.ndim)
    result = x.dtype.to_real()
    if result.is_half and not at_once(x):
        x = x.to(float32)
    if 0 in x.shape and (ord < 0 or ord == inf) and 0 in (x.shape[d] for d in dims):
        raise ShapeError(
            f"{name}: cannot compute the {ord} norm on an empty dimension because the operation "
            "does not have an identity"
        )
    return P_NORM(x, ord=float(ord), dims=dims, keepdim=keepdim).to(result)


@public(method=True, out=True)
def norm(
    input: Tensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Tensor:
    """The p-norm of the elements over `dim`; "fro" and "nuc" are matrix norms.

    >>> import adjoint as ad
    >>> ad.tensor([3.0, 4.0]).norm()
    tensor(5.)
    """
    if p == "nuc":
        return _nuclear(input, dim, keepdim, dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm: only p in ('fro', 'nuc') or a number is known, received {p!r}")
    return p_norm("norm", input, 2.0 if p in ("fro", None) else p, dim, keepdim, dtype)


def _nuclear(input: Tensor, dim: Any, keepdim: bool, dtype: DType | None) -> Tensor:
    """The sum of singular values of the matrices in two dimensions."""
    x = input if dtype is None else input.to(dtype)
    dims = all_dims("norm", dim, x.ndim)
    if len(dims) != 2:
        raise ShapeError(f"norm: 'nuc' needs a matrix, two dimensions, received {len(dims)}")
    values = x.movedim(dims, (-2, -1)).svd(some=True)[1].sum(-1)
    return (
        values.reshape([1 if d in dims else n for d, n in enumerate(x.shape)])
        if keepdim
        else values
    )


@public(method=True, out=True)
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference of two tensors."""
    return p_norm("dist", input - other, p, None, keepdim=False)


APART = 1e-7  # added to norms that are divided by, as in PyTorch


def _renorm(x: Tensor, ord: float, dims: Dims, maxnorm: float) -> Tensor:
    size = p_norm("renorm", x, ord, dims, keepdim=True)
    scale = (maxnorm / (size + APART)).masked_fill((size > maxnorm).logical_not(), 1)
    return x * scale


def _renorm_vjp(g: Tensor, x: Tensor, x_spec: Spec, ord: float, dims: Dims, maxnorm: float) -> Any:
    """In float64, as PyTorch's: the part along x is what most of the other cancels."""
    wide = complex128 if x.dtype.is_complex else float64
    g_wide, x_wide = g.to(wide), x.to(wide)
    size = P_NORM(x_wide, ord=ord, dims=dims, keepdim=True)
    along = x_wide.conj() * g_wide
    pulled = SUM(along.real if x.dtype.is_complex else along, dims=dims, keepdim=True)
    pushed = _p_norm_vjp(pulled, x_wide, size, x_spec, ord, dims, True)
    assert pushed is not None  # as it is for an order of 0, which is refused
    divisor = size + APART
    scaled = (g_wide - pushed / divisor) * (maxnorm / divisor)
    return scaled.where(size > maxnorm, g_wide).to(g.dtype)


RENORM = composite("renorm", _renorm, _renorm_vjp, fragment="composed")


@public(method=True, inplace=True, out=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """`input` with each slice along `dim` scaled down to a p-norm of at most `maxnorm`."""
    if p <= 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, received p={p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise ShapeError(
            f"renorm: input needs at least 2 dimensions, received {input.ndim} dimensions"
        )
    d = wrap_dim("renorm", dim, input.ndim)
    x = (input.to(float32) if input.dtype.is_half else input).contiguous()  # as PyTorch's lies
    others = tuple(i for i in range(x.ndim) if i != d)
    return RENORM(x, ord=float(p), dims=others, maxnorm=float(maxnorm)).to(input.dtype)


def _root_of_sums(cross: Tensor, x_squares: Tensor, y_squares: Tensor) -> Tensor:
    total = x_squares.unsqueeze(-1) + y_squares.unsqueeze(-2) - 2 * cross
    zero = total <= 0
    return total.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)


# Each one kernel on a GPU, around the product.
ROW_SQUARES = composite(
    "row_squares", lambda x: squared(x).sum(-1), operands=("x",), fragment="device"
)
ROOT_OF_SUMS = composite(
    "root_of_sums",
    _root_of_sums,
    operands=("cross", "x_squares", "y_squares"),
    fragment="device",
)


def _euclidean(x: Tensor, y: Tensor) -> Tensor:
    """Distances by a matrix product: |x|^2 - 2 x.y + |y|^2, rounding kept from going negative."""
    return ROOT_OF_SUMS(x @ y.transpose(-2, -1), ROW_SQUARES(x), ROW_SQUARES(y))


def _euclidean_joint(g: Tensor, x: Tensor, y: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """Of g / out each row takes its share, less that of the other's rows; none where they meet."""
    zero = out.eq(0)
    share = g.masked_fill(zero, 0) / out.masked_fill(zero, 1)  # (..., N, M)
    toward = share.transpose(-2, -1)
    return (
        x * share.sum(-1, keepdim=True) - share @ y,
        y * toward.sum(-1, keepdim=True) - toward @ x,
    )


# On a CPU one program with its product; on a GPU the product is the library's.
EUCLIDEAN = composite(
    "euclidean",
    _euclidean,
    joint=_euclidean_joint,
    operands=("x", "y"),
    fragment="host",
    much=lambda shapes, _: prod(shapes[0][:-1]) * shapes[1][-2] >= COMPUTED,
)


def _cdist(x: Tensor, y: Tensor, p: float, product: bool) -> Tensor:
    if product:
        alike = x.dtype is y.dtype and x.shape[:-2] == y.shape[:-2]
        return EUCLIDEAN(x, y) if alike else _euclidean(x, y)
    return distances_of(x.unsqueeze(-2) - y.unsqueeze(-3), p)


def distances_of(apart: Tensor, p: float) -> Tensor:
    """The p-norms of differences along the last dimension, with the gradients of distances."""
    if p == inf:
        return FARTHEST(apart)
    distances: Tensor = P_NORM(apart, ord=p, dims=(apart.ndim - 1,), keepdim=False)
    if p:
        return distances
    # They are steps: their gradient is zero, where a norm's is None.
    everywhere = apart.new_ones((), dtype=bool_)
    return distances + apart.masked_fill(everywhere, 0).sum(-1)


def distances_vjp(g: Tensor, apart: Tensor, out: Tensor, p: float) -> Tensor | None:
    """The cotangent of differences, of that of `distances_of` them; None: they are steps."""
    if p == inf:
        return _farthest_vjp(g, apart, out)
    spec = Spec(tuple(apart.shape), apart.dtype, apart.device)
    return _p_norm_vjp(g, apart, out, spec, p, (apart.ndim - 1,), False)


def _farthest(x: Tensor) -> Tensor:
    return x.abs().amax(-1)


def _farthest_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    # All that are as far apart have the whole gradient, as PyTorch's distances have it; a norm's
    # is shared among them.
    return x.sgn() * g.unsqueeze(-1) * x.abs().eq(out.unsqueeze(-1)).to(x.dtype)


FARTHEST = composite("farthest", _farthest, _farthest_vjp, fragment="composed")


MANY = 25  # rows from which PyTorch computes Euclidean distances by a matrix product


@public()
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: Any = None) -> Tensor:
    """Distances between each pair of rows of two batches of vectors.

    Example:
        >>> import adjoint as ad
        >>> ad.cdist(ad.zeros(1, 2), ad.tensor([[3.0, 4.0]]))
        tensor([[5.]])
    """
    modes = {
        None: 0,
        "use_mm_for_euclid_dist_if_necessary": 0,
        "use_mm_for_euclid_dist": 1,
        "donot_use_mm_for_euclid_dist": 2,
    }
    if compute_mode not in (*modes, 0, 1, 2):
        raise ValueError(f"cdist: {compute_mode!r} is not a valid value for compute_mode")
    mode = modes.get(compute_mode, compute_mode)
    _check_cdist(x1, x2, p)
    product = p == 2 and (mode == 1 or (mode == 0 and (x1.shape[-2] > MANY or x2.shape[-2] > MANY)))
    batch = broadcast_shapes("cdist", x1.shape[:-2], x2.shape[:-2])
    shape = (*batch, x1.shape[-2], x2.shape[-2])
    if 0 in shape or x1.shape[-1] == 0:
        # Still a function of its operands, with zero gradients.
        return x1.new_zeros(shape) + x1.sum() * 0 + x2.sum() * 0
    return _cdist(x1, x2, float(p), product)


def _check_cdist(x1: Tensor, x2: Tensor, p: float) -> None:
    for which, x in (("X1", x1), ("X2", x2)):
        if not x.dtype.is_floating_point:
            raise DTypeError(f"cdist: only supports floating-point dtypes, {which} got: {x.dtype}")
        if x.ndim < 2:
            raise ShapeError(
                f"cdist: {which} should have at least two dimensions, received {x.ndim}"
            )
    if x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            "cdist: X1 and X2 must have the same number of columns. X1: "
            f"{x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if p < 0:
        raise RuntimeError(f"cdist: only supports non-negative p values, received {p}")
