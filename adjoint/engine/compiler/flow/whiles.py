"""The template of `while_loop`: a test and a body that the walk comes back to.

The carries go to and fro between two buffers, so the loop is listed for two turns, of which the
second goes back to the first; each has its own way out, on which the results are copied.
"""

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
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.schedule.steps import Entry, Flow, Test
from adjoint.engine.compiler.target import Setting, Template
from adjoint.engine.core.dtype import bool_
from adjoint.engine.graph.ir import Node


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Loops whose tests and bodies are native through and through."""
    return node.params["carries"] > 0 and not refusal(setting, node)


class WhileSteps:
    """Lists the entries of a loop."""

    def __init__(
        self, setting: Setting, node: Node, operands: list[Any], results: list[Place]
    ) -> None:
        carries = node.params["carries"]
        self.setting = setting
        self.test, self.body = (
            PlannedBody(setting, node.params["test"]),
            PlannedBody(setting, node.params["body"]),
        )
        self.first, self.consts = operands[:carries], list(map(host, operands[carries:]))
        self.results = results
        self.carry = [[like(p, "carry") for p in results] for _ in range(2)]
        self.goes_on = row_major(PlannedBuffer(ARENA, bool_, 1, name="goes_on"), ())

    def turn(self, k: int) -> tuple[list[Entry], list[Entry]]:
        """The test of carries in one of the buffers, and the body that fills the other."""
        mine, other = self.carry[k], self.carry[1 - k]
        test = self.test.at([*mine, *self.consts], [self.goes_on])
        return test, self.body.at([*mine, *self.consts], other)

    def entries(self) -> list[Entry]:
        start = copies(self.setting, self.first, self.carry[0])
        (test, body), (test_2, body_2) = self.turn(0), self.turn(1)
        out, out_2 = (copies(self.setting, carry, self.results) for carry in self.carry)
        second = [*test_2, self.asked(len(body_2) + len(out)), *body_2]
        first = [*test, self.asked(len(body) + len(second)), *body]
        then(body_2, -len(first) - len(second))
        return [*start, *first, *second, *then(out, len(out_2)), *out_2]

    def asked(self, skip: int) -> Test:
        return Test(address(self.goes_on), skip)


def steps(setting: Setting, node: Node, operands: list[Any], results: list[Place]) -> list[Flow]:
    """The whole loop as one step."""
    loop = WhileSteps(setting, node, operands, results)
    return [
        Flow(
            "loop",
            loop.entries(),
            (("test", loop.test.steps), ("body", loop.body.steps)),
            touched(operands),
            touched([*loop.carry[0], *loop.carry[1], loop.goes_on, *results]),
            label=node.record.name,
        )
    ]


TEMPLATES = {"while_loop": Template(accepts, packed, steps)}
