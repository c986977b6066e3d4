"""The public surface: which functions exist, under which names and in which forms.

An operation's function is declared once with `@public`; the facade, the Tensor methods, the
in-place forms and the `out=` variants are derived from this table.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from numpy import ndarray

from adjoint.engine.core.annotations import complete
from adjoint.engine.core.device import CPU
from adjoint.engine.core.dtype import DType, as_dtype
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.autocast import FUNCTIONS
from adjoint.engine.core.operations.dispatch import for_inference, mark_for_inference
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.older import SCALED, in_our_names, modern
from adjoint.engine.core.operations.overrides import (
    OVERRIDES,
    PASS,
    QUESTIONS,
    asking,
    concerns_nobody,
    dispatch,
    overriding,
    takes_operands,
)
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.operations.small_calls import (
    EVERY,
    SmallCalls,
    is_heard,
    is_looked_at,
    is_looked_at_on_tape,
    small_calls,
)
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.core.value import TensorBase

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Public:
    """One public function and its forms."""

    name: str
    fn: Callable[..., Any]
    namespaces: tuple[str, ...]  # "" is the top level; "linalg", "fft", "special", ...
    method: bool
    inplace: bool
    out: bool


PUBLIC: dict[tuple[str, str], Public] = {}  # (namespace, name)
METHODS: dict[str, Callable[..., Any]] = {}  # Tensor methods, in-place forms left out
INPLACE: dict[str, Callable[..., Any]] = {}  # name without the underscore -> function
PROPERTIES: dict[str, Any] = {}  # a getter, or a whole property
NUMBERS: dict[str, str] = {}  # functions of which `numbers` is said, by name without underscores


def public(
    *,
    method: bool | str = False,
    inplace: bool = False,
    out: bool = False,
    function: bool = True,
    namespaces: tuple[str, ...] = ("",),
    aliases: tuple[str, ...] = (),
    name: str = "",
    numbers: str = "",
) -> Callable[[F], F]:
    """Publish a function of the operation layer.

    method     also a Tensor method (first argument becomes self)
    inplace    also an in-place method, the name with an underscore
    out        accepts `out=`
    function   False where PyTorch has the method only
    aliases    further names with all the same forms
    numbers    what whole numbers given to it are: "values" (factors, bounds), "elements" (those in
               lists too), or what says what is done: sizes, dimensions. Those of elementwise
               operations are values
    """

    def declare(fn: F) -> F:
        complete(fn.__globals__)
        base = name or fn.__name__.rstrip("_")
        small = small_calls(base)
        plain = _adapted(base, fn, small, method=True) if method else fn
        if not function and plain is not fn:
            plain.__name__ = base  # what it is known by to those who take it over
        published = _adapted(base, fn, small, out=out, checked=True)
        if name and published is not fn:
            published.__name__ = base
        for alias in (base, *aliases):
            _note_numbers(alias, numbers)
            if function:
                for space in namespaces:
                    PUBLIC[space, alias] = Public(
                        alias, published, namespaces, bool(method), inplace, out
                    )
            if method:
                METHODS[alias] = plain
            if inplace:
                INPLACE[alias] = fn
        return published  # type: ignore[return-value]

    return declare


@overload
def method(fn: F) -> F: ...
@overload
def method(
    *, name: str = ..., aliases: tuple[str, ...] = ..., numbers: str = ...
) -> Callable[[F], F]: ...
def method(
    fn: F | None = None, *, name: str = "", aliases: tuple[str, ...] = (), numbers: str = ""
) -> Any:
    """Publish a Tensor method that is not also a function (or differs from the function)."""

    def declare(fn: F) -> F:
        complete(fn.__globals__)
        base = name or fn.__name__
        small = small_calls(base)
        adapted = small is not None or takes_operands(fn)
        for alias in (base, *aliases):
            _note_numbers(alias, numbers)
            METHODS[alias] = _adapted(base, fn, small, method=True) if adapted else fn
            if METHODS[alias] is not fn:
                METHODS[alias].__name__ = base  # what it is known by to those who take it over
        if base.startswith("__"):
            fn.__name__ = base
        return fn

    return declare if fn is None else declare(fn)


def _note_numbers(name: str, numbers: str) -> None:
    if numbers:
        NUMBERS[name.strip("_")] = numbers


def prop(fn: F) -> F:
    """Publish a read-only Tensor property."""
    complete(fn.__globals__)
    small = small_calls(fn.__name__)
    PROPERTIES[fn.__name__] = fn if small is None else _adapted(fn.__name__, fn, small)
    return fn


# NumPy's names for arguments, which PyTorch accepts as well.
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def _adapted(
    base: str,
    fn: Callable[..., Any],
    small: SmallCalls | None,
    *,
    out: bool = False,
    checked: bool = False,
    method: bool = False,
) -> Callable[..., Any]:
    """`fn` as users call it: NumPy's spellings, autocast, `out=`, and refusal of what is no tensor.

    One wrapper for all four, and for calls on few elements, because each would cost half a
    microsecond. Methods need no check of their first argument, and it costs nothing until
    something is missing.
    """
    code = fn.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    renames = {theirs: ours for theirs, ours in _NUMPY_NAMES.items() if ours in names}
    if "axis" in names:
        renames = {}
    policies = FUNCTIONS.get(base)
    kinds = fn.__annotations__ if checked else {}
    wanted = [name for name, kind in kinds.items() if kind == "Tensor" and name != "return"]
    typed = "dtype" in names and base != "type"  # which takes the name of a type too
    asks = checked or takes_operands(fn)
    into = None
    if small is not None:
        small.may_write = "inplace" in names
        of_new = small.on_cpu and (small.off_tape or small.unfollowed)
        if out and of_new and not (small.draws or small.creates):
            into = SmallCalls(base, into=True)
    again = None
    if small is not None and small.goes_straight and policies:
        again = functools.partial(called_straight, small, fn)
    if base in QUESTIONS or not (
        renames or policies or out or asks or typed or small or base in SCALED
    ):
        return fn
    asks = asks or method  # Note [who asks]

    @functools.wraps(fn)
    def variant(*args: Any, **kwargs: Any) -> Any:
        if small is not None and (small.small or small.taped) and "out" not in kwargs:
            try:
                result = HOOKS.meet_public(small, args, kwargs)
            except Exception as error:  # as it is, it succeeds or says what is wrong
                if raised_outside(error):
                    raise
                result = None
            if result is not None:
                return small.rebuild(result) if result.__class__ is tuple else result
        if OVERRIDES.active and not concerns_nobody(args, kwargs):
            if asks:
                taken = dispatch(variant, args, kwargs)
                if taken is not PASS:
                    return taken
        elif (
            small is not None
            and "out" not in kwargs
            and (CONTEXT.plain or (CONTEXT.inferring and is_untouched()))
            and not LISTENERS
            and not (small.may_write and writes(args, kwargs))
        ):
            if (
                DEVICE_LAYOUTS
                and args
                and (
                    getattr(args[0], "_array", None).__class__ in DEVICE_LAYOUTS
                    or is_of_device(args)
                )
            ):
                if CONTEXT.inferring:
                    return for_inference(variant, args, kwargs, (*args, *kwargs.values()))
                if small.on_device:
                    result = call_on_device(small, variant, args, kwargs)
                    if result is not None:
                        return result
                if small.goes_straight:
                    result = call_straight(small, variant, args, kwargs)
                    if result is not None:
                        return result
            elif (
                small.on_cpu
                and CONTEXT.device in ON_CPU
                and ("device" not in kwargs or kwargs["device"] in HERE)
            ):
                result = call_small(small, variant, args, kwargs)
                if result is not None:
                    return result
            elif small.makes and DEVICE_LAYOUTS:
                if CONTEXT.inferring:
                    return for_inference(variant, args, kwargs, ())
                result = call_making(small, variant, args, kwargs)
                if result is not None:
                    return result
        target = None
        if kwargs:
            for theirs, ours in renames.items():
                if theirs in kwargs:
                    kwargs[ours] = kwargs.pop(theirs)
            if typed and kwargs.get("dtype").__class__ not in NO_CONVERSION:
                kwargs["dtype"] = as_dtype(base, kwargs["dtype"])  # float, as NumPy has it
            if out:
                target = kwargs.pop("out", None)
                if base in ACCUMULATED and is_tensor(target) and kwargs.get("dtype") is None:
                    kwargs["dtype"] = target.dtype
                if (
                    into is not None
                    and isinstance(target, TensorBase)
                    and put_small(into, fn, target, args, kwargs)
                ):
                    return target
        try:
            if policies is None or CONTEXT.autocast is None:
                result = fn(*args, **kwargs)
            elif target is None:
                result = CONTEXT.autocast.call(policies, fn, args, kwargs, again)
            else:  # what is asked for into a tensor is asked for in its precision
                with CONTEXT.having(autocast=None):
                    result = fn(*args, **kwargs)
        except (AttributeError, TypeError) as error:
            if asks and not OVERRIDES.active and overriding(args, kwargs):
                OVERRIDES.enlist()  # the first value of a class of its own
                return variant(*args, **kwargs)
            if isinstance(error, TypeError):
                if base in OF_NUMBERS and _all_numbers(args):
                    return variant(PUBLIC["", "tensor"].fn(args[0]), *args[1:], **kwargs)
                into_it = {} if target is None else {"out": target}
                written = modern(base, args, kwargs)
                if written is not None:
                    return variant(*written[0], **written[1], **into_it)
                respelt = in_our_names(names, kwargs)
                if respelt is not None:
                    return variant(*args, **respelt, **into_it)
                raise
            raise (_no_tensor(fn, wanted, args, kwargs) or error) from None
        if target is None:
            return result
        exact = kwargs.get("dtype") is not None
        return HOOKS.assign_out(base, target, result, (*args, *kwargs.values()), exact=exact)

    return asking(variant) if asks else variant


NO_CONVERSION = (DType, type(None))  # of the argument `dtype`
ACCUMULATED = ("sum", "prod", "cumsum", "cumprod")  # in the dtype of `out`
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
    return isinstance(x, TensorBase) and x._array.__class__ in DEVICE_LAYOUTS  # type: ignore[attr-defined]


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
                base = x._base  # type: ignore[attr-defined]
                if x._requires_grad or (base is not None and base[0]._requires_grad):  # type: ignore[attr-defined]
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
        if isinstance(x, TensorBase) and x._storage is storage and x is not target:  # type: ignore[attr-defined]
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


# What PyTorch also computes of numbers alone, as tensors without dimensions.
OF_NUMBERS = frozenset(
    {"add", "sub", "mul", "div", "true_divide", "subtract", "multiply", "divide"}
)


def _all_numbers(args: tuple[Any, ...]) -> bool:
    return len(args) >= 2 and all(isinstance(arg, (bool, int, float, complex)) for arg in args[:2])


def _no_tensor(fn: Callable[..., Any], wanted: list[str], args: Any, kwargs: Any) -> Any:
    """The error for an argument that should have been a tensor; None if all are."""
    given = inspect.signature(fn).bind(*args, **kwargs).arguments
    for name in wanted:
        if name in given and not is_tensor(given[name]):
            kind = type(given[name]).__name__
            return TypeError(f"{fn.__name__}(): argument {name!r} must be Tensor, not {kind}")
    return None
