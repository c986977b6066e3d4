"""A plan for many sizes as programs are filled in from it (Note [sized plans]).

Apart from what makes such plans: a process that finds them on disk does without the planner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adjoint.engine.backends.llvm.runtime import library
from adjoint.engine.compiler.memory.footprint import AtSizes
from adjoint.engine.compiler.package.image import ProgramImage
from adjoint.engine.compiler.package.image_maker import ImageMaker
from adjoint.engine.compiler.package.kept_draft import KeptDraft
from adjoint.engine.graph.sizes.extents import Sizes, SizeScope

if TYPE_CHECKING:
    from adjoint.engine.compiler.package.draft import Draft

Made = tuple[ProgramImage, dict[str, library.NativeFunction]]
FAR = 8
LEAST = 16
WORTH = 4  # times that sizes are put in before what they come to is a function of its own
# Elements between places where a plan may be checked, if not as far off as can be: the first
# steps leave remainders as they are. The way there is halved so many times.
STEPS = (64, 16, 1)
HALVED = 6


@dataclass(eq=False, slots=True)
class Sized:
    """A draft and the sizes it is for."""

    draft: ImageMaker
    scope: SizeScope  # with the guards of the plan
    sizes: Sizes  # it was made at
    reference: Sizes  # it was made for
    functions: dict[str, library.NativeFunction]
    low: dict[str, int]  # the sizes between which it is believed
    high: dict[str, int]
    used: int = 0  # how often sizes were put in
    answers: Callable[[Sizes], AtSizes | None] | None = None  # once it is `WORTH` it
    kept: bytes = b""  # as it is on disk

    def believed(self, sizes: Sizes) -> bool:
        """Whether the draft was right at these sizes, or at smaller and at larger ones."""
        return all(n <= sizes[s] <= self.high[s] for s, n in self.low.items())

    def corner(self, sizes: Sizes, least: int = 2) -> dict[str, int]:
        """Sizes to check the draft at before it is believed at some."""
        far = {
            s: max(least, self.reference[s] // FAR)
            if sizes[s] < low
            else self.reference[s] * FAR
            if sizes[s] > self.high[s]
            else self.sizes[s]
            for s, low in self.low.items()
        }
        if self.allows(far):
            return far
        here = {s: sizes[s] for s in self.low}
        return next((at for step in STEPS if (at := self.last(here, far, step)) != here), here)

    def outlook(self, sizes: Sizes) -> dict[str, int]:
        """`corner`, and as far off in the other sizes, on a side that was not checked yet.

        So a few checks are enough for all sizes. Where the plan does not hold so far off, it is
        gone there in one size after the other, first in those that the check is for.
        """
        far = {}
        for s, low in self.low.items():
            down = sizes[s] < low or (sizes[s] <= self.high[s] and low == self.sizes[s])
            up = sizes[s] > self.high[s] or (not down and self.high[s] == self.sizes[s])
            least, most = max(2, self.reference[s] // FAR), self.reference[s] * FAR
            far[s] = least if down else most if up else self.sizes[s]
        if self.allows(far):
            return far
        at = {s: sizes[s] for s in self.low}
        for s in sorted(at, key=lambda s: self.low[s] <= sizes[s] <= self.high[s]):
            there = {**at, s: far[s]}
            ways = (self.last(at, there, step) for step in STEPS)
            at = there if self.allows(there) else next((way for way in ways if way != at), at)
        return at

    def last(self, here: dict[str, int], far: Sizes, step: int) -> dict[str, int]:
        """Sizes on the way from some to others, in steps, beyond which the plan holds no more.

        They are looked for as if there was one such place; where there are more, any will do.
        """
        found, parts, gone = here, 0, 1 << HALVED
        while gone - parts > 1:
            part = (parts + gone) // 2
            at = {
                s: n + int((far[s] - n) * part / (1 << HALVED) / step) * step
                for s, n in here.items()
            }
            if self.allows(at):
                found, parts = at, part
            else:
                gone = part
        return found

    def drafted(self, sizes: Sizes) -> tuple[Draft, Sizes]:
        """The draft with its plan, and all its sizes."""
        draft: Any = self.draft
        scope = self.scope
        if isinstance(draft, KeptDraft):
            draft, scope = draft.planned_again()
        return draft, scope.complete(sizes)

    def believe(self, sizes: Sizes) -> None:
        """Take note that the draft was right."""
        for s, n in sizes.items():
            self.low[s], self.high[s] = min(self.low[s], n), max(self.high[s], n)

    def allows(self, sizes: Sizes) -> bool:
        """Whether the plan holds at these sizes and was made for such."""
        if not near(sizes, self.reference):
            return False
        if self.answers is not None:
            return self.answers(sizes) is not None
        return self.scope.allow(sizes)

    def at(self, sizes: Sizes) -> Made:
        """What runs tasks of these sizes, which the plan allows."""
        self.used += 1
        if self.used == WORTH:
            self.answers = self.draft.answers(self.scope, [*self.low])
        at_sizes = None if self.answers is None else self.answers(sizes)
        if at_sizes is None:
            return self.draft.at(self.scope.complete(sizes)), self.functions
        return self.draft.image(at_sizes), self.functions


def reference_of(sizes: Sizes) -> dict[str, int]:
    """What a plan made at some sizes is for."""
    return {symbol: max(n, LEAST) for symbol, n in sizes.items()}


def near(sizes: Sizes, reference: Sizes) -> bool:
    """Whether a plan for reference sizes is good at others."""
    return all(
        n <= FAR * other and other <= FAR * n
        for symbol, n in reference_of(sizes).items()
        for other in (reference[symbol],)
    )
