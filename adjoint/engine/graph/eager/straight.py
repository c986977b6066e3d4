"""Straight programs: small operations made of many, run as the kernels they come to.

Note [straight programs]
    A composite on few elements spends its time between its parts: each is bound, promoted, wrapped
    and asked for the tape, for a kernel that takes a microsecond. So a composition, or a rule of
    the tape, that is met `AFTER` times with operands of one kind (Note [fragments]: the operation,
    its parameters, and of each tensor dtype, shape and strides) is recorded once and kept as one
    function that calls the eager table's kernels on arrays, one after another.

    They are the same kernels in the same order, so results are the same to the bit, and nobody can
    tell which way a call went. That is not left to faith: a program is kept only if, on the call
    it is made at, its results equal those of the operation as it is in every byte and stride.
    Whatever fails in a program is done again as it is, which says what is wrong in its own words.

    A program that is called `OFTEN` has its kernels' inner loops called by native code instead
    (Note [small rows]), once there were `LOADED` calls of any: loading that code takes as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from numpy import ndarray

from adjoint.engine.core.dtype import DEFAULT_LISTENERS, float32, float64
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.large import HALVES, LOOPED
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.operations.return_types import all_types
from adjoint.engine.core.operations.small_calls import FEW_ON_TAPE, runs_by_kernel
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.graph.eager import enlisted
from adjoint.engine.graph.eager.complex_sums import WORTH as SUMMED_AS_REALS
from adjoint.engine.graph.eager.enlisted import Owned
from adjoint.engine.graph.eager.fragment import Unfit
from adjoint.engine.graph.eager.recorded import OperationTrace, recording, root
from adjoint.engine.graph.ir import DataflowGraph, Node, Value, frozen
from adjoint.engine.graph.passes.cse import cse
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.inline import inline
from adjoint.engine.graph.passes.unmark import unmark
from adjoint.engine.ops.index.gather import GATHER
from adjoint.engine.ops.shape.convert import CAST, CLONE
from adjoint.engine.tensor.tensor import Tensor, wrap, wrap_all

AFTER = 3  # calls of a kind: recording one takes as long as some dozens
MOST = 1 << 14  # elements of a tensor: beyond, what is between parts costs nothing, but memory
SLOW_BY_ELEMENT = frozenset({"function", "costly", "looped"})
ROWS = 1 << 11  # elements of a public call's tensor: beyond, what is a fragment stays one
KEPT = 4096  # kinds
OFTEN = 16  # calls of a program: writing its rows takes as long as they save in some dozens
SEVERAL = 4  # operations that one pass over the elements does sooner than a loop each
LOADED = 256  # calls of all programs before native code for few elements is loaded
Arrays = Sequence[Any]
SIMPLE = frozenset({tuple, list, *all_types().values()})


@dataclass(slots=True)
class Straight:
    """The kernels of an operation for operands of one kind."""

    run: Callable[..., Arrays | None]  # of the arrays of all tensors it is given
    structure: Any  # of the results; None: the first alone; a class: one of all of them
    gaps: tuple[bool, ...]  # which of the results are there
    kernels: Callable[..., Arrays]  # where `run` gives nothing
    rows: Callable[[Arrays], Any] | None  # writes it as native rows, once
    looped: bool  # a part of it, as it is, is a fragment that does by native loops what kernels do
    calls: int = 0

    def __call__(self, arrays: Arrays) -> Any:
        arrays_out = self.run(*arrays)
        if arrays_out is None:
            arrays_out = self.kernels(*arrays)
        if self.structure is None:
            return wrap(arrays_out[0])
        tensors = iter(wrap_all(arrays_out))
        leaves = [next(tensors) if x else None for x in self.gaps]
        if self.structure is list:
            return leaves
        if self.structure is tuple:
            return tuple(leaves)
        if self.structure.__class__ is type:  # a named tuple
            named: Any = self.structure
            return named._make(leaves)
        return unflatten(self.structure, leaves)

    def entry(self, operands: Sequence[Any], params: dict[str, Any], rest: Any) -> Any:
        """What native code finds its kernels by, where they are not rows; None: they stay here."""
        kernels, gaps = self.kernels, self.gaps
        if HOOKS.meet_noted is None:
            return None

        def attempted(*arrays: Any) -> tuple[Any, ...] | None:
            try:
                results = iter(kernels(*arrays))
            except Exception as error:
                if raised_outside(error):
                    raise
                return None  # as it is, it succeeds or says what is wrong
            return tuple([next(results) if there else None for there in gaps])

        return HOOKS.small_entry(None, attempted, (), (operands, params, rest), of="arrays")

    def walked(self, arrays: Arrays, sighted: bool) -> Any:
        """Written as native rows when called often; None where that is not, or not yet, so.

        One that is `sighted` is of no use before native code finds it.
        """
        self.calls += 1
        STRAIGHT.calls += 1
        if self.calls < OFTEN and not sighted:
            return None
        if STRAIGHT.calls < LOADED and not HOOKS.small_code:
            return None
        make, self.rows = self.rows, None
        try:
            rows = make(arrays)  # type: ignore[misc]
            results = rows.run(*arrays)
        except Exception as error:  # whatever it is, calls go on as before
            if raised_outside(error):
                raise
            return None
        if results is None or not HOOKS.same_arrays(results, self.kernels(*arrays)):
            return None
        self.run = rows.run
        return rows


class StraightPrograms:
    """The straight programs of this process, by kind; None for kinds that run as they are."""

    def __init__(self) -> None:
        self.by_kind: dict[Any, Straight | int | None] = {}  # an int: calls so far
        self.calls = 0  # of all programs

    def forward(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The results of a composite, without the tape; None where it runs as it is."""
        tensors: list[Tensor] = []
        kind: list[Any] = [record]
        for x in operands:
            if isinstance(x, Tensor):
                tensors.append(x)
                kind.append(Tensor)
            else:
                kind.append((frozen(x),))
        for name, value in params.items():
            kind.append(name)
            kind.append(value if value.__class__ is int else frozen(value))
        whole = runs_by_kernel(record)
        # Others may not have been looked at (Note [seen on the tape]).
        sighted = whole and not record.in_steps
        work: Callable[..., Any] = record if whole else record.compose  # type: ignore[assignment]
        owned = (record, operands, params, None)
        return self.find(kind, tensors, lambda: work(*operands, **params), owned, sighted)

    def run(
        self,
        key: Any,
        tensors: Sequence[Tensor],
        rule: Callable[[], Any],
        owned: Owned,
        sighted: bool = False,
    ) -> Any:
        """What `rule()` gives, which is decided by `key` and these tensors; None: call it.

        One that is `sighted` was not looked at whenever it came (Note [rules of few elements]).
        """
        return self.find([frozen(key)], tensors, rule, owned, sighted, sighted, of_rule=True)

    def find(
        self,
        kind: list[Any],
        tensors: Sequence[Tensor],
        fn: Callable[[], Any],
        owned: Owned,
        sighted: bool = False,
        as_is: bool = False,
        of_rule: bool = False,
    ) -> Any:
        """What `fn()` gives, decided by `kind` and the tensors; None: do it as it is.

        Where it has run `as_is` so far, none of its parts may have been a fragment.
        """
        arrays = [t._array for t in tensors]
        for a in arrays:
            if a.__class__ is not ndarray or a.size > MOST:
                return None
            kind.append(a.dtype)
            kind.append(a.shape)
            kind.append(a.strides)
        if len(tensors) > 1:
            names = [*map(id, tensors)]
            kind += map(names.index, names)
        key = tuple(kind)
        try:
            program = self.by_kind.get(key, 0)
        except TypeError:  # something in it has no hash
            return None
        if program.__class__ is int:
            if len(self.by_kind) > KEPT:
                self.by_kind.clear()  # at once: other threads may be looking
            program = self.by_kind[key] = (
                program + 1
                if program < AFTER
                else straight_program(tensors, fn, as_is=as_is, of_rule=of_rule)
            )
        if program.__class__ is not Straight:
            return None
        if program.rows is not None:
            walked = program.walked(arrays, sighted)
            if program.rows is None and program.structure in (None, tuple, list):
                owner, *given = owned
                found = (
                    program.entry(*given) if walked is None else walked.entry(*given, program.gaps)
                )
                if found is not None:
                    enlisted.enlist(owner, found)
        try:
            return program(arrays)
        except Exception as error:
            if raised_outside(error):
                raise
            return None  # as it is, it succeeds or says what is wrong

    def forget(self) -> None:
        """Make every program anew."""
        self.by_kind.clear()
        enlisted.forget()


def straight_program(
    tensors: Sequence[Tensor],
    fn: Callable[[], Any],
    of_call: bool = False,
    as_is: bool = False,
    of_rule: bool = False,
) -> Straight | None:
    """The program of what a function does with tensors, if it can be one and does the same.

    One `of_call` has the bits that a public call has as it is: beyond `ROWS`, those of fragments.
    One `of_rule` may copy what is handed on.
    """
    before = CONTEXT.every_field()
    try:
        with CONTEXT.having(grad_enabled=False, reference=True):
            want, _ = flatten(fn())
        handed = [of_rule and is_handed_on(x, tensors) for x in want]
        if any(handed):
            fn = partial(with_copies, fn, handed)
        program = recorded(tensors, fn, of_call, as_is)
        results = program.kernels(*[t._array for t in tensors])
    except Exception as error:  # whatever it is, calls go on as before
        if raised_outside(error):
            raise
        return None
    finally:
        CONTEXT.__dict__.update(before)  # an interrupt may have left them
    arrays = [x._array for x in want if x is not None]
    if tuple([x is not None for x in want]) != program.gaps:
        return None
    if any(x is not None and (x.__class__ is not Tensor or x._requires_grad) for x in want):
        return None
    return program if HOOKS.same_arrays(results, arrays) else None


def is_handed_on(x: Any, tensors: Sequence[Tensor]) -> bool:
    """Whether a cotangent is a piece of these tensors, of few elements that lie row by row.

    As it is, what hands one on to one operand were no program for the others either.
    """
    if not is_tensor(x) or not any(x._storage is t._storage for t in tensors):
        return False
    return x.is_contiguous() and prod(x.shape) <= FEW_ON_TAPE


def with_copies(rule: Callable[[], Any], handed: Sequence[bool]) -> list[Any]:
    """What a rule gives, with copies in the place of what is handed on."""
    return [x.clone() if copied else x for x, copied in zip(rule(), handed, strict=True)]


def recorded(
    tensors: Sequence[Tensor], fn: Callable[[], Any], of_call: bool = False, as_is: bool = False
) -> Straight:
    """Record what a function does, as kernels."""
    body = OperationTrace(None, "a small operation")
    try:
        return recorded_in(body, tensors, fn, of_call, as_is)
    finally:
        body.lifted.clear()  # operands would be held until the collector comes


def recorded_in(
    body: OperationTrace,
    tensors: Sequence[Tensor],
    fn: Callable[[], Any],
    of_call: bool,
    as_is: bool,
) -> Straight:
    """The same, in a recording."""
    given = {id(t): k for k, t in enumerate(tensors)}
    with CONTEXT.having(grad_enabled=False):
        out = body.run(fn)
    structure: Any
    leaves, structure = flatten(out)
    for x in leaves:
        if x is not None and (not is_tensor(x) or id(x) in given):
            raise Unfit
    lifted = {id(lifted_input.value): lifted_input.source for lifted_input in body.lifted.values()}
    graph = body.finish([x for x in leaves if x is not None])
    if is_better_compiled(graph, of_call):
        raise Unfit  # as it is, that is a fragment
    whole = unmark(inline(graph))  # none of these passes changes a bit
    graph = dce(cse(whole))
    if not apart(graph):  # both cotangents of `x * x` are one value: each is to have its memory
        graph = dce(whole)
    sources = [lifted.get(id(value)) for value in graph.inputs]
    if not apart(graph) or not all(id(source) in given for source in sources):
        raise Unfit
    if any(is_spread(node) or is_much(node) for node in graph.nodes):
        raise Unfit  # as it is, that is a fragment
    if as_is and any(map(is_large, graph.nodes)):
        raise Unfit  # the same, and it has its bits
    if of_call and (any(map(is_beyond_rows, graph.nodes)) or finds_extremes(graph)):
        raise Unfit  # the same: it has its bits, and is quicker
    gaps = tuple([x is not None for x in leaves])
    places = [given[id(source)] for source in sources]
    run = HOOKS.straighten(graph, places, [t._array for t in tensors])
    kind = out.__class__
    if is_tensor(out):
        structure = None
    elif kind in SIMPLE and all(x is None or is_tensor(x) for x in out):
        structure = kind
    looped = any(map(is_looped, graph.nodes))
    return Straight(run, structure, gaps, run, partial(HOOKS.small_rows, graph, places), looped)


def least(node: Node) -> int:
    """How many elements make an operation a fragment; 0: it is none."""
    x = node.inputs[0] if node.inputs else None
    if node.record.name == "sum" and x.__class__ is Value and x.spec.dtype.is_complex:
        return max(node.record.large, SUMMED_AS_REALS) if node.record.large else 0
    return node.record.large


def is_spread(node: Node) -> bool:
    """Whether operands that are small themselves have a large result together."""
    limit = node.record.large
    if not limit or node.record.family != "elementwise" or prod(node.outputs[0].spec.shape) < limit:
        return False
    return all(x.__class__ is Value and prod(x.spec.shape) < limit for x in node.inputs)


def is_much(node: Node) -> bool:
    """Whether an operation on few elements is a fragment all the same.

    Conversions have the same bits either way.
    """
    if not node.record.large or node.record is CAST:
        return False
    specs = [x.spec for x in node.inputs if x.__class__ is Value]
    if any(spec.dtype.is_half and prod(spec.shape) >= HALVES for spec in specs):
        return True
    much = node.record.much
    return much is not None and much([spec.shape for spec in specs], node.params)


def is_large(node: Node) -> bool:
    """Whether an operation has as many elements as make it a fragment."""
    limit = least(node)
    return (
        0
        < limit
        <= max([prod(x.spec.shape) for x in node.inputs if x.__class__ is Value], default=0)
    )


def is_beyond_rows(node: Node) -> bool:
    """Whether an operation has more elements than rows take, and is a fragment as it is.

    What picks elements of a large operand has only as many as it picks, and the same bits.
    """
    if node.record.indexed:
        return False
    counted = node.outputs if node.record.selects else node.inputs
    most = max([prod(x.spec.shape) for x in counted if x.__class__ is Value], default=0)
    return most > ROWS and 0 < least(node) <= most


def finds_extremes(graph: DataflowGraph) -> bool:
    """Whether it is `max` or `min` along a dimension: of more elements than rows take, the largest
    and where they are are one fragment as they are (`ops.reduce.extremes.EXTREME`)."""
    many = any(
        node.record.position_of and prod(node.inputs[0].spec.shape) > ROWS for node in graph.nodes
    )
    return many and any(node.record is GATHER for node in graph.nodes)


def is_better_compiled(graph: DataflowGraph, of_call: bool) -> bool:
    """Whether it is one operation that is a fragment, whose loops are quicker than its kernels'.

    What is around it only moves or converts elements.
    They are where it computes an exponential, say, as NumPy does that one element at a time, or is
    made of `SEVERAL` and more, or where it has many elements. Others take as long either way, and
    rows cost less around them.
    """
    nodes = calculating(graph) or converting(graph)
    if len(nodes) != 1:
        return False
    (node,) = nodes
    limit = least(node)
    if not limit or not any(
        x.__class__ is Value and prod(x.spec.shape) >= limit for x in node.inputs
    ):
        return False
    if of_call and is_beyond_rows(node):
        return True
    parts = [part for part in inline(graph).nodes if not part.record.is_view]
    return len(parts) >= SEVERAL or any(is_slow_by_element(part) for part in parts)


def is_slow_by_element(node: Node) -> bool:
    """Whether an operation's kernel takes its time for each element, or for each place in a window
    of images, where a fragment's do not."""
    record = node.record
    by_element = record.family == "elementwise" or record.keeps_layout == "images"
    return by_element and record.fragment in SLOW_BY_ELEMENT


def is_one_fragment(tensors: Sequence[Tensor], fn: Callable[[], Any]) -> bool:
    """The same of what a function does with tensors, as nothing but that."""
    graph = graph_of(fn)
    if graph is None:
        return False
    return is_better_compiled(graph, True) or [is_much(node) for node in calculating(graph)] == [
        True
    ]


def is_scaled_sum(tensors: Sequence[Tensor], fn: Callable[[], Any]) -> bool:
    """Whether a function adds a multiple of one tensor to another, of so many elements that it is
    one fragment (`ADD_SCALED`), rounded twice like the two operations."""
    if any(x.dtype not in (float32, float64) or x._array.size <= ROWS for x in tensors):
        return False
    graph = graph_of(fn)
    names = [node.record.name for node in graph.nodes] if graph is not None else []
    return len(tensors) == 2 and names in (["mul", "add"], ["mul", "sub"])


def graph_of(fn: Callable[[], Any]) -> DataflowGraph | None:
    """What a function of tensors does, recorded; None where it does not give one tensor."""
    with recording() as body:
        with CONTEXT.having(grad_enabled=False):
            out = body.run(fn)
        return body.finish([out]) if is_tensor(out) else None


def calculating(graph: DataflowGraph) -> list[Node]:
    """The operations of a graph that do more than move or convert elements."""
    return [n for n in graph.nodes if not n.record.is_view and n.record not in (CAST, CLONE)]


def converting(graph: DataflowGraph) -> list[Node]:
    """The operations of a graph that convert or copy elements."""
    return [n for n in graph.nodes if n.record in (CAST, CLONE)]


def is_looped(node: Node) -> bool:
    """Whether an operation is a fragment since its kernel goes step by step, in Python at times."""
    specs = [x.spec for x in node.inputs if x.__class__ is Value]
    limit = node.record.large
    return limit == LOOPED and any(prod(spec.shape) >= limit for spec in specs)


def apart(graph: DataflowGraph) -> bool:
    """Whether results are in memory of their own, each in another."""
    roots = [root(value) for value in graph.outputs]
    return len({id(r) for r in roots}) == len(roots) and all(r.node is not None for r in roots)


STRAIGHT = StraightPrograms()
DEFAULT_LISTENERS.append(STRAIGHT.forget)  # recordings depend on the default dtype
HOOKS.straight = STRAIGHT
