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

from adjoint.engine.core.annotations import complete
from adjoint.engine.core.dtype import DType, as_dtype
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.autocast import FUNCTIONS
from adjoint.engine.core.operations.dispatch import for_inference
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.met_calls import (
    HERE,
    ON_CPU,
    call_making,
    call_on_device,
    call_small,
    call_straight,
    called_straight,
    is_of_device,
    is_untouched,
    put_small,
    writes,
)
from adjoint.engine.core.operations.older import SCALED, Call, in_our_names, modern
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
    SmallCalls,
    small_calls,
)
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
    leading = () if small is None or code.co_flags & VARARGS else names[: code.co_argcount]
    if "dtype" in leading:  # which is looked at by its name
        leading = leading[: leading.index("dtype")]
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
        if not args and leading and leading[0] in kwargs and not OVERRIDES.active:
            args = taken_by_name(leading, kwargs)
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
            if isinstance(error, AttributeError):
                raise (_no_tensor(fn, wanted, args, kwargs) or error) from None
            spelt = _spelt_otherwise(base, names, args, kwargs)
            if spelt is None:
                raise
            into_it = {} if target is None else {"out": target}
            return variant(*spelt[0], **spelt[1], **into_it)
        if target is None:
            return result
        exact = kwargs.get("dtype") is not None
        return HOOKS.assign_out(base, target, result, (*args, *kwargs.values()), exact=exact)

    return asking(variant) if asks else variant


def _spelt_otherwise(
    base: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call | None:
    """Arguments that were refused, as they are written now: numbers as tensors, older orders, other
    libraries' names; None where they are written as ever."""
    if base in OF_NUMBERS and _all_numbers(args):
        return (PUBLIC["", "tensor"].fn(args[0]), *args[1:]), kwargs
    written = modern(base, args, kwargs)
    if written is not None:
        return written
    respelt = in_our_names(names, kwargs)
    return None if respelt is None else (args, respelt)


VARARGS = inspect.CO_VARARGS  # of code: further arguments come in a tuple


def taken_by_name(names: tuple[str, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The first arguments, where all were given by name (`softmax(input=x, dim=1)`).

    They leave `kwargs`: programs tell tensors and lists of them by their places.
    """
    args = []
    for name in names:
        if name not in kwargs:
            break
        args.append(kwargs.pop(name))
    return tuple(args)


NO_CONVERSION = (DType, type(None))  # of the argument `dtype`
ACCUMULATED = ("sum", "prod", "cumsum", "cumprod")  # in the dtype of `out`
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
