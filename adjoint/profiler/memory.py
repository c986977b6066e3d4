"""What operations and programs took of memory: which line made it, and when it went."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adjoint.engine.compiler.memory.footprint import footprint
from adjoint.engine.compiler.package.draft import concrete
from adjoint.engine.core.origins import Where, below_root
from adjoint.engine.core.state.timeline import Ran


@dataclass(slots=True)
class Allocation:
    """A piece of memory: a result's, or that of temporary values of a compiled program."""

    nbytes: int
    operation: str
    where: Where | None
    what: str  # dtype and shape
    device: str
    began: float  # microseconds
    ended: float | None = None

    @property
    def place(self) -> str:
        """The module and line that made it."""
        if self.where is None:
            return self.operation
        line = f"{Path(self.where.file).name}:{self.where.line}"
        module = below_root(self.where.module) if self.where.module else ""
        return f"{self.operation}, {module + ', ' if module else ''}{line}"


class Allocations:
    """Notes memory as results get and lose it; a buffer is counted once, whoever holds it."""

    def __init__(self, freed: Callable[[Allocation], None]) -> None:
        self.seen: list[Allocation] = []
        self.freed = freed  # told when one goes, while it goes
        self._watched: dict[int, Any] = {}  # by the buffer's identity, with what tells of its end
        self._on = True

    def made(self, tensor: Any, operation: str, where: Where | None) -> Allocation | None:
        """Note a result; None where it took nothing."""
        array = getattr(tensor, "_array", None)
        base = getattr(array, "base", None)
        while base is not None and hasattr(base, "nbytes") and hasattr(base, "base"):
            array, base = base, base.base
        if array is None or not hasattr(array, "nbytes") or id(array) in self._watched:
            return None
        entry = Allocation(
            int(array.nbytes), operation, where, f"{tensor.dtype.name}{list(tensor.shape)}",
            str(tensor.device), time.perf_counter_ns() / 1000,
        )  # fmt: skip
        key = id(array)
        try:
            self._watched[key] = weakref.ref(array, lambda _: self._gone(key, entry))
        except TypeError:  # an array that cannot be watched: it stays
            self._watched[key] = None
        self.seen.append(entry)
        return entry

    def _gone(self, key: int, entry: Allocation) -> None:
        self._watched.pop(key, None)
        if self._on:
            entry.ended = time.perf_counter_ns() / 1000
            self.freed(entry)

    def end(self) -> None:
        """Note no more."""
        self._on = False
        self._watched = {}


# -- temporary values of compiled programs ------------------------------------------------------


def of_programs(runs: Iterable[Ran]) -> Iterator[Allocation]:
    """What programs took while they ran: the values that were there when they needed most.

    They have all of it from beginning to end; what lies unused between values is one piece.
    """
    known: dict[int, dict[str, Any]] = {}
    for run in runs:
        memory = known.get(id(run.executable))
        if memory is None:
            memory = known[id(run.executable)] = footprint_of(run.executable)
        device = run.device or "cpu"
        times = run.start / 1000, run.end / 1000
        rest = memory["arena"]
        for value in memory["largest"]:
            if value["bytes"] <= rest:
                rest -= value["bytes"]
                name = f"{value['by']}, in a program"
                yield Allocation(
                    value["bytes"], name, value["where"], value["what"], device, *times
                )
        if rest > 0:
            yield Allocation(rest, "room between values of a program", None, "", device, *times)


def footprint_of(executable: Any) -> dict[str, Any]:
    """What memory a program takes and for what, with lines where its plan can be made again."""
    image = getattr(executable, "image", None)
    if image is None:
        return {"arena": 0, "largest": []}
    drafted = getattr(executable, "drafted", None)
    if drafted is None:
        memory: dict[str, Any] = image.memory
    else:
        draft, sizes = drafted()
        memory = footprint(draft.plan, draft.blocks, image.arena, concrete(sizes), None)
    return memory
