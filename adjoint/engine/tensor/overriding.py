"""Subclasses of Tensor keep their class through operations, or take them over.

Most methods ask by themselves (Note [who asks] in `core.operations.overrides`). Of the others there
are two forms: the plain one is Tensor's, and `x.dim()` finds it; the asking one is the same with a
question in front of it. It is found
- on classes that override, because their base is not Tensor but `Overriding`, which is between the
  two; so `super().dim()` finds it too;
- by who asks Tensor itself (`Tensor.dim`, `Tensor.shape.__get__`), since the type of Tensor has an
  `Unbound` of that name, which Python looks at before it looks at Tensor;
- on Tensor, while a `TorchFunctionMode` is entered.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.overrides import (
    ORDINARY,
    OVERRIDES,
    PASS,
    asking,
    asks_itself,
    disabled_torch_function,
    dispatch,
    having,
    overrides,
    refuse_foreign,
    refuse_foreign_function,
)
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.ownership import READ_NATIVELY, module_of
from adjoint.engine.core.spec import Size
from adjoint.engine.core.state import forks
from adjoint.engine.tensor.tensor import Tensor, TensorType

OPERATORS = tuple(
    f"__{name}__"
    for base in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
    for name in (base, f"r{base}", f"i{base}")
) + tuple(f"__{name}__" for name in "neg pos invert abs eq ne lt le gt ge getitem setitem".split())
# The methods that operators are known by to those who take them over, as in PyTorch.
KNOWN_AS = {"__truediv__": "div", "__itruediv__": "div_", "__abs__": "abs", "__neg__": "neg"}
KNOWN_AS |= {f"__{name}__": name for name in "add sub mul matmul ne lt le gt ge".split()}
KNOWN_AS |= {f"__i{name}__": f"{name}_" for name in "add sub mul".split()}
KNOWN_AS |= {f"__r{name}__": name for name in "add mul".split()}
KNOWN_AS |= {"__mod__": "remainder", "__imod__": "remainder_", "__ifloordiv__": "floor_divide_"}
KNOWN_AS |= {"__pos__": "positive"}
# How classes of the framework's own look at tensors: they are not asked for it.
OWN_LOOKS = frozenset({"stride", "__repr__", "__format__", "__deepcopy__"})
# How a tensor is looked at from inside; an override must be able to use them on itself.
INWARD = frozenset(
    {"as_subclass", "untyped_storage", "storage", "data_ptr", "element_size", "stride"}
)
NOT_CONVERTED = frozenset({"grad", "_grad"})  # properties whose values keep their class


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
    if not all(issubclass(cls, kind) or module_of(kind).startswith("adjoint.") for kind in types):
        return NotImplemented
    for value in args:
        if overrides(type(value)):
            refuse_foreign(type(value))
    refuse_foreign_function(func)
    with having(subclasses=False):
        result = func(*args, **(kwargs or {}))
    if func.__name__ == "__get__" and func.__self__.__name__ in NOT_CONVERTED:  # type: ignore[attr-defined]
        return result
    if hasattr(cls, "__torch_dispatch__"):  # its instances are what that makes
        return result
    return convert(result, cls)


# -- asking forms ---------------------------------------------------------------------------------


def _engine_asks(frame: Any) -> bool:
    """Whether a question comes from the framework: PyTorch's own are in C++, and ask nobody."""
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith("adjoint.")


def _asking(raw: Callable[..., Any], name: str) -> Callable[..., Any]:
    inward, own_look = name in INWARD, name in OWN_LOOKS

    @functools.wraps(raw)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            OVERRIDES.active
            and not (inward and _engine_asks(sys._getframe(1)))
            and not (own_look and module_of(type(self)).startswith("adjoint."))
        ):
            result = dispatch(method, (self, *args), kwargs)
            if result is not PASS:
                return result
        return raw(self, *args, **kwargs)

    method.__torch_function_of__ = raw  # type: ignore[attr-defined]
    method.__name__ = name
    return method


class AskingProperty(property):
    """A property of Tensor's that asks who takes it over; its `__get__` is what they are shown."""

    __name__: str
    raw: property


def _asking_property(raw: property, name: str) -> AskingProperty:
    def taken(accessor: str, *args: Any) -> Any:
        if not OVERRIDES.active or _engine_asks(sys._getframe(2)):
            return PASS
        return dispatch(getattr(shown, accessor), args, {})

    def read(self: Any) -> Any:
        result = taken("__get__", self)
        return raw.__get__(self) if result is PASS else result

    def write(self: Any, value: Any) -> None:
        if taken("__set__", self, value) is PASS:
            raw.__set__(self, value)

    def remove(self: Any) -> None:
        if taken("__delete__", self) is PASS:
            raw.__delete__(self)

    shown = AskingProperty(read, raw.fset and write, raw.fdel and remove, raw.__doc__)
    shown.__name__, shown.raw = name, raw
    return shown


ASKED: dict[str, tuple[Any, Any]] = {}  # name -> Tensor's own member, and its asking form


def asking_form(name: str, member: Any) -> Any:
    """The asking form of a member of Tensor's, once it is asked for; else the member itself."""
    plain, form = ASKED[name]
    if member is not plain:
        return member
    if form is None:
        make = _asking_property if isinstance(plain, property) else _asking
        form = make(plain, name)
        ASKED[name] = (plain, form)
    return form


class Unbound:
    """What Tensor's type has of a member's name: it shows the asking form of the member.

    It is one that can be set, or Python would look at Tensor first. To set a member is to be
    without it for that long.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, cls: Any, _: type) -> Any:
        name = self.name
        for base in cls.__mro__:
            if name in base.__dict__:
                member = asking_form(name, base.__dict__[name])
                return member.__get__(None, cls) if hasattr(member, "__get__") else member
        raise AttributeError(name)

    def __set__(self, cls: Any, value: Any) -> None:
        plain, form = ASKED[self.name]
        if cls is Tensor and value is form:  # it is put back
            value = plain
        self.put(cls, value)
        if cls is Tensor and _Between.made is not None:  # what others put there is not hidden
            self.put(_Between.made, asking_form(self.name, value))

    def put(self, cls: Any, value: Any) -> None:
        """Give a class the member."""
        with _lock:
            type.__delattr__(TensorType, self.name)
            try:
                type.__setattr__(cls, self.name, value)
            finally:
                type.__setattr__(TensorType, self.name, self)

    def __delete__(self, cls: Any) -> None:
        with _lock:
            type.__delattr__(TensorType, self.name)
            try:
                type.__delattr__(cls, self.name)
            finally:
                type.__setattr__(TensorType, self.name, self)


_lock = forks.lock(forks.LockOrder.UNBOUND)
# Members of Tensor's class body that ask nobody by themselves.
WITH_THEM = "shape dtype device ndim requires_grad is_leaf grad_fn grad _grad data stride".split()
NOT_ASKED = frozenset({"as_subclass"})  # in PyTorch neither: by it an override sees its elements
# Members that Python also looks for on the type of what it is given, so Tensor's type may have none
# of these names: Tensor itself has the asking form.
SPECIAL = (
    "__repr__ __format__ __deepcopy__ __contains__ __reversed__ __array__ __array_wrap__ "
    "__dlpack__ __dlpack_device__"
).split()


def ask_unbound(names: Iterable[str]) -> None:
    """Have Tensor show the asking forms of some members, of those that do not ask themselves."""
    for name in names:
        member = vars(Tensor).get(name)
        if not isinstance(member, (FunctionType, property)) or asks_itself(member):
            continue
        if name in SPECIAL:
            setattr(Tensor, name, asking(_asking(member, name)))  # type: ignore[arg-type]
        elif not name.startswith("__") and name not in NOT_ASKED:
            ASKED[name] = (member, None)
            type.__setattr__(TensorType, name, Unbound(name))


def read_by(name: str, getter: Callable[[Any], Any]) -> None:
    """Have a property of Tensor's be read by another getter, unless it is no longer its own."""
    plain, form = ASKED[name]
    if vars(Tensor)[name] is plain:
        made = property(getter, plain.fset, plain.fdel, plain.__doc__)
        READ_NATIVELY[made] = plain  # to compiled functions that looked at it nothing has changed
        ASKED[name] = (made, form)
        vars(TensorType)[name].put(Tensor, made)


# -- classes that override -----------------------------------------------------------------------


class _Between:
    made: Any = None
    lock = forks.lock(forks.LockOrder.METHODS)


def overriding_base() -> type[Tensor]:
    """The class between Tensor and those that override: the asking form of every member."""
    HOOKS.load_rest()
    with _Between.lock:
        if _Between.made is None:
            members = {name: asking_form(name, vars(Tensor)[name]) for name in ASKED}
            members |= {"__module__": __name__, "__slots__": (), "__doc__": overriding_base.__doc__}
            _Between.made = TensorType("Overriding", (Tensor,), members)
    made: type[Tensor] = _Between.made
    return made


def bases_of(bases: tuple[Any, ...], namespace: dict[str, Any]) -> tuple[Any, ...]:
    """The bases that a new class gets: for Tensor the asking form, unless it takes nothing over.

    The framework's own classes call Tensor's methods to look at themselves, so `super()` is to find
    them; what is asked is put on these classes.
    """
    method = namespace.get("__torch_function__")
    plain = getattr(method, "__func__", method) is disabled_torch_function
    if plain or Tensor not in bases or str(namespace.get("__module__")).startswith("adjoint."):
        return bases
    return tuple(overriding_base() if base is Tensor else base for base in bases)


# Properties whose values are tensors: those of one of our own subclasses are of its class.
SHOWN = ("T", "mT", "H", "mH", "real", "imag")


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
    if issubclass(cls, overriding_base()):
        return
    for name, (plain, _) in list(ASKED.items()):
        wanted = name in SHOWN if isinstance(plain, property) else name not in INWARD
        if wanted and _found(cls, name) is plain:
            setattr(cls, name, asking_form(name, plain))


def _found(cls: type[Any], name: str) -> Any:
    """What the class or one of its bases has of a name, as it is there."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


class _OnTensor:
    """The asking methods on Tensor itself, while modes are entered."""

    count = 0

    @classmethod
    def enter(cls, by: int) -> None:
        was, cls.count = cls.count, cls.count + by
        OVERRIDES.enter(by)
        if bool(was) == bool(cls.count):
            return
        HOOKS.load_rest()
        for name, (plain, _) in list(ASKED.items()):
            if isinstance(plain, property):
                continue
            form = asking_form(name, plain)
            then, now = (plain, form) if cls.count else (form, plain)
            if vars(Tensor)[name] is then:  # nobody has replaced it
                vars(TensorType)[name].put(Tensor, now)


enter_mode = _OnTensor.enter
ORDINARY.update((Tensor, Size, DType, Device))
Tensor.__torch_function__ = classmethod(default_torch_function)  # type: ignore[attr-defined]
HOOKS.subclassed, HOOKS.bases_of = subclassed, bases_of
