"""The template of scans: the body is planned once, its entries listed for every turn, or for few.

A turn reads its slice of what is scanned over and the carries of the turn before, and writes its
slice of what is stacked; carries go to and fro between two buffers. All turns' launches are of the
same functions and differ in addresses alone.

Where the target says so (`reads_rows`), what is carried and stacked too is read by the next turn
from the slice that the one before has written, and copied once, after the last.

Note [advancing words]
    The words of two turns differ from those of the next two by the same numbers every time: the
    bytes of two slices, the draws of two turns. So of a long scan the first turn is listed, two
    that the walk goes back to, and the last one or two. Before the two stands a launch that knows
    those words as they are first and by how much each advances; the launch after them counts, and
    writes the words of the next two turns where the kernels look for theirs. A program's size and
    the time to make it then do not depend on how long the scan is.

    Short scans are listed, since a walk that goes back can pause; so are all where the target has
    no such launches, or where the first call is checked turn by turn.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from adjoint.engine.compiler.flow.bodies import (
    PlannedBody,
    address,
    entry_count,
    goes_back,
    host,
    lasting_inputs,
    like,
    packed,
    refusal,
    touched,
)
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.schedule.steps import (
    Address,
    Entry,
    Flow,
    HostNumber,
    Launch,
    Step,
    Test,
)
from adjoint.engine.compiler.target import Setting, Target, Template
from adjoint.engine.core.dtype import bool_
from adjoint.engine.graph.ir import DataflowGraph, Node

LONGEST = 100_000  # entries of one loop that are listed


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...], longest: int = LONGEST) -> bool:
    """Scans whose bodies are native through and through, and not too long to list."""
    length = node.params["length"]
    if refusal(setting, node) or length <= 0:
        return False
    return goes_back(setting, node) or entry_count(setting, node) <= longest


def row(place: Place, k: int) -> Place:
    """A slice along the first dimension."""
    ahead = k * place.strides[0]
    return Place(place.buffer, place.shape[1:], place.strides[1:], place.offset + ahead)


class ScanTurns:
    """Lists the entries of all turns."""

    def __init__(
        self, setting: Setting, node: Node, operands: list[Any], results: list[Place]
    ) -> None:
        self.operands, self.results = operands, results
        self.length, self.reverse = node.params["length"], node.params["reverse"]
        self.carries, self.advance = node.params["carries"], node.params["advance"]
        self.rows = self.carries + node.params["xs"]
        body = node.params["body"]
        # The carries that are stacked as well, by number, and where.
        self.stacked = stacked_carries(body, self.carries) if setting.target.reads_rows else {}
        self.body = PlannedBody(setting, without(body, self.stacked), lasting_inputs(setting, node))
        carried = results[: self.carries] if self.length > 1 else []
        self.spare = [
            [p if i in self.stacked else like(p, "carry") for i, p in enumerate(carried)]
            for _ in range(2)
        ]

    def entries(self) -> list[Entry]:
        """All turns, one after the other."""
        return [entry for turn in range(self.length) for entry in self.turn(turn)]

    def turn(self, turn: int) -> list[Entry]:
        """The entries of one turn."""
        ys = [row(p, self.slice_of(turn)) for p in self.results[self.carries :]]
        carried = [p for i, p in enumerate(self.carry(turn + 1)) if i not in self.stacked]
        return self.body.at(self.inputs(turn), [*carried, *ys])

    def before(self) -> list[Launch]:
        """What is made once for all turns."""
        return self.body.before(self.inputs(0))

    def inputs(self, turn: int) -> list[Any]:
        """What a turn reads: carries, slices, and what is the same in all but for draws."""
        xs = [row(p, self.slice_of(turn)) for p in self.operands[self.carries : self.rows]]
        further = zip(self.operands[self.rows :], self.advance, strict=True)
        return [*self.carry(turn), *xs, *[host(x, turn * advance) for x, advance in further]]

    def slice_of(self, turn: int) -> int:
        """Which slice is a turn's."""
        return self.length - 1 - turn if self.reverse else turn

    def carry(self, turn: int) -> list[Any]:
        """Where a turn finds what is carried: what the one before it has left."""
        if turn == 0:
            return self.operands[: self.carries]
        kept = self.results if turn == self.length else self.spare[(turn - 1) % 2]
        return [
            self.left(i, turn - 1) if i in self.stacked else p
            for i, p in enumerate(kept[: self.carries])
        ]

    def left(self, carry: int, turn: int) -> Place:
        """The slice in which a turn has left a carry that is stacked."""
        return row(self.results[self.stacked[carry]], self.slice_of(turn))

    def after(self, target: Target) -> list[Launch]:
        """What copies the carries that are stacked, as the last turn has left them."""
        last = self.length - 1
        return [
            copy_step(target, self.left(i, last), self.results[i], "carry") for i in self.stacked
        ]

    # -- going back -----------------------------------------------------------------------------

    def advancing(self, target: Target) -> tuple[list[Entry], Place]:
        """The first turn, two that are gone back to, the rest; and what tells whether to go on."""
        pairs = (self.length - 2) // 2
        goes_on = row_major(PlannedBuffer(ARENA, bool_, 1, name="goes_on"), ())
        both = [*self.turn(1), *self.turn(2)]
        later = [*self.turn(3), *self.turn(4)]
        moves = [
            (position, word, difference)
            for position, (word, next_word) in enumerate(
                zip(words(both), words(later), strict=True)
            )
            if not is_nothing(difference := between(word, next_word))
        ]
        begin, go_on = target.advancing(moves, len(words(both)), pairs, address(goes_on))
        for entry in both:
            if isinstance(entry, Launch):
                entry.times = pairs
        go_on.skip = -len(both) - 2
        looped = [begin, Test(address(goes_on), len(both) + 1), *both, go_on]
        rest = [entry for turn in range(1 + 2 * pairs, self.length) for entry in self.turn(turn)]
        return [*self.turn(0), *looped, *rest], goes_on


def stacked_carries(body: DataflowGraph, carries: int) -> dict[int, int]:
    """The results of a body that are carried and, later among them, stacked too."""
    stacked = {v: k for k, v in enumerate(body.outputs) if k >= carries}
    return {i: stacked[v] for i, v in enumerate(body.outputs[:carries]) if v in stacked}


def without(body: DataflowGraph, left_out: Collection[int]) -> DataflowGraph:
    """A body that does not give some of its results, made once."""
    if not left_out:
        return body
    key = ("without", *left_out)
    lean = body.derived.get(key)
    if lean is None:
        lean = body.derived[key] = body.copy()
        lean.outputs = [v for k, v in enumerate(body.outputs) if k not in left_out]
    return lean


def words(entries: list[Entry]) -> list[Any]:
    """The words of entries, one after the other."""
    return [word for entry in entries for word in entry.words]


def between(word: Any, later: Any) -> Any:
    """By how much a word is more two turns later."""
    if isinstance(word, Address) and isinstance(later, Address) and word.buffer is later.buffer:
        return later.shift - word.shift
    if isinstance(word, HostNumber) and isinstance(later, HostNumber) and word.value is later.value:
        return later.plus - word.plus
    if word.__class__ is int and later.__class__ is int:
        return later - word
    if word is later or word == later:
        return 0
    raise AssertionError(f"a scan's words cannot be told apart: {word} and {later}")


def is_nothing(difference: Any) -> bool:
    """Whether a word is the same at every turn."""
    return difference.__class__ is int and difference == 0


def steps(setting: Setting, node: Node, operands: list[Any], results: list[Place]) -> list[Step]:
    """The whole loop as one step, after what is made once for all turns."""
    turns = ScanTurns(setting, node, operands, results)
    before = turns.before()
    made = tuple(touch for launch in before for touch in launch.writes)
    kept = [*turns.spare[0], *turns.spare[1], *results]
    if goes_back(setting, node):
        entries, goes_on = turns.advancing(setting.target)
        kept.append(goes_on)
    else:
        entries = turns.entries()
    return [
        *before,
        Flow(
            "loop",
            entries,
            (("", turns.body.steps),),
            (*touched(operands), *made),
            touched(kept),
            turns.length,
            node.record.name,
        ),
        *turns.after(setting.target),
    ]


TEMPLATES = {"scan": Template(accepts, packed, steps)}
