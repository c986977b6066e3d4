"""How a scan is run forward so that it can run backward: what is kept, and how sums are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.graph.flow.derive import Pulled, Reverse, carried
from adjoint.engine.graph.flow.hoist import Outside, taken_out
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.ops.elementwise.arithmetic import ADD


@dataclass(slots=True)
class Back:
    """The backward body: what each iteration gives, and how what they share is summed."""

    pulled: Pulled
    inside: dict[int, tuple[Value, Value]]  # operand -> (sum so far, sum)
    outside: dict[int, Outside]  # operand -> sum over rows, after the loop


@dataclass(slots=True)
class ScanDerivative:
    """How a scan is run forward so that it can run backward."""

    reverse: Reverse
    forward: DataflowGraph  # the body, with residuals among its rows
    count: int  # of results that are the scan's own
    residuals: list[Value]
    wanted: tuple[bool, ...]
    carries: int
    first: int  # the place of the first constant
    backs: dict[tuple[bool, ...], Back] = field(default_factory=dict)

    def back(self, given: tuple[bool, ...]) -> Back:
        """The backward body for the cotangents that are there."""
        body = self.backs.get(given)
        if body is None:
            moved = [i for i in self.reverse.wanted if i < self.first]
            pulled = self.reverse.pull(given, must=moved)
            rows = pulled.cotangents[sum(given[: self.carries]) :]
            body = self.backs[given] = self._sums(pulled, rows)
        return body

    def _sums(self, pulled: Pulled, rows: Sequence[Value]) -> Back:
        back = Back(pulled, {}, {})
        reverse = self.reverse
        fixed = {
            new for v, new in pulled.needs.items() if v in reverse.available and self.shared(v)
        }
        there = {*rows, *(new for new in pulled.needs.values() if new not in fixed)}
        there |= {pulled.outputs[i] for i in reverse.wanted if self.carries <= i < self.first}
        fixed |= {x.value for x in pulled.constants}
        varying = _varying(pulled.graph, fixed)
        for i, value in pulled.outputs.items():
            if i < self.first:
                continue
            out = None if reverse.checkpoint else taken_out(value, varying.__contains__, there)
            if out is not None:
                back.outside[i] = out
                there |= set(out.rows)
                continue
            so_far = pulled.graph.add_input(value.spec)
            (total,) = pulled.graph.add_node(ADD, (so_far, value), {}, (value.spec,))
            back.inside[i] = so_far, total
        return back

    def shared(self, value: Value) -> bool:
        """Whether a forward value is an input that every iteration shares."""
        return self.reverse.position[value] >= self.first


def _varying(graph: DataflowGraph, fixed: set[Value]) -> set[Value]:
    """The values that may differ between iterations."""
    varying = {v for v in graph.inputs if v not in fixed and not v.host}
    for node in graph:
        if any(x in varying for x in node.inputs if isinstance(x, Value)):
            varying.update(node.outputs)
    return varying


def make_plan(
    params: dict[str, Any], wanted: Sequence[bool], *, checkpoint: bool = False
) -> ScanDerivative:
    """The plan for a scan differentiated by the `wanted` operands."""
    body, carries, xs = params["body"], params["carries"], params["xs"]
    wanted = carried(body, carries, wanted)
    key = ("scan", carries, xs, wanted, checkpoint)
    plan = body.derived.get(key)
    if plan is None:
        first, count = carries + xs, len(body.inputs)
        moving = {first + i for i, a in enumerate(params["advance"]) if a}
        reverse = Reverse(
            body,
            wanted,
            free=[i >= first and i not in moving for i in range(count)],
            available=[i >= carries for i in range(count)],
            checkpoint=checkpoint,
        )
        given = tuple(reverse.tracked)
        needs = reverse.pull(given).needs
        residuals = [v for v in needs if v not in reverse.available]
        forward = reverse.forward(residuals)
        plan = ScanDerivative(
            reverse, forward, len(body.outputs), residuals, wanted, carries, first
        )
        forward.derived["plan"] = body.derived[key] = plan
    return plan
