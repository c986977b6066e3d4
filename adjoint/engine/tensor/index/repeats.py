"""Writes by index and by mask into tensors that show elements more than once (`expand`).

Each element of memory is then written as often as it is shown where the index points, one after
the other, so the last value stays, and with `accumulate` all are added. PyTorch allows these writes
and refuses others to such tensors, as `check_overlap` does. What is on the tape, recorded or inside
of a transform is left to the operation, which refuses it: a gradient would count every element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.ops.elementwise.condition import fill_value, masked_fill
from adjoint.engine.ops.index.index import fit_values, index_put
from adjoint.engine.ops.index.whole_slices import index_fill
from adjoint.engine.tensor.index.subscripts import Picks
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.filling import without_repeats
from adjoint.engine.tensor.writing.mutation import constants


def repeats(target: Tensor) -> bool:
    """Whether an expanded dimension shows elements more than once."""
    array = target._array
    return 0 in array.strides and any(
        step == 0 and size > 1 for step, size in zip(array.strides, array.shape, strict=True)
    )


def put_once(
    target: Tensor, select: Callable[[Tensor], Tensor], value: Any, accumulate: bool = False
) -> None:
    """Write a value where `select` finds positions, each of them in memory."""
    once = without_repeats(target)
    places = once.new_arange(once.numel()).reshape(once.shape).expand(target.shape)
    chosen = select(places)
    if not is_tensor(value):
        value = once.new_full((), value)
    once.put_(chosen, fit_values(value, tuple(chosen.shape)), accumulate)


def assigned(target: Tensor, value: Tensor, picks: Picks) -> bool:
    """`target[key] = value`, where `picks` are the index tensors of the key."""
    if not repeats(target) or not constants(target, value, *[index for _, index in picks]):
        return False
    key: list[Any] = []
    at = 0
    for dim, index in picks:
        key += [slice(None)] * (dim - at)
        key.append(index)
        at = dim + (index.ndim if index.dtype is bool_ else 1)
    if value.dtype is not target.dtype:
        if len(picks) > 1 or picks[0][1].dtype is not bool_ or value.numel() != 1:
            return False  # which the operation refuses
        value = value.to(target.dtype)
    put_once(target, lambda places: places[tuple(key)], value)
    return True


def _put(target: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> bool:
    given = [index for index in indices if is_tensor(index)]
    if not is_tensor(values) or not constants(target, values, *given):
        return False
    index_put(target, indices, values, accumulate)  # says what is wrong
    key = tuple(slice(None) if index is None else index for index in indices)
    put_once(target, lambda places: places[key], values, accumulate)
    return True


def _fill_where(target: Tensor, mask: Tensor, value: Any) -> bool:
    if not is_tensor(mask) or not constants(target, mask, *([value] if is_tensor(value) else [])):
        return False
    if masked_fill(target, mask, value).shape != target.shape:
        return False
    filling = fill_value("masked_fill", value, target)
    put_once(target, lambda places: places[mask.expand(target.shape)], filling)
    return True


def _fill_at(target: Tensor, dim: int, index: Tensor, value: Any) -> bool:
    if not is_tensor(index) or not constants(target, index, *([value] if is_tensor(value) else [])):
        return False
    index_fill(target, dim, index, value)  # says what is wrong
    filling = fill_value("index_fill", value, target)
    key = (*[slice(None)] * (dim % max(target.ndim, 1)), index.long())
    put_once(target, lambda places: places[key], filling)
    return True


_WRITES: dict[str, Callable[..., bool]] = {
    "index_put": _put, "masked_fill": _fill_where, "index_fill": _fill_at,
}  # fmt: skip


def write_repeated(name: str) -> Callable[[Tensor, Any, Any], bool] | None:
    """What writes in place of a method where elements are shown more than once, if it may."""
    write = _WRITES.get(name)
    if write is None:
        return None

    def written(target: Tensor, args: Any, kwargs: Any) -> bool:
        return repeats(target) and write(target, *args, **kwargs)

    return written
