"""Values the host may change between calls of a captured function."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.state.context import CONTEXT

Number = bool | int | float | complex


class HostScalar:
    """A number read from its source at each call, not baked into a captured graph.

    Arithmetic gives further host scalars; `bool` specialises the capture on the outcome and
    `float`/`int` on the value, each recorded as a guard.

    >>> rate = {"lr": 0.5}
    >>> scaled = HostScalar(lambda: rate["lr"]) * 2
    >>> rate["lr"] = 0.25
    >>> scaled.get()
    0.5
    """

    __slots__ = ("get", "key", "name", "parts")

    def __init__(
        self,
        getter: Callable[[], Number],
        name: str = "host",
        *,
        key: Any = None,
        parts: tuple[Callable[..., Any], tuple[Any, ...]] | None = None,
    ) -> None:
        self.get = getter
        self.name = name
        # Two scalars of one key have one value at all times; `get` keeps alive what it names.
        self.key = id(self) if key is None else key
        self.parts = parts  # of a computed one: the function and its arguments

    @staticmethod
    def computed(fn: Callable[..., Any], *args: Any) -> HostScalar:
        """`fn` of numbers and host scalars, put off to each call.

        >>> HostScalar.computed(max, HostScalar(lambda: 3), 2).get()
        3
        """
        key = (fn, *[("h", x.key) if isinstance(x, HostScalar) else (type(x), x) for x in args])
        name = f"{fn.__name__}({', '.join(x.name for x in args if isinstance(x, HostScalar))})"
        return HostScalar(lambda: fn(*map(_value, args)), name, key=key, parts=(fn, args))

    def _specialise(self, test: Callable[..., Any], *args: Any) -> Any:
        tested = HostScalar.computed(test, self, *args)
        outcome = tested.get()
        if CONTEXT.capture is not None:
            CONTEXT.capture.guard_host(tested, outcome)
        return outcome

    def __bool__(self) -> bool:
        return bool(self._specialise(bool))

    def __float__(self) -> float:
        return float(self._specialise(float))

    def __int__(self) -> int:
        return int(self._specialise(int))

    __index__ = __int__
    __hash__ = None  # type: ignore[assignment]

    if TYPE_CHECKING:  # arithmetic and comparison are put on below

        def __getattr__(self, name: str) -> Any: ...
        def __lt__(self, other: Any) -> bool: ...
        def __gt__(self, other: Any) -> bool: ...
        def __add__(self, other: Any) -> HostScalar: ...
        def __mul__(self, other: Any) -> HostScalar: ...
        def __rmul__(self, other: Any) -> HostScalar: ...

    def __repr__(self) -> str:
        return f"HostScalar({self.name}={self.get()!r})"


def _value(x: Any) -> Any:
    return x.get() if isinstance(x, HostScalar) else x


def _binary(fn: Callable[[Any, Any], Any], *, swap: bool) -> Callable[[HostScalar, Any], Any]:
    def method(self: HostScalar, other: Any) -> Any:
        if not isinstance(other, (bool, int, float, complex, HostScalar)):
            return NotImplemented
        return HostScalar.computed(fn, *((other, self) if swap else (self, other)))

    return method


def _compare(fn: Callable[[Any, Any], Any]) -> Callable[[HostScalar, Any], Any]:
    def method(self: HostScalar, other: Any) -> Any:
        return self._specialise(fn, other)

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _fn = getattr(operator, _name)
    setattr(HostScalar, f"__{_name}__", _binary(_fn, swap=False))
    setattr(HostScalar, f"__r{_name}__", _binary(_fn, swap=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(HostScalar, f"__{_name}__", _compare(getattr(operator, _name)))


def _unary(fn: Callable[[Any], Any]) -> Callable[[HostScalar], HostScalar]:
    return lambda self: HostScalar.computed(fn, self)


for _name in ("neg", "abs", "pos"):
    setattr(HostScalar, f"__{_name}__", _unary(getattr(operator, _name)))
