"""Templates: nodes with a kernel of their own instead of generated loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.graph.ir import Node, Value

LayoutOf = Callable[[Value], Place]


@dataclass(frozen=True, slots=True)
class Template:
    """How a node becomes calls of a kernel."""

    accepts: Callable[[Node, tuple[Any, ...]], bool]
    packed: Callable[[LayoutOf, tuple[Any, ...]], set[int]]  # operands that must be copied first
    steps: Callable[..., list[Any]]  # (node, places of operands, places of results) -> steps
    # Where in the result each operand lies, if the result is nothing but its operands.
    parts: Callable[[Node, Place], list[Place]] | None = None
    # Operands that may be zeros nobody has written: their places are then None.
    zeros: frozenset[int] = frozenset()


TEMPLATES: dict[str, Template] = {}


def template_for(node: Node, inputs: tuple[Any, ...]) -> Template | None:
    """The template that takes a node, if any."""
    template = TEMPLATES.get(node.record.name)
    return template if template is not None and template.accepts(node, inputs) else None
