"""Steps: what an executable does, one after another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from adjoint.compiler.places import Buffer
from adjoint.graph.ir import Node, Value


@dataclass(frozen=True, slots=True)
class Address:
    """A word that is an address: so many bytes into a buffer."""

    buffer: Buffer
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Number:
    """A word that is a number of the host's, read at each call."""

    value: Value


@dataclass(frozen=True, slots=True)
class Status:
    """A word that is the address of the program's status."""


@dataclass(eq=False, slots=True)
class Launch:
    """A call of a native kernel with its words (numbers, addresses, the host's numbers)."""

    function: str  # the name of a template's function, or a form's
    words: list[Any]
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    pieces: int  # among how many workers it can be divided
    cost: float  # rough, in element operations
    label: str = ""
    form: Any = None  # of a generated kernel
    kernels: list[Any] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Call:
    """A node run by the eager table."""

    node: Node
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    label: str = ""
    reason: str = ""


Step = Launch | Call
