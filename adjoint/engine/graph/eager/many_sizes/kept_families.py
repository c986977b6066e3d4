"""Recordings for many sizes that mean the same in every process.

Note [kept families]
    A family is what an operation is at all sizes (Note [open kinds]). Once its second size comes,
    a process asks whether an earlier one recorded and planned it: an entry on disk, named as those
    of kinds are (Note [kept kinds]), says of each recording which numbers it holds for and what
    results are there, and has its plans. So a new size is filled in without a recording, and
    without the planner, which takes longer to load than all the rest.

    A plan is used between the sizes at which it has foretold, word for word, what one for a single
    size is, so results have the same bits with and without it. Sizes beyond are met as if nothing
    was kept, and what is made of them is kept beside it when the process ends. A family that came
    to nothing is kept as such: its sizes are recorded one by one.
"""

from __future__ import annotations

import atexit
import contextlib
import marshal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy import __version__ as numpy_version
from numpy import dtype

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType, get_default_dtype
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.ownership import REPLACED
from adjoint.engine.core.spec import Size, Spec
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.graph.eager.fragment import Fragment, at_sizes
from adjoint.engine.graph.eager.kept_kinds import (
    Nameless,
    read_holder,
    read_result,
    told_holder,
    told_owner,
    told_value,
)
from adjoint.engine.graph.sizes.formulas import formula
from adjoint.engine.graph.sizes.kept_sizes import (
    NotKept,
    NumberReader,
    NumberWriter,
    poly_of,
    poly_rows,
    scope_of_rows,
    scope_rows,
)
from adjoint.engine.graph.sizes.patterns import Numbers, pattern_for
from adjoint.engine.graph.sizes.sizing import FILL

if TYPE_CHECKING:
    from adjoint.engine.graph.eager.many_sizes.open_recordings import OpenRecording

MOST = 8  # recordings of one family on disk
FAMILIES_KEPT = 1 << 10
CLASSES = frozenset(
    {int, float, bool, str, type(None), tuple, list, dict, DType, Device, Spec, Size}
)


def name_of(family: tuple[Any, ...]) -> bytes | None:
    """The name of a family by its key; None where it has none."""
    if REPLACED:
        return None
    try:
        owner, *rest = family
        told = told_owner(owner), *map(told_part, rest), get_default_dtype().name, numpy_version
        return marshal.dumps(told, 2)
    except Nameless:
        return None


def told_part(x: Any) -> Any:
    """A part of a family's key as marshal knows it."""
    if isinstance(x, dtype):
        return (b"numpy", x.str, x.name)
    if isinstance(x, type):
        if x not in CLASSES:
            raise Nameless
        return (b"class", x.__name__)
    return told_value(x)


class KeptRecording:
    """A recording for many sizes that was found on disk."""

    def __init__(self, about: dict[str, Any], fill: Callable[[Numbers], Any]) -> None:
        self.about, self.fill = about, fill
        names = tuple(map(str, about["names"]))
        self.pattern = pattern_for([poly_of(rows) for rows in about["polys"]], names)
        sizes = {name: int(n) for name, n in zip(names, about["sizes"], strict=True)}
        scope = scope_of_rows(about["scope"])
        reader = NumberReader(about["table"], scope.complete(sizes), scope)
        self.numbers = formula(scope, names, [reader.number(x) for x in about["told"]])
        self.places = tuple([int(k) for k in about["places"]])
        self.results = tuple(
            [
                None if r is None else read_result(r[0], r[1], _ranked(r[2]))
                for r in about["results"]
            ]
        )
        self.before = sum([int(rank) for rank in about["ranks"]])  # numbers of outputs' shapes
        self.structure, self.built = read_holder(about["holder"], len(self.results))
        if self.structure is None and (not self.results or self.results[0] is None):
            raise ValueError("no result")
        self.in_order = self.places == (*range(int(about["given"])),)
        self.what = str(about["what"])

    def fragment(self, numbers: Numbers) -> Fragment | None:
        """The fragment for numbers that it holds for; None: it does not, or has no plan there."""
        sizes = self.pattern.sizes(numbers)
        if sizes is None:
            return None
        try:
            known = self.numbers(*sizes)
        except ZeroDivisionError:  # of what was no divisor where it was decided on
            return None
        executable = None if known is None else self.fill(sizes)
        if known is None or executable is None:
            return None
        results = at_sizes(self.results, iter(known[self.before : -1]))
        return Fragment(
            executable, self.places, results, self.structure, self.what, self.built, self.in_order,
            known[-1], True,
        )  # fmt: skip


def _ranked(rank: Any) -> tuple[int, ...] | None:
    """A shape of so many dimensions, whose sizes are put in later."""
    return None if rank is None else (0,) * int(rank)


def found(name: bytes, shared: dict[str, Any]) -> list[KeptRecording] | None:
    """The recordings of a family that are on disk; None where it is not known there."""
    if LISTENERS:
        return None
    there = HOOKS.find_family(name, shared)
    if there is None:
        return None
    try:
        return [KeptRecording(about, fill) for about, fill in there]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ImportError):
        return None  # not what `keep` writes: it is met anew, and written again


def told(recording: OpenRecording) -> dict[str, Any]:
    """What is kept of a recording besides its plans; `NotKept` where it has no such form."""
    writer = NumberWriter()
    try:
        structure = None if recording.is_single else recording.structure
        holder = told_holder(structure, recording.built, len(recording.results))
    except Nameless:
        raise NotKept("what holds its results") from None
    return {
        "names": recording.pattern.names,
        "polys": [*map(poly_rows, recording.pattern.polys)],
        "sizes": [recording.sizes[name] for name in recording.pattern.names],
        "scope": scope_rows(recording.scope),
        "told": [writer.number(x) for x in recording.told],
        "table": writer.table,
        "ranks": [len(shape) for shape in recording.shapes],
        "results": [
            None if r is None else [r.output, r.order, None if r.shape is None else len(r.shape)]
            for r in recording.results
        ],
        "places": recording.places,
        "holder": holder,
        "what": recording.what,
        "given": recording.given,
        "floats": recording.floats,
        "outputs": len(recording.shapes),
    }


class KeptFamilies:
    """Families whose recordings are kept when the process ends."""

    def __init__(self) -> None:
        self.known: dict[bytes, tuple[list[KeptRecording], list[OpenRecording]]] = {}
        self.registered = False

    def note(self, name: bytes, kept: list[KeptRecording], recordings: list[OpenRecording]) -> None:
        """Have what a family comes to be kept beside what was found of it."""
        if not self.registered:
            self.registered = True
            atexit.register(self.keep)
        if len(self.known) < FAMILIES_KEPT:
            self.known[name] = kept, recordings

    def keep(self) -> None:
        """Keep all families that were noted."""
        known, self.known = self.known, {}
        with HOOKS.keep_together():
            for name, (kept, recordings) in known.items():
                planned = [r for r in reversed(recordings) if has_plans(r)]
                entries: list[tuple[dict[str, Any], Any]] = []
                for recording in planned:
                    with contextlib.suppress(NotKept):
                        entries.append((told(recording), recording.plans[FILL]))
                if planned and not entries:
                    continue
                entries += [(recording.about, recording.fill) for recording in kept]
                HOOKS.keep_family(name, entries[:MOST])


def has_plans(recording: OpenRecording) -> bool:
    """Whether a target made plans of a recording."""
    fill = recording.plans.get(FILL)
    return fill is not None and bool(fill.plans.plans)


FAMILIES = KeptFamilies()
