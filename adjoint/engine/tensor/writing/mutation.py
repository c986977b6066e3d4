"""Writing: the one way a tensor's elements change.

Every in-place operation computes its result first and then writes it here, so a failure leaves
the target as it was, and levels, captures and the tape each see one kind of mutation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from numpy import ndarray

from adjoint.engine.core.device import CPU
from adjoint.engine.core.dtype import can_cast
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.dispatch import highest_level
from adjoint.engine.core.operations.large import AT_ONCE
from adjoint.engine.core.operations.levels import Level
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.operations.record import HOOKS, Record
from adjoint.engine.core.operations.small_calls import ELEMENTWISE, KERNEL, NETWORKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.structure_version import STRUCTURE_VERSION
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.core.value import TensorBase
from adjoint.engine.tensor.meta import is_meta, no_data
from adjoint.engine.tensor.storage import Storage, Window, track
from adjoint.engine.tensor.strides import lane_strides
from adjoint.engine.tensor.tensor import (
    LONG,
    NO_GRAD,
    Tensor,
    alias,
    alias_with_history,
    root_of,
    symbolic,
)
from adjoint.engine.tensor.watching import doubt, join

# Functions whose results arguments decide by their elements and layouts alone, element by element.
BY_ELEMENT = frozenset(f"{ELEMENTWISE} {NETWORKS} tril triu".split())
VIEW_WITHOUT_GRADIENTS = (
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
    "Create the view with gradients enabled, or write under no_grad()."
)
SHARED = 1 << 17  # bytes from which on `copy_into` has all cores write them


def assign(name: str, target: Tensor, value: Tensor) -> Tensor:
    """Write an operation's result into `target`, after checking that it fits."""
    if value.dtype is not target.dtype:
        if not can_cast(value.dtype, target.dtype):
            raise DTypeError(
                f"{name}: result type {value.dtype.name} can't be cast to the desired output type "
                f"{target.dtype.name}. Convert the target first, or use the form without '_'."
            )
        value = value.to(target.dtype)
    if value.shape != target.shape:
        raise ShapeError(
            f"{name}: output with shape {list(target.shape)} doesn't match the broadcast shape "
            f"{list(value.shape)}. An in-place operation cannot change its target's shape."
        )
    return write(target, value)


def update(
    name: str, target: Tensor, compute: Callable[..., Tensor], *args: Any, **kwargs: Any
) -> Tensor:
    """An in-place operation: compute(target, ...) written into target."""
    if (
        isinstance(compute, Record)
        and len(args) in (1, 2)
        and not kwargs
        and all(map(_is_constant, args))
        and (CONTEXT.autocast is None or compute.policies is None)  # which has no say in it
    ):
        into = direct_array(target)
        try:
            if into is not None and HOOKS.compute_into(compute, target, *args):
                target._storage.version += 1
                return target
        except BaseException:
            doubt(target._storage)
            raise
    elif _is_large(name, target, args):
        try:
            if HOOKS.compute_large(compute, name, target, args, kwargs):
                target._storage.version += 1
                return target
        except BaseException:
            doubt(target._storage)
            raise
    wrappers = HOOKS.wrappers if target._array.__class__ is Window else None
    if wrappers is not None and wrappers.among((target,)):
        written: Tensor = wrappers.written(name, target, args, kwargs)
        return written
    since = HOOKS.sequence_now()
    result = compute(target, *args, **kwargs)
    if not result._requires_grad:
        into, array = direct_array(target), result._array
        if into is not None and array.shape == into.shape and _fits(array, into):
            if into.__class__ is ndarray and into.flags.c_contiguous and into.nbytes < SHARED:
                into[...] = array  # sooner, where one core writes it
                target._storage.version += 1
            else:
                overwrite(target, into, array)
            return target
    if result._node is not None and CONTEXT.grad_enabled:
        HOOKS.keep_overwritten(target, result, since)
        if written_over(target, result):
            return target
        if isinstance(compute, Record) and not compute.is_view and takes_over(target, result):
            return target
    if CONTEXT.levels and CONTEXT.grad_enabled:
        _keep_beneath(target, result, since)
    return assign(name, target, result)


def _is_large(name: str, target: Tensor, args: tuple[Any, ...]) -> bool:
    """Whether an in-place form may be one program of many elements, of which nobody must know."""
    array = target._array
    if array.__class__ is not ndarray or array.size < AT_ONCE or CONTEXT.autocast is not None:
        return False
    if name.rstrip("_") not in BY_ELEMENT or not all(map(_is_constant, args)):
        return False
    return direct_array(target) is not None


def takes_over(target: Tensor, result: Tensor) -> bool:
    """Have a tensor on the tape take the memory of a record's new result, if nobody can tell."""
    if not CONTEXT.settled or CONTEXT.before_write is not None or target._node is None:
        return False
    check_writable(target)
    if not HOOKS.array.take_over(target, result):
        return False
    STRUCTURE_VERSION.count += 1
    rebase(target, result, target)
    return True


def written_over(target: Tensor, result: Tensor) -> bool:
    """What `assign` comes to for a result on the tape where nothing is in doubt; else False."""
    array, new = target._array, result._array
    if array.__class__ is not ndarray or new.__class__ is not ndarray or not CONTEXT.plain:
        return False
    if array.dtype is not new.dtype or array.shape != new.shape or 0 in array.strides:
        return False
    storage, base = target._storage, target._base
    if storage.version < 0 or CONTEXT.before_write is not None:
        return False
    root = target if base is None else base[0]
    if root._base is not None or (base is not None and base[1] is NO_GRAD):
        return False
    if root._node is None and (root._requires_grad or target._requires_grad):
        return False
    before = alias_with_history(root)
    overwrite(target, array, new)
    rebase(target, result, before)
    return True


def write(target: Tensor, value: Tensor) -> Tensor:
    """Replace what `target` shows by `value`, of the same shape, dtype and device."""
    if CONTEXT.capture is not None and CONTEXT.capture.closes:
        CONTEXT.capture.check_write(target)
        value = CONTEXT.capture.entered(value)
    check_writable(target)
    if target._base is not None and target._base[1] is NO_GRAD and not _is_constant(value):
        raise RuntimeError(VIEW_WITHOUT_GRADIENTS)  # before anything of it is written
    if CONTEXT.before_write is not None:
        CONTEXT.before_write(target._storage)
    if CONTEXT.levels:
        level = highest_level((target, value))
        if level is not None:
            return _write_level(level, target, value)
    before = alias_on_tape(target)
    if CONTEXT.capture is not None:
        CONTEXT.capture.write(target, value)
        target._storage.version += 1
    else:
        _copy_elements(target, value)
    rebase(target, value, before)
    if CONTEXT.capture is not None:
        picked = CONTEXT.capture.picked(target)
        if picked is not None:
            HOOKS.write_back(picked)
    return target


def _fits(source: Any, target: Any) -> bool:
    """Whether an array's elements are another's by being written there: truths are 0 and 1."""
    if source.dtype == target.dtype:
        return True
    on_host = source.__class__ is ndarray and target.__class__ is ndarray
    return on_host and source.dtype.kind == "b" and target.dtype.kind in "iuf"


def _copy_elements(target: Tensor, value: Tensor) -> None:
    if type(target._array) is Window or type(value._array) is Window:
        if HOOKS.wrappers is not None and HOOKS.wrappers.among((target, value)):
            HOOKS.wrappers.copied(target, value)
            return
        if is_meta(target):
            target._storage.version += 1
            return
        raise no_data("copy_") if is_meta(value) else RuntimeError(leak_message())
    overwrite(target, target._array, value._array)


def overwrite(target: Tensor, array: Any, source: Any) -> None:
    """Write to the array of a tensor at once, and count that (Note [watched memory])."""
    try:
        HOOKS.array.copy_into(array, source)
        target._storage.version += 1
    except BaseException:
        doubt(target._storage)
        raise


def rebind_window(target: Tensor, view: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """Make `target` show what view(target, ...) shows: squeeze_, t_, as_strided_, set_ ...

    What it was lives on as the base of its own views (see `root_of`). Without gradients recorded
    it still is what it was on the tape: a leaf, or, seen another way, a result.
    """
    if CONTEXT.plain and target._storage.version >= 0 and is_off_tape(target):
        # A view of something needs no tensor that stands for what it was: its base does.
        take_window(
            target, view(alias(target) if target._base is None else target, *args, **kwargs)
        )
        target._storage.version += 1
        return target
    leaf = target._requires_grad and target._node is None
    check_changed(target)
    old = alias_with_history(target)
    old._base = target._base
    if target._node is None or (CONTEXT.grad_enabled and not CONTEXT.inference):
        shown = view(old, *args, **kwargs)
    else:
        with CONTEXT.having(grad_enabled=True, inference=False):
            shown = view(old, *args, **kwargs)
    if CONTEXT.capture is not None:
        CONTEXT.capture.rebinds(target, shown, "window")
        CONTEXT.capture.touch(target)
        CONTEXT.capture.versions.setdefault(shown._storage, shown._storage.version)
    take_window(target, shown)
    if leaf and not CONTEXT.grad_enabled:
        target._requires_grad = True
    target._storage.version += 1
    return target


def turn_window(target: Tensor, link_for: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """`rebind_window` of dimensions exchanged or of size 1; False: nothing was done.

    Note [turned in place]
        What a tensor off the tape becomes when its dimensions change places is known without
        another tensor that shows it: its array, seen so, and one link more. A link that undoes the
        one before leaves with it, and of two reshapes the later says all, so that the chain of a
        tensor turned at every step of a loop stays as short as it was.
    """
    array = target._array
    if array.__class__ is not ndarray or not CONTEXT.plain or LISTENERS or OVERRIDES.active:
        return False
    storage, base, root = target._storage, target._base, target
    while root._base is not None:
        root = root._base[0]
    if storage.version < 0 or target._node is not None:
        return False
    if target._requires_grad or root._requires_grad:
        return False
    link = link_for(array.shape, args)
    if link is None:
        return False
    record, params = link
    kernel = record.plans.get(KERNEL)
    if kernel is None:  # from the first call on, which is made as ever
        return False
    shown = kernel(array, **params)
    if base is None:
        root = alias(target)
    chain = target._chain
    last, before = chain[-1] if len(chain) > len(root._chain) else (None, {})
    if last is not record:
        chain = (*chain, link)
    elif "shape" in params:
        chain = (*chain[:-1], link)
    else:  # of the exchanges that `link_for` gives, each undoes itself
        chain = chain[:-1] if before is params or before == params else (*chain, link)
    if len(chain) >= LONG:
        chain = HOOKS.shortened(target, shown, chain)
    mark: Any = root._node if CONTEXT.grad_enabled else NO_GRAD
    if base is not None and base[1] is NO_GRAD:
        mark = NO_GRAD
    if base is None or base[0] is not root or base[1] is not mark:  # else it is marked so
        target._base = (root, mark)
    target._array, target._chain = shown, chain
    storage.version += 1
    STRUCTURE_VERSION.count += 1
    return True


def is_off_tape(x: Tensor) -> bool:
    """Whether gradients lead neither to a tensor nor to what it is a view of."""
    return not x._requires_grad and (x._base is None or not root_of(x)._requires_grad)


def take_window(target: Tensor, shown: Tensor) -> None:
    """Make `target` what another tensor is: its window, and its place on the tape."""
    target._array, target._storage, target._chain = shown._array, shown._storage, shown._chain
    target._base, target._requires_grad = shown._base, shown._requires_grad
    target._node, target._nr = shown._node, shown._nr
    STRUCTURE_VERSION.count += 1


HOOKS.rebind_window = rebind_window
HOOKS.turn_window = turn_window
HOOKS.update = update


def direct_array(target: Tensor) -> Any:
    """The array a constant may be written to at once, or None where someone must know of it.

    That is the case outside transforms, captures and observers, and off the tape; the caller
    counts the write: `target._storage.version += 1`. Autocast has no say in what is written.
    """
    array = target._array
    if type(array) is Window or not (CONTEXT.settled or CONTEXT.inferring):
        return None
    if target._storage.version < 0 and not CONTEXT.inferring:
        return None
    if CONTEXT.grad_enabled:
        holder = target if target._base is None else root_of(target)
        if holder._requires_grad or target._requires_grad:
            return None
    HOOKS.array.check_overlap(array)
    return array


def _is_constant(x: Any) -> bool:
    """Whether the tape has no interest in an operand."""
    return (
        not isinstance(x, TensorBase) or not CONTEXT.grad_enabled or not x.requires_grad  # type: ignore[attr-defined]
    )


def constants(*tensors: Tensor) -> bool:
    """Whether all are concrete, on one device and off the tape."""
    if not (CONTEXT.plain or CONTEXT.inferring):
        return False
    first, followed = None, CONTEXT.grad_enabled
    for t in tensors:
        kind = t._array.__class__
        if kind is Window or (followed and t.requires_grad):
            return False
        where = CPU if kind is ndarray else t.device
        if first is None:
            first = where
        elif where is not first and where != first:
            return False
    return True


def leak_message() -> str:
    """The error for a symbolic tensor used outside the trace or transform that made it."""
    return (
        "a tensor made inside a capture or transform was used outside it, where it has no "
        "elements. Return it from the function instead of keeping it, or create what outlives the "
        "call under adjoint.engine.core.state.context.concrete()."
    )


def check_writable(target: Tensor) -> None:
    """Refuse the writes autograd cannot follow, as PyTorch does."""
    HOOKS.array.check_overlap(target._array)
    check_changed(target)


def check_changed(target: Tensor) -> None:
    """Refuse to change in place what is not to be changed here, be it only what it shows."""
    if target._storage.version < 0 and not CONTEXT.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can "
            "make a clone to get a normal tensor before doing inplace update."
        )
    if CONTEXT.grad_enabled:
        check_followed(target)


def check_followed(target: Tensor) -> None:
    """Refuse to change in place a leaf that wants a gradient, or a view of one."""
    if target._base is None:
        if target._requires_grad and target._node is None:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation. "
                "Wrap the write in no_grad(), or work on a clone."
            )
        return
    root, seen = root_of(target), target._base[1]
    # A view may be a leaf of its own, of memory that wants no gradient.
    if root._node is None and (root._requires_grad or target.requires_grad):
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation. "
            "Wrap the write in no_grad(), or work on a clone."
        )
    if seen is NO_GRAD and root._requires_grad:
        raise RuntimeError(VIEW_WITHOUT_GRADIENTS)


def alias_on_tape(target: Tensor) -> Tensor:
    """The tensor whose history a write extends, as it stands before the write."""
    return alias_with_history(target if target._base is None else root_of(target))


def rebase(target: Tensor, value: Tensor, before: Tensor) -> None:
    """Give the written tensor (or the base of a written view) its new place on the tape."""
    if not CONTEXT.grad_enabled or not (value.requires_grad or before._requires_grad):
        return
    if CONTEXT.capture is not None:
        CONTEXT.capture.touch(target)
    if target._base is None:
        if value.requires_grad:
            placed = value if value._node is not None else placed_apart(value)
            target._node, target._nr = placed._node, placed._nr
            target._requires_grad = True
        else:
            HOOKS.attach_constant(target, before)
        if target._grad_meta is not None and target._grad_meta.retains_grad is not None:
            HOOKS.keep_retaining(target)
        return
    root = root_of(target)
    if CONTEXT.capture is not None:
        CONTEXT.capture.touch(root)
    chain = target._chain[len(root._chain) :]
    HOOKS.attach(HOOKS.view_scatter, (before, value), {"chain": chain}, root)
    for written in (root, target):
        if written._grad_meta is not None and written._grad_meta.retains_grad is not None:
            HOOKS.keep_retaining(written)


def placed_apart(value: Tensor) -> Tensor:
    """A tensor of the caller's with a place of its own on the tape, for `write` to give away.

    The written tensor would take the caller's own: hooks and gradients of the one would be the
    other's as well.
    """
    return value.view_as(value) if value.requires_grad and CONTEXT.grad_enabled else value


def _write_level(level: Level, target: Tensor, value: Tensor) -> Tensor:
    storage = target._storage
    if storage.level is not level:
        if storage.birth < level.depth:
            raise RuntimeError(
                "an in-place write inside a transform would put a transformed value into a tensor "
                "made outside it. Create the tensor inside the function (for example with "
                "new_zeros), or return the value."
            )
        _lift_storage(level, target)
    before = alias_on_tape(target)
    payload = value_at(level, value)
    if target._chain:
        payload = level.scatter(storage.payload, target._chain, payload)
    if level.arguments is not None and storage in level.arguments:
        with CONTEXT.having(grad_enabled=level.outer_grad and CONTEXT.grad_enabled):
            payload = level.overwrite(storage.payload, payload)
    storage.payload = payload
    storage.version += 1
    rebase(target, value, before)
    return target


def _keep_beneath(target: Tensor, result: Tensor, since: int) -> None:
    """Before a transform's argument, or a tensor beneath a result, is overwritten by the result.

    Nodes beneath the transform that saved its elements keep the old ones.
    """
    level, above = target._storage.level, result._storage.level
    if above is not None and above is not level:  # `constant.mul_(x)`, where x is a transform's
        for part in above.tensors(payload(result)):
            if part is not None:
                if part._node is not None:
                    HOOKS.keep_overwritten(target, part, since)
                _keep_beneath(target, part, since)
        return
    if level is None or level.arguments is None or target._storage not in level.arguments:
        return
    written = level.tensors(target._storage.payload)[0]
    for part in level.tensors(value_at(level, result)):
        if part is not None:
            if part._node is not None:
                HOOKS.keep_overwritten(written, part, since)
            _keep_beneath(written, part, since)


def _lift_storage(level: Level, target: Tensor) -> None:
    """Move a storage born inside the level up to it, so that it can hold the level's values."""
    storage = target._storage
    root = _root_of(target)
    holder = target if target._base is None else root_of(target)
    if holder._requires_grad and not holder._chain:
        # Its place on the tape below is the payload's from now on; at the level it is constant.
        if CONTEXT.capture is not None:
            CONTEXT.capture.touch(holder)
        root._node, root._nr, root._requires_grad = holder._node, holder._nr, True
        holder._node, holder._nr, holder._requires_grad = None, 0, False
    track(storage)
    storage.payload = level.lift(root)
    storage.level = level


def _root_of(target: Tensor) -> Tensor:
    """A tensor of the level below showing the whole of a storage, detached from that storage."""
    storage = target._storage
    if storage.level is not None:
        return symbolic_root(storage)
    if storage.trace is not None:
        return storage.trace.root_tensor(storage)
    root = HOOKS.array.wrap(storage.buffer)
    join(storage, root._storage)
    return root


def symbolic_root(storage: Any) -> Tensor:
    """A fresh storage with the same payload: the old one is about to move up a level."""
    from_payload = storage.level.wrap_payload(storage.payload)
    return from_payload


def value_at(level: Level, tensor: Tensor) -> Any:
    """The payload of a tensor as `level` sees it."""
    if tensor._storage.level is level:
        return payload(tensor)
    return level.lift(tensor)


def payload(tensor: Tensor) -> Any:
    """What a tensor of a level stands for: its storage's payload seen through its chain."""
    storage = tensor._storage
    value = storage.payload
    for record, params in tensor._chain:
        value = storage.level.window(value, record, params)
    return value


def make_level_tensor(level: Level, spec: Any, value: Any) -> Tensor:
    """A new tensor of a level holding `value`."""
    storage = Storage(None, level=level, payload=value)
    storage.birth = CONTEXT.levels[-1].depth if CONTEXT.levels else 0
    return symbolic(spec, storage, lane_strides(getattr(value, "primal", value), spec.shape))


def make_argument(level: Level, tensor: Tensor) -> Tensor:
    """The same tensor of a level, as one that was handed in (Note [arguments of transforms])."""
    if level.arguments is None:
        level.arguments = WeakSet()
    level.arguments.add(tensor._storage)
    return tensor


__all__ = ["Record", "assign", "make_level_tensor", "payload", "value_at", "write"]
