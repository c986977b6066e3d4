"""What the linear-algebra families share: checks, batches, small matrix helpers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import DType, bool_, int32
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Spec, broadcast_shapes
from adjoint.engine.ops.common.checks import require
from adjoint.engine.ops.products.matmul import MATMUL, adjoint_of, matrices_from

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

__all__ = ["MATMUL", "adjoint_of"]


def same_params(params: dict[str, Any], size: int) -> dict[str, Any]:
    """Batching of operations that already work on the last two dimensions of anything."""
    return params


# Matrices that Python takes one by one for longer than a program takes to be called.
of_many = matrices_from(8)


# -- checks -------------------------------------------------------------------------------------


def check_inexact(name: str, *tensors: Any, halves: bool = False) -> None:
    """Refuse what is not a tensor of floating or complex numbers (and halves, by default)."""
    for x in tensors:
        if not is_tensor(x):
            raise TypeError(f"{name}: expected a Tensor, received {type(x).__name__}")
        if not x.dtype.is_inexact:
            raise NotImplementedError(  # a RuntimeError, and what some of PyTorch's kernels raise
                f"{name}: Expected a floating point or complex tensor as input. Got "
                f"{x.dtype.name}. Convert it with .to(...)."
            )
        if x.dtype.is_half and not halves:
            raise NotImplementedError(
                f"{name}: Low precision dtypes not supported. Got {x.dtype.name}. Convert to "
                "float32."
            )


def check_matrix(name: str, x: Any, argument: str = "A", *, square: bool = False) -> None:
    """Refuse what is not a (batch of) matrices, square ones where asked."""
    check_inexact(name, x)
    if x.ndim < 2:
        raise ShapeError(
            f"{name}: The input tensor {argument} must have at least 2 dimensions, received shape "
            f"{tuple(x.shape)}."
        )
    if square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{name}: {argument} must be batches of square matrices, but they are "
            f"{x.shape[-2]} by {x.shape[-1]} matrices"
        )


def check_same_dtype(name: str, x: Any, y: Any) -> None:
    """Refuse operands of two dtypes."""
    if x.dtype is not y.dtype:
        raise DTypeError(
            f"{name}: Expected the operands to have the same dtype, but got {x.dtype.name} and "
            f"{y.dtype.name}. Convert one with .to(...)."
        )


def broadcast_batches(name: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both with one batch shape, the last two dimensions left alone."""
    if x.shape[:-2] == y.shape[:-2]:
        return x, y
    batch = broadcast_shapes(name, tuple(x.shape[:-2]), tuple(y.shape[:-2]))
    return x.expand((*batch, *x.shape[-2:])), y.expand((*batch, *y.shape[-2:]))


# -- specs --------------------------------------------------------------------------------------


def matrix_like(x: Spec, rows: int, columns: int, dtype: DType | None = None) -> Spec:
    """The spec of matrices of another size in the batch of x."""
    return Spec((*x.shape[:-2], rows, columns), dtype or x.dtype, x.device)


def vector_like(x: Spec, size: int, dtype: DType | None = None) -> Spec:
    """The spec of one vector per matrix of x."""
    return Spec((*x.shape[:-2], size), dtype or x.dtype, x.device)


def scalar_like(x: Spec, dtype: DType | None = None) -> Spec:
    """The spec of one number per matrix of x."""
    return Spec(x.shape[:-2], dtype or x.dtype, x.device)


def info_like(x: Spec) -> Spec:
    """The spec of LAPACK's info, one per matrix of x."""
    return scalar_like(x, int32)


# -- small matrix helpers -----------------------------------------------------------------------


def diag(x: Tensor) -> Tensor:
    """The diagonals of matrices."""
    return x.diagonal(0, -2, -1)


def add_all(*terms: Any) -> Any:
    """The sum of those terms that are there; None if none is."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def match_real(g: Tensor, spec: Spec) -> Tensor:
    """A cotangent of a real operand is real."""
    return g.real if g.dtype.is_complex and not spec.dtype.is_complex else g


def zeros_from(x: Tensor) -> Tensor:
    """Zeros that depend on x, for results that are constant but differentiable."""
    return x.masked_fill(x.new_ones((), dtype=bool_), 0)


def ensure_zero(g: Tensor, residual: Tensor, message: str) -> Tensor:
    """g, after checking that the residual vanishes (to PyTorch's tolerance).

    Losses that depend on the gauge (phases of eigenvectors) are told by it.
    """
    vanishes = residual.abs() <= 1e-2
    if vanishes.ndim < g.ndim:  # a number for each row: programs look at elements of g
        vanishes = vanishes.unsqueeze(-1).expand(g.shape)
    return require(g, vanishes, message)
