"""Recordings as `fx` graphs: each operation a call of `ops.aten.<record>`.

A recording is free of writes and of Python's own control flow, so what is written here is what
the function did. Sizes that may change are computed from the arguments' sizes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.engine.capture.program.program import Program
from adjoint.engine.capture.program.recipes import Constant, Made
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.ir import Node as Operation
from adjoint.engine.graph.record.sources import CallArgument, GradOf, Host, Source, State
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat, Poly, SizeScope
from adjoint.engine.ops.shape.views import inverse_permutation
from adjoint.engine.tensor.storage import Storage
from adjoint.fx.graph import Graph
from adjoint.fx.node import Node
from adjoint.ops import OpOverload, aten
from adjoint.utils._python_dispatch import overload_of

Dims = Mapping[tuple[int, int], str]  # argument and dimension -> symbol


class CannotWrite(RuntimeError):
    """A recording that no graph of operations stands for; says why."""


@dataclass(frozen=True, slots=True)
class NodesOfRecording:
    """What of a recording the nodes of a graph are."""

    results: list[Any]  # nodes, and constants that are returned
    writes: list[tuple[Source, Node]]  # what takes which value when all is done


class GraphWriter:
    """Writes a recording into a graph.

    Args:
        graph: what is written into.
        arguments: the nodes that stand for the call's arguments, by place.
        state: the node for a storage that the function reached by itself.
        dims: the sizes that may change, and where they are found.
        scope: of these sizes.
        draws: whether places in streams of random numbers may be read, at each call; who calls the
            graph then moves the generators on.
    """

    def __init__(
        self,
        graph: Graph,
        arguments: Mapping[int, Node],
        state: Callable[[Storage], Node],
        dims: Dims | None = None,
        scope: SizeScope | None = None,
        *,
        draws: bool = False,
    ) -> None:
        self.graph = graph
        self.draws = draws
        self.arguments = arguments
        self.state = state
        self.places = {symbol: at for at, symbol in reversed([*(dims or {}).items()])}
        self.derived = {} if scope is None else {v[0]: v[1:] for v in scope.derived.values()}
        self.symbols: dict[str, Any] = {}
        self.sizes: dict[Any, Any] = {}
        self.values: dict[Value, Any] = {}

    def write(self, program: Program) -> NodesOfRecording:
        """All operations of a recording, in their order."""
        refuse_python(program, draws=self.draws)
        for value, source in zip(program.graph.inputs, program.sources, strict=True):
            self.values[value] = self._input(source)
        for operation in program.graph:
            self._operation(operation)
        outputs = program.graph.outputs
        results, writes = program.results, program.effects.writes
        is_copied = bool(writes)  # a result must not change with what is written afterwards
        return NodesOfRecording(
            [
                self._result(program, results.recipes[k], keeps_copies=is_copied)
                for k in results.leaves
            ],
            [(source, self.values[outputs[k]]) for source, k in writes],
        )

    def _input(self, source: Source) -> Any:
        if isinstance(source, CallArgument):
            return self.arguments[source.position]
        if isinstance(source, State):
            return self.state(source.own_storage)
        if isinstance(source, Host):
            return self._number(source.scalar)
        raise CannotWrite(f"it reads a {type(source).__name__}")

    def _number(self, scalar: HostScalar) -> Any:
        """A number of the host's: as it is now, or a node that reads it at each call."""
        if not self.draws:
            return scalar.get()
        return self.graph.call_function(HostNumberReader(scalar), (), name=scalar.name)

    def _result(self, program: Program, recipe: Any, *, keeps_copies: bool) -> Any:
        if isinstance(recipe, Constant):
            constant = recipe.value
            return constant.get() if isinstance(constant, HostScalar) else constant
        if not isinstance(recipe, Made) or recipe.chain:
            raise CannotWrite("it returns what no operation makes")
        value = program.graph.outputs[program.results.roots[recipe.root].output]
        node = self.values[value]
        if (
            not keeps_copies
            and isinstance(node, Node)
            and node.target is overload_of(REGISTRY["clone"])
        ):
            return node.args[0]  # the copy that `fresh` made
        return node

    def _operation(self, operation: Operation) -> None:
        args = tuple(self._argument(x) for x in operation.inputs)
        kwargs = {name: self._argument(x) for name, x in operation.params.items()}
        record = operation.record
        node = self.graph.call_function(overload_of(record), args, kwargs, name=record.name)
        _describe(node, operation)
        if len(operation.outputs) == 1 and record.outputs == 1:
            self.values[operation.outputs[0]] = node
            return
        for k, value in enumerate(operation.outputs):
            part = self.graph.call_function(operator.getitem, (node, k))
            part.meta = {**node.meta, "val": meta_tensor(value.spec)}
            self.values[value] = part

    def _argument(self, x: Any) -> Any:
        if isinstance(x, Value):
            return self.values[x]
        if isinstance(x, Extent):
            return self._size(x.poly)
        if isinstance(x, ExtentFloat):
            fn, *parts = x.parts
            return self.graph.call_function(fn, tuple(self._argument(p) for p in parts))
        if isinstance(x, HostScalar):
            return self._number(x)
        if isinstance(x, DataflowGraph):
            if self.places and _sized(x):
                raise CannotWrite("the body of a loop or branch depends on a size that may change")
            return x
        if isinstance(x, (tuple, list)):
            return type(x)(map(self._argument, x))
        if isinstance(x, dict):
            return {name: self._argument(item) for name, item in x.items()}
        return x

    # -- sizes ------------------------------------------------------------------------------------

    def _symbol(self, name: str) -> Any:
        if name not in self.symbols:
            if name in self.derived:
                fn, polys = self.derived[name]
                size_node = self.graph.call_function(fn, tuple(self._size(p) for p in polys))
            else:
                position, dim = self.places[name]
                argument = self.arguments[position]
                size_node = self.graph.call_function(SIZE, (argument, dim), name="sym_size")
            self.symbols[name] = size_node
        return self.symbols[name]

    def _size(self, poly: Poly) -> Any:
        """The node that computes a polynomial of sizes."""
        key = frozenset(poly.items())
        if key not in self.sizes:
            total: Any = None
            for monomial, factor in poly.items():
                term: Any = None if factor == 1 and monomial else factor
                for name in monomial:
                    term = self._call(operator.mul, term, self._symbol(name))
                total = self._call(operator.add, total, term)
            self.sizes[key] = total
        return self.sizes[key]

    def _call(self, fn: Callable[..., Any], a: Any, b: Any) -> Any:
        return b if a is None else self.graph.call_function(fn, (a, b))


SIZE: OpOverload = aten.sym_size.int


class HostNumberReader:
    """A function that reads a number of the host's."""

    def __init__(self, scalar: HostScalar) -> None:
        self.scalar = scalar
        self.__name__ = "read_number"

    def __call__(self) -> Any:
        return self.scalar.get()


def refuse_python(program: Program, *, draws: bool = False) -> None:
    """Refuse what a recording would do again in Python at each call."""
    effects = program.effects
    if effects.python is not None:
        raise CannotWrite(
            "it changes Python's own state (an attribute, a list); pass what changes and return it"
        )
    if effects.grads or any(isinstance(s, GradOf) for s in program.sources):
        raise CannotWrite("it changes `.grad` of tensors; use autograd.grad and return the result")
    moves = effects.moves
    if draws and (moves.starts or moves.everywhere is not None):
        raise CannotWrite("it seeds a generator; seed it before")
    if not draws and moves.counts:
        raise CannotWrite("it draws random numbers; call .eval(), or pass them as arguments")
    if any(isinstance(s, CallArgument) and s.whole for s in program.sources):
        raise CannotWrite("arguments share memory; give each its own: x.clone()")


def _describe(node: Node, operation: Operation) -> None:
    """Tell a node what its result looks like and which line of the program it is of."""
    looks = [meta_tensor(v.spec) for v in operation.outputs]
    node.meta["val"] = looks[0] if len(looks) == 1 else tuple(looks)
    where = operation.where
    if where is not None:
        node.meta["stack_trace"] = f'  File "{where.file}", line {where.line}'
        node.meta["module_path"] = where.module.partition(".")[2]


def meta_tensor(spec: Spec) -> Any:
    """A tensor that looks like a value and has no elements."""
    return aten.empty(tuple(map(int, spec.shape)), dtype=spec.dtype, device="meta")


def _sized(graph: DataflowGraph) -> bool:
    """Whether a body mentions a size that may change."""
    specs = [v.spec for v in graph.inputs]
    specs += [v.spec for node in graph for v in node.outputs]
    if any(isinstance(n, Extent) for spec in specs for n in spec.shape):
        return True
    return any(
        _sized(param) for node in graph for param in node.params.values()
        if isinstance(param, DataflowGraph)
    )  # fmt: skip


def memory_of(graph: Graph, node: Node, name: str, tensor: Any) -> Node:
    """All elements of a tensor's memory, as they lie there, given the node of the tensor."""
    if is_memory(tensor):
        return node
    order = _order_in_memory(name, tensor)
    node = _viewed(graph, node, "permute", tuple(tensor.shape[d] for d in order), dims=order)
    storage = tuple(tensor._storage.buffer.shape)
    return _viewed(graph, node, "reshape", storage, shape=storage)


def from_memory(graph: Graph, node: Node, name: str, tensor: Any) -> Node:
    """The opposite of `memory_of`: the tensor's elements, given the node of its memory's."""
    if is_memory(tensor):
        return node
    order = _order_in_memory(name, tensor)
    lying = tuple(tensor.shape[d] for d in order)
    node = _viewed(graph, node, "reshape", lying, shape=lying)
    return _viewed(graph, node, "permute", tuple(tensor.shape), dims=inverse_permutation(order))


def is_memory(tensor: Any) -> bool:
    """Whether a tensor has all elements of its memory, in the order of its array."""
    same = tuple(tensor.shape) == tuple(tensor._storage.buffer.shape)
    return same and _window(tensor).is_contiguous()


def _window(tensor: Any) -> Any:
    """A tensor of such strides as this one has among its array's elements, counted by rows.

    The array may itself lie in another order (`channels_last`, a copy of a transposed tensor), and
    the tensor be known by its place in memory alone (a copy of a view).
    """
    array = tensor._storage.buffer
    if array.flags.c_contiguous:
        return tensor
    if array.dtype.itemsize != tensor.dtype.itemsize:  # bytes seen as another dtype: in no order
        return aten.empty_strided(tuple(tensor.shape), [0] * tensor.ndim, dtype=tensor.dtype)
    steps = [step // array.dtype.itemsize for step in array.strides]
    room = 1 + sum((n - 1) * step for n, step in zip(array.shape, steps, strict=True))
    memory = np.full(max(room, 0), -1, np.int64)
    count = math.prod(array.shape)
    _shown(memory, array.shape, steps)[...] = np.arange(count).reshape(array.shape)
    seen = _shown(memory[tensor.storage_offset() :], tensor.shape, tensor.stride())
    start = int(seen.flat[0]) if seen.size else 0
    nexts = [np.take(seen, 1, d) if n > 1 else seen for d, n in enumerate(seen.shape)]
    strides = [int(x.flat[0]) - start if x.size else 0 for x in nexts]
    rows = start + np.tensordot(strides, np.indices(seen.shape), 1)
    if not np.array_equal(seen, rows):
        strides = [0] * seen.ndim  # they are in no order
    return aten.empty_strided(tuple(tensor.shape), strides, dtype=tensor.dtype)


def _shown(memory: Any, shape: Sequence[int], steps: Sequence[int]) -> Any:
    """What a window of these steps shows of whole numbers in memory."""
    item = memory.itemsize
    return np.lib.stride_tricks.as_strided(memory, tuple(shape), [item * step for step in steps])


def _order_in_memory(name: str, tensor: Any) -> tuple[int, ...]:
    """The dimensions of a tensor that has its memory for itself, outermost first."""
    window = _window(tensor)
    strides = window.stride()
    order = tuple(sorted(range(tensor.ndim), key=lambda d: -strides[d]))
    count = math.prod(tensor._storage.buffer.shape)
    if tensor.numel() != count or not window.permute(order).is_contiguous():
        raise CannotWrite(f"{name!r} is part of a larger tensor; give it memory of its own")
    return order


def _viewed(graph: Graph, node: Node, view: str, made_shape: tuple[int, ...], **how: Any) -> Node:
    """A node that sees another's elements by a view."""
    made = graph.call_function(overload_of(REGISTRY[view]), (node,), how, name=view)
    made.meta["val"] = aten.empty(made_shape, dtype=node.meta["val"].dtype, device="meta")
    return made


def write_(state: Any, value: Any) -> Any:
    """Give a tensor that a program holds its new elements, off the tape."""
    with CONTEXT.having(grad_enabled=False):
        return state.copy_(value.detach())


def fresh(leaves: Sequence[Any]) -> list[Any]:
    """Copies of the tensors among results, so that each is what an operation made."""
    return [x.clone() if hasattr(x, "_storage") else x for x in leaves]
