"""Recording and compiling what an operation does (Note [fragments])."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.layout import last_strides
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.result_layouts import RULES, order_in_memory
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import TreeDef, flatten, unflatten
from adjoint.engine.graph.eager import images
from adjoint.engine.graph.eager.fragment import Fragment, Result, Unfit, Work, put_workers_first
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.graph.flops import flops_of
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.record.body import BodyTrace, LiftedInput
from adjoint.engine.graph.record.sources import CallArgument
from adjoint.engine.graph.sizes.sizing import Example, Sizing
from adjoint.engine.ops.common.channels import goes_by_channels
from adjoint.engine.tensor.tensor import Tensor

Strides = tuple[int, ...]
Try = Callable[[Sequence[Any]], list[Strides]]  # how results lie eagerly


class OperationTrace(BodyTrace):
    """Of one operation: its operands lie in memory as they do outside."""

    def lift(self, tensor: Tensor) -> Tensor:
        value = self.graph.add_input(tensor._spec)
        self.lifted[id(tensor)] = LiftedInput(tensor, value)
        return self.wrap(value, tensor.stride())

    def record(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        made = as_it_lies(record, operands, params)
        if made is not None:
            return made
        return super().record(record, self.along_memory(record, operands, params), params)

    def record_composite(self, record: Record, operands: tuple[Any, ...], params: Any) -> Any:
        made = as_it_lies(record, operands, params)
        if made is not None:
            return made
        operands = self.along_memory(record, operands, params)
        return super().record_composite(record, operands, params)

    def along_memory(
        self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]
    ) -> tuple[Any, ...]:
        """An operand of which all elements are combined, seen in the order in which it lies.

        Loops then go along memory, however dimensions are named. What is computed on the way is
        left as it is: its loops are those of what it is made of.
        """
        if not record.in_any_order or len(operands) != 1 or not is_tensor(operands[0]):
            return operands
        (x,) = operands
        if not self.keeps_strides or x.device.type != "cpu" or len(params["dims"]) != x.ndim:
            return operands
        order = order_in_memory(tuple(x._array.shape), tuple(x.stride()))
        if order is None or [*order] == [*range(x.ndim)] or self.value_of(x).node is not None:
            return operands
        return (x.permute(order),)


def as_it_lies(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """What a record does instead with images whose channels lie innermost; None: what it is."""
    if record.by_channels is None:
        return None
    if not any(is_tensor(x) and goes_by_channels(x) for x in operands):
        return None
    return record.by_channels(*operands, **params)


def example_of(array: Any) -> Example:
    """What a plan asks of an array."""
    tell = DEVICE_LAYOUTS.get(array.__class__)
    aligned = tell is None or not tell(array)[1]
    return Example(array.shape, array.strides, array.dtype, aligned)


@dataclass(frozen=True, slots=True)
class Recording:
    """What an operation does, before a target compiles it."""

    graph: DataflowGraph
    places: tuple[int, ...]  # which of the tensors and, after them, numbers are its inputs
    results: tuple[Result | None, ...]
    structure: TreeDef
    is_single: bool  # whether it gives one tensor
    given: int  # how many tensors and numbers there are
    flops: int

    def task(self, examples: Sequence[Any], shared: dict[str, Any], sizing: Sizing | None) -> Task:
        """What a target compiles, for tensors and numbers like these."""
        return Task(
            graph=self.graph,
            sources=tuple([CallArgument(k, whole=False) for k in range(len(self.places))]),
            writes=(),
            returned=frozenset(range(len(self.graph.outputs))),
            examples=tuple([examples[k] for k in self.places]),
            targets=(),
            sizing=sizing,
            shared=shared,
            fragment=True,
        )

    def fragment(self, executable: Executable) -> Fragment:
        """The fragment that a program of it makes."""
        shapes = [tuple(v.spec.shape) for v in self.graph.outputs]
        return Fragment(
            executable,
            self.places,
            as_laid_out(executable, self.results, shapes),
            None if self.is_single else self.structure,
            self.what(),
            holder(self.structure),
            self.places == (*range(self.given),),
            self.flops,
        )

    def what(self) -> str:
        """The operations it is made of."""
        return " ".join(dict.fromkeys([node.record.name for node in self.graph]))


def compiled(
    tensors: Sequence[Tensor], numbers: Sequence[float], fn: Work, shared: dict[str, Any]
) -> Fragment:
    """Record and compile what a function does with tensors and numbers."""
    on_device = bool(tensors) and tensors[0]._array.__class__ in DEVICE_LAYOUTS
    with recording() as body:
        lie = stated if on_device else lambda _: tried(fn, numbers)
        made = recorded(body, tensors, numbers, fn, lie, on_device)
        examples = [*[example_of(t._array) for t in tensors], *numbers]
        return made.fragment(native(made.task(examples, shared, None), shared))


def tried(fn: Work, numbers: Sequence[float]) -> list[Strides]:
    """The strides that results have eagerly: whoever looks on sees nothing of it."""
    with CONTEXT.having(grad_enabled=False, reference=True, autocast=None):
        results, _ = flatten(fn(numbers))
    return [() if x is None else x.stride() for x in results]


def stated(results: Sequence[Tensor | None]) -> list[Strides]:
    """The strides that records' rules give results: a GPU's, whose library lays out in rows."""
    return [() if x is None else x.stride() for x in results]


@contextlib.contextmanager
def recording() -> Iterator[OperationTrace]:
    """A block in which an operation is recorded."""
    body = OperationTrace(None, "a fragment")
    body.keeps_strides = True
    before = CONTEXT.every_field()
    try:
        yield body
    finally:
        CONTEXT.__dict__.update(before)  # an interrupt may have left them
        body.lifted.clear()  # operands would be held until the collector comes


def recorded(
    body: OperationTrace,
    tensors: Sequence[Tensor],
    numbers: Sequence[float],
    fn: Work,
    lie: Try,
    on_device: bool,
) -> Recording:
    """What a function does; `lie` tells the strides of results where they are in doubt."""
    given = {id(t): k for k, t in enumerate(tensors)}
    try:
        with CONTEXT.having(grad_enabled=False, autocast=None):
            hosts = [body.host(x) for x in numbers]
            out = body.run(fn, hosts)
    except Exception as error:  # as it is, it succeeds or says what is wrong
        if raised_outside(error):
            raise
        raise Unfit from error
    leaves, structure = flatten(out)
    rank = images.rank_of(tensors) if on_device else 0
    results, outputs = laid_out(body, leaves, given, lie, rank)
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
    return Recording(
        graph,
        tuple([given[id(source)] for source in sources]),
        results,
        structure,
        is_tensor(out),
        len(tensors) + len(numbers),
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
                result = Result(result.output, result.order, tuple(value.spec.shape))
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
    executable: Executable = HOOKS.compile_operation(task)
    put_workers_first(shared)
    if getattr(executable, "calls_eager", False):
        raise Unfit  # it would only call the eager table
    return executable


def laid_out(
    body: OperationTrace,
    leaves: Sequence[Any],
    given: dict[int, int],
    lie: Try,
    rank: int,
) -> tuple[tuple[Result | None, ...], list[Tensor]]:
    """Which outputs make results that lie in memory as eager ones do; programs' are contiguous."""
    results: list[Result | None] = []
    outputs: list[Tensor] = []
    for x, strides in zip(leaves, eager_strides(body, leaves, given, lie, rank), strict=True):
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
    """In which order dimensions lie in memory without gaps.

    Dimensions of one element lie where their strides say so, if any order has these.

    >>> memory_order((2, 3, 1), (1, 2, 1)), memory_order((1, 3), (1, 1))
    ([1, 0, 2], [1, 0])
    >>> memory_order((2, 3, 4, 1), (12, 1, 3, 3))
    [0, 2, 3, 1]
    """
    single = [type(size) is int and size == 1 for size in shape]
    falling = sorted(range(len(shape)), key=lambda d: (-strides[d], single[d]))
    if [*contiguous_strides([shape[d] for d in falling])] == [strides[d] for d in falling]:
        return falling
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
    lie: Try,
    rank: int,
) -> list[tuple[int, ...]]:
    """The strides that results have eagerly; where these are in doubt, what `lie` tells.

    On a GPU, what is made of images whose channels lie innermost (of `rank`) lies so too.
    """
    for x in leaves:
        if x is not None and (not is_tensor(x) or id(x) in given):
            raise Unfit
    known = [known_strides(body, x, rank) for x in leaves]
    return lie(leaves) if None in known else known  # type: ignore[return-value]


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
    return last_strides(x.shape) if rank and x.ndim == rank else None


def in_doubt(body: OperationTrace, tensor: Tensor) -> bool:
    """Whether it is in doubt how a result lies in memory eagerly.

    Products lie row after row, and others by the rules they state.
    """
    if not body.reshapes.doubts(tensor):
        return False
    node = body.value_of(tensor).node
    return node is None or (
        node.record.family != "bilinear" and node.record.keeps_layout not in RULES
    )


def root(value: Value) -> Value:
    """What a value is a view of."""
    while value.node is not None and value.node.record.is_view:
        value = value.node.inputs[0]
    return value
