"""Distances and similarities of vectors, and a map of two vectors linear in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import float32, int64, join
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.spec import broadcast_shapes, wrap_dim
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.nn.common import BOTH, FUNCTIONAL, in_float32
from adjoint.engine.ops.products.matmul import product
from adjoint.engine.ops.reduce.norms import distances_of, distances_vjp, p_norm
from adjoint.engine.ops.shape.triangular import triangle

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _length(x: Tensor, dim: int) -> Tensor:
    return p_norm("cosine_similarity", x, 2.0, dim, keepdim=True)


def _cosine(x: Tensor, y: Tensor, dim: int, eps: float) -> Tensor:
    one, other = (v / _length(v, dim).clamp_min(eps) for v in (x, y))
    return (one * other).sum(dim)


def _turned(g: Tensor, x: Tensor, y: Tensor, out: Tensor, dim: int, eps: float) -> Tensor:
    """How the cosine changes with x: by what of y is not along x, unless x is as good as zero."""
    length = _length(x, dim)
    long = length.clamp_min(eps)
    along = (out.unsqueeze(dim) * (x / long)).masked_fill(length < eps, 0)
    return g.unsqueeze(dim) * (y / _length(y, dim).clamp_min(eps) - along) / long


COSINE_SIMILARITY = composite(
    "cosine_similarity",
    in_float32(_cosine),
    in_float32(lambda g, x, y, out, dim, eps: _turned(g, x, y, out, dim, eps)),
    in_float32(lambda g, x, y, out, dim, eps: _turned(g, y, x, out, dim, eps)),
    operands=("x", "y"),
    fragment="composed",
)


@public(namespaces=BOTH)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    r"""The cosine of the angle between vectors along `dim`.

    $\frac{x_1 \cdot x_2}{\max(\|x_1\|, \epsilon) \max(\|x_2\|, \epsilon)}$

    Example:
        >>> import adjoint as ad
        >>> ad.cosine_similarity(ad.tensor([[1.0, 0.0]]), ad.tensor([[1.0, 1.0]]))
        tensor([0.7071])
    """
    common = join([x1.dtype, x2.dtype], [], [])  # a 0-d tensor's dtype counts like any other
    if not common.is_floating_point:
        raise DTypeError(
            f"cosine_similarity: expected common dtype to be floating point, yet common dtype is "
            f"{common.name}"
        )
    shape = broadcast_shapes("cosine_similarity", tuple(x1.shape), tuple(x2.shape))
    d = wrap_dim("cosine_similarity", dim, len(shape))
    x, y = x1.to(common).expand(shape), x2.to(common).expand(shape)
    if not shape:
        return COSINE_SIMILARITY(x.reshape(1), y.reshape(1), dim=0, eps=eps)
    return COSINE_SIMILARITY(x, y, dim=d, eps=eps)


@public(namespaces=BOTH)
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    r"""The p-norm of the difference of corresponding vectors: $\|x_1 - x_2 + \epsilon\|_p$."""
    difference = x1 - x2 + eps
    if not difference.ndim:
        return p_norm("pairwise_distance", difference, p, None, keepdim=False)
    return p_norm("pairwise_distance", difference, p, difference.ndim - 1, keepdim)


def counted_pairs(x: Tensor) -> tuple[Tensor, Tensor]:
    """Both rows of each pair, from the pair's number: what a kernel finds by itself.

    Row r's pairs begin after r (2n - r - 1) / 2 others. A square root in float64 finds the row, or
    the one before or after it.
    """
    n = x.shape[0]
    number = x.new_arange(n * (n - 1) // 2)

    def before(row: Tensor) -> Tensor:
        return (row * (2 * n - 1 - row)).div(2, rounding_mode="floor")

    root = ((2 * n - 1) ** 2 - number.double() * 8).sqrt()
    row = ((2 * n - 1 - root) * 0.5).to(int64)
    row = (row - 1).where(before(row) > number, row)
    row = (row + 1).where(before(row + 1) <= number, row)
    return row, number - before(row) + row + 1


def _pairs(x: Tensor) -> Any:
    if x.device.type == "cuda" and not CONTEXT.settled:  # in a recording, or under a transform
        return counted_pairs(x)
    return triangle(x.shape[0], 1, x.device).unbind(0)


def _pdist(x: Tensor, p: float) -> Tensor:
    one, other = (x.index_select(0, side) for side in _pairs(x))
    return distances_of(one - other, p)


def _pdist_vjp(g: Tensor, x: Tensor, out: Tensor, p: float) -> Tensor:
    """What moves a pair apart moves one of it one way and the other the other."""
    if x.dtype.is_half:  # differences of halves are none, nor are their distances: `out` is rounded
        wide = x.to(float32)
        return _pdist_vjp(g.to(float32), wide, _pdist(wide, p), p).to(x.dtype)
    left, right = _pairs(x)
    apart = x.index_select(0, left) - x.index_select(0, right)
    moved = distances_vjp(g, apart, out, p)
    if moved is None:
        return x.new_zeros(x.shape)
    return x.new_zeros(x.shape).index_add(0, left, moved).index_add(0, right, -moved)


MANY_STEPS = 1 << 6  # differences from which on distances are a program's


PDIST = composite(
    "pdist",
    in_float32(_pdist),
    _pdist_vjp,
    fragment="computed",
    much=lambda shapes, _: shapes[0][0] ** 2 * shapes[0][1] >= MANY_STEPS,
)


@public(namespaces=BOTH)
def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norm distance between each pair of rows, in order of the upper triangle."""
    if input.ndim != 2:
        raise ShapeError(f"pdist: only supports 2D tensors, got: {input.ndim}D")
    if not input.dtype.is_floating_point:
        raise DTypeError(f"pdist: only supports floating-point dtypes, received {input.dtype.name}")
    if p < 0:
        raise RuntimeError(f"pdist: only supports non-negative p values, received {p}")
    if input.shape[0] <= 1:
        return input.reshape(-1)[:0]
    return PDIST(input, p=float(p))


@public(namespaces=FUNCTIONAL, out=True)
def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    r"""Vectors along `dim` divided by their p-norm: $v / \max(\|v\|_p, \epsilon)$.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.normalize(ad.tensor([3.0, 4.0]), dim=0)
        tensor([0.6000, 0.8000])
    """
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)


def _bilinear(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    # (N, i), (N, j), (o, i, j) -> (N, o): first x with the weight, one product, then y.
    out, left, right = weight.shape
    half = product(x, weight.permute((1, 0, 2)).reshape((left, out * right)))
    half = half.reshape((x.shape[0], out, right))  # (N, o, j)
    return product(half, y.unsqueeze(-1)).squeeze(-1)


BILINEAR = composite("bilinear", _bilinear, operands=("x", "y", "weight"), fragment="computed")


@public(namespaces=BOTH)
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""A map of two vectors, linear in each: $y = x_1^T A x_2 + b$.

    Args:
        input1: (..., in1).
        input2: (..., in2).
        weight: (out, in1, in2).
        bias: (out,).
    """
    if input1.ndim != input2.ndim or input1.shape[:-1] != input2.shape[:-1]:
        raise ShapeError(
            f"bilinear: input dimensions must match up to the last, received {list(input1.shape)} "
            f"and {list(input2.shape)}"
        )
    if input1.shape[-1] != weight.shape[1] or input2.shape[-1] != weight.shape[2]:
        raise ShapeError(
            f"bilinear: weight of shape {list(weight.shape)} wants inputs of {weight.shape[1]} and "
            f"{weight.shape[2]} features, received {input1.shape[-1]} and {input2.shape[-1]}"
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ShapeError(
            f"bilinear: bias size does not match weight size: got {list(bias.shape)} but expected "
            f"{[weight.shape[0]]}"
        )
    if bias is not None and bias.dtype is not weight.dtype:
        raise DTypeError(
            f"bilinear: all tensors must have the same dtype, but the weight has "
            f"{weight.dtype.name} and the bias {bias.dtype.name}. Convert one with .to(...)."
        )
    x = input1.reshape((-1, input1.shape[-1]))
    y = input2.reshape((-1, input2.shape[-1]))
    out = BILINEAR(x, y, weight).reshape((*input1.shape[:-1], weight.shape[0]))
    return out if bias is None else out + bias
