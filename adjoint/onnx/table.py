"""The table of operators: a function per operator, inputs by position and attributes by name.

A parameter named `call` gets the `Call`: how many outputs are wanted, the opset, the graphs of
control flow. What became an input after it was an attribute is one parameter, and may be either.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from adjoint.onnx.types import Value

F = TypeVar("F", bound=Callable[..., Any])
Body = Callable[..., list[Value]]  # a graph of control flow as a function of its inputs


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: its function, and what that can take."""

    function: Callable[..., Any]
    names: frozenset[str]  # parameters that an attribute may name
    wants_call: bool
    moves: bool  # elements are only moved, so that those of any type can be
    draws: bool  # random: never computed once for all


@dataclass(frozen=True, slots=True)
class Call:
    """What an operator may ask about the node that it computes."""

    name: str
    opset: int
    outputs: int  # how many are listed
    wanted: tuple[bool, ...]  # which of them are named
    body: Callable[[Any], Body]


OPERATORS: dict[tuple[str, str], Operator] = {}


def operator(
    *names: str, domain: str = "", moves: bool = False, draws: bool = False
) -> Callable[[F], F]:
    """Enter a function in the table under these names."""

    def enter(function: F) -> F:
        parameters = inspect.signature(function).parameters
        known = frozenset(
            name
            for name, p in parameters.items()
            if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and name != "call"
        )
        made = Operator(function, known, "call" in parameters, moves, draws)
        for name in names:
            OPERATORS[domain, name] = made
        return function

    return enter
