"""Subclasses of Tensor keep their class through operations, or take them over.

Nothing stands between `x + y` and its record on plain tensors: the methods that ask are put on the
subclass when it is made, and on Tensor itself only while a `TorchFunctionMode` is entered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.overrides import (
    ORDINARY,
    OVERRIDES,
    PASS,
    THREAD,
    disabled_torch_function,
    dispatch,
    having,
    overrides,
    refuse_foreign,
    refuse_foreign_function,
)
from adjoint.engine.core.operations.public import INPLACE, METHODS
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor.tensor import Tensor

OPERATORS = tuple(
    f"__{name}__"
    for base in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
    for name in (base, f"r{base}", f"i{base}")
) + tuple(f"__{name}__" for name in "neg pos invert abs eq ne lt le gt ge getitem setitem".split())
# The methods that operators are known by to those who take them over, as in PyTorch.
KNOWN_AS = {"__truediv__": "div", "__itruediv__": "div_", "__abs__": "abs", "__neg__": "neg"}
KNOWN_AS |= {f"__{name}__": name for name in "add sub mul matmul eq ne lt le gt ge".split()}
KNOWN_AS |= {f"__i{name}__": f"{name}_" for name in "add sub mul".split()}
KNOWN_AS |= {f"__r{name}__": name for name in "add mul".split()}
# How a tensor is looked at from inside; an override must be able to use them on itself.
INWARD = frozenset({"as_subclass", "untyped_storage", "storage", "data_ptr", "element_size"})


def convert(result: Any, cls: type[Any]) -> Any:
    """Plain tensors of a result as instances of a subclass; containers keep their kind."""
    if type(result) is Tensor:
        return result.as_subclass(cls)
    if type(result) in (tuple, list):
        return type(result)(convert(item, cls) for item in result)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(convert(item, cls) for item in result))
    return result


def default_torch_function(
    cls: type[Any], func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """Run the function; what it makes is of this class. Foreign classes have to decide."""
    if not all(issubclass(cls, kind) or kind.__module__.startswith("adjoint.") for kind in types):
        return NotImplemented
    for value in args:
        if overrides(type(value)):
            refuse_foreign(type(value))
    refuse_foreign_function(func)
    with having(subclasses=False):
        result = func(*args, **(kwargs or {}))
    inplace = func.__name__.endswith("_") and not func.__name__.endswith("__")
    if inplace or func.__name__ in ("__setitem__", "tolist", "item"):
        return result
    if hasattr(cls, "__torch_dispatch__"):  # its instances are what that makes
        return result
    return convert(result, cls)


def _asking(raw: Callable[..., Any], name: str) -> Callable[..., Any]:
    operator, known = name.startswith("__"), KNOWN_AS.get(name)

    @functools.wraps(raw)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if operator and args and not THREAD.modes and not _known(args[0]):
            return raw(self, *args)  # NotImplemented, for the other operand's sake
        # While modes are entered this method is Tensor's own, which outer modes must see again.
        if known is not None:
            shown = getattr(Tensor, known)
        else:
            shown = method if THREAD.modes else raw
        result = dispatch(shown, (self, *args), kwargs)
        return raw(self, *args, **kwargs) if result is PASS else result

    method.__torch_function_of__ = raw  # type: ignore[attr-defined]
    return method


def _known(operand: Any) -> bool:
    return isinstance(operand, Tensor) or not hasattr(type(operand), "__torch_function__")


@functools.cache
def _methods() -> dict[str, Callable[..., Any]]:
    HOOKS.load_rest()
    names = {*METHODS, *(f"{name}_" for name in INPLACE), *OPERATORS} - INWARD
    for name in OPERATORS:
        if name in vars(Tensor):
            vars(Tensor)[name].__name__ = name  # what an override reads
    return {
        name: _asking(getattr(Tensor, name), name)
        for name in sorted(names)
        if callable(getattr(Tensor, name, None))
    }


# Properties whose values are tensors: those of a subclass are of its class.
SHOWN = ("T", "mT", "H", "mH", "real", "imag")


def _asking_property(raw: property) -> property:
    getter = raw.__get__

    def read(self: Any) -> Any:
        result = dispatch(getter, (self,), {})
        return getter(self) if result is PASS else result

    return property(read, raw.fset, raw.fdel, raw.__doc__)


@functools.cache
def _properties() -> dict[str, tuple[property, property]]:
    shown = {name: vars(Tensor)[name] for name in SHOWN}
    return {name: (raw, _asking_property(raw)) for name, raw in shown.items()}


def subclassed(cls: type[Any]) -> None:
    """Have the methods of a new subclass ask it, unless it says that it takes nothing over."""
    _subclassed(cls)
    if any("__torch_dispatch__" in vars(base) for base in cls.__mro__ if base is not Tensor):
        HOOKS.load_wrappers().prepare(cls)


def _subclassed(cls: type[Any]) -> None:
    method = getattr(cls, "__torch_function__", None)
    own = any("__torch_function__" in vars(base) for base in cls.__mro__[:-1] if base is not Tensor)
    if method is disabled_torch_function or (not own and cls.__module__.startswith("adjoint.")):
        ORDINARY.add(cls)
        return
    OVERRIDES.enlist()
    for name, asking in _methods().items():
        if getattr(cls, name, None) is asking.__torch_function_of__:  # type: ignore[attr-defined]
            setattr(cls, name, asking)
    for name, (plain, shown) in _properties().items():
        if getattr(cls, name, None) is plain:
            setattr(cls, name, shown)


class _OnTensor:
    """The asking methods on Tensor itself, while modes are entered."""

    count = 0

    @classmethod
    def enter(cls, by: int) -> None:
        was, cls.count = cls.count, cls.count + by
        OVERRIDES.enter(by)
        if bool(was) != bool(cls.count):
            for name, asking in _methods().items():
                raw = asking.__torch_function_of__  # type: ignore[attr-defined]
                setattr(Tensor, name, asking if cls.count else raw)


enter_mode = _OnTensor.enter
ORDINARY.update((Tensor, Size, DType, Device))
Tensor.__torch_function__ = classmethod(default_torch_function)  # type: ignore[attr-defined]
HOOKS.subclassed = subclassed
