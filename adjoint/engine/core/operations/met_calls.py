"""Public calls that are programs already: of few elements on the CPU, or on a GPU.

What `@public` asks before it calls the function itself: whether nobody looks on, whether the
operands may be few or a device's, and what their program gives (Note [small calls]).
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from adjoint.engine.core.device import CPU
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.dispatch import for_inference, mark_for_inference
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.overrides import (
    OVERRIDES,
    concerns_nobody,
)
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.operations.small_calls import (
    EVERY,
    SmallCalls,
    is_heard,
    is_looked_at,
    is_looked_at_on_tape,
)
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.core.value import TensorBase

MOST_OPERANDS = 64  # of programs; of more, looking for one takes as long as the call
ON_CPU = (None, CPU)  # where new tensors are that programs know
HERE = (None, "cpu", CPU)  # the same, as it is asked for


def writes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a function that has `inplace` may be asked to write to its argument."""
    return bool(kwargs.get("inplace")) or any(x is True for x in args)


def is_untouched() -> bool:
    """Whether inference mode is on neither under autocast nor with gradients said to be on."""
    return CONTEXT.autocast is None and not CONTEXT.grad_enabled


def may_be_small(x: Any, called: bool = False, operands: tuple[Any, ...] | None = None) -> bool:
    """Whether x is no GPU's, and nothing is going on that a program of a small call does not know.

    A GPU's tensors have fragments, which such a program would only be looked for before. Of
    inference mode `call_small` knows; callers that make tensors themselves do not. Where classes
    that override were met, all `operands` have to be known to take nothing over.
    """
    return (
        not (DEVICE_LAYOUTS and x._array.__class__ in DEVICE_LAYOUTS)
        and (CONTEXT.plain or (called and CONTEXT.inferring and is_untouched()))
        and not LISTENERS
        and not (OVERRIDES.active and (operands is None or not concerns_nobody(operands, {})))
        and CONTEXT.device in ON_CPU
    )


def is_of_device(args: tuple[Any, ...]) -> bool:
    """Whether a call is about a GPU's tensors, of which programs of small calls know nothing."""
    x: Any = args[0] if args else None
    if x.__class__ is str and len(args) > 1:  # of einsum, what is to be done
        x = args[1]
    if x.__class__ in (list, tuple) and x:
        x = x[0]
    return isinstance(x, TensorBase) and x._array.__class__ in DEVICE_LAYOUTS


def joined(small: SmallCalls, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments as native code compares them: tensors in a list among the rest."""
    if small.joins and args and args[0].__class__ in (list, tuple):
        return (len(args[0]), *args[0], *args[1:])
    if small.spreads and len(args) > 1 and args[1].__class__ in (list, tuple):
        return (args[0], len(args[1]), *args[1], *args[2:])
    return args


def is_followed(x: Any) -> bool:
    """Whether the tape follows a tensor, or what it is a view of."""
    return x._requires_grad or (x._base is not None and x._base[0]._requires_grad)


def call_on_device(
    small: SmallCalls, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What a program of a function gives on a GPU (Note [calls on a device]); None: it has none."""
    operands = joined(small, args) if small.joins else args
    if CONTEXT.grad_enabled:
        for x in operands:
            if isinstance(x, TensorBase):  # `is_followed`, inline
                base = x._base
                if x._requires_grad or (base is not None and base[0]._requires_grad):
                    return None
    if small.met:
        try:
            result = HOOKS.meet_on_device(
                small.name, small.met, operands, kwargs, switches.computed_with
            )
        except MemoryError:  # as it is, it says what is wrong
            result = None
        if result is not None:
            return small.rebuild(result) if result.__class__ is tuple else result
    small.seen_there += 1
    if not small.seen_there % EVERY:
        HOOKS.note_on_device(small, operands, kwargs, lambda: fn(*args, **kwargs))
    return None


def call_straight(small: SmallCalls, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What operations known before give (Note [calls heard before]); None: there are none."""
    if small.straight:
        try:
            result = HOOKS.meet_straight(small.straight, args, kwargs, switches.computed_with)
        except MemoryError:  # as it is, it says what is wrong
            return None
        if result is not None:
            return result
    if is_heard(small):
        HOOKS.note_straight(small, args, kwargs, lambda: fn(*args, **kwargs))
    return None


def called_straight(small: SmallCalls, fn: Any, *args: Any, **kwargs: Any) -> Any:
    """What a function gives whose tensors autocast has cast, by operations known before if it can
    be; programs of whole calls were looked for before that."""
    if (
        CONTEXT.plain
        and args
        and getattr(args[0], "_array", None).__class__ in DEVICE_LAYOUTS
        and not (LISTENERS or OVERRIDES.active)
        and not (small.may_write and writes(args, kwargs))
    ):
        result = call_straight(small, fn, args, kwargs)
        if result is not None:
            return result
    return fn(*args, **kwargs)


def call_making(small: SmallCalls, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What makes a tensor where it is told, or by default (Note [made on a device])."""
    if kwargs.get("device") is None:
        kwargs = {**kwargs, "device": CONTEXT.device}
    result = None
    try:
        if small.met:
            result = HOOKS.meet_on_device(
                small.name, small.met, args, kwargs, switches.computed_with
            )
        if small.small and result is None:
            result = HOOKS.meet_call(small.small, args, kwargs, False)
    except MemoryError:  # as it is, it says what is wrong
        return None
    if result is None:
        small.seen_there += 1
        if not small.seen_there % EVERY:
            HOOKS.note_making(small, args, kwargs, lambda: fn(*args, **kwargs))
    return result


def with_generator(operands: Any, generator: Any) -> Any:
    """Operands with the generator, if there is one, as the last (Note [small draws])."""
    return operands if generator is None else (*operands, generator)


def call_small(small: SmallCalls, fn: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """What a program of a function gives; None where it has none for these arguments."""
    if given and small.creates and given.get("requires_grad") is True:  # without, then on
        plain = {name: value for name, value in given.items() if name != "requires_grad"}
        made = call_small(small, fn, args, plain)
        return None if made is None else made.requires_grad_(True)
    kwargs = given
    operands = joined(small, args)
    if len(operands) > MOST_OPERANDS:
        return None
    if (
        small.off_tape
        and len(operands) > small.joins
        and getattr(operands[small.joins], "_requires_grad", False)
        and CONTEXT.grad_enabled
    ):  # as native code would find; one that comes later is left to it
        if is_looked_at_on_tape(small):
            HOOKS.note_taped(small, operands, given, lambda: fn(*args, **given))
        return None
    if "device" in kwargs:  # it is `HERE`, where programs are
        kwargs = {name: x for name, x in kwargs.items() if name != "device"}
    if small.draws and "generator" in kwargs:
        kwargs = {name: x for name, x in kwargs.items() if name != "generator"}
        operands = with_generator(operands, given["generator"])
    while True:
        if small.small:
            try:
                taped = CONTEXT.grad_enabled and not small.unfollowed
                result = HOOKS.meet_call(small.small, operands, kwargs, taped)
            except Exception as error:  # as it is, it succeeds or says what is wrong
                if raised_outside(error):
                    raise
                result = None
            if result is not None:
                if CONTEXT.inferring:
                    mark_for_inference(result, operands)
                return small.rebuild(result) if result.__class__ is tuple else result
        if not kwargs or small.draws or "out" in kwargs:
            break
        operands, plain = with_named(operands, kwargs)
        if plain is kwargs:
            break
        kwargs = plain  # once more, with all tensors among the operands
    followed = [isinstance(x, TensorBase) and is_followed(x) for x in operands]
    if small.off_tape and CONTEXT.grad_enabled and any(followed):
        if is_looked_at_on_tape(small):
            HOOKS.note_taped(small, operands, given, lambda: fn(*args, **given))
    elif is_looked_at(small):
        noted = (small, operands, kwargs, lambda: fn(*args, **given))
        if CONTEXT.inferring:
            for_inference(HOOKS.note_call, noted, {}, operands)
        else:
            HOOKS.note_call(*noted)
    return None


def with_named(
    operands: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Tensors given by name (`weight=w`) as operands, each after a mark that has its name."""
    named = [name for name, x in kwargs.items() if isinstance(x, TensorBase)]
    if not named:
        return operands, kwargs
    plain = {name: x for name, x in kwargs.items() if name not in named}
    for name in sorted(named):
        operands = (*operands, ("=", name), kwargs[name])
    return operands, plain


def write_small(
    small: SmallCalls, fn: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether a program of a function wrote what it gives to its first argument.

    Note [small writes]
        The rows of a small call compute in memory of their own and copy the result at the end, so
        they may as well copy it to the first operand, if that lies as a result would. What
        `direct_array` asks of a target is asked here as well: that nobody must know of the write.
        Rows that fail, fail before anything is written. A program without rows gives a tensor,
        which is copied here.
    """
    operands = (target, *args)
    spread = joined(small, operands) if small.spreads else operands
    return written_small(small, target, spread, kwargs, fn, operands)


def put_small(
    small: SmallCalls, fn: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether a program of a function put what it gives into `out=`, given as one more operand.

    It reads no element of it. What else shares its memory is left to `assign_out`, which has more
    to ask than a program.
    """
    storage, operands = target._storage, joined(small, args)
    for x in operands:
        if isinstance(x, TensorBase) and x._storage is storage and x is not target:
            return False
    if kwargs and ("device" in kwargs or any(isinstance(x, TensorBase) for x in kwargs.values())):
        return False
    return written_small(small, target, (target, *operands), kwargs, fn, args)


def written_small(
    small: SmallCalls,
    target: Any,
    operands: tuple[Any, ...],
    kwargs: dict[str, Any],
    fn: Any,
    args: tuple[Any, ...],
) -> bool:
    """Whether a program wrote to its first operand what `fn` gives of arguments (Note [small
    writes])."""
    array, storage = target._array, target._storage
    if array.__class__ is not ndarray or LISTENERS or not CONTEXT.plain:
        return False
    if OVERRIDES.active and not concerns_nobody(operands, kwargs):
        return False
    followed = CONTEXT.grad_enabled
    if followed and target._requires_grad:  # as native code would find
        return False
    if small.small and storage.version >= 0 and array.flags.writeable:
        try:
            written = HOOKS.meet_into_small(small.small, operands, kwargs, followed)
        except BaseException as error:
            if not isinstance(error, Exception) or raised_outside(error):
                storage.version += 1  # an interrupt: it may be written
                raise
            written = None  # as it is, it succeeds or says what is wrong
        if written is not None:
            if written is not True:
                array[...] = written._array
            storage.version += 1
            return True
    if followed:
        for x in operands:
            if isinstance(x, TensorBase) and is_followed(x):
                return False
    if is_looked_at(small):
        HOOKS.note_call(small, operands, kwargs, lambda: fn(*args, **kwargs))
    return False


def write_part(small: SmallCalls, fn: Any, operands: tuple[Any, ...]) -> bool:
    """Whether a program of a function wrote what it gives to its first operand, a plain one.

    The caller has asked all that `written_small` asks but whether memory may be written, and counts
    the write: the operand may be a part of the tensor that is written to.
    """
    array = operands[0]._array
    if small.small and array.flags.writeable:
        try:
            written = HOOKS.meet_into_small(small.small, operands, NOTHING_NAMED, False)
        except Exception as error:  # as it is, it succeeds or says what is wrong
            if raised_outside(error):
                raise
            written = None
        if written is not None:
            if written is not True:
                array[...] = written._array
            return True
    if is_looked_at(small):
        HOOKS.note_call(small, operands, NOTHING_NAMED, lambda: fn(*operands))
    return False


NOTHING_NAMED: dict[str, Any] = {}
