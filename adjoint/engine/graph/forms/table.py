"""The table of forms: by an operation's name, a function of tensors that computes the same.

A form is recorded when a program is compiled or exported, and its nodes stand in the place of the
operation's. It is written in operations that have native code. Forms of exported programs may hold
tables of numbers, which become constants of the program (`adjoint.export.forms`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from adjoint.engine.graph.ir import Node
from adjoint.engine.tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
FORMS: dict[str, Callable[..., Any]] = {}
# Of operations that have native code for most operands: which need a form.
NEEDED: dict[str, Callable[[Node], bool]] = {}


class Unwritten(Exception):
    """What a form cannot do, of these operands; the operation stays and is refused."""


def form_of(name: str, when: Callable[[Node], bool] | None = None) -> Callable[[F], F]:
    """Enter a function in the table."""

    def enter(form: F) -> F:
        FORMS[name] = form
        if when is not None:
            NEEDED[name] = when
        return form

    return enter


def needs_form(node: Node) -> bool:
    """Whether a node is written in its form."""
    name = node.record.name
    return name in FORMS and (name not in NEEDED or NEEDED[name](node))


def refuse_complex(x: Tensor) -> None:
    """Forms of real numbers alone."""
    if x.is_complex():
        raise Unwritten("of complex numbers")
