"""Lists of programs that native code searches.

Note [listed programs]
    A record, a rule or a function has the programs that native code finds (Note [meeting]) in a
    tuple, the newest first, and they are compared one after the other, which takes some tens of
    nanoseconds each. Where there would be more than `TOGETHER`, as where operands have many sizes,
    the tuple is one of `PARTS` such tuples, of which a call searches one: which, a number tells
    that is mixed of the shapes of tensors and of whole numbers inside of other operands and of
    parameters. Each part keeps the newest `LISTED`.

    A tuple is never changed, only replaced: who searches one keeps all that is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from adjoint.engine.core.spec import Size, Spec

TOGETHER = 8  # programs up to which a list has no parts
LISTED = 32  # programs of a part
BITS = 6
PARTS = 1 << BITS  # more than TOGETHER: by that native code tells them from programs
FACTOR = 0x9E3779B97F4A7C15  # odd, and its bits are spread evenly
WORD = 64  # bits
PART_AT = 2  # where the words that a program wants of operands say to which part it belongs
GROUPS = (tuple, list, Size, Spec)


def mixed(mark: int, number: int) -> int:
    """A mark with one more number in it."""
    return (mark ^ number) * FACTOR % (1 << WORD)


def marked(x: Any, mark: int) -> int:
    """A mark with the whole numbers of something that is compared."""
    if type(x) is int:
        return mixed(mark, x % (1 << WORD))
    if type(x) in GROUPS:
        for item in x:
            mark = marked(item, mark)
    return mark


def part_of(shapes: Iterable[Any], params: Iterable[Any]) -> int:
    """The part for operands (shapes of tensors, and groups) and parameters."""
    mark = 0
    for x in (*shapes, *params):
        mark = marked(x, mark)
    return mark >> (WORD - BITS)


def with_entry(programs: tuple[Any, ...], entry: tuple[Any, ...]) -> tuple[Any, ...]:
    """The list with one more program, the newest."""
    if len(programs) < TOGETHER:
        return (entry, *programs)
    parts: list[tuple[Any, ...]] = [()] * PARTS
    if len(programs) == TOGETHER:
        for old in reversed(programs):
            add(parts, old)
    else:
        parts[:] = programs
    add(parts, entry)
    return tuple(parts)


def add(parts: list[tuple[Any, ...]], entry: tuple[Any, ...]) -> None:
    """Put a program into its part."""
    part = int(entry[1][PART_AT])
    parts[part] = (entry, *parts[part])[:LISTED]


def every(programs: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The programs of a list."""
    if len(programs) <= TOGETHER:
        yield from programs
    else:
        for part in programs:
            yield from part
