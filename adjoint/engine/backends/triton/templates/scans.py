"""The template of scans: a body's launches, listed for every turn, are part of the graph of all.

The body is planned once (`compiler.flow.scans`). Its kernels are written for what addresses of rows
are multiples of: 16 bytes where all are, so that threads load as much at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adjoint.engine.backends.triton.launch_words import ALIGN, alignment
from adjoint.engine.compiler.flow import scans
from adjoint.engine.compiler.flow.bodies import packed
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Step
from adjoint.engine.compiler.target import Setting, Template
from adjoint.engine.graph.ir import Node
from adjoint.engine.graph.sizes.extents import common_divisor

LONGEST = 20_000  # launches of one loop


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Scans whose bodies are kernels through and through, and not too long to list."""
    return scans.accepts(of_rows(setting, ALIGN), node, inputs, LONGEST)


def of_rows(setting: Setting, rows: int) -> Setting:
    """The setting of a body whose inputs and results begin at multiples of so many bytes."""
    target: Any = setting.target
    return replace(setting, target=target.of_rows(rows))


def steps(setting: Setting, node: Node, operands: list[Any], results: list[Place]) -> list[Step]:
    """The whole loop as one step."""
    carries = node.params["carries"]
    scanned = operands[carries : carries + node.params["xs"]]
    stacked = results[carries:]
    places = [x for x in (*operands, *results) if isinstance(x, Place)]
    known = [alignment(setting.target, place) for place in places]
    known += [p.strides[0] * p.buffer.dtype.itemsize for p in (*scanned, *stacked)]
    whole = common_divisor(*known) % ALIGN == 0
    return scans.steps(of_rows(setting, ALIGN if whole else 1), node, operands, results)


TEMPLATES = {"scan": Template(accepts, packed, steps)}
