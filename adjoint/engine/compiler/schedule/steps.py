"""Steps: what an executable does, one after another.

Note [entries]
    A step is a row of entries in the driver's table. Most are one launch; those of loops and
    branches (`Flow`) are launches and tests among which the walk jumps: a test leaves out so many
    entries where a byte is 0, and a launch can have the walk go on elsewhere than at the next one.
    Jumps count entries, so a row of them can be put anywhere.

    All workers walk the same way, since they read the same byte after the barrier that followed its
    making. For nobody to overwrite it before the last has read it, on both ways from a test there
    is a launch, with its barrier, before anything writes that byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from adjoint.engine.compiler.memory.places import PlannedBuffer
from adjoint.engine.graph.ir import Node, Value


@dataclass(frozen=True, slots=True)
class Address:
    """A word that is an address: so many bytes into a buffer."""

    buffer: PlannedBuffer
    shift: int = 0


@dataclass(frozen=True, slots=True)
class HostNumber:
    """A word that is a number of the host's, read at each call."""

    value: Value
    plus: int = 0  # added to it: the draws of earlier turns of a loop


@dataclass(frozen=True, slots=True)
class Status:
    """A word that is the address of the program's status."""


@dataclass(frozen=True, slots=True)
class NamedAddress:
    """A word that is an address in the process, which the target finds by a name."""

    name: str


def double_bits(x: float) -> int:
    """A word that is a double: its bits, as a signed number."""
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


# What `explain` calls a step: text, or pieces of it among which there are sizes.
Label = str | tuple[Any, ...]


def label_text(label: Label, at_sizes: Callable[[Any], Any]) -> str:
    """A label as text, at the sizes of a program."""
    return label if isinstance(label, str) else "".join([str(at_sizes(x)) for x in label])


def sized(name: str, *sizes: int) -> Label:
    """A label with sizes: "matmul 2x3x4"."""
    pieces: list[Any] = [name]
    for n in sizes:
        pieces += [" " if len(pieces) == 1 else "x", n]
    return tuple(pieces)


Text = tuple[str, set[str]]  # a function's definition, and the declarations it needs


class Touch(NamedTuple):
    """Memory a step reads or writes: elements `low` to `high` of a buffer."""

    buffer: PlannedBuffer
    low: int
    high: int


Touches = dict[PlannedBuffer, list[Touch]]


def whole(buffer: PlannedBuffer) -> Touch:
    """All of a buffer."""
    return Touch(buffer, 0, max(buffer.size, 1))


def by_buffer(touches: Iterable[Touch]) -> Touches:
    """Touches by the buffer they are in."""
    result: Touches = {}
    for touch in touches:
        result.setdefault(touch.buffer, []).append(touch)
    return result


def overlap(touches: Iterable[Touch], others: Touches) -> bool:
    """Whether any of the touches meets one of the others."""
    for buffer, low, high in touches:
        for _, start, stop in others.get(buffer, ()):
            if low < stop and start < high:
                return True
    return False


@dataclass(eq=False, slots=True)
class Launch:
    """A call of a native kernel with its words (numbers, addresses, the host's numbers)."""

    function: str  # named by all that decides its text; "" for a form's until it is asked for
    words: list[Any]
    reads: tuple[Touch, ...]
    writes: tuple[Touch, ...]
    pieces: int  # among how many workers it can be divided
    cost: Any  # a number; rough, in element operations
    label: Label = ""
    reason: str = ""  # why it is a launch of its own
    form: Any = None  # of a generated kernel
    text: Callable[[str], Text] | None = None  # writes a template's function under a given name
    kernels: list[Any] = field(default_factory=list)
    skip: int = 0  # entries left out after it; below 0: gone back (Note [entries])
    times: int = 1  # that it is run, where a loop goes back to it so often
    works: list[Any] = field(default_factory=list)  # what it does or has a part in: Note [works]
    substitutions: tuple[Any, ...] = ()  # for its works


@dataclass(eq=False, slots=True)
class Test:
    """An entry that leaves out some of those after it where a byte is 0 (Note [entries])."""

    byte: Address
    skip: int

    @property
    def words(self) -> list[Any]:
        return [self.byte]


Entry = Launch | Test


@dataclass(eq=False, slots=True)
class EagerCall:
    """A node run by the eager table."""

    node: Node
    reads: tuple[Touch, ...]
    writes: tuple[Touch, ...]
    label: Label = ""
    reason: str = ""


@dataclass(eq=False, slots=True)
class Flow:
    """A loop, a branch, or what most calls leave out."""

    kind: str  # "loop", "branch", "kept"
    entries: list[Entry]
    parts: tuple[tuple[str, Sequence[Step]], ...]  # the steps its entries came from, by what for
    reads: tuple[Touch, ...]  # by the loop or branch as a whole
    writes: tuple[Touch, ...]  # its results, and what must last through all of it
    turns: int | None = None  # of a loop, where that is known
    label: Label = ""
    reason: str = ""
    works: list[Any] = field(default_factory=list)  # that of all its entries together


Step = Launch | EagerCall | Flow


def entries_of(step: Step) -> Sequence[Entry]:
    """The entries that a step is in the driver's table."""
    if isinstance(step, Flow):
        return step.entries
    return [step] if isinstance(step, Launch) else []


def launches_of(step: Step) -> list[Launch]:
    """The launches among a step's entries."""
    return [entry for entry in entries_of(step) if isinstance(entry, Launch)]


def inside(step: Step) -> list[Step]:
    """The steps that a loop or branch is made of."""
    return [inner for _, part in step.parts for inner in part] if isinstance(step, Flow) else []


def moments(steps: Iterable[Step], within: str = "") -> Iterator[tuple[str, Step]]:
    """All steps in order, a loop's or branch's own after it, with numbers: 1, 2, 2.1, 2.2, 3."""
    for k, step in enumerate(steps, 1):
        number = f"{within}{k}"
        yield number, step
        yield from moments(inside(step), f"{number}.")
