"""Numbers of each call, as the recorder deals with them: read, drawn, sizes, known at the end."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.python.plain import MISSING
from adjoint.engine.capture.tensors.late_arrays import is_late
from adjoint.engine.capture.tensors.late_values import (
    LateValue,
    carries,
    extreme,
    is_late_value,
    joined,
    of_texts,
)
from adjoint.engine.core.operations.public import NUMBERS
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.spec import Size
from adjoint.engine.core.state.host import HostScalar, is_host
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat
from adjoint.engine.graph.sizes.quotients import whole_part
from adjoint.engine.graph.sizes.resizing import is_of_sizes, plain_size

_OF_SIZES = frozenset("add sub mul floordiv mod truediv neg pos abs compare".split())
_OF_QUOTIENTS = frozenset("add sub mul truediv pow neg".split())
_INDEXING = ("__getitem__", "__setitem__")
_SYMBOLS = (HostScalar, Extent, ExtentFloat, LateValue)
_WHOLE_PARTS = (math.floor, math.ceil)


class _Number:
    """A number at a place: while it is recorded, the one the call began with."""

    __slots__ = ("read", "recording", "value")

    def __init__(self, read: Callable[[], Any], value: Any) -> None:
        self.read, self.value, self.recording = read, value, True

    def get(self) -> Any:
        """The number."""
        return self.value if self.recording else self.read()


class CallNumbers:
    """The part of an engine that knows what stands for a number of each call."""

    recorder: Any
    numbers: list[_Number]
    late: list[tuple[Any, list[Any]]]  # numbers that effects need, and their slots
    sized: bool  # whether a size is read in a way that knows one size only
    by_python: bool = False  # whether results are made as those with numbers in them are
    in_call: bool = False  # whether a call is recorded, which Python could do as well

    def only_records(self) -> bool:
        """Whether there is no call that Python could do instead: for an export, a graph."""
        return not self.in_call

    def stands(self, value: Any) -> bool:
        """Whether something stands for a number or an array of each call."""
        return is_late(value) or self.is_symbol(value)

    def symbol(
        self,
        recorder: Any,
        read: Callable[[], Any],
        at_start: Callable[[], Any],
        value: Any,
        name: str,
    ) -> Any:
        """A number that is read at each call."""
        number = _Number(read, value)
        self.numbers.append(number)
        place = getattr(read, "__self__", None)  # of which it is the method `now`
        key = (id(number),) if place is None else place.token()  # the same in each recording
        return HostScalar(number.get, name, key=("moving", *key))

    def end(self) -> None:
        """The recording is over: numbers are read from now on."""
        for number in self.numbers:
            number.recording = False

    def drawn(self, recorder: Any, draw: Any) -> Any:
        """A number that is drawn at each call."""
        return HostScalar(draw.now, "drawn", key=("drawn", id(draw)))

    def reader(self, value: Any) -> Callable[[], Any]:
        """What reads a number in a call's effects: as it was when the call began."""
        if isinstance(value, (Extent, ExtentFloat)):
            value = HostScalar.computed(plain_size, value)  # sizes are put into it
        if not isinstance(value, HostScalar):
            self.sized = True
            return lambda: self.present(value)
        slot: list[Any] = [None]
        self.late.append((value, slot))
        return functools.partial(slot.__getitem__, 0)

    def reader_now(self, value: Any) -> Callable[[], Any]:
        """What reads a number when a call begins; of a size, the one of the recording."""
        if isinstance(value, HostScalar):
            self.sized |= is_of_sizes(value)
            return value.get
        number = self.concrete(value)
        return lambda: number

    def is_symbol(self, value: Any) -> bool:
        """Whether a value stands for a number of each call, or for a size."""
        return issubclass(type(value), _SYMBOLS)

    def carries(self, value: Any, name: str) -> bool:
        """Whether an operator of a symbol gives another one: of sizes only arithmetic does."""
        if is_late_value(value):
            return carries(value, name)
        if isinstance(value, HostScalar):
            return name not in ("matmul", "divmod")
        return name in (_OF_SIZES if isinstance(value, Extent) else _OF_QUOTIENTS)

    def concrete(self, value: Any) -> Any:
        """The number itself, which the recording then depends on."""
        if is_late_value(value):
            return value.pin()
        if isinstance(value, HostScalar):
            return value.pin()
        if isinstance(value, Extent):
            return value.pin()
        if isinstance(value, ExtentFloat):
            raise self.recorder.refuse(
                "a quotient of sizes",
                "what the function does depends on it, which no guard on sizes can say",
                "Compare the sizes themselves, or use //.",
            )
        return value

    def present(self, value: Any) -> Any:
        """The number a symbol stands for now."""
        if isinstance(value, HostScalar):
            return value.get()
        if is_late_value(value):
            return value.sample()
        if is_late(value):
            return value.value
        return int(value) if isinstance(value, Extent) else float(value)

    def written(self, fn: Callable[..., Any], value: Any, *options: Any) -> Any:
        """The text of a symbol; it may come to be known at a call's end."""
        if is_late_value(value):
            return value.written(fn, *options)
        return fn(self.concrete(value), *options)

    def joined(self, parts: list[Any]) -> Any:
        """Texts put together."""
        return joined(parts) if any(map(is_late_value, parts)) else "".join(parts)

    def of_texts(self, name: str, a: Any, b: Any) -> Any:
        """`+` and `%` of texts, some of which a call's end shows."""
        return of_texts(name, a, b)

    def chosen(self, fn: Callable[..., Any], values: list[Any]) -> Any:
        """The least or greatest of numbers, some of which a call's end shows."""
        return extreme(fn, values) if any(map(is_late_value, values)) else MISSING

    def computed(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """A function of numbers, put off to each call; of a quotient of sizes, its whole part."""
        if fn in _WHOLE_PARTS and len(args) == 1 and isinstance(args[0], ExtentFloat):
            whole = whole_part(args[0], round_up=fn is math.ceil)
            return MISSING if whole is None else whole
        if all(type(x) in (bool, int, float) or is_host(x) for x in args):
            scalar = HostScalar.computed(fn, *args)
            scalar.get()  # what it raises now is raised by the function's line
            return scalar
        return MISSING

    def convert(self, cls: type, value: Any) -> Any:
        """`int` or `float` of a symbol."""
        if isinstance(value, HostScalar):
            return value if type(value.get()) is cls else HostScalar.computed(cls, value)
        if is_late_value(value) and (value.kind is cls or (cls is float and value.kind is int)):
            return value if value.kind is cls else value.then(float, (value,), float)
        if cls is int and isinstance(value, Extent):
            return value
        if cls is int and isinstance(value, ExtentFloat):
            whole = whole_part(value)
            if whole is not None:
                return whole
        return cls(self.concrete(value))


def with_sizes_read(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in which whole numbers of each call that say what is done are read.

    Which dimension, how many, how far: the framework looks such numbers up in tables. Those that
    are values (factors, elements) stay numbers of each call. Sizes stay symbols where checks at
    other sizes would show that they were looked up.
    """
    name = str(getattr(fn, "__name__", ""))
    plain = name.strip("_")
    numbers = NUMBERS.get(plain)
    elementwise = plain in REGISTRY and REGISTRY[plain].family == "elementwise"
    if not elementwise and (not name.startswith("__") or name in _INDEXING):
        pads = plain == "pad" and len(args) <= 2 and "mode" not in kwargs  # up to a multiple
        settle = functools.partial(_with_sizes, Extent.kept if pads else Extent.settled)
        args = tuple(map(settle, args))
        kwargs = {key: settle(x) for key, x in kwargs.items()}
    if name.startswith("__") or numbers == "elements":
        return args, kwargs
    values = numbers == "values" or plain == "manual_seed" or elementwise
    read = _sizes_read if values else _size_read
    return tuple(map(read, args)), {key: read(x) for key, x in kwargs.items()}


def _size_read(value: Any) -> Any:
    if type(value) is HostScalar:
        return value.pin() if value.__class__ in (bool, int) else value
    return _sizes_read(value)


def _sizes_read(value: Any) -> Any:
    kind = type(value)
    if kind in (tuple, list) and any(type(part) in (HostScalar, tuple, list) for part in value):
        return kind(map(_size_read, value))
    return value


def _with_sizes(settle: Callable[[Extent], int], value: Any) -> Any:
    """An argument in which sizes are symbols only where checks would show them looked up."""
    kind = type(value)
    if kind is Extent:
        return settle(value)
    if kind is ExtentFloat:
        return value.settled()
    if kind is slice:
        bounds = (value.start, value.stop, value.step)
        return slice(*[_with_sizes(settle, bound) for bound in bounds])
    if kind in (tuple, list, Size):
        settled = [_with_sizes(settle, part) for part in value]
        return value if all(map(operator.is_, settled, value)) else kind(settled)
    return value


def is_drawn(scalar: Any) -> bool:
    """Whether a number is drawn, or computed of one that is."""
    if not isinstance(scalar, HostScalar):
        return False
    if scalar.parts is not None:
        return any(map(is_drawn, scalar.parts[1]))
    return isinstance(scalar.key, tuple) and scalar.key[:1] == ("drawn",)
