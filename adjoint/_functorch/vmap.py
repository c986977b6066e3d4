"""`vmap` and the steps it is made of, under PyTorch's address.

`vmap` goes through three of them once a library has put its own in their places.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from adjoint._C._functorch import _add_batch_dim as _add_batch_dim
from adjoint._C._functorch import _remove_batch_dim as _remove_batch_dim
from adjoint.engine.autodiff.transforms.batching import STEP_NAMES, STEPS
from adjoint.engine.autodiff.transforms.batching import vmap as vmap
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.tensor.tensor import Tensor as Tensor
from adjoint.utils._pytree import TreeSpec as TreeSpec
from adjoint.utils._pytree import _broadcast_to_and_flatten as _broadcast_to_and_flatten
from adjoint.utils._pytree import tree_flatten as tree_flatten
from adjoint.utils._pytree import tree_unflatten as tree_unflatten


def _get_name(func: Callable[..., Any]) -> str:
    """What to call a function in a message."""
    if isinstance(func, functools.partial):
        return f"functools.partial({_get_name(func.func)}, ...)"
    return getattr(func, "__name__", repr(func))


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """A result as the level below sees it; one without an `out_dim` has no batch."""
    if out_dim is None:
        if is_tensor(batched_output) and batched_output._storage.level is not None:
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        return batched_output
    if not is_tensor(batched_output):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type "
            f"{type(batched_output)}. Did you mean to set out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


class _Steps(ModuleType):
    """This module: `vmap` hears which of its steps a library replaced."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in STEP_NAMES:
            STEPS[name] = value
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        STEPS.pop(name, None)
        super().__delattr__(name)


sys.modules[__name__].__class__ = _Steps
