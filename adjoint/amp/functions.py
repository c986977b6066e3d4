"""Custom functions under autocast: the precision of a `Function`'s forward and backward."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.amp.autocast_mode import autocast, is_autocast_enabled
from adjoint.engine.core.dtype import DType, float64
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten, unflatten


def _converted(value: Any, device_type: str, dtype: DType) -> Any:
    leaves, structure = flatten(value)
    return unflatten(
        structure,
        [
            x.to(dtype)
            if is_tensor(x)
            and x.is_floating_point()
            and x.device.type == device_type
            and x.dtype is not float64
            else x
            for x in leaves
        ],
    )


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: DType | None = None,
) -> Any:
    """Decorates a custom function's `forward`.

    Args:
        device_type: "cpu" or "cuda".
        cast_inputs: the dtype its tensors are cast to while autocast is on, with autocast off
            inside; None: as they are, with autocast as it is.
    """
    if not isinstance(device_type, str):
        raise ValueError(
            f"Expected `device_type` of type `str`, got: `{type(device_type).__name__}`"
        )
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        context._dtype = CONTEXT.autocast_settings
        on = is_autocast_enabled(device_type)
        if cast_inputs is None or not on:
            context._fwd_used_autocast = on
            return fwd(*args, **kwargs)
        context._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            return fwd(
                context,
                *_converted(args[1:], device_type, cast_inputs),
                **_converted(kwargs, device_type, cast_inputs),
            )

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorates a custom function's `backward`: it runs with the autocast of its forward.

    Args:
        device_type: "cpu" or "cuda".
    """
    if not isinstance(device_type, str):
        raise ValueError(
            f"Expected `device_type` of type `str`, got: `{type(device_type).__name__}`"
        )
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        settings = args[0]._dtype
        dtype = None if settings is None else settings.of(device_type).dtype
        with autocast(device_type, dtype=dtype, enabled=args[0]._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return backward
