"""The template of `cond`: a test, and the entries of both branches, of which one is left out."""

from __future__ import annotations

from typing import Any

from adjoint.engine.compiler.flow.bodies import (
    PlannedBody,
    address,
    copies,
    host,
    like,
    packed,
    refusal,
    then,
    touched,
)
from adjoint.engine.compiler.memory.places import OWN, Place
from adjoint.engine.compiler.schedule.steps import Entry, Flow, Test
from adjoint.engine.compiler.target import Setting, Template
from adjoint.engine.core.dtype import bool_
from adjoint.engine.graph.ir import Node, Value


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Branches that are native through and through, chosen by a byte in memory."""
    pred = inputs[0]
    return isinstance(pred, Value) and pred.spec.dtype is bool_ and not refusal(setting, node)


def own_predicate(setting: Setting, pred: Place) -> tuple[list[Entry], Place]:
    """The predicate where only the program can write, and what brings it there.

    Workers that read different bytes would wait for each other forever.
    """
    if pred.buffer.kind in OWN:
        return [], pred
    byte = like(pred, "chosen")
    return copies(setting, [pred], [byte]), byte


def steps(setting: Setting, node: Node, operands: list[Any], results: list[Place]) -> list[Flow]:
    """Both branches as one step; they write the same results."""
    pred, *given = operands
    start, byte = own_predicate(setting, pred)
    inputs = list(map(host, given))
    bodies = {name: PlannedBody(setting, node.params[name]) for name in ("true", "false")}
    yes, no = (body.at(inputs, results) for body in bodies.values())
    return [
        Flow(
            "branch",
            [*start, Test(address(byte), len(yes)), *then(yes, len(no)), *no],
            tuple((name, body.steps) for name, body in bodies.items()),
            touched(operands),
            touched([byte, *results]),
            label=node.record.name,
        )
    ]


TEMPLATES = {"cond": Template(accepts, packed, steps)}
