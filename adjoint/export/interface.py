"""What an exported program looks like to whoever calls it: parameters, sizes, codes."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from math import prod

from adjoint.engine.core.dtype import DType

# C's type of an element, and how it is aligned.
C_TYPES = {
    "bool": "uint8_t", "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t",
    "uint16": "uint16_t", "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t",
    "uint64": "uint64_t", "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float",
    "float64": "double",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DynamicSize:
    """A dynamic size and its range."""

    name: str
    low: int
    high: int

    @property
    def count(self) -> int:
        """How many sizes there are."""
        return self.high - self.low + 1


@dataclass(frozen=True, slots=True)
class HandedBuffer:
    """A tensor that a caller hands over: an address and a number of elements."""

    name: str
    role: str  # "input", "output", "both"
    dtype: DType
    shapes: tuple[tuple[int, ...], ...]  # one per point
    base: tuple[str, int]  # ("argument", leaf) or ("result", k)

    @property
    def counts(self) -> tuple[int, ...]:
        """Its elements, at each point."""
        return tuple(prod(shape) for shape in self.shapes)


@dataclass(frozen=True, slots=True)
class Interface:
    """All that a header tells."""

    name: str
    sizes: tuple[DynamicSize, ...]
    buffers: tuple[HandedBuffer, ...]
    numbers: tuple[tuple[str, int], ...]  # floats of each call: name and leaf
    state_bytes: int
    state_written: bool
    embedded: bool  # the state is part of the program; of a training step, the state at first
    threads: bool
    arena_bytes: tuple[int, ...]  # one per point

    @property
    def takes_state(self) -> bool:
        """Whether a call is given the state."""
        return bool(self.state_bytes) and (self.state_written or not self.embedded)

    def dimension(self, buffer: HandedBuffer, d: int) -> str:
        """A dimension of a buffer, as a number, a size's name or a range."""
        seen = [shape[d] for shape in buffer.shapes]
        if len(set(seen)) == 1:
            return str(seen[0])
        for k, size in enumerate(self.sizes):
            if seen == [point[k] for point in self.points()]:
                return size.name
        return f"{min(seen)}..{max(seen)}"

    def points(self) -> list[tuple[int, ...]]:
        """Every combination of sizes, the last fastest."""
        points: list[tuple[int, ...]] = [()]
        for size in self.sizes:
            points = [(*p, n) for p in points for n in range(size.low, size.high + 1)]
        return points


_C_WORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while state arena pool state_bytes arena_bytes".split()
)


def c_name(text: str, taken: set[str]) -> str:
    """A name that C takes and nobody else has.

    >>> c_name("layer.0", {"layer_0"}), c_name("3d", set()), c_name("int", set())
    ('layer_0_', '_3d', 'int_')
    """
    name = re.sub(r"\W", "_", text, flags=re.ASCII) or "_"
    if name[0].isdigit():
        name = f"_{name}"
    while {name, f"{name}_count"} & taken or name in _C_WORDS or keyword.iskeyword(name):
        name += "_"
    taken |= {name, f"{name}_count"}
    return name
