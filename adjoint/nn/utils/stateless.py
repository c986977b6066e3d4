"""Modules as functions of their parameters, under the older name."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from typing import Any

from adjoint.engine.autodiff.transforms import modules


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers; `func.functional_call` replaces it."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated and will be removed in a future "
        "release. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return modules.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def _reparametrize_module(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> AbstractContextManager[None]:
    """The module with other parameters and buffers, for a block."""
    del stack_weights  # they are put back last first in any case
    return modules.swapped(module, parameters_and_buffers, tie=tie_weights, strict=strict)
