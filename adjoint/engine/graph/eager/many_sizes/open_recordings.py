"""Recordings for many sizes, made once an operation was met at some (Note [open kinds])."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adjoint.engine.core.layout import ordered_strides
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.tree import TreeDef
from adjoint.engine.graph.eager.fragment import Fragment, Result, Unfit, at_sizes
from adjoint.engine.graph.eager.many_sizes.open_kinds import SEQUENCES, Kept, Operands, is_parameter
from adjoint.engine.graph.eager.recorded import (
    OperationTrace,
    Recording,
    as_laid_out,
    example_of,
    holder,
    memory_order,
    native,
    recorded,
    recording,
    stated,
    tried,
)
from adjoint.engine.graph.sizes.extents import Extent, Sizes, SizeScope, extent
from adjoint.engine.graph.sizes.formulas import Answer, formula
from adjoint.engine.graph.sizes.patterns import Numbers, SizePattern, pattern_of
from adjoint.engine.graph.sizes.resizing import Describe, graph_at, resized
from adjoint.engine.graph.sizes.sizing import FILL, Example, Sizing
from adjoint.engine.tensor.tensor import Tensor, unit_strides


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


class RecordedOperands:
    """What a recording is made with, with any numbers in the place of shapes and strides."""

    def __init__(self, operands: Operands) -> None:
        self.tensors, self.looked, self.given = operands.tensors, operands.looked, operands.given
        self.on_device = operands.on_device
        self.orders: list[list[int]] | None = None  # of results that were in doubt, once tried

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
            found = stated(results) if self.on_device else tried(work, self.given)
            pairs = zip(results, found, strict=True)
            self.orders = [[] if x is None else memory_order(x.shape, s) for x, s in pairs]
            return found

        with recording() as body:
            return recorded(body, self.tensors, self.given, work, lie, self.on_device)


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
    sizes: Sizes  # it was made at
    scope: SizeScope  # what it decided about sizes
    told: list[Any]  # what `numbers` gives, with extents
    floats: tuple[int, ...]  # which inputs are floats of the host's

    @property
    def built(self) -> Callable[[list[Any]], Any]:
        """What puts results into the structure they have."""
        return holder(self.structure)

    @property
    def differing(self) -> frozenset[int]:
        """Which of the numbers are not the same at all sizes."""
        return frozenset([k for k, poly in enumerate(self.pattern.polys) if any(poly)])

    @property
    def is_refused(self) -> bool:
        """Whether a target says that it has no plan for many sizes."""
        return FILL in self.plans and self.plans[FILL] is None

    def fragment(
        self, sizes: Numbers, known: tuple[Any, ...], shared: dict[str, Any], kept: Kept
    ) -> Fragment:
        """The fragment for some sizes; where there is no plan yet, the `kept` one, if it is."""
        fill = self.plans.get(FILL)
        executable = None if fill is None else fill(sizes)
        if executable is None:
            found = kept()
            if found is not None:
                return found
            executable = native(
                self.task(dict(zip(self.pattern.names, sizes, strict=True))), shared
            )
        if getattr(executable, "calls_eager", False):
            raise Unfit
        *numbers, flops = known
        left = iter(numbers)
        shapes = [tuple([next(left) for _ in shape]) for shape in self.shapes]
        results = at_sizes(self.results, left)
        return Fragment(
            executable,
            self.places,
            as_laid_out(executable, results, shapes),
            None if self.is_single else self.structure,
            self.what,
            self.built,
            self.places == (*range(self.given),),
            flops,
        )


def opened(
    met_with: Operands, met: Sequence[Numbers], shared: dict[str, Any]
) -> OpenRecording | None:
    """A recording for many sizes; None where it says nothing about other sizes."""
    operands = RecordedOperands(met_with)
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
    told.append(made.flops)
    numbers = formula(scope, pattern.names, told)
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
        made.given, made.what(), task, plans, here, scope, told,
        tuple([k for k, v in enumerate(graph.inputs) if v.host and v.spec.dtype.is_floating_point]),
    )  # fmt: skip


def holds(
    operands: RecordedOperands,
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
