"""Functions that `special` shares with the top level, in the form they have here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.public import public

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


@public(namespaces=("special",), name="softmax")
def special_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(x) normalised to sum to one along `dim`."""
    return input.softmax(dim, dtype)


@public(namespaces=("special",), name="log_softmax")
def special_log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The logarithm of `softmax`."""
    return input.log_softmax(dim, dtype)


@public(namespaces=("special",), out=True, name="logsumexp")
def special_logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over `dim`."""
    return input.logsumexp(dim, keepdim)
