"""Numbers that are read at each call instead of being part of a recording.

Arithmetic carries on; a comparison becomes a guard on its outcome; every other use pins the number:
the recording then holds for this value alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .locations import Answer

if TYPE_CHECKING:
    from .recorder import Recorder


class Symbol:
    """A number of the present call that knows how to be read again."""

    __slots__ = ("at_start", "drawn", "name", "read", "recorder", "value")

    def __init__(
        self,
        recorder: Recorder,
        read: Callable[[], Any],
        at_start: Callable[[], Any],
        value: Any,
        name: str = "a number",
        drawn: bool = False,
    ) -> None:
        self.drawn = drawn  # known only once a call is under way: nothing may depend on it
        self.recorder = recorder
        self.read = read  # as it is now: what guards ask
        self.at_start = at_start  # as it was when the call began
        self.value = value
        self.name = name

    def pin(self) -> Any:
        """The number itself, which the recording then depends on."""
        self._check()
        self.recorder.guard(Answer(self.read, ()), self.value)
        return self.value

    def _check(self) -> None:
        if self.drawn:
            raise self.recorder.refuse(
                self.name, "what the function does depends on it, and each call draws another",
                "Draw outside and pass the number, or use a tensor operation.",
            )  # fmt: skip

    def decide(self, test: Callable[..., Any], *args: Any) -> Any:
        """The outcome of a test, which the recording then depends on."""
        if self.drawn or any(isinstance(x, Symbol) and x.drawn for x in args):
            self.drawn = True
            self._check()
        outcome = test(*map(value_of, (self, *args)))
        read = _reader(test, (self, *args))
        self.recorder.guard(Answer(read, ()), outcome)
        return outcome

    def __repr__(self) -> str:
        return repr(self.pin())

    def __str__(self) -> str:
        return str(self.pin())

    def __format__(self, spec: str) -> str:
        return format(self.pin(), spec)

    def __hash__(self) -> int:
        return hash(self.pin())

    def __bool__(self) -> bool:
        return bool(self.decide(bool))

    def __int__(self) -> int:
        return int(self.pin())

    def __float__(self) -> float:
        return float(self.pin())

    def __complex__(self) -> complex:
        return complex(self.pin())

    def __index__(self) -> int:
        return operator.index(self.pin())

    def __divmod__(self, other: Any) -> Any:
        return computed(operator.floordiv, self, other), computed(operator.mod, self, other)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pin(), name)


def value_of(x: Any) -> Any:
    """A number, of a symbol the present one."""
    return x.value if isinstance(x, Symbol) else x


def _read(x: Any) -> Any:
    return x.read() if isinstance(x, Symbol) else x


def _at_start(x: Any) -> Any:
    return x.at_start() if isinstance(x, Symbol) else x


def _reader(fn: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: fn(*map(_read, args))


def _holder(fn: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: fn(*map(_at_start, args))


def computed(fn: Callable[..., Any], *args: Any) -> Symbol:
    """`fn` of numbers and symbols, put off to each call."""
    first = next(x for x in args if isinstance(x, Symbol))
    value = fn(*map(value_of, args))
    drawn = any(isinstance(x, Symbol) and x.drawn for x in args)
    name = f"{fn.__name__} of {first.name}"
    return Symbol(first.recorder, _reader(fn, args), _holder(fn, args), value, name, drawn)


def _arithmetic(fn: Callable[..., Any], swap: bool) -> Callable[..., Any]:
    def method(self: Symbol, other: Any) -> Any:
        if type(other) not in (bool, int, float, complex, Symbol):
            return NotImplemented
        return computed(fn, *((other, self) if swap else (self, other)))

    return method


def _comparison(fn: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Symbol, other: Any) -> Any:
        if type(other) not in (bool, int, float, complex, Symbol):
            return NotImplemented
        return self.decide(fn, other)

    return method


for _name in "add sub mul truediv floordiv mod pow and or xor lshift rshift".split():
    _fn = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(Symbol, f"__{_name}__", _arithmetic(_fn, False))
    setattr(Symbol, f"__r{_name}__", _arithmetic(_fn, True))
for _name in "lt le gt ge eq ne".split():
    setattr(Symbol, f"__{_name}__", _comparison(getattr(operator, _name)))
for _name in "neg pos abs invert".split():
    _one = getattr(operator, _name)
    setattr(Symbol, f"__{_name}__", lambda self, fn=_one: computed(fn, self))
for _one in (round, math.trunc, math.floor, math.ceil):
    setattr(Symbol, f"__{_one.__name__}__", lambda self, *args, fn=_one: computed(fn, self, *args))


class CallValue:
    """Something that each call has another of: kept, returned and handed back, not looked into."""

    __slots__ = ("recorder", "what")

    def __init__(self, recorder: Recorder, what: str) -> None:
        self.recorder, self.what = recorder, what

    def now(self) -> Any:
        """That of the present call."""
        raise NotImplementedError

    def _refuse(self, *_: Any) -> Any:
        raise self.recorder.refuse(self.what, "it is another one in each call", "Look outside.")

    __eq__ = __ne__ = __hash__ = __len__ = __iter__ = __getitem__ = __bool__ = _refuse
    __repr__ = __str__ = __format__ = __contains__ = _refuse
