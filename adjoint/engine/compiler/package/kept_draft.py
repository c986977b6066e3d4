"""Drafts as plain data, so that images for many sizes are made without the plan they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.engine.compiler.memory.footprint import AtSizes
from adjoint.engine.compiler.memory.packing import ArenaBlock, together
from adjoint.engine.compiler.memory.places import ARENA, PlannedBuffer
from adjoint.engine.compiler.package.image import TEST, Unfitting
from adjoint.engine.compiler.package.image_maker import ImageMaker, concrete
from adjoint.engine.compiler.schedule.steps import Address, Launch, Test
from adjoint.engine.core.dtype import uint8
from adjoint.engine.graph.sizes.extents import MARK, Extent, Sizes, SizeScope
from adjoint.engine.graph.sizes.kept_sizes import NotKept, NumberReader, NumberWriter

if TYPE_CHECKING:
    from adjoint.engine.compiler.package.draft import Draft

_PROBE = 76543219  # a size that messages are asked about
_PROBED = (2, 3, 10, 76543218)


@dataclass(frozen=True, slots=True)
class KeptFault:
    """An error that a kernel can report: its name, and its message with a mark for a size."""

    kind: str
    message: str
    size: Any

    def described(self, at_sizes: Callable[[Any], Any]) -> tuple[str, str]:
        """The exception's name and message, at the sizes of a program."""
        return self.kind, self.message.replace(MARK, str(at_sizes(self.size)))


class KeptDraft(ImageMaker):
    """A draft that was read; what only its plan tells is planned again when somebody asks."""

    def __init__(
        self, rows: dict[str, Any], sizes: Sizes, scope: SizeScope, again: Callable[[], Any]
    ) -> None:
        self.rows, self.again = rows, again
        reader = NumberReader(rows["table"], scope.complete(sizes), scope)
        number = reader.number
        self.own = {s: Extent.symbol(s, n, scope) for s, n in sizes.items()}
        self.blocks = [ArenaBlock(number(n), first, last, []) for n, first, last in rows["blocks"]]
        self.together = together(self.blocks)
        self.words = np.array(rows["words"], np.int64)
        self.extents = [*map(number, rows["extents"])]
        self.positions, self.which = _columns(rows["sized"], len(self.words), len(self.extents))
        self.at_words, self.at_blocks = _columns(
            rows["inside"], len(self.words), max(len(self.blocks), 1)
        )
        self.patches = {key: self._places(p, number) for key, p in rows["patches"]}
        self.numbers = {int(i): self._places(p, number) for i, p in rows["numbers"]}
        self.status = [(self._within(at), int(segment)) for at, segment in rows["status"]]
        self.symbols = [(self._within(at), str(name)) for at, name in rows["symbols"]]
        self.faults = [KeptFault(kind, text, number(n)) for kind, text, n in rows["faults"]]
        self.segments = [[self._entry(e, number) for e in part] for part in rows["segments"]]
        self.results = [(i, tuple(map(number, shape)), name) for i, shape, name in rows["results"]]

    def _within(self, position: int) -> int:
        if not 0 <= position < len(self.words):
            raise Unfitting("no draft: a word outside the words")
        return position

    def _places(self, pairs: Any, number: Callable[[Any], Any]) -> list[tuple[int, int]]:
        return [(self._within(at), number(shift)) for at, shift in pairs]

    def _entry(self, row: Any, number: Callable[[Any], Any]) -> tuple[str, int, Launch | Test]:
        name, at, skip, *rest = row
        self._within(at)
        if name == TEST:
            return TEST, at, Test(_NOWHERE, skip)
        pieces, cost, times = rest
        launch = Launch(name, [], (), (), number(pieces), number(cost), skip=skip, times=times)
        return name, at, launch

    def planned_again(self) -> tuple[Draft, SizeScope]:
        """The draft of the same plan, and its scope."""
        draft: tuple[Draft, SizeScope] = self.again()
        return draft

    def details(self, arena: int, at_sizes: AtSizes) -> dict[str, Any]:
        """What `explain` tells."""
        draft, scope = self.planned_again()
        sizes = {s: at_sizes(x) for s, x in self.own.items()}
        return draft.details(arena, concrete(scope.complete(sizes)))


_NOWHERE = Address(PlannedBuffer(ARENA, uint8, 0), 0)


def _columns(pairs: Any, below: int, others_below: int) -> tuple[Any, Any]:
    """Pairs as two arrays of numbers, each not negative and less than a bound."""
    table = np.array(pairs, np.int64).reshape(-1, 2)
    if len(table) and not (
        table.min() >= 0 and table[:, 0].max() < below and table[:, 1].max() < others_below
    ):
        raise Unfitting("no draft: a word outside the words")
    return table[:, 0].copy(), table[:, 1].copy()


def draft_rows(draft: ImageMaker) -> dict[str, Any]:
    """A draft as plain data; `NotKept` where it has no such form."""
    if isinstance(draft, KeptDraft):
        return draft.rows
    writer = NumberWriter()
    number = writer.number
    rows = {
        "blocks": [[number(b.nbytes), b.first, b.last] for b in draft.blocks],
        "words": draft.words.tolist(),
        "extents": [*map(number, draft.extents)],
        "sized": np.stack([draft.positions, draft.which], 1).tolist(),
        "inside": np.stack([draft.at_words, draft.at_blocks], 1).tolist(),
        "patches": [[k, _pairs(p, number)] for k, p in draft.patches.items()],
        "numbers": [[k, _pairs(p, number)] for k, p in draft.numbers.items()],
        "status": draft.status,
        "symbols": draft.symbols,
        "faults": [_fault_row(fault, number) for fault in draft.faults],
        "segments": [[_entry_row(e, number) for e in part or _none()] for part in draft.segments],
        "results": [[i, [*map(number, shape)], name] for i, shape, name in draft.results],
    }
    return {**rows, "table": writer.table}


def _pairs(places: Any, number: Callable[[Any], Any]) -> list[list[Any]]:
    return [[at, number(shift)] for at, shift in places]


def _none() -> Any:
    raise NotKept("a part that the eager table does")


def _entry_row(entry: tuple[str, int, Any], number: Callable[[Any], Any]) -> list[Any]:
    name, at, what = entry
    if not isinstance(what, Launch):
        return [TEST, at, what.skip]
    return [name, at, what.skip, number(what.pieces), number(what.cost), what.times]


def _fault_row(fault: Any, number: Callable[[Any], Any]) -> list[Any]:
    """An error's name, its message with a mark in the place of a size, and the size."""
    kind, text = fault.described(lambda _: _PROBE)
    text = text.replace(str(_PROBE), MARK)
    for n in _PROBED:
        if fault.described(lambda _, n=n: n) != (kind, text.replace(MARK, str(n))):
            raise NotKept(f"what is said of {kind}")
    return [kind, text, number(fault.size)]
