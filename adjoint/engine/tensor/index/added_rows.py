"""`index_add_`, `index_copy_`, `index_fill_`, `put_`, `index_put_` in the memory of their target.

What they give is otherwise a tensor of its own, which is copied: of a long table of which few rows
change, that takes most of the time. Whatever is not as expected here is left to the operation
itself, which computes it or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from adjoint.engine.core.dtype import bool_, int64
from adjoint.engine.core.operations.met_calls import may_be_small
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.ops.common.arguments import checked_scalar
from adjoint.engine.tensor.index import few
from adjoint.engine.tensor.index.few import INT64
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.watching import doubt
from adjoint.engine.tensor.writing.filling import holds
from adjoint.engine.tensor.writing.mutation import constants, direct_array

WORTH = 4096  # elements of a target from which on its copy costs more than to look


def index_add(target: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`target.index_add_(dim, index, source, alpha=)`; False: nothing was done."""
    if len(args) != 3 or kwargs.keys() - {"alpha"} or not _is_long(target):
        return False
    dim, index, source = args
    alpha = kwargs.get("alpha", 1)
    if type(alpha) not in (int, float):
        return False
    if alpha != 1:
        if not (is_tensor(source) and source.dtype.is_floating_point):
            return False
        source = source * checked_scalar("index_add", alpha, source.dtype)
    d = _dimension(target, dim, index)
    return (
        d is not None
        and _fits(target, d, index, source)
        and _written(target, HOOKS.array.add_slices, source._array, d, index._array)
    )


def index_copy(target: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`target.index_copy_(dim, index, source)`; False: nothing was done."""
    if len(args) != 3 or kwargs or not _is_long(target):
        return False
    dim, index, source = args
    d = _dimension(target, dim, index)
    return (
        d is not None
        and _fits(target, d, index, source)
        and _written(target, HOOKS.array.write_slices, source._array, d, index._array, False)
    )


def index_fill(target: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`target.index_fill_(dim, index, value)` of a number; False: nothing was done."""
    if len(args) != 3 or kwargs or not _is_long(target):
        return False
    dim, index, value = args
    d = _dimension(target, dim, index)
    if d is None or not constants(index) or not holds(value, target):
        return False
    return _written(target, HOOKS.array.write_slices, value, d, index._array, True)


def put(target: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`target.put_(index, source)`; False: nothing was done."""
    if len(args) != 2 or kwargs or not _is_long(target) or not target._array.flags.c_contiguous:
        return False
    index, source = args
    if not is_tensor(index) or index.dtype is not int64 or not is_tensor(source):
        return False
    if source.dtype is not target.dtype or source.numel() != index.numel() or source.is_sparse:
        return False
    if not constants(index, source):
        return False
    values, picks = (x._array.reshape(-1) for x in (source, index))
    return _written(
        target, lambda into: HOOKS.array.write_slices(into.reshape(-1), values, 0, picks, True)
    )


def _dimension(target: Tensor, dim: Any, index: Any) -> int | None:
    """Along which dimension a vector of indices goes; None where it is none, or not there."""
    if type(dim) is not int or not -target.ndim <= dim < target.ndim:
        return None
    if not is_tensor(index) or index.dtype is not int64 or index.ndim != 1:
        return None
    return dim % target.ndim


def _fits(target: Tensor, dim: int, index: Tensor, source: Any) -> bool:
    """Whether a tensor has a slice of the target's for each index, and nobody follows it."""
    if not is_tensor(source) or source.dtype is not target.dtype or source.is_sparse:
        return False
    wanted = (*target.shape[:dim], index.shape[0], *target.shape[dim + 1 :])
    return tuple(source.shape) == wanted and constants(source, index)


def _written(target: Tensor, write: Callable[..., bool], *arguments: Any) -> bool:
    """Whether something was written into the memory of a target."""
    into = direct_array(target)
    try:
        if into is None or not write(into, *arguments):
            return False
        target._storage.version += 1
        return True
    except BaseException:
        doubt(target._storage)
        raise


def index_put(target: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`target.index_put_(indices, values, accumulate)`; False: nothing was done."""
    if not 2 <= len(args) <= 3 or kwargs.keys() - {"accumulate"}:
        return False
    adds = args[2] if len(args) == 3 else kwargs.get("accumulate", False)
    indices = args[0]
    if type(indices) not in (tuple, list) or not indices:
        return False
    if adds is False:
        return _put_few(target, tuple(indices), args[1])
    if adds is not True or target._array.__class__ is not ndarray or LISTENERS or OVERRIDES.active:
        return False
    return _add(target, indices, args[1], wrap=True)


def _put_few(target: Tensor, indices: tuple[Any, ...], values: Any) -> bool:
    """Whether a number or a vector was written to few elements (Note [few elements])."""
    if LISTENERS or OVERRIDES.active or not may_be_small(target):
        return False
    if not is_tensor(values) or values.is_sparse:
        return False
    if not all(map(is_tensor, indices)) or not constants(target, values, *indices):
        return False
    if values.ndim > _rank_of_selected(target, indices):
        return False  # an assignment drops leading dimensions of 1, this does not
    if 0 in target._array.strides:  # an element may be there twice
        return False
    return _written(target, lambda into: few.put(target, into, indices, values))


def _rank_of_selected(target: Tensor, indices: Sequence[Tensor]) -> int:
    """How many dimensions what indices of the first dimensions select has."""
    block = taken = 0
    for index in indices:
        rank = len(index._array.shape)
        if rank and index.dtype is bool_:
            block, taken = max(block, 1), taken + rank
        else:
            block, taken = max(block, rank), taken + 1
    return block + len(target._array.shape) - taken


# By the operation's name.
IN_MEMORY: dict[str, Callable[[Tensor, tuple[Any, ...], dict[str, Any]], bool]] = {
    "index_add": index_add,
    "index_copy": index_copy,
    "index_fill": index_fill,
    "index_put": index_put,
    "put": put,
}


def _is_long(target: Tensor) -> bool:
    return (
        target._array.__class__ is ndarray
        and target._array.size >= WORTH
        and not (LISTENERS or OVERRIDES.active)
    )


def _add(target: Tensor, indices: Sequence[Any], values: Any, wrap: bool) -> bool:
    """Whether values were added at indices of the first dimensions."""
    for x in (values, *indices):
        if not is_tensor(x) or x._array.__class__ is not ndarray:
            return False
    if values.dtype is not target.dtype or values.is_sparse or not constants(values, *indices):
        return False
    places = [index._array for index in indices]
    block, shape = places[0].shape, target._array.shape
    for place in places:
        if place.shape != block or place.dtype != INT64:
            return False
    if values._array.shape != block + shape[len(places) :] or len(places) > len(shape):
        return False
    return _written(target, HOOKS.array.add_into_at, values._array, places, wrap)
