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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from numpy import ndarray

from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.layout import ordered_strides
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.spec import Size, Spec
from adjoint.engine.core.state import switches
from adjoint.engine.core.tree import TreeDef
from adjoint.engine.graph.eager.fragment import Fragment, Result
from adjoint.engine.graph.eager.recorded import (
    OperationTrace,
    Recording,
    Unfit,
    as_laid_out,
    example_of,
    holder,
    memory_order,
    native,
    recorded,
    recording,
    tried,
)
from adjoint.engine.graph.sizes.extents import Extent, Sizes, SizeScope, extent
from adjoint.engine.graph.sizes.formulas import Answer, formula
from adjoint.engine.graph.sizes.patterns import Numbers, SizePattern, pattern_of
from adjoint.engine.graph.sizes.resizing import Describe, graph_at, resized
from adjoint.engine.graph.sizes.sizing import FILL, Example, Sizing
from adjoint.engine.tensor.tensor import Tensor, unit_strides

MET = 3  # sizes of an operation before it is recorded for all, which is checked at these
OFTEN_MET = 6  # the same on the CPU: it costs as much as some sizes by themselves
TRIED = 4  # recordings for the same numbers that stay before no more are made
PLACES = 64  # recordings for the same that differ, one for each place where an operation is called
REMEMBERED = 128  # sizes of one family
REFUSALS = 3  # recordings that a target has no plan for before no more are made
RECORDINGS = 32  # of one family that are kept, the one used last at the end
FAMILIES = 1 << 10
ATOMS = frozenset({bool, str, type(None), DType, Device})  # equal ones of a type are alike
SEQUENCES = frozenset({tuple, list, Size})


class Looked(NamedTuple):
    """All that an operation looks at besides tensors, and what it does with tensors and that."""

    leaves: Any
    call: Callable[[Sequence[Tensor], Any, Sequence[Any]], Any]  # also of the host's numbers


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


def put_in(x: Any, numbers: Iterator[int]) -> Any:
    """The same with other numbers."""
    kind = type(x)
    if kind is int:
        return next(numbers)
    if kind in SEQUENCES:
        return kind([put_in(item, numbers) for item in x])
    if kind is Spec:
        return Spec(*[put_in(item, numbers) for item in x])
    if kind is dict:
        return {name: put_in(item, numbers) for name, item in x.items()}
    return x


class Operands:
    """What a recording is made with, with any numbers in the place of shapes and strides."""

    def __init__(self, tensors: Sequence[Tensor], looked: Looked, numbers: Sequence[float]) -> None:
        self.tensors, self.looked, self.given = tensors, looked, numbers
        self.on_device = any(t._array.__class__ in DEVICE_LAYOUTS for t in tensors)
        self.orders: list[list[int]] | None = None  # of results that were in doubt, once tried

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

    def recorded(self, numbers: Sequence[int]) -> tuple[Recording, list[Example]]:
        """What is done at other sizes, and how the operands lie there."""
        left = iter(numbers)
        outside = OperationTrace(None, "a fragment's operands")
        stand_ins: dict[int, Tensor] = {}
        tensors, examples = [], []
        for t in self.tensors:
            shape, steps = [*t._array.shape], [*t.stride()]
            if not is_parameter(t):
                shape, steps = ([next(left) for _ in shape] for _ in range(2))
            spec = Spec(tuple(shape), t._spec.dtype, t._spec.device)
            shown = unit_strides(spec.shape, tuple(steps))  # as tensors tell them
            made = outside.wrap(outside.graph.add_input(spec), shown)
            tensors.append(stand_ins.setdefault(id(t), made))
            item = t._array.dtype.itemsize
            strides = tuple([step * item for step in steps])
            examples.append(replace(example_of(t._array), shape=tuple(shape), strides=strides))
        leaves = put_in(self.looked.leaves, left)

        def lie(results: Sequence[Any]) -> list[tuple[int, ...]]:
            for t in tensors:  # what a library goes by: which steps are larger
                steps = t.stride()
                _ = [(a < b, a == b) for k, a in enumerate(steps) for b in steps[:k]]
            if self.orders is None:
                raise Unfit  # in doubt at these sizes, but not at those of the operands
            return [
                () if x is None else ordered_strides(x.shape, order)
                for x, order in zip(results, self.orders, strict=True)
            ]

        with recording() as body:
            found = recorded(
                body, tensors, self.given, lambda hosts: self.looked.call(tensors, leaves, hosts),
                lie, self.on_device,
            )  # fmt: skip
        return found, examples

    def as_it_is(self) -> Recording:
        """What is done with the operands themselves."""

        def work(hosts: Sequence[Any]) -> Any:
            return self.looked.call(self.tensors, self.looked.leaves, hosts)

        def lie(results: Sequence[Any]) -> list[tuple[int, ...]]:
            found = tried(work, self.given)
            pairs = zip(results, found, strict=True)
            self.orders = [[] if x is None else memory_order(x.shape, s) for x, s in pairs]
            return found

        with recording() as body:
            return recorded(body, self.tensors, self.given, work, lie, self.on_device)


def is_parameter(tensor: Tensor) -> bool:
    """Whether a tensor is trained: its sizes are a model's, and stay."""
    return tensor._requires_grad and tensor._node is None


def is_made_here(looked: Looked) -> bool:
    """Whether an operation on no tensors, a draw say, makes one of the CPU."""
    params = looked.leaves[-1] if isinstance(looked.leaves, tuple) and looked.leaves else None
    return isinstance(params, dict) and params.get("device") is CPU


@dataclass(slots=True)
class OpenRecording:
    """A recording for many sizes."""

    pattern: SizePattern
    numbers: Answer  # the shapes of outputs and results and the operations, or None: not for these
    places: tuple[int, ...]
    results: tuple[Result | None, ...]  # with extents in the place of sizes
    shapes: list[Numbers]  # of outputs, likewise
    structure: TreeDef
    is_single: bool
    given: int
    what: str
    task: Callable[[Sizes], Any]
    plans: dict[Any, Any]  # what a target keeps for all sizes

    @property
    def differing(self) -> frozenset[int]:
        """Which of the numbers are not the same at all sizes."""
        return frozenset([k for k, poly in enumerate(self.pattern.polys) if any(poly)])

    @property
    def is_refused(self) -> bool:
        """Whether a target says that it has no plan for many sizes."""
        return FILL in self.plans and self.plans[FILL] is None

    def fragment(self, sizes: Numbers, known: tuple[Any, ...], shared: dict[str, Any]) -> Fragment:
        """The fragment for some sizes."""
        fill = self.plans.get(FILL)
        executable = None if fill is None else fill(sizes)
        if executable is None:
            executable = native(
                self.task(dict(zip(self.pattern.names, sizes, strict=True))), shared
            )
        if getattr(executable, "calls_eager", False):
            raise Unfit
        *numbers, flops = known
        left = iter(numbers)
        shapes = [tuple([next(left) for _ in shape]) for shape in self.shapes]
        results = tuple(
            [
                r if r is None or r.shape is None
                else Result(r.output, r.order, tuple([next(left) for _ in r.shape]))
                for r in self.results
            ]
        )  # fmt: skip
        return Fragment(
            executable,
            self.places,
            as_laid_out(executable, results, shapes),
            None if self.is_single else self.structure,
            self.what,
            holder(self.structure),
            self.places == (*range(self.given),),
            flops,
        )


@dataclass(slots=True)
class OpenOperation:
    """An operation at all sizes."""

    met: deque[Numbers] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    recordings: list[OpenRecording] = field(default_factory=list)
    tried: dict[Any, int] = field(default_factory=dict)  # what was recorded for, and how often

    def find(self, numbers: Numbers, shared: dict[str, Any]) -> Fragment | None:
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
                return open_recording.fragment(sizes, known, shared)
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
    ) -> Fragment | None:
        """A fragment from a recording for many sizes; None: there is none."""
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
        found = family.find(met, shared)
        if found is not None:
            return found
        refused = [r.differing for r in family.recordings if r.is_refused]
        if operands.on_device:
            refused = []
        if len(refused) >= REFUSALS:
            return None  # what some recordings came to others would
        alike = family.meet(met, MET if operands.on_device else OFTEN_MET, refused)
        if not alike:
            return None
        family.add(opened(operands, alike, shared))
        return family.find(met, shared)

    def forget(self) -> None:
        """Record everything anew."""
        self.families.clear()


def opened(
    operands: Operands, met: Sequence[Numbers], shared: dict[str, Any]
) -> OpenRecording | None:
    """A recording for many sizes; None where it says nothing about other sizes."""
    pattern = pattern_of(met)
    if pattern is None:
        return None
    sizes = pattern.sizes(met[-1])
    assert sizes is not None
    here = dict(zip(pattern.names, sizes, strict=True))
    scope = SizeScope()
    scope.exact = True
    for name, n in here.items():
        Extent.symbol(name, n, scope)
    plain = operands.as_it_is()
    made, examples = operands.recorded([extent(poly, here, scope) for poly in pattern.polys])
    graph = made.graph
    shapes = [tuple(v.spec.shape) for v in graph.outputs]
    told = [n for shape in shapes for n in shape]
    told += [n for r in made.results if r is not None for n in r.shape or ()]
    numbers = formula(scope, pattern.names, [*told, made.flops])
    if not holds(operands, made, plain, scope, pattern, met):
        return None
    plans: dict[Any, Any] = {}
    given = [*examples, *operands.given]
    inputs = tuple([given[k] for k in made.places])

    def task(sizes: Sizes) -> Any:
        known = scope.complete(sizes)
        plain = replace(made, graph=graph_at(graph, known))
        return plain.task(resized(given, known), shared, Sizing(known, scope, graph, plans, inputs))

    return OpenRecording(
        pattern, numbers, made.places, made.results, shapes, made.structure, made.is_single,
        made.given, made.what(), task, plans,
    )  # fmt: skip


def holds(
    operands: Operands,
    made: Recording,
    plain: Recording,
    scope: SizeScope,
    pattern: SizePattern,
    met: Sequence[Numbers],
) -> bool:
    """Whether a recording says what is recorded at each of the sizes that were met."""
    for numbers in met:
        sizes = pattern.sizes(numbers)
        if sizes is None:
            return False
        known = dict(zip(pattern.names, sizes, strict=True))
        if not scope.allow(known):
            continue  # it is not for these
        known = scope.complete(known)
        wanted = plain if numbers is met[-1] else operands.recorded(numbers)[0]
        if described(made, known) != described(wanted, {}):
            return False
    return True


def described(made: Recording, sizes: Sizes) -> Any:
    """All of a recording at some sizes."""
    results = [r and (r.output, r.order, resized(r.shape, sizes)) for r in made.results]
    graph = graph_at(made.graph, sizes)
    return Describe()(graph), made.places, results, resized([made.flops], sizes), made.is_single
