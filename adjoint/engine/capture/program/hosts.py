"""Host scalars read together: one generated function gives all of a program's numbers.

Expressions shared between scalars are evaluated once per call, by straight-line code instead of
nested calls.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.core.generated import function_of_text
from adjoint.engine.core.state.host import HostScalar

_SIGNS: dict[Any, str] = {
    operator.add: "{} + {}",
    operator.sub: "{} - {}",
    operator.mul: "{} * {}",
    operator.truediv: "{} / {}",
    operator.pow: "{} ** {}",
    operator.neg: "-{}",
    operator.lt: "{} < {}",
    operator.le: "{} <= {}",
    operator.gt: "{} > {}",
    operator.ge: "{} >= {}",
    operator.eq: "{} == {}",
    operator.ne: "{} != {}",
    operator.getitem: "{}[{}]",
}


class _ReaderWriter:
    """Collects one line per distinct scalar."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {}
        self.names: dict[Any, str] = {}

    def constant(self, value: Any) -> str:
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def term(self, x: Any) -> str:
        """The name of a scalar's value, or of a constant."""
        if not isinstance(x, HostScalar):
            return self.constant(x)
        if x.key not in self.names:
            call = x.parts or x.source
            if call is None:
                text = f"{self.constant(x.get)}()"
            else:
                fn, args = call
                terms = [self.term(a) for a in args]
                sign = _SIGNS.get(fn)
                text = sign.format(*terms) if sign else f"{self.constant(fn)}({', '.join(terms)})"
            self.names[x.key] = f"v{len(self.names)}"
            self.lines.append(f"    {self.names[x.key]} = {text}")
        return self.names[x.key]

    def written(self, result: str) -> Callable[[], Any]:
        """The function of these lines."""
        given = ", ".join(f"{name}={name}" for name in self.scope)  # locals are read fastest
        body = "\n".join([*self.lines, f"    return {result}"])
        text = f"def read({given}):\n{body}\n"
        return function_of_text(text, "read", "<host scalars>", dict(self.scope))


def reader(scalars: Sequence[HostScalar]) -> Callable[[], list[Any]]:
    """A function that reads all the scalars.

    >>> rate = HostScalar(lambda: 0.5)
    >>> reader([rate * 2, rate * 2 + 1])()
    [1.0, 2.0]
    """
    writer = _ReaderWriter()
    results = [writer.term(x) for x in scalars]
    return writer.written(f"[{', '.join(results)}]")


def checked_reader(
    tests: Sequence[tuple[HostScalar, Any]],
    alike: Sequence[Sequence[Callable[[], Any]]],
    scalars: Sequence[HostScalar],
) -> Callable[[], list[Any] | None]:
    """A function that reads all the scalars, or gives None where a test comes out otherwise.

    `alike` are calls that must give equal numbers. What a test and a scalar share is read once.

    >>> state = {"rate": 0.5}
    >>> rate = HostScalar(lambda: state["rate"])
    >>> read = checked_reader([(HostScalar.computed(bool, rate), True)], [], [rate * 2])
    >>> read()
    [1.0]
    >>> state["rate"] = 0.0
    >>> read() is None
    True
    """
    writer = _ReaderWriter()
    for calls in alike:
        terms = " == ".join(f"{writer.constant(call)}()" for call in calls)
        writer.lines.append(f"    if not ({terms}): return None")
    if tests:
        outcomes = writer.constant([outcome for _, outcome in tests])
        tested = [writer.term(test) for test, _ in tests]
        writer.lines.append(f"    if [{', '.join(tested)}] != {outcomes}: return None")
    results = [writer.term(x) for x in scalars]
    return writer.written(f"[{', '.join(results)}]")
