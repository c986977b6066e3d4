"""`__torch_function__`: values and modes that take over the functions they are given to.

A public function looks here before it runs, once `OVERRIDES.active`: a class that overrides was
made, a mode is entered or a program is being traced. Until then it is one test of a flag.

Note [who asks]: most functions and methods look by themselves (`asking`), however they are called:
`x.abs()`, `Tensor.abs(x)`, `super().abs()`. The test is where a call has left the short way
already, so it costs plain tensors nothing. Methods so short that a test would be seen (`x.dim()`,
`x.shape`) do not look: the classes that override derive from one with methods that do, and Tensor
shows those to who asks Tensor itself for them (`tensor.overriding`).

Note [methods that take operands]: `x.matmul(y)` asks as `matmul(x, y)` does where x is a plain
tensor and y may take over, in its in-place forms too. What is no Tensor but has
`__torch_function__` is met first by a call that fails, of a method, an operator or a function: then
it is known that there are such values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType
from typing import Any

from adjoint.engine.core.ownership import module_of
from adjoint.engine.core.value import TensorBase


class _Overrides:
    """Whether anything may take functions over, in the whole process."""

    __slots__ = ("active", "enlisted", "entered")

    def __init__(self) -> None:
        self.active = False
        self.enlisted = False  # a class that overrides exists: it may come in any call
        self.entered = 0  # modes and tracers under way, in all threads

    def enlist(self) -> None:
        """A class that overrides was seen."""
        self.enlisted = self.active = True

    def enter(self, by: int) -> None:
        """A mode or tracer begins (1) or ends (-1)."""
        self.entered += by
        self.active = self.enlisted or self.entered > 0


class _Thread(threading.local):
    modes: tuple[Any, ...] = ()  # innermost last
    subclasses: bool = True  # whether values take functions over
    functions: bool = True  # whether anything does


OVERRIDES = _Overrides()
THREAD = _Thread()
PASS = object()  # nobody took it over
# Public functions that ask what a value is: nobody takes them over.
QUESTIONS = frozenset({"is_tensor", "is_storage", "typename"})
# What makes plain tensors of any: as in PyTorch, a class is not asked (modes are). Those of our own
# are, whose elements are not what they stand for.
COPYING = frozenset({"tensor"})


def disabled_torch_function(
    func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """The `__torch_function__` of a class whose instances take nothing over."""
    with having(subclasses=False):
        return func(*args, **(kwargs or {}))


def asking(function: Any) -> Any:
    """Mark a function that looks by itself who takes it over (Note [who asks])."""
    function.asks = function  # `functools.wraps` copies the mark to functions that do not
    return function


def asks_itself(function: Any) -> bool:
    """Whether a function is marked so."""
    return getattr(function, "asks", None) is function


class having:
    """A `with` block in which fields of the thread's state differ."""

    __slots__ = ("before", "fields")

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def __enter__(self) -> None:
        self.before = {name: getattr(THREAD, name) for name in self.fields}
        THREAD.__dict__.update(self.fields)

    def __exit__(self, *_: object) -> None:
        THREAD.__dict__.update(self.before)


# Classes whose instances take nothing over: Tensor, which has the method, and others are added.
ORDINARY: set[type] = {int, float, bool, str, type(None), complex, slice, type(...)}


def overrides(kind: type) -> bool:
    """Whether instances of a class take functions over."""
    if kind in ORDINARY:
        return False
    method = getattr(kind, "__torch_function__", None)
    return method is not None and method is not disabled_torch_function


def concerns_nobody(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call is as it would be if there were no class that overrides.

    True only where each argument is known to take nothing over and no mode is entered: then a
    program of a small call may serve it as in a process that has met no such class.
    """
    if OVERRIDES.entered:
        return False
    for value in args:
        if value.__class__ not in ORDINARY:
            if value.__class__ is not tuple and value.__class__ is not list:
                return False
            for item in value:
                if item.__class__ not in ORDINARY:
                    return False
    return not kwargs or concerns_nobody(tuple(kwargs.values()), {})


def both_ordinary(x: Any, y: Any) -> bool:
    """The same of two arguments, quicker: whether each is known, itself, to take nothing over."""
    return x.__class__ in ORDINARY and y.__class__ in ORDINARY and not OVERRIDES.entered


def _values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    for value in (*args, *kwargs.values()):
        if type(value) in (list, tuple):
            yield from value
        else:
            yield value


def overriding(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """One argument of each class that overrides, subclasses before the classes they extend."""
    overriders: list[Any] = []
    for value in _values(args, kwargs):
        kind = type(value)
        if not overrides(kind) or any(type(other) is kind for other in overriders):
            continue
        refuse_foreign(kind)
        place = next(
            (i for i, other in enumerate(overriders) if issubclass(kind, type(other))), None
        )
        overriders.insert(len(overriders) if place is None else place, value)
    return overriders


def refuse_foreign(kind: type) -> None:
    """Refuse PyTorch's own tensors, which would hand a call back to who asked them."""
    if issubclass(kind, TensorBase):
        return
    if any(module_of(cls) in ("torch", "torch._tensor") for cls in kind.__mro__):
        raise TypeError(
            f"received a {kind.__name__} of PyTorch's among the operands. Convert it first: "
            "adjoint.from_dlpack(x), or adjoint.tensor(x.numpy())."
        )


def refuse_foreign_function(func: Any) -> None:
    """Refuse PyTorch's own functions, which would ask again what becomes of these operands."""
    if type(func) is BuiltinFunctionType and func.__module__ == "torch":
        raise TypeError(
            f"{func.__name__}: a function of PyTorch's received a tensor of Adjoint's. Call "
            f"adjoint.{func.__name__}, or give it torch.from_numpy(x.numpy())."
        )


# Of arguments whose types say nothing, those that may be tensors.
_OPERANDS = frozenset({"other", "exponent", "weight", "value", "src", "min", "max"})


def takes_operands(fn: Callable[..., Any]) -> bool:
    """Whether tensors may follow the first argument (Note [methods that take operands])."""
    code = fn.__code__
    for name in code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]:
        kind = fn.__annotations__.get(name, "")
        if kind in ("Tensor", "Tensor | None") or (kind == "Any" and name in _OPERANDS):
            return True
    return False


def dispatch(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a mode or an argument makes of a call; `PASS` where none is concerned.

    `NotImplemented` from all who were asked is a TypeError, as in PyTorch.
    """
    if not THREAD.functions:
        return PASS
    asked = overriding(args, kwargs) if THREAD.subclasses else []
    if asked and func.__name__ in COPYING:
        asked = [value for value in asked if module_of(type(value)).startswith("adjoint.")]
    types = tuple(type(value) for value in asked)
    if THREAD.modes:
        mode = THREAD.modes[-1]
        with having(modes=THREAD.modes[:-1]):
            result = mode.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    elif not asked:
        return PASS
    if func.__name__ == "einsum" and len(args) == 2 and type(args[1]) in (list, tuple):
        args = (args[0], *args[1])  # operands in a sequence are shown one by one, as in PyTorch
    for value in asked:
        result = value.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"no implementation found for {func.__name__!r} on types that implement "
        f"__torch_function__: {[kind.__name__ for kind in types]}"
    )


def taken(method: Callable[..., Any], self: Any, *args: Any) -> Any:
    """What is made of a method by who takes it over; `PASS` where nobody does.

    For methods that are too short to be wrapped: `if OVERRIDES.active and ...` stands before it.
    """
    if concerns_nobody((self, *args), {}):
        return PASS
    return dispatch(method, (self, *args), {})
