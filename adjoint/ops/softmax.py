"""Softmax and its logarithm: composites with stable derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.core.dtype import DType
from adjoint.core.families import composite
from adjoint.core.public import public
from adjoint.core.spec import wrap_dim

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor


def _softmax(x: Tensor, dim: int) -> Tensor:
    e = (x - x.detach().amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


SOFTMAX = composite(
    "softmax",
    _softmax,
    lambda g, out, dim: out * (g - (g * out).sum(dim, keepdim=True)),
    policy="fp32",
)


@public(method=True)
def softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(x) normalised to sum to one along `dim`.

    >>> import adjoint as ad
    >>> ad.softmax(ad.zeros(2), 0)
    tensor([0.5000, 0.5000])
    """
    if dtype is not None:
        input = input.to(dtype)
    return SOFTMAX(input, dim=wrap_dim("softmax", dim, input.ndim))
