"""PyTorch's older path of `vmap`, and the older function that libraries still import from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.func import vmap as vmap


def _vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    """`vmap`; results that are None are refused."""
    if allow_none_pass_through:
        raise NotImplementedError(
            "_vmap: allow_none_pass_through=True is not there; leave results that are None out, "
            "and use func.vmap"
        )
    return vmap(func, in_dims, out_dims)
