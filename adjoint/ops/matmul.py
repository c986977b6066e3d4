"""Matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.core.families import bilinear, device_of
from adjoint.core.public import public
from adjoint.core.record import Record
from adjoint.core.spec import Spec, broadcast_shapes

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor


def _infer(x: Spec, y: Spec) -> Spec:
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"matmul: expected m1 and m2 to have the same dtype, but got: {x.dtype.name} != "
            f"{y.dtype.name}. Convert one with .to(...)."
        )
    if x.shape[-1] != y.shape[-2]:
        raise RuntimeError(
            f"matmul: mat1 and mat2 shapes cannot be multiplied ({x.shape} and {y.shape}): "
            f"{x.shape[-1]} != {y.shape[-2]}. Transpose one operand or check the last two "
            "dimensions."
        )
    batch = broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2])
    return Spec((*batch, x.shape[-2], y.shape[-1]), x.dtype, device_of("matmul", (x, y)))


def _adjoint(x: Tensor) -> Tensor:
    return x.transpose(-2, -1).conj()


# (..., m, k) @ (..., k, n), batch dimensions broadcast.
MATMUL: Record = bilinear(
    "matmul",
    _infer,
    lambda g, y, x_spec: MATMUL(g, _adjoint(y)).sum_to_size(x_spec.shape),
    lambda g, x, y_spec: MATMUL(_adjoint(x), g).sum_to_size(y_spec.shape),
    batch=lambda size, x, y: MATMUL(*_align(x, y)),
    policy="lower",
    native_check=True,
)


def _align(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Give two batched operands the same rank, the batch staying in front."""
    rank = max(x.ndim, y.ndim)

    def pad(t: Tensor) -> Tensor:
        return t.reshape((t.shape[0], *(1,) * (rank - t.ndim), *t.shape[1:]))

    return pad(x), pad(y)


@public(method=True, out=True)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix product with PyTorch's treatment of vectors and batches.

    >>> import adjoint as ad
    >>> ad.matmul(ad.ones(2, 3), ad.ones(3))
    tensor([3., 3.])
    """
    n, m = input.ndim, other.ndim
    if n == 2 and m == 2:
        return MATMUL(input, other)
    if n == 0 or m == 0:
        raise RuntimeError(
            f"matmul: both arguments need to be at least 1-D, but they are {n}-D and {m}-D"
        )
    if n == 1:
        return matmul(input.reshape(1, -1), other).squeeze(-2 if m > 1 else 0)
    if m == 1:
        return matmul(input, other.reshape(-1, 1)).squeeze(-1)
    if m == 2:  # fold the batch into rows: one product, and one for the weight's gradient
        folded = MATMUL(input.reshape(-1, input.shape[-1]), other)
        return folded.reshape(*input.shape[:-1], other.shape[-1])
    return MATMUL(input, other)
