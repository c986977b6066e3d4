"""Eager operations that are met at ever new sizes.

Note [open kinds]
    To record and to plan an operation takes milliseconds, and sentences have many lengths. Where an
    operation was met at `MET` sizes (on the CPU, where one size costs less: `OFTEN_MET`), it is
    recorded once more with extents (Note [extents]) in the place of numbers that differed: of
    shapes and strides, and of all else that the operation looks at. Such a recording holds wherever
    what it decided about sizes comes out the same, and a target that plans with extents too makes
    programs of it by arithmetic alone.

    An extent may turn into a plain number unseen. So a recording is not used before it has said,
    node for node, what is recorded without extents: of the operands at hand, and at each of the
    other sizes that were met. Sizes of 0 and 1, and numbers that are not what the others were made
    of, are recorded by themselves.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.spec import Size, Spec
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.loading import brought
from adjoint.engine.graph.eager.fragment import Fragment
from adjoint.engine.tensor.tensor import Tensor

if TYPE_CHECKING:
    from adjoint.engine.graph.eager.many_sizes.kept_families import KeptRecording
    from adjoint.engine.graph.eager.many_sizes.open_recordings import OpenRecording
    from adjoint.engine.graph.sizes.patterns import Numbers

MET = 3  # sizes of an operation before it is recorded for all, which is checked at these
OFTEN_MET = 6  # the same on the CPU: it costs as much as some sizes by themselves
TRIED = 4  # recordings for the same numbers that stay before no more are made
PLACES = 64  # recordings for the same that differ, one for each place where an operation is called
REMEMBERED = 128  # sizes of one family
REFUSALS = 3  # recordings that a target has no plan for before no more are made
RECORDINGS = 32  # of one family that are kept, the one used last at the end
FAMILIES = 1 << 10
Kept = Callable[[], Fragment | None]  # gives the fragment of the kind at hand, if it is on disk
ATOMS = frozenset({bool, str, type(None), DType, Device})  # equal ones of a type are alike
SEQUENCES = frozenset({tuple, list, Size})


class Looked:
    """All that an operation looks at besides tensors, and what it does with tensors and that."""

    __slots__ = ("call", "leaves")

    def __init__(
        self, leaves: Any, call: Callable[[Sequence[Tensor], Any, Sequence[Any]], Any]
    ) -> None:
        self.leaves = leaves
        self.call = call  # also of the host's numbers


def sort_out(x: Any, shape: list[Any], numbers: list[int]) -> bool:
    """Add what is not an int to a `shape` and ints to `numbers`; False: something is neither."""
    kind = type(x)
    if kind is int:
        shape.append(int)
        numbers.append(x)
        return True
    if kind in ATOMS:
        shape += (kind, x)
        return True
    if kind is float:
        shape += (kind, repr(x))
        return True
    if kind in SEQUENCES or kind is Spec:
        shape += (kind, len(x))
        items = x
    elif kind is dict:
        shape += (kind, *x)
        items = x.values()
    else:
        return False
    for item in items:
        if item.__class__ is int:  # most of them are
            shape.append(int)
            numbers.append(item)
        elif not sort_out(item, shape, numbers):
            return False
    return True


def is_parameter(tensor: Tensor) -> bool:
    """Whether a tensor is trained: its sizes are a model's, and stay."""
    return tensor._requires_grad and tensor._node is None


def is_made_here(looked: Looked) -> bool:
    """Whether an operation on no tensors, a draw say, makes one of the CPU."""
    params = looked.leaves[-1] if isinstance(looked.leaves, tuple) and looked.leaves else None
    return isinstance(params, dict) and params.get("device") is CPU


class Operands:
    """What an operation is met with."""

    def __init__(self, tensors: Sequence[Tensor], looked: Looked, numbers: Sequence[float]) -> None:
        self.tensors, self.looked, self.given = tensors, looked, numbers
        self.on_device = any(t._array.__class__ in DEVICE_LAYOUTS for t in tensors)

    def kind(self, what: Any) -> tuple[Any, Numbers] | None:
        """What is the same at all sizes, and the numbers that are not; None: who knows."""
        names = [*map(id, self.tensors)]
        shape: list[Any] = [what, switches.computed_with, *map(names.index, names)]
        numbers: list[int] = []
        for t in self.tensors:
            array = t._array
            dtype, sizes = array.dtype, array.shape
            shape += (dtype, len(sizes))
            if array.__class__ is not ndarray:
                shape += DEVICE_LAYOUTS[array.__class__](array)
            into = shape if is_parameter(t) else numbers
            into += sizes
            item = dtype.itemsize
            into += [step // item for step in array.strides]
        shape += map(type, self.given)
        if not sort_out(self.looked.leaves, shape, numbers):
            return None
        return tuple(shape), tuple(numbers)


class OpenOperation:
    """An operation at all sizes."""

    __slots__ = ("kept", "looked", "met", "name", "recordings", "tried")

    def __init__(self) -> None:
        self.looked = False  # whether recordings were looked for on disk
        self.kept: list[KeptRecording] | None = None  # those found there; None: it is not known
        self.name: bytes | None = None  # under which they are
        self.met: deque[Numbers] = deque(maxlen=REMEMBERED)
        self.recordings: list[OpenRecording] = []
        self.tried: dict[Any, int] = {}  # what was recorded for, and how often

    def find(self, numbers: Numbers, shared: dict[str, Any], kept: Kept) -> Fragment | None:
        """The fragment for numbers that a recording holds for."""
        for k in range(len(self.recordings) - 1, -1, -1):
            open_recording = self.recordings[k]
            sizes = open_recording.pattern.sizes(numbers)
            if sizes is None:
                continue
            try:
                known = open_recording.numbers(*sizes)
            except ZeroDivisionError:  # of what was no divisor where it was decided on
                continue
            if known is not None and not open_recording.is_refused:
                self.recordings.append(self.recordings.pop(k))
                return open_recording.fragment(sizes, known, shared, kept)
        return None

    def find_kept(self, key: Any, numbers: Numbers, shared: dict[str, Any]) -> Fragment | None:
        """The same from disk, where a family is looked for at its second size."""
        if not self.met:
            return None
        if not self.looked:
            self.looked = True
            families = brought("adjoint.engine.graph.eager.many_sizes.kept_families")
            self.name = families.name_of(key)
            if self.name is not None:
                self.kept = families.found(self.name, shared)
        for recording in self.kept or ():
            fragment = recording.fragment(numbers)
            if fragment is not None:
                return fragment
        return None

    def meet(
        self, numbers: Numbers, least: int, refused: Sequence[frozenset[int]]
    ) -> list[Numbers]:
        """Note numbers; those to record for all sizes of, if at least so many were met.

        An operation is called at many places, and which numbers belong to one of them is not
        known. So those that differ are taken that were tried least, and of such as few as there
        are; but not where the same or fewer of them were refused.
        """
        others: dict[Numbers, frozenset[int]] = {}
        for other in self.met:
            pairs = enumerate(zip(numbers, other, strict=True))
            others[other] = frozenset([k for k, (a, b) in pairs if a != b])
        self.met.append(numbers)
        for differing in sorted({*others.values()}, key=lambda d: (self.tried.get(d, 0), len(d))):
            if any(fewer <= differing for fewer in refused):
                continue
            alike = [other for other, own in others.items() if own <= differing]
            if len(alike) >= least - 1 and self.may_try(differing, numbers):
                return [*alike[1 - MET :], numbers]
        return []

    def may_try(self, differing: frozenset[int], numbers: Numbers) -> bool:
        """Note that a recording is made for numbers of which some differ, if one may be."""
        known = tuple([n for k, n in enumerate(numbers) if k not in differing])
        times = self.tried.get(differing, 0), self.tried.get((differing, known), 0)
        if times[0] >= PLACES or times[1] >= TRIED:
            return False
        self.tried[differing], self.tried[differing, known] = times[0] + 1, times[1] + 1
        return True

    def add(self, open_recording: OpenRecording | None) -> None:
        """Keep a recording, if there is one."""
        if open_recording is not None:
            self.recordings.append(open_recording)
            del self.recordings[:-RECORDINGS]


class OpenKinds:
    """The families of this process."""

    def __init__(self) -> None:
        self.families: OrderedDict[Any, OpenOperation] = OrderedDict()

    def find(
        self,
        what: Any,
        looked: Looked,
        tensors: Sequence[Tensor],
        numbers: Sequence[float],
        shared: dict[str, Any],
        kept: Kept,
    ) -> Fragment | None:
        """A fragment from a recording for many sizes; None: there is none.

        One that is `kept` on disk is preferred to a new recording or plan.
        """
        classes = {t._array.__class__ for t in tensors}
        if not classes and not is_made_here(looked):
            return None
        if len(classes) > 1 or not (classes <= {ndarray} or classes <= DEVICE_LAYOUTS.keys()):
            return None
        operands = Operands(tensors, looked, numbers)
        kind = operands.kind(what)
        if kind is None:
            return None
        key, met = kind
        try:
            family = self.families.get(key)
        except TypeError:  # something in it has no hash
            return None
        if family is None:
            family = self.families[key] = OpenOperation()
            if len(self.families) > FAMILIES:
                self.families.popitem(last=False)
        found = None if operands.on_device else family.find_kept(key, met, shared)
        if found is None:
            found = family.find(met, shared, kept)
        if found is not None or family.kept == []:  # which came to nothing in another process
            return found
        refused = [r.differing for r in family.recordings if r.is_refused]
        if operands.on_device:
            refused = []
        if len(refused) >= REFUSALS:
            return None  # what some recordings came to others would
        alike = family.meet(met, MET if operands.on_device else OFTEN_MET, refused)
        if not alike:
            return None
        found = kept()
        if found is not None:
            return found
        recordings = brought("adjoint.engine.graph.eager.many_sizes.open_recordings")
        family.add(recordings.opened(operands, alike, shared))
        if family.name is not None and not operands.on_device:
            families = brought("adjoint.engine.graph.eager.many_sizes.kept_families").FAMILIES
            families.note(family.name, family.kept or [], family.recordings)
        return family.find(met, shared, kept)

    def forget(self) -> None:
        """Record everything anew."""
        self.families.clear()
