"""Values the host may change between calls of a captured function."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.state.context import CONTEXT

Number = bool | int | float | complex
_KINDS = (bool, int, float, complex)


class HostScalar:
    """A number read from its source at each call, not baked into a captured graph.

    Arithmetic gives further host scalars; `bool` specialises the capture on the outcome and
    `float`/`int` on the value, each recorded as a guard. To code that asks for its class it is of
    the class of its number, and whatever reads the number (`float`, `str`, `repr`) specialises, so
    code that knows nothing of host scalars treats one right.

    >>> rate = {"lr": 0.5}
    >>> scaled = HostScalar(lambda: rate["lr"]) * 2
    >>> rate["lr"] = 0.25
    >>> scaled.get()
    0.5
    """

    __slots__ = ("get", "key", "kind", "name", "parts", "source")

    def __init__(
        self,
        getter: Callable[[], Number],
        name: str = "host",
        *,
        key: Any = None,
        parts: tuple[Callable[..., Any], tuple[Any, ...]] | None = None,
        source: tuple[Callable[..., Any], tuple[Any, ...]] | None = None,
    ) -> None:
        self.get = getter
        self.name = name
        # Two scalars of one key have one value at all times; `get` keeps alive what it names.
        self.key = id(self) if key is None else key
        self.kind: type | None = None  # of its number, which stays so; found when it is asked for
        self.parts = parts  # of a computed one: the function and its arguments
        # What `get` does outside of recordings, as a function and its arguments: code that reads
        # many numbers writes the call out, instead of a call of `get` that makes it.
        self.source = source

    @staticmethod
    def computed(fn: Callable[..., Any], *args: Any) -> HostScalar:
        """`fn` of numbers and host scalars, put off to each call.

        >>> HostScalar.computed(max, HostScalar(lambda: 3), 2).get()
        3
        """
        key = (fn, *[("h", x.key) if isinstance(x, HostScalar) else number_key(x) for x in args])
        name = f"{fn.__name__}({', '.join(x.name for x in args if isinstance(x, HostScalar))})"
        return HostScalar(lambda: fn(*map(_value, args)), name, key=key, parts=(fn, args))

    def _specialise(self, test: Callable[..., Any], *args: Any) -> Any:
        tested = HostScalar.computed(test, self, *args)
        outcome = tested.get()
        if CONTEXT.capture is not None:
            CONTEXT.capture.guard_host(tested, outcome)
        return outcome

    def pin(self) -> Number:
        """The number itself; the recording then holds for no other."""
        number: Number = self._specialise(_itself)
        return number

    def __bool__(self) -> bool:
        return bool(self._specialise(bool))

    def __float__(self) -> float:
        return float(self._specialise(float))

    def __int__(self) -> int:
        return int(self._specialise(int))

    def __index__(self) -> int:
        return operator.index(self._specialise(_whole))

    def __str__(self) -> str:
        return str(self.pin())

    def __format__(self, spec: str) -> str:
        return format(self.pin(), spec)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        if self.kind is None:
            number = self.get()  # perhaps of a subclass, whose other attributes this has not
            self.kind = next((k for k in _KINDS if isinstance(number, k)), type(number))
        return self.kind

    __hash__ = None  # type: ignore[assignment]

    def capture_children(self) -> list[tuple[str, Any]]:
        """Nothing: a recording depends on what it read of the number, which is guarded."""
        return []

    if TYPE_CHECKING:  # arithmetic and comparison are put on below

        def __getattr__(self, name: str) -> Any: ...
        def __lt__(self, other: Any) -> bool: ...
        def __gt__(self, other: Any) -> bool: ...
        def __add__(self, other: Any) -> HostScalar: ...
        def __mul__(self, other: Any) -> HostScalar: ...
        def __rmul__(self, other: Any) -> HostScalar: ...

    def __repr__(self) -> str:
        if CONTEXT.capture is not None:
            return repr(self.pin())
        return f"HostScalar({self.name}={self.get()!r})"


def is_host(x: Any) -> bool:
    """Whether a number is a host scalar, whatever class it says it is of."""
    return type(x) is HostScalar


def _itself(value: Number) -> Number:
    return value


def _whole(value: Number) -> int:
    return operator.index(value)  # type: ignore[arg-type]


# Tests whose outcome is the number itself: what was recorded holds for one value only.
READS: frozenset[Any] = frozenset({float, int, _itself, _whole})


_WORDS = ("count", "seed", "offset", "drawn")  # keys of numbers that are words, or made from them


def may_outgrow(x: HostScalar) -> bool:
    """Whether a whole number may come to be one that a word of 64 bits does not hold."""
    if x.parts is not None:
        return any(is_host(part) and may_outgrow(part) for part in x.parts[1])
    return not (isinstance(x.key, tuple) and x.key[0] in _WORDS)


def fits_a_word(number: int) -> bool:
    """Whether a signed word of 64 bits holds a number.

    >>> fits_a_word(2**63 - 1), fits_a_word(2**63)
    (True, False)
    """
    return -(2**63) <= number < 2**63


def _value(x: Any) -> Any:
    return x.get() if isinstance(x, HostScalar) else x


_RAISING = (operator.truediv, operator.floordiv, operator.mod, operator.lshift, operator.rshift)


def _binary(fn: Callable[[Any, Any], Any], *, swap: bool) -> Callable[[HostScalar, Any], Any]:
    def method(self: HostScalar, other: Any) -> Any:
        if not isinstance(other, (bool, int, float, complex, HostScalar)):
            return NotImplemented
        scalar = HostScalar.computed(fn, *((other, self) if swap else (self, other)))
        if fn in _RAISING:
            scalar.get()  # what it raises now is raised by this line; in later calls, by Python
        if fn is operator.pow:  # of a negative float complex, of a negative int a float
            scalar._specialise(type)
        return scalar

    return method


def _compare(fn: Callable[[Any, Any], Any]) -> Callable[[HostScalar, Any], Any]:
    def method(self: HostScalar, other: Any) -> Any:
        if not isinstance(other, (bool, int, float, complex, HostScalar)):
            return NotImplemented  # a tensor compares its elements
        return self._specialise(fn, other)

    return method


for _name in "add sub mul truediv floordiv mod pow and or xor lshift rshift".split():
    _fn = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    setattr(HostScalar, f"__{_name}__", _binary(_fn, swap=False))
    setattr(HostScalar, f"__r{_name}__", _binary(_fn, swap=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(HostScalar, f"__{_name}__", _compare(getattr(operator, _name)))


def _unary(fn: Callable[[Any], Any]) -> Callable[[HostScalar], HostScalar]:
    return lambda self: HostScalar.computed(fn, self)


for _name in ("neg", "abs", "pos", "invert"):
    setattr(HostScalar, f"__{_name}__", _unary(getattr(operator, _name)))


def _rounding(fn: Callable[..., Any]) -> Callable[..., HostScalar]:
    return lambda self, *args: HostScalar.computed(fn, self, *args)


for _rounded in (round, math.trunc, math.floor, math.ceil):
    setattr(HostScalar, f"__{_rounded.__name__}__", _rounding(_rounded))
