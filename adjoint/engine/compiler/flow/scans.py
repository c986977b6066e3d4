"""The template of scans: the body is planned once, its entries listed for every turn.

A turn reads its slice of what is scanned over and the carries of the turn before, and writes its
slice of what is stacked; carries go to and fro between two buffers. All turns' launches are of the
same functions and differ in addresses alone.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.compiler.flow.bodies import PlannedBody, host, like, packed, refusal, touched
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Entry, Flow
from adjoint.engine.compiler.target import Setting, Template
from adjoint.engine.graph.ir import Node

LONGEST = 100_000  # entries of one loop


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...], longest: int = LONGEST) -> bool:
    """Scans whose bodies are native through and through, and not too long to list."""
    length = node.params["length"]
    if refusal(setting, node) or length <= 0:
        return False
    return length * len(PlannedBody(setting, node.params["body"]).entries) <= longest


def row(place: Place, k: int) -> Place:
    """A slice along the first dimension."""
    ahead = k * place.strides[0]
    return Place(place.buffer, place.shape[1:], place.strides[1:], place.offset + ahead)


class Turns:
    """Lists the entries of all turns."""

    def __init__(
        self, setting: Setting, node: Node, operands: list[Any], results: list[Place]
    ) -> None:
        self.operands, self.results = operands, results
        self.length, self.reverse = node.params["length"], node.params["reverse"]
        self.carries, self.advance = node.params["carries"], node.params["advance"]
        self.rows = self.carries + node.params["xs"]
        self.body = PlannedBody(setting, node.params["body"])
        carried = results[: self.carries] if self.length > 1 else []
        self.spare = [[like(p, "carry") for p in carried] for _ in range(2)]

    def entries(self) -> list[Entry]:
        carry = self.operands[: self.carries]
        entries: list[Entry] = []
        for turn in range(self.length):
            k = self.length - 1 - turn if self.reverse else turn
            xs = [row(p, k) for p in self.operands[self.carries : self.rows]]
            further = zip(self.operands[self.rows :], self.advance, strict=True)
            consts = [host(x, turn * advance) for x, advance in further]
            last = turn == self.length - 1
            new = self.results[: self.carries] if last else self.spare[turn % 2]
            ys = [row(p, k) for p in self.results[self.carries :]]
            entries += self.body.at([*carry, *xs, *consts], [*new, *ys])
            carry = new
        return entries


def steps(setting: Setting, node: Node, operands: list[Any], results: list[Place]) -> list[Flow]:
    """The whole loop as one step."""
    turns = Turns(setting, node, operands, results)
    return [
        Flow(
            "loop",
            turns.entries(),
            (("", turns.body.steps),),
            touched(operands),
            touched([*turns.spare[0], *turns.spare[1], *results]),
            turns.length,
            node.record.name,
        )
    ]


TEMPLATES = {"scan": Template(accepts, packed, steps)}
