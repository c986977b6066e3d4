"""Which dtypes of input and target a loss refuses, as PyTorch's do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.engine.core.dtype import DType, bool_, can_cast
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.promotion import common_dtype

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _received(input: Tensor, target: Tensor) -> str:
    return f"received {input.dtype.name} and {target.dtype.name}. Convert one with .to(...)."


def require_floating_pair(name: str, input: Tensor, target: Tensor) -> None:
    """Refuse what does not promote to a real floating dtype."""
    common = common_dtype((input, target))
    if not common.is_floating_point:
        raise NotImplementedError(
            f"{name}: not implemented for {common.name}, {_received(input, target)}"
        )


def require_result_in(name: str, dtype: DType, input: Tensor, target: Tensor) -> None:
    """Refuse a loss whose result would not fit the dtype it is given in."""
    common = common_dtype((input, target))
    if not can_cast(common, dtype):
        raise DTypeError(
            f"{name}: result type {common.name} can't be cast to the desired output type "
            f"{dtype.name}, {_received(input, target)}"
        )


def refuse_bool(name: str, *tensors: Tensor) -> None:
    """Refuse what cannot be subtracted."""
    if any(t.dtype is bool_ for t in tensors):
        raise DTypeError(f"{name}: subtraction with a bool tensor is not supported. Convert it.")
