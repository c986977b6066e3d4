"""What images are made from: a plan's words, with extents for sizes, and nothing else of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.compiler.memory.footprint import AtSizes
from adjoint.engine.compiler.memory.packing import ArenaBlock, pack, rounded
from adjoint.engine.compiler.package.image import Patches, ProgramImage
from adjoint.engine.compiler.schedule.steps import Entry, Launch, double_bits
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat, Sizes, SizeScope, evaluate
from adjoint.engine.graph.sizes.formulas import formula

# Rough operations, of which a processor does one or two a nanosecond.
SERIAL = 10_000.0  # a launch of less is done by one worker: others would come too late
ALONE = 40_000.0  # so is a program whose larger launches together are less


class ImageMaker(ABC):
    """Makes the images of one plan."""

    blocks: list[ArenaBlock]
    together: list[list[int]]  # for each block those that are alive at the same time
    words: Any  # 0 where they are extents
    positions: Any  # of the words that are extents
    which: Any  # for each the place of its extent
    extents: list[Any]
    at_words: Any  # positions of addresses in the arena
    at_blocks: Any  # and the blocks they are in
    patches: Patches
    numbers: dict[int, list[tuple[int, int]]]
    status: list[tuple[int, int]]
    symbols: list[tuple[int, str]]
    faults: Sequence[Any]
    segments: list[list[tuple[str, int, Entry]] | None]
    results: list[tuple[int, tuple[int, ...], str]]
    once: int = -1  # which word is the address of the byte of Note [kept for calls]

    @abstractmethod
    def details(self, arena: int, at_sizes: AtSizes) -> dict[str, Any]:
        """What `explain` tells."""

    def at(self, sizes: Mapping[str, int]) -> ProgramImage:
        """The image for given sizes, those of computed symbols included."""
        return self.image(concrete(sizes))

    def image(self, at_sizes: AtSizes) -> ProgramImage:
        """The image, given what extents are."""
        starts, arena = self.packed(at_sizes)
        segments, work = self.shared(at_sizes)
        words = self.words.copy()
        if self.extents:
            values = [word_of(at_sizes(x)) for x in self.extents]
            words[self.positions] = np.array(values, np.int64)[self.which]
        words[self.at_words] += np.array(starts or [0], np.int64)[self.at_blocks]
        moved = {
            key: [(at, at_sizes(shift)) for at, shift in places]
            for key, places in self.patches.items()
        }
        return ProgramImage(
            words=words,
            arena=arena,
            inside=self.at_words,
            patches=moved,
            numbers={
                i: [(at, at_sizes(plus)) for at, plus in places]
                for i, places in self.numbers.items()
            },
            status=self.status,
            symbols=self.symbols,
            faults=[fault.described(at_sizes) for fault in self.faults],
            segments=segments,
            results=[(k, tuple(map(at_sizes, shape)), name) for k, shape, name in self.results],
            parallel=work > ALONE,
            work=work,
            once=self.once,
            details=cache(lambda: self.details(arena, at_sizes)),
        )

    def numbers_of_sizes(self) -> list[Any]:
        """All that an image asks for: extents, and numbers that are none."""
        found = [*self.extents, *[block.nbytes for block in self.blocks]]
        for places in (*self.patches.values(), *self.numbers.values()):
            found += [shift for _, shift in places]
        found += [fault.size for fault in self.faults]
        return found + [n for _, shape, _ in self.results for n in shape]

    def answers(self, scope: SizeScope, names: Sequence[str]) -> Callable[[Sizes], AtSizes | None]:
        """What gives, for sizes, what extents are there; None where a decision comes out otherwise.

        What an image asks for is written out as one function; it takes some time to write it.
        """
        launches = [e for s in self.segments for _, _, e in s or () if isinstance(e, Launch)]
        asked = self.numbers_of_sizes() + [n for e in launches for n in (e.pieces, e.cost)]
        asked = [*{id(x): x for x in asked if isinstance(x, (Extent, ExtentFloat))}.values()]
        numbers_at = formula(scope, names, asked)

        def answer(sizes: Sizes) -> AtSizes | None:
            try:
                numbers = numbers_at(*[sizes[name] for name in names])
            except ZeroDivisionError:  # of what was no divisor where it was decided on
                return None
            if numbers is None:
                return None
            known = {id(x): n for x, n in zip(asked, numbers, strict=True)}
            others: AtSizes | None = None  # for what images do not ask for: details, accounts

            def at_sizes(x: Any) -> Any:
                nonlocal others
                found = known.get(id(x))
                if found is not None:
                    return found
                if not isinstance(x, (Extent, ExtentFloat)):
                    return x
                others = others or concrete(scope.complete(sizes))
                return others(x)

            return at_sizes

        return answer

    def packed(self, at_sizes: AtSizes) -> tuple[list[int], int]:
        """Where in the arena each block begins, and the arena's size."""
        sizes = [rounded(at_sizes(block.nbytes)) for block in self.blocks]
        return pack(self.blocks, sizes, self.together)

    def shared(self, at_sizes: AtSizes) -> tuple[list[Any], int]:
        """The entries of all segments, and how much work there is to share."""
        launches = [
            entry
            for segment in self.segments
            for _, _, entry in segment or ()
            if isinstance(entry, Launch)
        ]
        wide = {id(e): at_sizes(e.pieces) > 1 and at_sizes(e.cost) for e in launches}
        costs = [wide[id(e)] * e.times for e in launches if wide[id(e)] > SERIAL]
        work = int(sum(costs))
        segments = [
            None
            if segment is None
            else [
                (name, at, work > ALONE and wide.get(id(entry), 0) > SERIAL, entry.skip)
                for name, at, entry in segment
            ]
            for segment in self.segments
        ]
        return segments, work


def concrete(sizes: Mapping[str, int]) -> AtSizes:
    """What turns an extent into the number it is at given sizes; others stay."""

    def at_sizes(x: Any) -> Any:
        if isinstance(x, Extent):
            return evaluate(x.poly, sizes)
        return x.at(sizes) if isinstance(x, ExtentFloat) else x

    return at_sizes


def word_of(x: int | float) -> int:
    """A number as a word: a float by its bits."""
    return double_bits(x) if isinstance(x, float) else x
