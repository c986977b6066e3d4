"""`index_add_` and `index_put_(accumulate=True)` in the memory of their target.

What they give is otherwise a tensor of its own, which is copied: of a long table of which few rows
change, that takes most of the time. Whatever is not as expected here is left to the operation
itself, which computes it or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.ops.common.arguments import checked_scalar
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.mutation import constants, direct_array

WORTH = 4096  # elements of a target from which on its copy costs more than to look


def index_add(target: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`target.index_add_(dim, index, source, alpha=)`; False: nothing was done."""
    if len(args) != 3 or kwargs.keys() - {"alpha"} or not _is_long(target):
        return False
    dim, index, source = args
    alpha = kwargs.get("alpha", 1)
    if type(dim) is not int or dim not in (0, -target.ndim) or not is_tensor(index):
        return False
    if index.ndim != 1 or type(alpha) not in (int, float):
        return False
    if alpha != 1:
        if not (is_tensor(source) and source.dtype.is_floating_point):
            return False
        source = source * checked_scalar("index_add", alpha, source.dtype)
    return _add(target, (index,), source, wrap=False)


def index_put(target: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`target.index_put_(indices, values, accumulate)`; False: nothing was done."""
    if not 2 <= len(args) <= 3 or kwargs.keys() - {"accumulate"} or not _is_long(target):
        return False
    adds = args[2:] == (True,) if len(args) == 3 else kwargs.get("accumulate") is True
    indices = args[0]
    if not adds or type(indices) not in (tuple, list) or not indices:
        return False
    if not all(is_tensor(i) and i.shape == indices[0].shape for i in indices):
        return False
    return _add(target, indices, args[1], wrap=True)


# By the operation's name.
IN_MEMORY: dict[str, Callable[[Tensor, tuple[Any, ...], dict[str, Any]], bool]] = {
    "index_add": index_add,
    "index_put": index_put,
}


def _is_long(target: Tensor) -> bool:
    return (
        target._array.__class__ is ndarray
        and target._array.size >= WORTH
        and not (LISTENERS or OVERRIDES.active)
    )


def _add(target: Tensor, indices: Sequence[Any], values: Any, wrap: bool) -> bool:
    """Whether values were added at indices of the first dimensions."""
    if not is_tensor(values) or values.dtype is not target.dtype or values.is_sparse:
        return False
    wanted = (*indices[0].shape, *target.shape[len(indices) :])
    if tuple(values.shape) != wanted or len(indices) > target.ndim:
        return False
    if any(i.dtype is not int64 for i in indices) or not constants(values, *indices):
        return False
    into = direct_array(target)
    if into is None:
        return False
    if not HOOKS.array.add_into_at(into, values._array, [i._array for i in indices], wrap):
        return False
    target._storage.version += 1
    return True
