"""Chains of views whose links were checked before, followed at once; views by given strides."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.backends.array.buffers import Buffers
from adjoint.engine.backends.array.executor import find_device_kernel, find_kernel, view_of
from adjoint.engine.backends.array.gpu.device_memory import POOLS
from adjoint.engine.backends.array.kernels.shape.views import follow
from adjoint.engine.backends.array.memory.strides import copy_with
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.record import HOOKS, Record
from adjoint.engine.core.spec import Size
from adjoint.engine.core.state.context import CONTEXT

Links = tuple[tuple[Record, dict[str, Any]], ...]


def view_call(chains: tuple[Links, ...], single: bool, like: Any) -> Callable[..., Any]:
    """A function that shows a tensor through these chains, whose links were checked.

    All that it is given lie in memory as `like` does; more arguments may follow the tensor.
    """

    def prepared(links: Links) -> list[tuple[Record, Callable[[Any], Any], dict[str, Any]]]:
        array, ready = like, []
        for record, params in links:
            find = find_kernel if array.__class__ is ndarray else find_device_kernel
            kernel = partial(find(record), **params)
            ready.append((record, shower(array, kernel), params))
            array = kernel(array)
        return ready

    every = [prepared(links) for links in chains]

    def follow(source: Any, *_: Any) -> Any:
        outs, taped = [], CONTEXT.grad_enabled
        for links in every:
            out = source
            for record, show, params in links:  # `view_of`, inline where native code makes it
                array = show(out._array)
                made = HOOKS.show if array.__class__ is ndarray else HOOKS.show_there
                plans = record.tape if taped else None
                seen = None if made is None else made(out, array, record, params, plans)
                out = view_of(out, array, record, params) if seen is None else seen
            outs.append(out)
        return outs[0] if single else tuple(outs)

    if not single or len(every[0]) != 1:
        return follow
    (((record, show, params),),) = every

    def follow_one(source: Any, *_: Any) -> Any:
        array = show(source._array)
        made = HOOKS.show if array.__class__ is ndarray else HOOKS.show_there
        plans = record.tape if CONTEXT.grad_enabled else None
        seen = None if made is None else made(source, array, record, params, plans)
        return view_of(source, array, record, params) if seen is None else seen

    return follow_one


def shower(like: Any, kernel: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What shows arrays that lie as `like` does the way a kernel of views does.

    Of an array in one piece a view is known by its place, which NumPy is told at once; a GPU's are
    made natively (Note [native views]).
    """
    if like.__class__ is not ndarray:
        on_gpu = POOLS and like.__class__ in DEVICE_LAYOUTS
        return POOLS[0].viewer(like, kernel) if on_gpu else kernel
    seen = kernel(like)
    plain = like.flags.c_contiguous and like.dtype.isbuiltin == 1 and seen.flags.writeable
    if not plain or not seen.size or not np.may_share_memory(seen, like):
        return kernel
    shape, dtype, strides = seen.shape, seen.dtype, seen.strides
    ahead = seen.ctypes.data - like.ctypes.data
    return lambda array: ndarray(shape, dtype, array, ahead, strides)


HOOKS.view_call = view_call

Key = tuple[Any, ...]
SEEN = 3  # times that a part of arrays was asked for, after which it is shown natively
PARTS: dict[Key, Any] = {}  # by what is asked for of which arrays: how often, or what shows it
KEPT_PARTS = 1 << 12


def part_of(array: Any, key: Any, index: Key) -> Any:
    """The part of a GPU's array that a basic key shows, which is an `index` of views.

    CuPy reads a key anew each time.
    """
    kind = (index, array.shape, array.strides, array.dtype)
    show = PARTS.get(kind, 0)
    if show.__class__ is not int:
        return show(array)
    whole = key if key.__class__ is tuple else (key,)
    whole = whole if Ellipsis in whole else (*whole, ...)
    if show < SEEN:
        if len(PARTS) >= KEPT_PARTS:
            PARTS.clear()
        PARTS[kind] = show + 1
    else:
        PARTS[kind] = shower(array, lambda given: given[whole])
    return array[whole]


Buffers.part_of = staticmethod(part_of)


_SEQUENCES = (tuple, list, Size)


def restrided(record: Record, x: Any, size: Any, stride: Any, place: Any) -> Any:
    """What `as_strided` shows of a tensor that is its storage, in one piece; None: to be looked at.

    NumPy makes the array where it is in one piece and that stays inside, which is the one check. To
    ask before what is said where it does not takes four times as long.
    """
    array = x._array
    if array.__class__ is not ndarray or array is not x._storage.buffer or x._chain:
        return None
    if size.__class__ not in _SEQUENCES or stride.__class__ not in _SEQUENCES:
        return None
    size, stride = (*size,), (*stride,)
    if not size or not array.size:
        return None
    for n in (place, *size, *stride):
        if n.__class__ is not int or n < 0:
            return None
    item = array.itemsize
    try:
        shown = ndarray(size, array.dtype, array, place * item, [s * item for s in stride])
    except (ValueError, TypeError, BufferError, OverflowError):
        return None
    params = {"size": size, "stride": stride, "offset": place, "x_stride": x.stride()}
    return view_of(x, shown, record, params)


def taken_apart(
    array: Any, chain: Links, around: bool, inside: bool
) -> tuple[Any | None, Any | None] | None:
    """An array of NumPy with zeros where a chain of views looks, and what it shows there.

    That is what the rules of VIEW_SCATTER give of a cotangent, in the same layouts; only what is
    asked for is made. None where this layout shows no view, so that the rules have to look.
    """
    rest = copy_with(np, array, "same") if around else None
    window = follow(np, array if rest is None else rest, chain)
    if not np.may_share_memory(window, array if rest is None else rest):
        return None
    shown = copy_with(np, window, "same") if inside else None
    if rest is not None:
        window[...] = 0
    return rest, shown


Buffers.restrided = staticmethod(restrided)
Buffers.taken_apart = staticmethod(taken_apart)
