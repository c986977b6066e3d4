"""Launches that advance the words of others (Note [advancing words], `compiler.flow.scans`).

The words of a loop's launches lie in memory one after the other, behind those of the launch that
begins the loop: so it and the launch that ends a turn reach them by how far away they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.compiler.schedule.steps import Launch, Text, whole

TEST_WORDS = 1  # of the test between the first launch and the loop


@dataclass(slots=True)
class BeginWords(LaunchWords):
    """A loop; of each word that advances follow where it is, what it is first, and its step."""

    turn: Any  # which is under way
    turns: Any
    moved: Any  # how many words advance
    goes_on: Any


@dataclass(slots=True)
class GoOnWords(LaunchWords):
    """The end of a turn."""

    back: Any  # words from here to those of the launch that began the loop


def text(name: str, begins: bool) -> Text:
    """The kernel that begins a loop, or ends a turn; one worker runs it, and others wait."""
    w = CodeWriter()
    base = "%args" if begins else w.at("%args", "i64", GoOnWords.read_by(w).back)
    fields = [w.load(base, "i64", w.whole(k)) for k in range(BeginWords.word_count())]
    about = BeginWords(*fields)
    turn = w.whole(0) if begins else about.turn + 1
    w.store(turn, base, w.whole(0))

    def advance(k: Any) -> None:
        at = k * 3 + BeginWords.word_count()
        place, first, step = (w.load(base, "i64", at + i) for i in range(3))
        w.store(first + turn * step, base, place)

    w.loop(0, about.moved, advance)
    w.store((turn < about.turns).convert("i8"), w.pointer(about.goes_on), w.whole(0))
    return w.finish(name)


def launches(
    moves: list[tuple[int, Any, Any]], count: int, turns: int, goes_on: Any
) -> tuple[Launch, Launch]:
    """The launch that begins a loop, and the one that ends each of its turns."""
    own = BeginWords.word_count() + 3 * len(moves)
    before = own + TEST_WORDS
    listed = [word for at, first, step in moves for word in (before + at, first, step)]
    begin = BeginWords(turn=0, turns=turns, moved=len(moves), goes_on=goes_on)
    end = GoOnWords(back=-before - count)
    about: dict[str, Any] = {"reads": (), "writes": (whole(goes_on.buffer),), "pieces": 1}
    return (
        Launch("begin_loop", [*begin.listed(), *listed], cost=len(moves), label="begin a loop",
               text=lambda name: text(name, begins=True), **about),
        Launch("end_turn", end.listed(), cost=len(moves), label="end a turn",
               text=lambda name: text(name, begins=False), **about),
    )  # fmt: skip
