"""Softmax as layers call it, softmin, and samples of nearly one-hot vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.operations.public import public
from adjoint.engine.ops.nn.common import FUNCTIONAL
from adjoint.engine.ops.random.samplers import fill
from adjoint.engine.ops.reduce import softmax as plain

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def implicit_dim(name: str, dim: int | None, ndim: int) -> int:
    """PyTorch's old guess of the dimension, with its warning."""
    if dim is not None:
        return dim
    warn_user(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument."
    )
    return 0 if ndim in (0, 1, 3) else 1


@public(namespaces=FUNCTIONAL)
def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """exp(x) normalised to sum to one along `dim`."""
    return plain.softmax(input, implicit_dim("softmax", dim, input.ndim), dtype)


@public(namespaces=FUNCTIONAL)
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """The logarithm of softmax along `dim`."""
    return plain.log_softmax(input, implicit_dim("log_softmax", dim, input.ndim), dtype)


@public(namespaces=FUNCTIONAL)
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """softmax of -x along `dim`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.softmin(ad.tensor([1.0, 2.0]), dim=0)
        tensor([0.7311, 0.2689])
    """
    return plain.softmax(-input, implicit_dim("softmin", dim, input.ndim), dtype)


@public(namespaces=FUNCTIONAL)
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Samples of the Gumbel-softmax distribution, one-hot in the forward pass where `hard`.

    Args:
        logits: unnormalised log probabilities.
        tau: temperature.
        hard: return one-hot samples, differentiated as if they were the soft ones.
        dim: the dimension whose entries compete.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.gumbel_softmax(ad.zeros(2, 3), hard=True).sum(1)
        tensor([1., 1.])
    """
    gumbels = -fill("gumbel_softmax", "exponential", (1.0,), logits, None).log()
    soft = plain.softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one_hot = soft.new_zeros(soft.shape).scatter(dim, index, 1.0)
    return one_hot - soft.detach() + soft
