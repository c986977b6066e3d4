"""Where the words of a program lie in the arena, and which of them each call fills in.

Note [arenas]
    An arena begins with what the driver walks: a header whose first word is the status, four words
    per entry, then the words of all kernels; values come after that. A call copies these words
    from the program's constant image and adds to some of them what only the call knows: the
    address of the arena, of the state, of an argument, a result or a function (its *bases*).
    Nothing is kept between calls, so an arena may be anywhere, and calls with different arenas
    know nothing of each other.

Note [points]
    Where sizes are dynamic, every combination of them in their ranges is a *point*. Points whose
    words differ in value only are one *variant*: an image, and a table of the words that differ.
    All points are planned at export, so nothing is assumed of how words depend on sizes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.runtime import shared_words as table
from adjoint.engine.compiler.package.image import TEST, ProgramImage
from adjoint.export.errors import ExportError
from adjoint.export.recording import CallForExport
from adjoint.export.state import ProgramState

Base = tuple[str, Any]  # ("arena", 0), ("state", 0), ("argument", leaf), ("result", k), ...
ARENA: Base = ("arena", 0)
STATE: Base = ("state", 0)


@dataclass(frozen=True, slots=True)
class SizePoint:
    """The words of a program at some sizes."""

    words: Any  # header, entries and words of kernels
    additions: tuple[tuple[int, Base], ...]  # (position, what is added there)
    numbers: tuple[tuple[int, int, int], ...]  # (position, graph input, added to it)
    entries: tuple[tuple[str, int], ...]  # function, entries left out after it
    faults: tuple[str, ...]
    nbytes: int  # of the arena
    parallel: bool


@dataclass(frozen=True, slots=True)
class Variant:
    """Points whose words differ in value only (Note [points])."""

    first: SizePoint
    points: tuple[int, ...]
    columns: Any  # position of each word that differs
    which: Any  # the column of the table that it is
    table: Any  # (points, columns)
    faults: tuple[str, ...]


def point(image: ProgramImage, recording: CallForExport, state: ProgramState) -> SizePoint:
    """An image as words that lie in an arena."""
    (entries,) = image.segments if image.segments else ([],)
    assert entries is not None
    start = table.HEADER_WORDS + table.STEP_WORDS * len(entries)
    words = np.zeros(start + len(image.words), np.int64)
    words[start:] = image.words
    additions: list[tuple[int, Base]] = []
    for k, (name, first, everyone, skip) in enumerate(entries):
        at = table.HEADER_WORDS + table.STEP_WORDS * k
        flags = table.TEST if name == TEST else table.PARALLEL * everyone
        words[at + 1 : at + 4] = 8 * (start + first), flags | table.BARRIER, skip
        additions.append((at + 1, ARENA))
        if name != TEST:
            additions.append((at, ("function", name)))
    values = -(-8 * len(words) // 64) * 64
    for at in image.inside:
        words[start + at] += values
        additions.append((start + int(at), ARENA))
    for at, _ in image.status:
        additions.append((start + at, ARENA))
    for key, places in image.patches.items():
        base, shift = _base(key, recording, state)
        for at, more in places:
            words[start + at] = shift + more
            additions.append((start + at, base))
    numbers = [
        (start + at, i, int(plus)) for i, places in image.numbers.items() for at, plus in places
    ]
    return SizePoint(
        words=words,
        additions=tuple(sorted(additions, key=lambda addition: (addition[0], str(addition[1])))),
        numbers=tuple(sorted(numbers)),
        entries=tuple((name, skip) for name, _, _, skip in entries),
        faults=tuple(message for _, message in image.faults),
        nbytes=values + -(-image.arena // 64) * 64,
        parallel=image.parallel,
    )


def _base(key: str, recording: CallForExport, state: ProgramState) -> tuple[Base, int]:
    """What an operand's address is, as a base and bytes after it."""
    kind, number = key.split()
    k = int(number)
    if kind == "result":
        return ("result", k), 0
    if kind == "target":
        return STATE, state.offset(id(recording.targets[k]))
    if kind != "input":
        raise ExportError(f"export.aot: a program with memory of the kind {kind!r}.")
    if k in recording.arguments:
        return ("argument", recording.arguments[k]), 0
    return STATE, state.offset(id(recording.states[k]))


def variants(points: list[SizePoint]) -> list[Variant]:
    """Points put together (Note [points])."""
    groups: dict[Any, list[int]] = {}
    for k, one_point in enumerate(points):
        key = (
            len(one_point.words),
            one_point.additions,
            one_point.numbers,
            one_point.entries,
            len(one_point.faults),
        )
        groups.setdefault(key, []).append(k)
    return [_variant(points, members) for members in groups.values()]


def _variant(points: list[SizePoint], members: list[int]) -> Variant:
    rows = np.stack([points[k].words for k in members])
    differ = np.nonzero((rows != rows[0]).any(axis=0))[0]
    columns, which = np.unique(rows[:, differ], axis=1, return_inverse=True)
    faults_of = [points[k].faults for k in members]
    return Variant(
        first=points[members[0]],
        points=tuple(members),
        columns=differ,
        which=which.reshape(-1),
        table=columns,
        faults=tuple(_common(list(messages)) for messages in zip(*faults_of, strict=True)),
    )


def _common(messages: list[str]) -> str:
    """A message for all sizes, without the numbers in which they differ."""
    if len(set(messages)) == 1:
        return messages[0]
    return re.sub(r"\d+", "#", messages[0])
