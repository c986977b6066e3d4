"""The table of operators: a function per operator, inputs by position and attributes by name.

A parameter named `call` gets the `Call`: how many outputs are wanted, the opset, the graphs of
control flow. What became an input after it was an attribute is one parameter, and may be either.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from adjoint.onnx.types import Value

F = TypeVar("F", bound=Callable[..., Any])
Body = Callable[..., list[Value]]  # a graph of control flow as a function of its inputs


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: its function, and what that can take."""

    function: Callable[..., Any]
    kinds: Mapping[str, str]  # parameters that an attribute may name, and what each takes
    wants_call: bool
    moves: bool  # elements are only moved, so that those of any type can be
    draws: bool  # random: never computed once for all


@dataclass(frozen=True, slots=True)
class NodeCall:
    """What an operator may ask about the node that it computes."""

    name: str
    opset: int
    outputs: int  # how many are listed
    wanted: tuple[bool, ...]  # which of them are named
    body: Callable[[Any], Body]


def _all(kind: type | tuple[type, ...]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(isinstance(x, kind) for x in value)


# By what a parameter takes: whether an attribute of a file is that. Others see for themselves.
FITS: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: isinstance(value, int),
    "float": lambda value: isinstance(value, (int, float)),
    "str": lambda value: isinstance(value, str),
    "list[int]": _all(int),
    "list[float]": _all((int, float)),
    "list[str]": _all(str),
}

OPERATORS: dict[tuple[str, str], Operator] = {}


def operator(
    *names: str, domain: str = "", moves: bool = False, draws: bool = False
) -> Callable[[F], F]:
    """Enter a function in the table under these names."""

    def enter(function: F) -> F:
        parameters = inspect.signature(function).parameters
        known = {
            name: str(p.annotation).removesuffix(" | None")
            for name, p in parameters.items()
            if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and name != "call"
        }
        entry = Operator(function, known, "call" in parameters, moves, draws)
        for name in names:
            OPERATORS[domain, name] = entry
        return function

    return enter
