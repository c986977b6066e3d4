"""Several modules, each with arguments of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """What each module makes of its arguments, in order: one after the other.

    Args:
        modules: the modules.
        inputs: their arguments, a tuple each, or one argument.
        kwargs_tup: their keyword arguments.
        devices: where each is; told by its parameters in any case.

    Example:
        >>> import adjoint as ad
        >>> parallel_apply([ad.nn.ReLU(), ad.nn.Identity()], [ad.tensor(-1.0)] * 2)
        [tensor(0.), tensor(-1.)]
    """
    named: Sequence[dict[str, Any]] = kwargs_tup or [{}] * len(modules)
    for given in (inputs, named, devices if devices is not None else modules):
        if len(given) != len(modules):
            raise ValueError(
                f"parallel_apply: {len(modules)} modules, but {len(given)} arguments or devices"
            )
    return [
        module(*(given if isinstance(given, (tuple, list)) else (given,)), **options)
        for module, given, options in zip(modules, inputs, named, strict=True)
    ]
