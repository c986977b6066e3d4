"""Conditions on values: checked where the values are known, whatever the mode of execution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.core.families import primitive

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor

# REQUIRE(x, condition, message): x, or a RuntimeError where some element of the condition is False.
REQUIRE = primitive(
    "require",
    lambda x, condition, message: x,
    lambda g: g,
    None,
    jvp=lambda tx: tx,
    shift=lambda params, size: params,
    native_check=True,
)


def require(x: Tensor, condition: Tensor, message: str) -> Tensor:
    """x, provided that `condition` holds everywhere."""
    return REQUIRE(x, condition, message=message)
