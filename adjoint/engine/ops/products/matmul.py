"""Matrix products: one bilinear primitive, and the functions that are nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.layout import strided
from adjoint.engine.core.operations.families import bilinear, composite, device_of
from adjoint.engine.core.operations.large import COMPUTED, HALF_DTYPES, HALVES, WAITS
from adjoint.engine.core.operations.overrides import OVERRIDES, concerns_nobody
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS, Record, Shape, is_tensor
from adjoint.engine.core.spec import Spec, broadcast_shapes
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def check_dtypes(name: str, x: Any, y: Any) -> None:
    """Refuse operands of two dtypes, and booleans, as PyTorch's products do."""
    if x.dtype is not y.dtype:
        raise DTypeError(
            f"{name}: expected both operands to have the same dtype, but got: {x.dtype.name} and "
            f"{y.dtype.name}. Convert one with .to(...)."
        )
    if x.dtype is bool_:
        raise NotImplementedError(
            f"\"{name}\" not implemented for 'Bool'. Convert the operands with .to(...)."
        )


def _infer(x: Spec, y: Spec) -> Spec:
    check_dtypes("matmul", x, y)
    if x.shape[-1] != y.shape[-2]:
        raise ShapeError(
            f"matmul: mat1 and mat2 shapes cannot be multiplied ({x.shape} and {y.shape}): "
            f"{x.shape[-1]} != {y.shape[-2]}. Transpose one operand or check the last two "
            "dimensions."
        )
    batch = broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2])
    return Spec((*batch, x.shape[-2], y.shape[-1]), x.dtype, device_of("matmul", (x, y)))


def adjoint_of(x: Tensor) -> Tensor:
    """The conjugate transpose of the last two dimensions."""
    x = x.transpose(-2, -1)
    return x.conj() if x.dtype.is_complex else x


def _pulled(x: Tensor, y: Tensor) -> Tensor:
    """x @ y; of one column and one row (a vector took part) elements multiply, with no sum."""
    inner = x.shape[-1]
    return x * y if type(inner) is int and inner == 1 else MATMUL(x, y)


LITTLES = 64  # matrices from which on a library, which takes them one by one, is slower


def matrices_from(least: int) -> Callable[[Sequence[Shape], Any], bool]:
    """Whether there are so many matrices, however little (a record's `much`)."""

    def much(shapes: Sequence[Shape], _: Any) -> bool:
        return any(len(shape) > 2 and prod(shape[:-2]) >= least for shape in shapes)

    return much


# (..., m, k) @ (..., k, n), batch dimensions broadcast.
MATMUL: Record = bilinear(
    "matmul",
    _infer,
    lambda g, y, x_spec: _pulled(g, adjoint_of(y)).sum_to_size(x_spec.shape),
    lambda g, x, y_spec: _pulled(adjoint_of(x), g).sum_to_size(y_spec.shape),
    batch=lambda size, x, y: _batched(x, y),
    batch_mixed=lambda size, values, batched: _shared(size, values, batched),
    native_check=True,
    fragment="computed",
    much=matrices_from(LITTLES),
    lies_in_rows=True,
    flops=lambda shapes, out: 2 * prod(out) * shapes[0][-1],
)


# The same of two long vectors, of which a library's product takes one core, and halves by way of
# copies in float32.
DOT = composite(
    "dot_product",
    lambda x, y: (_in_single(x) * _in_single(y)).sum().to(x.dtype),
    lambda g, y: g * y,
    lambda g, x: g * x,
    operands=("x", "y"),
    fragment="composed",
)


def _conjugate(x: Tensor) -> Tensor:
    return x.conj() if x.dtype.is_complex else x


# The same of two vectors that the tape follows: the library's product, as one node where a row, a
# column and what becomes of them would be five.
VECTOR_PRODUCT = composite(
    "dot",
    lambda x, y: MATMUL(x.reshape((1, x.shape[0])), y.reshape((y.shape[0], 1))).reshape(()),
    lambda g, y: g * _conjugate(y),
    lambda g, x: g * _conjugate(x),
    operands=("x", "y"),
)


def _in_single(x: Tensor) -> Tensor:
    return x.float() if x.dtype.is_half else x


def _batched(x: Tensor, y: Tensor) -> Tensor:
    """The product of two batches: their ranks made equal, the batch staying in front."""
    rank = max(x.ndim, y.ndim)

    def pad(t: Tensor) -> Tensor:
        return t.reshape((t.shape[0], *(1,) * (rank - t.ndim), *t.shape[1:]))

    return MATMUL(pad(x), pad(y))


def _shared(size: int, values: list[Tensor], batched: list[bool]) -> Tensor:
    """One operand is the same for all of the batch: a matrix is then multiplied once."""
    x, y = values
    if batched[0]:
        if x.ndim == 3 and y.ndim == 2:
            rows = x.reshape((size * x.shape[1], x.shape[2]))
            return MATMUL(rows, y).reshape((size, x.shape[1], y.shape[1]))
        return _batched(x, y.expand((size, *y.shape)))
    return _batched(x.expand((size, *x.shape)), y)


@public(namespaces=("", "linalg"), method=True, out=True)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix product with PyTorch's treatment of vectors and batches.

    >>> import adjoint as ad
    >>> ad.matmul(ad.ones(2, 3), ad.ones(3))
    tensor([3., 3.])
    """
    if not is_tensor(other):
        raise TypeError(f"matmul: other must be a Tensor, received {type(other).__name__}")
    return product(input, other)


def product(x: Tensor, y: Tensor) -> Tensor:
    """`x @ y`."""
    a, b = x._array.shape, y._array.shape
    n, m = len(a), len(b)
    if n == 2 and m == 2:
        return MATMUL(x, y)
    if n == 1 and a == b and _are_long(x, y):
        return DOT(x, y)
    if n == 0 or m == 0:
        raise ShapeError(
            f"matmul: both arguments need to be at least 1-D, but they are {n}-D and {m}-D"
        )
    if n == 1:
        if m == 1 and a == b and _has_no_history(x) and _has_no_history(y):
            row, column = x._array.reshape(1, -1), y._array.reshape(-1, 1)
            out = MATMUL(HOOKS.array.wrap(row), HOOKS.array.wrap(column))
            return HOOKS.array.wrap(out._array.reshape(()))
        if m == 1 and a == b and _are_arrays(x, y):
            return VECTOR_PRODUCT(x, y)
        out = product(x.reshape((1, a[0])), y)
        return out.squeeze(-2 if m > 1 else 0)
    if m == 1:
        return product(x, y.reshape((b[0], 1))).squeeze(-1)
    if m == 2 and a[-1] == b[0] and x.layout is strided:
        # fold the batch into rows: one product, and one for the weight's gradient
        folded = MATMUL(x.reshape((prod(a[:-1]), a[-1])), y)
        return folded.reshape((*a[:-1], b[-1]))
    return MATMUL(x, y)


def _are_long(x: Tensor, y: Tensor) -> bool:
    """Whether vectors of one length are as long as fragments are, and nobody asks for more.

    Shorter ones than that are a small call's program before long, which sums in another order: a
    call's last digit would depend on how many there were before it.
    """
    array, dtype = x._array, y._array.dtype
    least = HALVES if dtype in HALF_DTYPES else max(DOT.large, COMPUTED + 1) if WAITS else DOT.large
    if not (0 < least <= array.size and DOT.large) or array.dtype != dtype:
        return False
    return _is_seen_by_none(x) and (y is x or _is_seen_by_none(y))


def _has_no_history(x: Tensor) -> bool:
    """Whether nobody asks how a vector of the CPU's came to be seen as a matrix.

    Then its array alone is seen so: the views of both, and back, take three times the time of the
    product of 4000 elements.
    """
    return _is_seen_by_none(x) and not (CONTEXT.grad_enabled and x.requires_grad)


def _is_seen_by_none(x: Tensor) -> bool:
    """Whether floats of the CPU's may be multiplied in whichever way is quickest."""
    return (
        _is_array(x)
        and (x._array.dtype.kind == "f" or x._array.dtype in HALF_DTYPES)
        and not (LISTENERS or HOOKS.wrappers is not None)
        and not (OVERRIDES.active and not concerns_nobody((x,), {}))
    )


def _is_array(x: Tensor) -> bool:
    """Whether a tensor is one of the CPU's, in a plain context."""
    return CONTEXT.plain and x._array.__class__ is ndarray and x.layout is strided


def _are_arrays(x: Tensor, y: Tensor) -> bool:
    """The same of two vectors of one dtype that has gradients.

    Of longer ones a program would sum in another order than the library, so that a call's last
    digit would depend on how many there were before it.
    """
    if not (_is_array(x) and _is_array(y)) or x._array.size > COMPUTED:
        return False
    kind = x._array.dtype
    return kind.kind in "fc" and kind == y._array.dtype


def _need(name: str, argument: str, x: Any, ndim: int) -> None:
    if not is_tensor(x):
        raise TypeError(f"{name}: {argument} must be a Tensor, received {type(x).__name__}")
    if x.ndim != ndim:
        raise ShapeError(
            f"{name}: {argument} must be {ndim}-D, received shape {tuple(x.shape)}. Use matmul for "
            "other ranks."
        )


def _named(name: str, x: Tensor, y: Tensor) -> Tensor:
    """A product of matrices whose errors speak of the function called."""
    check_dtypes(name, x, y)
    if x.shape[-1] != y.shape[-2] or x.shape[:-2] != y.shape[:-2]:
        raise ShapeError(
            f"{name}: shapes cannot be multiplied ({tuple(x.shape)} and {tuple(y.shape)}). "
            "Inner sizes must be equal, and batch sizes too."
        )
    return MATMUL(x, y)


@public(method=True, out=True)
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices, without broadcasting.

    Example:
        >>> import adjoint as ad
        >>> ad.mm(ad.eye(2), ad.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[1., 2.],
                [3., 4.]])
    """
    _need("mm", "input", input, 2)
    _need("mm", "mat2", mat2, 2)
    return _named("mm", input, mat2)


@public(method=True, out=True)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of two batches of matrices, without broadcasting.

    Example:
        >>> import adjoint as ad
        >>> ad.bmm(ad.ones(10, 3, 4), ad.ones(10, 4, 5)).shape
        adjoint.Size([10, 3, 5])
    """
    _need("bmm", "input", input, 3)
    _need("bmm", "mat2", mat2, 3)
    return _named("bmm", input, mat2)


@public(method=True, out=True)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector."""
    _need("mv", "input", input, 2)
    _need("mv", "vec", vec, 1)
    return _named("mv", input, vec.unsqueeze(1)).squeeze(1)


def _vectors(name: str, x: Tensor, y: Tensor) -> None:
    _need(name, "input", x, 1)
    _need(name, "tensor", y, 1)
    check_dtypes(name, x, y)
    if x.shape != y.shape:
        raise ShapeError(
            f"{name}: inconsistent tensor size, expected tensor [{x.shape[0]}] and src "
            f"[{y.shape[0]}] to have the same number of elements"
        )


@public(method=True, out=True)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Sum of the products of two vectors' elements.

    >>> import adjoint as ad
    >>> ad.dot(ad.tensor([2, 3]), ad.tensor([2, 1]))
    tensor(7)
    """
    if is_tensor(input) and is_tensor(tensor):
        shape = input._array.shape
        if len(shape) == 1 and shape == tensor._array.shape and _are_long(input, tensor):
            return DOT(input, tensor)
    _vectors("dot", input, tensor)
    return product(input, tensor)


@public(method=True, out=True)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """`dot` with the first vector conjugated."""
    _vectors("vdot", input, other)
    return product(input.conj(), other)
