"""Fragments: large eager operations run as compiled programs.

Note [fragments]
    An eager operation on large tensors spends its time in memory and arithmetic, not in Python. So
    where it is large, what the operation is made of (a composite's own composition, a rule of the
    tape) is recorded once for each kind of operands, compiled by the target as `compile` would
    compile it, and run as one program: fused, on every core, nothing between its parts in memory.
    There is then no second, hand-fused implementation of anything.

    A kind is decided by all that a recording may look at: the operation, its parameters, and of
    each tensor dtype, shape and strides. A fragment is made where a kind is met first, so a program
    gives the same bits every time it runs. Machine code is shared by kinds that differ in sizes
    alone (on a GPU: Note [open numbers]), but each costs some milliseconds of planning: an
    operation that goes on to meet new shapes gets them for the first `SHAPES` of them.

    Operations stay as they were where somebody looks on (transforms, recordings, observers), and
    where a recording draws, reads an element, or calls the eager table in its middle.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, TypeVar

from numpy import ndarray

from adjoint.engine.core.dtype import DEFAULT_LISTENERS
from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.tree import TreeDef, flatten, unflatten
from adjoint.engine.graph.eager import images
from adjoint.engine.graph.eager.enlisted import Owned, forget
from adjoint.engine.graph.eager.fragment import Fragment, Result
from adjoint.engine.graph.eager.quick_keys import add_operands, add_params, given_kind
from adjoint.engine.graph.eager.sightings import Sightings
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.graph.flops import flops_of
from adjoint.engine.graph.ir import DataflowGraph, Value, frozen
from adjoint.engine.graph.record.body import BodyTrace, LiftedInput
from adjoint.engine.graph.record.sources import CallArgument
from adjoint.engine.graph.sizes.sizing import Example
from adjoint.engine.tensor.tensor import DEVICE_OF, Tensor

KEPT = 1 << 12  # kinds, the one used last at the end; each takes some dozens of kilobytes
Work = Callable[[Sequence[Any]], Any]
Made = TypeVar("Made")
SHAPES = 1 << 9  # of one operation that get fragments: each costs some milliseconds to plan


class OperationTrace(BodyTrace):
    """Of one operation: its operands lie in memory as they do outside."""

    def lift(self, tensor: Tensor) -> Tensor:
        value = self.graph.add_input(tensor._spec)
        self.lifted[id(tensor)] = LiftedInput(tensor, value)
        return self.wrap(value, tensor.stride())


class Unfit(Exception):
    """An operation that gains nothing by being compiled, or cannot be."""


def fitting(name: str, tensors: Sequence[Tensor], make: Callable[[], Made]) -> Made | None:
    """What `make` compiles; None where that runs by the table, which is told unless expected."""
    try:
        return make()
    except Unfit:
        return None
    except MemoryError:  # the table would take as much
        raise
    except Exception as error:
        warn_user(
            f"{name}: could not be compiled for tensors of {[t._spec for t in tensors]} and "
            f"runs by the eager table, which is slower. {type(error).__name__}: {error}"
        )
        return None


class Fragments:
    """The fragments of this process, by kind; None for kinds that run as they are."""

    def __init__(self) -> None:
        self.by_kind: OrderedDict[Any, Fragment | None] = OrderedDict()
        self.shapes: dict[Any, int] = {}  # how many kinds differ only in them
        self.shared: dict[str, Any] = {}  # one runs at a time, in the same memory
        self.quick: dict[Any, Fragment | None] = {}
        self.given: dict[Record, type] = {}
        self.sightings = Sightings()

    def run(self, key: Any, tensors: Sequence[Tensor], rule: Callable[[], Any], quick: Any) -> Any:
        """What `rule()` gives, which is decided by `key` and these tensors; None: call it."""
        return self.find(frozen(key)[1:], tensors, (), lambda _: rule(), quick)

    def find(
        self,
        key: Any,
        tensors: Sequence[Tensor],
        numbers: Sequence[float],
        fn: Work,
        quick: Any = None,
    ) -> Any:
        """What `fn(numbers)` gives, decided by `key` and the tensors; None: do it as it is.

        What is found is kept under `quick` too (Note [quick keys]).
        """
        kind = (key, *layout(tensors))
        try:
            fragment = self.by_kind[kind]
            self.by_kind.move_to_end(kind)
        except KeyError:
            family = (key[0], *[(t._array.dtype, t.ndim) for t in tensors])
            count = self.shapes[family] = self.shapes.get(family, 0) + 1
            if count > SHAPES:
                return None
            fragment = self.by_kind[kind] = self.make(key, tensors, numbers, fn)
        except TypeError:  # something in it has no hash
            return None
        if quick is not None:
            if len(self.quick) >= KEPT:
                self.quick.clear()
            self.quick[quick] = fragment
        if fragment is None:
            return None
        try:
            return fragment(tensors, numbers)
        except MemoryError:
            raise
        except (RuntimeError, IndexError):
            # The operation as it is says what is wrong with its operands, in its own words. If it
            # finds nothing wrong, the fragment is at fault (`validate` says so), which is told.
            with CONTEXT.having(grad_enabled=False, reference=True, autocast=None):
                fn(numbers)
            raise

    def make(
        self, key: Any, tensors: Sequence[Tensor], numbers: Sequence[float], fn: Work
    ) -> Fragment | None:
        """A fragment, if the operation can be one."""
        while len(self.by_kind) >= KEPT:
            self.by_kind.popitem(last=False)
        name = getattr(key[0], "record", key[0]).name  # of an operation, or of its derivative
        return fitting(name, tensors, lambda: compiled(tensors, numbers, fn, self.shared))

    def forget(self) -> None:
        """Make every fragment anew."""
        self.by_kind.clear()
        self.shapes.clear()
        self.quick.clear()
        forget()

    def forward_on_device(
        self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]
    ) -> Any:
        """`forward` on a GPU (Note [quick keys])."""
        # A composite that is differentiated part by part is a fragment only off the tape.
        if not record.one_node and CONTEXT.grad_enabled and is_tracked(operands):
            return None
        key: list[Any] = [record, switches.computed_with]
        tensors: list[Tensor] = []
        numbers: list[float] = []
        given = self.given.get(record) or self.given.setdefault(record, given_kind(record))
        if not add_operands(key, operands, given, tensors, numbers) or (
            params and not add_params(key, params)
        ):
            return (
                self.described(record, operands, params) if fits(record, operands, params) else None
            )
        quick = tuple(key)
        try:
            fragment = self.quick[quick]
        except KeyError:
            if not fits(record, operands, params):
                return None
            parts = record.compose if record.of_rows else None
            return self.described(record, operands, params, quick, parts)
        if fragment is None:
            return None
        if not fragment.is_settled:
            fragment.settle_on_device(given, (record, operands, params, switches.computed_with))
        try:
            return fragment(tensors, numbers)
        except MemoryError:
            raise
        except (RuntimeError, IndexError):
            return self.described(record, operands, params)  # which says what is wrong

    def compute_into(self, record: Record, target: Tensor, other: Any) -> bool:
        """record(target, other) in the memory of `target` on a GPU, if its fragment can do that.

        Each of its elements is read before it is written, by the same thread.
        """
        key: list[Any] = [record, switches.computed_with]
        tensors: list[Tensor] = []
        numbers: list[float] = []
        given = self.given.get(record) or self.given.setdefault(record, given_kind(record))
        if not add_operands(key, (target, other), given, tensors, numbers):
            return False
        fragment = self.quick.get(tuple(key))
        return fragment is not None and fragment.compute_into(target._array, tensors, numbers)

    def run_quickly(
        self,
        key: tuple[Any, ...],
        values: Sequence[Any],
        again: Callable[[Any], Any],
        owned: Owned,
    ) -> Any:
        """The rules of a node, decided by `key` and `values`; None: call them.

        The key begins with a plan, specs and which results are needed, then has parameters by name.
        """
        *first, params = key
        quick_key: list[Any] = [*first, switches.computed_with]
        tensors: list[Tensor] = []
        if not add_operands(quick_key, values, type(Ellipsis), tensors, []) or (
            params and not add_params(quick_key, params)
        ):
            return again(None)
        quick = tuple(quick_key)
        try:
            fragment = self.quick[quick]
        except KeyError:
            return again(quick)
        except TypeError:  # something in it has no hash
            return again(None)
        if fragment is None:
            return None
        if not fragment.is_settled:
            if tensors[0]._array.__class__ is ndarray:
                fragment.settle((), owned)
            elif fragment.structure is not None:
                plan, given, own, rest = owned
                whole = (plan, given, own, (switches.computed_with, *rest))
                fragment.settle_on_device(type(Ellipsis), whole)
        try:
            return fragment(tensors, ())
        except MemoryError:
            raise
        except (RuntimeError, IndexError):
            return again(None)

    def forward(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The results of a large operation, without the tape; None where it runs as it is.

        All of its tensors are the CPU's.
        """
        key: list[Any] = [record]
        tensors: list[Tensor] = []
        numbers: list[float] = []
        given = self.given.get(record) or self.given.setdefault(record, given_kind(record))
        if not add_operands(key, operands, given, tensors, numbers) or (
            params and not add_params(key, params)
        ):
            return self.described(record, operands, params)
        quick = tuple(key)
        try:
            fragment = self.quick[quick]
        except KeyError:
            if self.sightings.waits(record, quick, tensors):
                return None
            return self.described(record, operands, params, quick)
        if fragment is None:
            return None
        if not fragment.is_settled:
            fragment.settle(numbers, (record, operands, params, None))
        try:
            return fragment(tensors, numbers)
        except MemoryError:
            raise
        except (RuntimeError, IndexError):
            return self.described(record, operands, params)  # which says what is wrong

    def described(
        self,
        record: Record,
        operands: tuple[Any, ...],
        params: dict[str, Any],
        quick: Any = None,
        call: Callable[..., Any] | None = None,
    ) -> Any:
        """`forward`, by all that may be looked at; `call` is what is recorded, if not `record`."""
        given = given_kind(record)
        tensors: list[Tensor] = []
        numbers: list[Any] = []
        literals: list[Any] = []  # what stands in the place of each operand
        for x in operands:
            if isinstance(x, Tensor):
                tensors.append(x)
                literals.append(None)
            elif type(x) is given:
                numbers.append(x)
                literals.append(float)  # to be given
            else:
                literals.append((frozen(x),))
        key = (record, *literals, frozen(params)) if params else (record, *literals)

        def work(hosts: Sequence[Any]) -> Any:
            left = iter(hosts)
            given = [
                next(left) if literal is float else x
                for literal, x in zip(literals, operands, strict=True)
            ]
            return (call or record)(*given, **params)

        return self.find(key, tensors, numbers, work, quick)


def is_tracked(operands: tuple[Any, ...]) -> bool:
    """Whether the tape is to know of an operation."""
    return any(x.requires_grad for x in operands if is_tensor(x))


def fits(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    """Whether an operation on a GPU may be a fragment: all of it is there."""
    most = prod(params["shape"]) if record.creates else 0
    for x in operands:
        if is_tensor(x):
            array = x._array
            if array.__class__ not in DEVICE_LAYOUTS:
                return False  # on the host
            if array.dtype.names is not None and not record.reads_float8:
                return False  # of float8
            most = max(most, array.size)
        elif type(x) is HostScalar:
            return False
    if record.by_table is not None and record.by_table(operands, params):
        return False
    return record.on_device <= most


def layout(tensors: Sequence[Tensor]) -> list[Any]:
    """How tensors lie: all that a recording may look at, and which of them are the same."""
    description = kinds(tensors)
    if len(tensors) > 1:
        names = [*map(id, tensors)]
        description += map(names.index, names)
    return description


def kinds(tensors: Sequence[Tensor]) -> list[Any]:
    """How each tensor lies, whichever tensor it is."""
    arrays = [t._array for t in tensors]
    description = [
        (a.dtype, a.shape, a.strides) if a.__class__ is ndarray else elsewhere(a) for a in arrays
    ]
    if arrays and arrays[0].__class__ is not ndarray:
        description.append(switches.computed_with)
    return description


def elsewhere(array: Any) -> tuple[Any, ...]:
    """How an array lies that is not the CPU's."""
    if array.__class__ in DEVICE_LAYOUTS:
        return array.dtype, array.shape, array.strides, *DEVICE_LAYOUTS[array.__class__](array)
    return array.dtype, array.shape, array.strides, DEVICE_OF[array.__class__](array)


def example_of(array: Any) -> Example:
    """What a plan asks of an array."""
    tell = DEVICE_LAYOUTS.get(array.__class__)
    aligned = tell is None or not tell(array)[1]
    return Example(array.shape, array.strides, array.dtype, aligned)


def compiled(
    tensors: Sequence[Tensor], numbers: Sequence[float], fn: Work, shared: dict[str, Any]
) -> Fragment:
    """Record and compile what a function does with tensors and numbers."""
    body = OperationTrace(None, "a fragment")
    before = CONTEXT.every_field()
    try:
        return compiled_in(body, tensors, numbers, fn, shared)
    finally:
        CONTEXT.__dict__.update(before)  # an interrupt may have left them
        body.lifted.clear()  # operands would be held until the collector comes


def compiled_in(
    body: OperationTrace,
    tensors: Sequence[Tensor],
    numbers: Sequence[float],
    fn: Work,
    shared: dict[str, Any],
) -> Fragment:
    """The same, in a recording."""
    given = {id(t): k for k, t in enumerate(tensors)}
    try:
        with CONTEXT.having(grad_enabled=False, autocast=None):
            hosts = [body.host(x) for x in numbers]
            out = body.run(fn, hosts)
    except Exception as error:  # as it is, it succeeds or says what is wrong
        raise Unfit from error
    leaves, structure = flatten(out)
    on_device = bool(tensors) and tensors[0]._array.__class__ in DEVICE_LAYOUTS
    rank = images.rank_of(tensors) if on_device else 0
    results, outputs = laid_out(body, leaves, given, lambda: fn(numbers), rank)
    lifted = {id(lifted_input.value): lifted_input.source for lifted_input in body.lifted.values()}
    graph = body.finish(outputs)
    if on_device:
        results = as_made(graph, results)
    if any(root(value).node is None for value in graph.outputs):
        raise Unfit  # handed on as it came, or a view of it
    sources = [lifted.get(id(value)) for value in graph.inputs]
    given |= {id(host): len(tensors) + k for k, host in enumerate(hosts)}
    if not all(id(source) in given for source in sources):
        raise Unfit
    places = tuple([given[id(source)] for source in sources])
    examples = [*[example_of(t._array) for t in tensors], *numbers]
    task = Task(
        graph=graph,
        sources=tuple([CallArgument(k, whole=False) for k in range(len(places))]),
        writes=(),
        returned=frozenset(range(len(outputs))),
        examples=tuple([examples[k] for k in places]),
        targets=(),
        shared=shared,
        fragment=True,
    )
    executable = native(task, shared)
    what = " ".join(dict.fromkeys([node.record.name for node in graph]))
    return Fragment(
        executable,
        places,
        as_laid_out(executable, results, [tuple(v.spec.shape) for v in graph.outputs]),
        None if is_tensor(out) else structure,
        what,
        holder(structure),
        places == (*range(len(tensors) + len(numbers)),),
        sum([flops_of(node.record, node.inputs, node.outputs) for node in graph]),
    )


def as_made(graph: DataflowGraph, results: tuple[Result | None, ...]) -> tuple[Result | None, ...]:
    """Results in the shapes in which they are made, which only then are given their own.

    A program would copy a product's rows to where they have another shape.
    """
    settled: list[Result | None] = []
    for result in results:
        if result is not None:
            value = graph.outputs[result.output]
            node = value.node
            if node is not None and node.record.name == "reshape" and is_made(node.inputs[0]):
                graph.outputs[result.output] = node.inputs[0]
                result = replace(result, shape=tuple(value.spec.shape))
        settled.append(result)
    return tuple(settled)


def as_laid_out(
    executable: Any, results: tuple[Result | None, ...], shapes: Sequence[tuple[int, ...]]
) -> tuple[Result | None, ...]:
    """Results, of which a program that can makes arrays as they are to lie."""
    lay_out = getattr(executable, "lay_out", None)
    if lay_out is None:
        return results
    laid: list[Result | None] = []
    for result in results:
        if result is not None and not result.as_made:
            shape = shapes[result.output] if result.shape is None else result.shape
            order = (*range(len(shape)),) if result.order is None else result.order
            if lay_out(result.output, shape, order):
                result = Result(result.output, None)
        laid.append(result)
    return tuple(laid)


def is_made(value: Value) -> bool:
    """Whether a value is computed, row after row, and no view of another."""
    return value.node is not None and not value.node.record.is_view


def holder(structure: TreeDef) -> Callable[[list[Any]], Any]:
    """What puts results into the structure they have."""
    is_flat = all(child.kind is None for child in structure.children)
    if is_flat and structure.kind in (tuple, list):
        return structure.kind
    return partial(unflatten, structure)


def native(task: Task, shared: dict[str, Any]) -> Executable:
    """The program of a task, all of it machine code."""
    devices = {v.spec.device for v in task.graph.inputs if not v.host}
    devices |= {v.spec.device for node in task.graph for v in node.outputs}
    if len(devices) > 1:
        raise Unfit
    executable: Executable = HOOKS.executor("native")(task)
    if not shared.get("workers"):
        shared["workers"] = True
        HOOKS.put_workers_first()
    if getattr(executable, "calls_eager", False):
        raise Unfit  # it would only call the eager table
    return executable


def laid_out(
    body: OperationTrace,
    leaves: Sequence[Any],
    given: dict[int, int],
    again: Callable[[], Any],
    rank: int,
) -> tuple[tuple[Result | None, ...], list[Tensor]]:
    """Which outputs make results that lie in memory as eager ones do; programs' are contiguous."""
    results: list[Result | None] = []
    outputs: list[Tensor] = []
    for x, strides in zip(leaves, eager_strides(body, leaves, given, again, rank), strict=True):
        if x is None:
            results.append(None)
            continue
        order = memory_order(x.shape, strides)
        inverse = None
        if order != [*range(x.ndim)]:
            x = body.run(x.permute, *order)
            inverse = tuple([order.index(d) for d in range(x.ndim)])
        results.append(Result(len(outputs), inverse))
        outputs.append(x)
    return tuple(results), outputs


def memory_order(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """In which order dimensions lie in memory without gaps; that of single elements is no matter.

    >>> memory_order((2, 3, 1), (1, 2, 1)), memory_order((1, 3), (1, 1))
    ([1, 0, 2], [0, 1])
    """
    many = [d for d, size in enumerate(shape) if size != 1]
    moved = iter(sorted(many, key=lambda d: -strides[d]))
    order = [d if size == 1 else next(moved) for d, size in enumerate(shape)]
    dense = contiguous_strides([shape[d] for d in order])
    if any(strides[d] != dense[k] for k, d in enumerate(order) if shape[d] != 1):
        raise Unfit
    return order


def eager_strides(
    body: OperationTrace,
    leaves: Sequence[Any],
    given: dict[int, int],
    again: Callable[[], Any],
    rank: int,
) -> list[tuple[int, ...]]:
    """The strides that results have eagerly; where these are in doubt, it is tried (`again`).

    On a GPU, what is made of images whose channels lie innermost (of `rank`) lies so too.
    """
    for x in leaves:
        if x is not None and (not is_tensor(x) or id(x) in given):
            raise Unfit
    known = [known_strides(body, x, rank) for x in leaves]
    if None not in known:
        return known  # type: ignore[return-value]
    with CONTEXT.having(grad_enabled=False, reference=True, autocast=None):
        tried, _ = flatten(again())
    return [() if x is None else x.stride() for x in tried]


def known_strides(body: OperationTrace, x: Tensor | None, rank: int) -> tuple[int, ...] | None:
    """The strides of a result; None where they are in doubt."""
    if x is None:
        return ()
    node = body.value_of(x).node
    if node is not None and node.record.lies_in_rows:
        return contiguous_strides(x.shape)
    if node is not None and x.ndim < 2 and not node.record.is_view:
        return contiguous_strides(x.shape)  # to try it would compile the table's kernels
    if not in_doubt(body, x):
        return x.stride()
    if rank and x.ndim < 2:
        return contiguous_strides(x.shape)
    return images.last_strides(x.shape) if rank and x.ndim == rank else None


def in_doubt(body: OperationTrace, tensor: Tensor) -> bool:
    """Whether it is in doubt how a result lies in memory eagerly; products lie row after row."""
    if not body.reshapes.doubts(tensor):
        return False
    node = body.value_of(tensor).node
    return node is None or node.record.family != "bilinear"


def root(value: Value) -> Value:
    """What a value is a view of."""
    while value.node is not None and value.node.record.is_view:
        value = value.node.inputs[0]
    return value


FRAGMENTS = Fragments()
DEFAULT_LISTENERS.append(FRAGMENTS.forget)  # recordings depend on the default dtype
HOOKS.fragments = FRAGMENTS
