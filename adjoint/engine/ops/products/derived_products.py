"""Products made of matrix products: outer, inner, tensordot, chains, and the scaled sums."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core.dtype import bool_, float32, promote_types
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.autocast import LOWERED
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, Shape, is_tensor
from adjoint.engine.core.operations.small_calls import FEW_ON_TAPE
from adjoint.engine.core.spec import broadcast_shapes, wrap_dim
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.elementwise.condition import WHERE
from adjoint.engine.ops.products.matmul import MATMUL, check_dtypes, dot, product
from adjoint.engine.ops.shape.join import stack

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


# -- outer and inner ----------------------------------------------------------------------------


@public(method=True, out=True, aliases=("ger",))
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of an element of one vector with an element of another.

    >>> import adjoint as ad
    >>> ad.outer(ad.tensor([1, 2]), ad.tensor([3, 4, 5]))
    tensor([[ 3,  4,  5],
            [ 6,  8, 10]])
    """
    if input.ndim != 1 or vec2.ndim != 1:
        raise ShapeError(
            f"outer: expected two 1-D tensors, received {input.ndim}-D and {vec2.ndim}-D"
        )
    return input.unsqueeze(1) * vec2


@public(method=True, out=True)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products summed over the last dimension of both; a plain product where one is 0-d."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError(
            f"inner: the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    if input.ndim == other.ndim == 1:
        check_dtypes("inner", input, other)
        return dot(input, other)  # which autocast leaves alone on the CPU
    return tensordot(input, other, ([-1], [-1]))


def _contracted(dims: Any, x: Tensor, y: Tensor) -> tuple[list[int], list[int]]:
    if is_tensor(dims):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot: expects dims >= 0, but got dims={dims}")
        if dims > min(x.ndim, y.ndim):
            raise ShapeError(
                "tensordot: expects dims < ndim_a or ndim_b, but got dims="
                f"{dims} for {x.ndim}-D and {y.ndim}-D tensors"
            )
        return list(range(x.ndim - dims, x.ndim)), list(range(dims))
    if len(dims) == 1:
        dims = dims[0], dims[0]
    first, second = dims
    pair = [[d] if isinstance(d, int) else list(d) for d in (first, second)]
    if len(pair[0]) != len(pair[1]):
        raise ShapeError(
            f"tensordot: both dimension lists should have same length, received {pair}"
        )
    wrapped = [
        [wrap_dim("tensordot", d, t.ndim) for d in side]
        for side, t in zip(pair, (x, y), strict=True)
    ]
    return wrapped[0], wrapped[1]


@public(out=True)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Contract several dimensions of `a` with as many of `b`.

    Example:
        >>> import adjoint as ad
        >>> ad.tensordot(ad.ones(3, 4, 5), ad.ones(4, 3, 2), dims=([1, 0], [0, 1])).shape
        adjoint.Size([5, 2])
    """
    first, second = _contracted(dims, a, b)
    check_dtypes("tensordot", a, b)
    for i, j in zip(first, second, strict=True):
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise ShapeError(
                f"tensordot: contracted dimensions need to match, but first has size {a.shape[i]} "
                f"in dim {i} and second has size {b.shape[j]} in dim {j}"
            )
    # A size of 1 broadcasts: the other operand is summed over that dimension.
    wide_a = [i for i, j in zip(first, second, strict=True) if a.shape[i] != 1 == b.shape[j]]
    wide_b = [j for i, j in zip(first, second, strict=True) if b.shape[j] != 1 == a.shape[i]]
    if wide_a:
        a = a.sum(wide_a, keepdim=True, dtype=a.dtype)
    if wide_b:
        b = b.sum(wide_b, keepdim=True, dtype=b.dtype)
    free_a = [d for d in range(a.ndim) if d not in first]
    free_b = [d for d in range(b.ndim) if d not in second]
    shape_a, shape_b = [a.shape[d] for d in free_a], [b.shape[d] for d in free_b]
    inner_size = prod(a.shape[d] for d in first)
    if not free_a and not free_b and first:
        return dot(a.permute(*first).reshape(inner_size), b.permute(*second).reshape(inner_size))
    left = a.permute((*free_a, *first)).reshape((prod(shape_a), inner_size))
    right = b.permute((*second, *free_b)).reshape((inner_size, prod(shape_b)))
    return MATMUL(left, right).reshape((*shape_a, *shape_b))


# -- chains -------------------------------------------------------------------------------------


def chain_order(sizes: Sequence[int]) -> list[list[int]]:
    """Where to split each span of a chain of matrices sizes[i] x sizes[i+1] for least work."""
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            cost[i][j], split[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return split


def multiply_chain(name: str, tensors: Sequence[Tensor]) -> Tensor:
    """The product of a chain of matrices in the cheapest order."""
    for x, y in pairwise(tensors):
        check_dtypes(name, x, y)
        if x.shape[1] != y.shape[0]:
            raise ShapeError(
                f"{name}: tensors of shapes {tuple(x.shape)} and {tuple(y.shape)} cannot be "
                "multiplied. Neighbours must agree in their inner size."
            )
    split = chain_order([tensors[0].shape[0], *(t.shape[1] for t in tensors)])
    return _product(tensors, split, 0, len(tensors) - 1)


def _product(
    tensors: Sequence[Tensor], split: Sequence[Sequence[int]], first: int, last: int
) -> Tensor:
    """The product of some neighbours, cut where `split` says (Note [no cycles])."""
    if first == last:
        return tensors[first]
    k = split[first][last]
    return MATMUL(_product(tensors, split, first, k), _product(tensors, split, k + 1, last))


@public(out=True)
def chain_matmul(*matrices: Tensor) -> Tensor:
    """Product of matrices, multiplied in the order that costs least."""
    if not matrices:
        raise RuntimeError("chain_matmul: expected one or more matrices")
    for m in matrices:
        if m.ndim != 2:
            raise ShapeError(f"chain_matmul: expected 2-D tensors, received {tuple(m.shape)}")
    return multiply_chain("chain_matmul", matrices)


# -- cross --------------------------------------------------------------------------------------


def _cross(x: Tensor, y: Tensor, dim: int) -> Tensor:
    a, b = x.unbind(dim), y.unbind(dim)
    return stack([a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)], dim)


# CROSS(x, y, dim) of one shape and dtype.
CROSS: Record = composite(
    "cross",
    _cross,
    lambda g, y, dim: CROSS(y.conj(), g, dim=dim),
    lambda g, x, dim: CROSS(g, x.conj(), dim=dim),
    fragment="computed",
)


def cross_along(name: str, input: Tensor, other: Tensor, dim: int) -> Tensor:
    """The vector product along one dimension, the others broadcast."""
    if input.ndim != other.ndim:
        raise ShapeError(
            f"{name}: inputs must have the same number of dimensions, received {input.ndim} and "
            f"{other.ndim}"
        )
    if input.dtype is bool_:
        raise NotImplementedError(f"{name}: not implemented for 'Bool'")
    d = wrap_dim(name, dim, input.ndim)
    if input.shape[d] != 3 or other.shape[d] != 3:
        raise ShapeError(
            f"{name}: inputs dimension {dim} must have length 3. Got {input.shape[d]} and "
            f"{other.shape[d]}"
        )
    shape = broadcast_shapes(name, tuple(input.shape), tuple(other.shape))
    dtype = promote_types(input.dtype, other.dtype)
    return CROSS(input.to(dtype).expand(shape), other.to(dtype).expand(shape), dim=d)


@public(method=True, out=True)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Vector product of 3-vectors along `dim`, by default the first dimension of size 3.

    Example:
        >>> import adjoint as ad
        >>> ad.cross(ad.tensor([1.0, 0.0, 0.0]), ad.tensor([0.0, 1.0, 0.0]), dim=0)
        tensor([0., 0., 1.])
    """
    if dim is None:
        threes = [d for d, n in enumerate(input.shape) if n == 3]
        if not threes:
            raise ShapeError(
                f"cross: no dimension of size 3 in input of shape {tuple(input.shape)}"
            )
        dim = threes[0]
    return cross_along("cross", input, other, dim)


# -- beta * input + alpha * product -------------------------------------------------------------


def _scale(x: Tensor, factor: Any) -> Tensor:
    return x if factor == 1 and factor is not True else x * factor


def _factor(name: str, argument: str, factor: Any, like: Tensor) -> Any:
    """A factor as the product's dtype holds it: integers truncate it, reals refuse a complex."""
    if isinstance(factor, complex) and not like.dtype.is_complex:
        raise DTypeError(f"{name}: {argument}={factor!r} cannot be converted to {like.dtype.name}")
    return int(factor) if isinstance(factor, float) and not like.dtype.is_inexact else factor


def _combine(name: str, input: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta * input + alpha * product; with beta 0, NaN and inf of `input` do not matter."""
    if input.dtype is not product.dtype:  # autocast lowered the product
        input = input.to(product.dtype)
    beta, alpha = _factor(name, "beta", beta, product), _factor(name, "alpha", alpha, product)
    if input.shape != product.shape:
        if broadcast_shapes(name, tuple(input.shape), tuple(product.shape)) != product.shape:
            raise ShapeError(
                f"{name}: input of shape {tuple(input.shape)} does not broadcast to the product's "
                f"{tuple(product.shape)}"
            )
        input = input.expand(product.shape)
    scaled = _scale(product, alpha)
    if beta == 0:  # the input still takes part: its gradient is zeros
        if not input.requires_grad:
            return scaled
        return WHERE(product.new_zeros((), dtype=bool_), input, scaled)
    return scaled + _scale(input, beta)  # in this order it lies as the product does


def _addmm_flops(shapes: Sequence[Shape], out: Shape) -> int:
    return (2 * shapes[1][-1] + 1) * prod(out)


# bias (n,), x (..., k), y (k, n): one node where it is one product that adds the bias, and where
# elements are so few that what is around a product takes longer.
ADDMM = composite(
    "addmm",
    lambda x, y, z: (product(_rows(y), z) + x).reshape((*y.shape[:-1], z.shape[-1])),
    lambda g, x_spec: g.sum_to_size(x_spec.shape),
    lambda g, z, y_spec: product(_rows(g), _conj(z).t()).reshape(y_spec.shape),
    lambda g, y: product(_rows(_conj(y)).t(), _rows(g)),
    native_check=True,  # `_affine` checks
    fragment="device",
    of_rows=True,
    flops=_addmm_flops,
)


# The same under autocast: operands in any precision, computed in `dtype`.
LOW_ADDMM = composite(
    "autocast_addmm",
    lambda x, y, z, *, dtype: (product(_rows(y.to(dtype)), z.to(dtype)) + x.to(dtype)).reshape(
        (*y.shape[:-1], z.shape[-1])
    ),
    lambda g, x_spec: g.sum_to_size(x_spec.shape).to(x_spec.dtype),
    lambda g, z, y_spec, dtype: (
        product(_rows(g), z.to(dtype).t()).to(y_spec.dtype).reshape(y_spec.shape)
    ),
    lambda g, y, z_spec, dtype: product(_rows(y.to(dtype)).t(), _rows(g)).to(z_spec.dtype),
    native_check=True,
    fragment="device",
    of_rows=True,
    flops=_addmm_flops,
)
LOWERED["addmm"] = LOW_ADDMM


def _rows(x: Tensor) -> Tensor:
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


def _conj(x: Tensor) -> Tensor:
    return x.conj() if x.dtype.is_complex else x


def _affine(name: str, input: Tensor, x: Tensor, y: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta * input + alpha * (x @ y); on the CPU halves are rounded once, at the end."""
    if input.dtype is not x.dtype:
        raise DTypeError(
            f"{name}: input must have the matrices' dtype, received {input.dtype.name} and "
            f"{x.dtype.name}. Convert one with .to(...)."
        )
    halves_here = x.dtype.is_half and x.device.type == "cpu"
    kind = x._array.__class__
    few = kind is ndarray and max(x._array.size, y._array.size) <= FEW_ON_TAPE
    if (
        (kind in DEVICE_LAYOUTS or (few and x.dtype.is_inexact and not halves_here))
        and CONTEXT.plain
        and (beta, alpha) == (1, 1)
        and input._array.__class__ is kind
        and y.ndim == 2
        and tuple(input.shape) == tuple(y.shape[1:])
    ):
        return ADDMM(input, x, y)
    if not halves_here:
        return _combine(name, input, product(x, y), beta, alpha)
    wide = product(x.to(float32), y.to(float32))
    return _combine(name, input.to(float32), wide, beta, alpha).to(x.dtype)


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x @ weight + bias along the last dimension of x, with a weight of (in, out)."""
    on_device = x._array.__class__ in DEVICE_LAYOUTS and CONTEXT.settled
    if on_device and bias.ndim == 1 and x._array.shape[-1] == weight._array.shape[0]:
        return ADDMM(bias, x, weight)
    out = addmm(bias, x.reshape(-1, x.shape[-1]), weight)
    return out.reshape(*x.shape[:-1], -1)


def _matrix_operands(name: str, x: Tensor, y: Tensor, ranks: tuple[int, int]) -> None:
    if (x.ndim, y.ndim) != ranks:
        raise ShapeError(
            f"{name}: expected operands of {ranks[0]} and {ranks[1]} dimensions, received shapes "
            f"{tuple(x.shape)} and {tuple(y.shape)}"
        )
    check_dtypes(name, x, y)
    inner_y = y.shape[-2] if ranks[1] > 1 else y.shape[0]
    if x.shape[-1] != inner_y or (ranks == (3, 3) and x.shape[0] != y.shape[0]):
        raise ShapeError(
            f"{name}: shapes cannot be multiplied ({tuple(x.shape)} and {tuple(y.shape)})"
        )


@public(method=True, inplace=True, out=True, numbers="values")
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2).

    Example:
        >>> import adjoint as ad
        >>> ad.addmm(ad.ones(2), ad.eye(2), ad.eye(2), alpha=2)
        tensor([[3., 1.],
                [1., 3.]])
    """
    _matrix_operands("addmm", mat1, mat2, (2, 2))
    return _affine("addmm", input, mat1, mat2, beta, alpha)


@public(method=True, inplace=True, out=True, numbers="values")
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    _matrix_operands("addmv", mat, vec, (2, 1))
    return _affine("addmv", input, mat, vec, beta, alpha)


@public(method=True, inplace=True, out=True, numbers="values")
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), matrix by matrix.

    Example:
        >>> import adjoint as ad
        >>> ad.baddbmm(ad.zeros(10, 3, 5), ad.ones(10, 3, 4), ad.ones(10, 4, 5)).shape
        adjoint.Size([10, 3, 5])
    """
    _matrix_operands("baddbmm", batch1, batch2, (3, 3))
    return _affine("baddbmm", input, batch1, batch2, beta, alpha)


@public(method=True, inplace=True, out=True, numbers="values")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """beta * input + alpha * the sum over the batch of batch1 @ batch2."""
    _matrix_operands("addbmm", batch1, batch2, (3, 3))
    b, m, k = batch1.shape
    if batch1.dtype.is_half and b:  # PyTorch rounds after each matrix; so do we, for its numbers
        total = _affine("addbmm", input, batch1[0], batch2[0], beta, alpha)
        for i in range(1, b):
            total = _affine("addbmm", total, batch1[i], batch2[i], 1, alpha)
        return total
    # One product sums the batch too: rows (m) by the batch and inner dimensions together.
    left = batch1.permute(1, 0, 2).reshape((m, b * k))
    right = batch2.reshape((b * k, batch2.shape[2]))
    return _affine("addbmm", input, left, right, beta, alpha)


@public(method=True, inplace=True, out=True, numbers="values")
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2)."""
    if vec1.ndim != 1 or vec2.ndim != 1:
        raise ShapeError(
            f"addr: expected 1-D argument vec1 and vec2, but got {vec1.ndim}-D and {vec2.ndim}-D"
        )
    products = outer(vec1, vec2)
    dtype = promote_types(input.dtype, products.dtype)
    for argument, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, (float, complex)) and not dtype.is_inexact:
            raise DTypeError(
                f"addr: for integral input tensors, argument {argument} must not be a floating "
                f"point number, received {factor!r}"
            )
        if isinstance(factor, bool) and dtype is not bool_:
            raise DTypeError(f"addr: boolean {argument} only supported for boolean results")
    if dtype is bool_:
        beta, alpha = bool(beta), bool(alpha)
    return _combine("addr", input.to(dtype), products.to(dtype), beta, alpha)
