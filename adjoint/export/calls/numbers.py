"""Numbers of the host's in C: what Python computes before each call, as code.

A captured step reads numbers at each call: an optimizer's `lr`, how many steps it has made, where a
random generator is. The first are part of the state, where a user may set them, unless the
recording depends on their value; all that is computed from them is computed here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from adjoint.engine.backends.registers.elementwise import LOWER
from adjoint.engine.backends.registers.vector import Code, V, select
from adjoint.engine.core.state.host import HostScalar
from adjoint.export.errors import ExportError
from adjoint.export.recording import CallForExport
from adjoint.export.state import ProgramState, StateBuilder
from adjoint.optim.asgd import averaging_weight
from adjoint.optim.radam import rectifier


def kind_of(leaf: HostScalar) -> str:
    """What a number that is read, not computed, is: counter, seed, offset, argument or option."""
    key = leaf.key
    if isinstance(key, tuple):
        if key[0] in ("count", "seed", "offset"):
            return str(key[0])
        if key[0] == "slot":
            return "argument"
        if isinstance(key[0], int) and len(key) in (2, 3) and isinstance(key[1], str):
            return "option"
    raise ExportError(
        f"export.aot: the function reads the number {leaf.name!r} of Python at each call. Pass it "
        "as an argument."
    )


def leaves_of(scalar: Any) -> list[HostScalar]:
    """The numbers that one is computed from."""
    if not isinstance(scalar, HostScalar):
        return []
    if scalar.parts is None:
        return [scalar]
    return [leaf for x in scalar.parts[1] for leaf in leaves_of(x)]


def fixed_options(recording: CallForExport) -> set[Any]:
    """The keys of options on whose value the recording depends; checks that these are all."""
    fixed: set[Any] = set()
    for test, outcome in recording.guards:
        leaves = leaves_of(test)
        fixed |= {leaf.key for leaf in leaves if kind_of(leaf) in ("option", "argument")}
        if all(kind_of(leaf) in ("option", "argument") for leaf in leaves):
            continue
        # Of a power with a counter as its exponent it is asked whether it is a float: it is one
        # for all counts where its base, now a constant, is no negative number.
        if outcome is not float or not all(map(_is_real, _powers(test))):
            raise ExportError(
                f"export.aot: the function decides by the number {test.name!r}, which differs from "
                "call to call. Decide outside of it."
            )
    return fixed


def _powers(scalar: Any) -> list[tuple[Any, ...]]:
    """The operands of all powers that a number is computed by."""
    if not isinstance(scalar, HostScalar) or scalar.parts is None:
        return []
    fn, args = scalar.parts
    inner = [power for x in args for power in _powers(x)]
    return [*inner, args] if fn is operator.pow else inner


def _is_real(power: tuple[Any, ...]) -> bool:
    base = power[0].get() if isinstance(power[0], HostScalar) else power[0]
    return isinstance(base, float) and base >= 0


def add_numbers(recording: CallForExport, fixed: set[Any], state: StateBuilder) -> None:
    """Put into the state what numbers are computed from."""
    for scalar in recording.hosts.values():
        for leaf in leaves_of(scalar):
            kind = kind_of(leaf)
            if kind == "option" and leaf.key not in fixed:
                number: Any = leaf.get()
                state.add_number(leaf.key, leaf.name, float(number))
    for generator, _ in recording.draws:
        state.add_generator(generator)


class NumberCode:
    """Writes the code of numbers: doubles, and 64-bit integers that wrap around."""

    def __init__(
        self,
        code: Code,
        recording: CallForExport,
        state: ProgramState,
        fixed: set[Any],
        arguments: Any,
    ) -> None:
        self.code, self.recording, self.state, self.fixed = code, recording, state, fixed
        self.arguments: Mapping[int, str] = arguments  # leaf -> the name of its parameter
        self.values: dict[Any, V] = {}

    def value(self, x: Any) -> V:
        """The value of a number."""
        if not isinstance(x, HostScalar):
            return self._constant(x)
        if x.key not in self.values:
            self.values[x.key] = self._read(x) if x.parts is None else self._computed(x)
        return self.values[x.key]

    def _constant(self, x: Any) -> V:
        if isinstance(x, bool) or not isinstance(x, (int, float)):
            raise ExportError(f"export.aot: a number computed from {x!r} has no form in C.")
        return self.code.const(x, "f64" if isinstance(x, float) else "i64")

    def _read(self, leaf: HostScalar) -> V:
        kind = kind_of(leaf)
        key: Any = leaf.key
        if kind == "argument":
            if key in self.fixed:
                return self._constant(leaf.get())
            return self.code.value(self.arguments[key[1]], "f64", 1)
        if kind == "option":
            if key in self.fixed:
                number: Any = leaf.get()  # a whole one (`dampening=0`) is one in the recording, too
                return self._constant(float(number) if isinstance(number, bool) else number)
            return self._load(self.state.offset(key), "f64")
        if kind == "count":
            counter = self.state.tensors[self.state.places[id(self.recording.counters[key[1]])]]
            stored = {"float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32"}
            number = self._load(counter.offset, stored[counter.dtype.name])
            return number.convert("f64" if counter.dtype.is_floating_point else "i64")
        start = self.state.offset(("generator", key[1]))
        return self._load(start + (8 if kind == "offset" else 0), "i64")

    def _load(self, offset: int, kind: str) -> V:
        at = self.code.let(f"getelementptr i8, ptr %state, i64 {offset}")
        text = {"f32": "float", "f64": "double", "i64": "i64", "i32": "i32"}[kind]
        return self.code.value(self.code.let(f"load {text}, ptr {at}"), kind, 1)

    def _computed(self, scalar: HostScalar) -> V:
        assert scalar.parts is not None
        fn, args = scalar.parts
        write = FUNCTIONS.get(fn)
        if write is None:
            raise ExportError(
                f"export.aot: the number {scalar.name!r} is computed by a function that has no "
                "form in C."
            )
        return write(*[self.value(x) for x in args])


def _alike(write: Callable[..., V]) -> Callable[..., V]:
    """A function of operands that become doubles unless all are integers."""

    def converted(*xs: V) -> V:
        kind = "i64" if all(x.kind == "i64" for x in xs) else "f64"
        return write(*[x.convert(kind) for x in xs])

    return converted


def _doubles(write: Callable[..., V]) -> Callable[..., V]:
    return lambda *xs: write(*[x.convert("f64") for x in xs])


def _rectifier(step: V, beta2: V) -> V:
    """`optim.radam.rectifier`, its branch a choice between two results."""
    longest = 2 / (1 - beta2) - 1
    power = LOWER["pow"](beta2, step)
    length = longest - step * power * 2 / (1 - power)
    above = (length - 4) * (length - 2) * longest
    trusted = (above / ((longest - 4) * (longest - 2) * length)).sqrt()
    return select(length > 5, trusted, longest * 0)


FUNCTIONS: dict[Any, Callable[..., V]] = {
    operator.add: _alike(operator.add),
    operator.sub: _alike(operator.sub),
    operator.mul: _alike(operator.mul),
    operator.neg: _alike(operator.neg),
    operator.truediv: _doubles(operator.truediv),
    operator.pow: _doubles(lambda x, y: LOWER["pow"](x, y)),
    math.sqrt: _doubles(lambda x: x.sqrt()),
    float: _doubles(lambda x: x),
    min: _alike(lambda x, y: select(y < x, y, x)),
    max: _alike(lambda x, y: select(y > x, y, x)),
    rectifier: _doubles(_rectifier),
    averaging_weight: _doubles(
        lambda step, start: 1 / select(step - start > 1, step - start, step * 0 + 1)
    ),
}
