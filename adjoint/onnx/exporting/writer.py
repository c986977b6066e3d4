"""What an ONNX graph is written with: names, constants, and sizes that are computed."""

from __future__ import annotations

import operator as arithmetic
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.core.availability.libraries import need
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.spec import has_symbols
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat, Poly
from adjoint.onnx.types import ARRAYS, NUMBERS, array_of

Emitter = Callable[["NodeWriter", Node], "Sequence[str] | str"]
EMITTERS: dict[str, Emitter] = {}
# Functions of tensors, by the names of records that have no form of their own.
REWRITES: dict[str, Callable[..., Any]] = {}
_OF_SIZES: dict[Any, str] = {arithmetic.floordiv: "Div", min: "Min", max: "Max"}
# What floats are computed from dynamic sizes by.
_ARITHMETIC = {
    arithmetic.add: "Add",
    arithmetic.sub: "Sub",
    arithmetic.mul: "Mul",
    arithmetic.truediv: "Div",
    arithmetic.pow: "Pow",
}


_NO_FORM = "it has no form in ONNX, and is not composed of operations that do"


class NoForm(Exception):
    """An operation that cannot be said in ONNX; why."""


def emits(*names: str) -> Callable[[Emitter], Emitter]:
    """Enter an emitter for the records of these names."""

    def enter(emitter: Emitter) -> Emitter:
        for name in names:
            EMITTERS[name] = emitter
        return emitter

    return enter


def real_parts(array: Any) -> Any:
    """An array of complex numbers as pairs of real ones; another as it is."""
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], -1)


def _values(node: Node) -> list[Value]:
    return [x for x in node.inputs if isinstance(x, Value)]


def _settled(node: Node) -> bool:
    """Whether a node gives the same whenever it runs."""
    loose = any(has_symbols(part) for part in (node.inputs, node.params))
    return not (_values(node) or loose or node.record.draws)


def _no_complex(w: Any, node: Node) -> Sequence[str]:
    raise NoForm("runtimes of ONNX compute with no complex numbers")


@dataclass
class Shared:
    """What a graph shares with the graphs inside it."""

    opset: int
    symbols: dict[str, tuple[str, int]]  # a dynamic size -> the input and the dimension it is of
    stated: list[Any] = field(default_factory=list)  # nodes of constants, which lead the graph
    constants: dict[Any, str] = field(default_factory=dict)
    count: int = 0
    failures: list[tuple[Node, str]] = field(default_factory=list)
    draws: bool = False
    # Sizes that values decide, each with the node that has it first and which of its results.
    deciding: dict[str, tuple[Node, int, int]] = field(default_factory=dict)
    complex_outputs: Callable[..., Sequence[str]] = _no_complex
    producers: dict[Value, Node] = field(default_factory=dict)  # of the recording's values
    weights: dict[str, Any] = field(default_factory=dict)  # what the model holds, by name
    halves: dict[str, str] = field(default_factory=dict)  # weights of 4 bits -> bytes that hold two


class NodeWriter:
    """Nodes under way, and the names of values."""

    def __init__(self, shared: Shared, outer: NodeWriter | None = None) -> None:
        self.onnx = need("onnx", "onnx.export")
        self.shared = shared
        self.nodes: list[Any] = []
        self.names: dict[Value, str] = dict(outer.names) if outer else {}
        self.sizes: dict[Any, str] = dict(outer.sizes) if outer else {}
        # Of the layer that nodes come from, "GPT.blocks.0.mlp": in their names and metadata.
        self.module: str = outer.module if outer else ""

    @property
    def opset(self) -> int:
        return self.shared.opset

    def fresh(self, hint: str = "v") -> str:
        self.shared.count += 1
        return f"{hint}_{self.shared.count}"

    def emit(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; the name of its output, or of its outputs."""
        names = [self.fresh(op.lower()) for _ in range(outputs)]
        given = {k: v for k, v in attributes.items() if v is not None}
        place = f"{self.module}/" if self.module else "n_"
        node = self.onnx.helper.make_node(
            op, list(inputs), names, self.fresh(f"{place}{op}"), **given
        )
        if self.module:
            node.metadata_props.add(key="module", value=self.module)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def constant(self, value: Any, kind: Any = None) -> str:
        """The name of a constant."""
        array = np.asarray(value, dtype=kind)
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self.shared.constants:
            name = self.fresh("c")
            tensor = self.onnx.numpy_helper.from_array(array)
            self.shared.stated.append(
                self.onnx.helper.make_node("Constant", [], [name], value=tensor)
            )
            self.shared.constants[key] = name
        return self.shared.constants[key]

    def number(self, value: Any, dtype: DType) -> str:
        """A Python number as a scalar of a dtype; a dynamic size is computed."""
        if isinstance(value, Extent):
            return self.cast_name(self.emit("Squeeze", self.size(value)), dtype)
        if isinstance(value, ExtentFloat):
            combine, *parts = value.parts
            operands = [self.number(part, ad.float64) for part in parts]
            return self.cast_name(self.emit(_ARITHMETIC[combine], *operands), dtype)
        return self.constant(np.array(value).astype(ARRAYS[dtype]))

    def cast_name(self, name: str, dtype: DType) -> str:
        return self.emit("Cast", name, to=NUMBERS[ARRAYS[dtype]])

    def operand(self, x: Any, dtype: DType | None = None) -> str:
        """An input of a node, in a dtype."""
        if not isinstance(x, Value):
            if dtype is None:
                raise NoForm(f"the number {x!r} has no dtype here")
            return self.number(x, dtype)
        name = self.names[x]
        return name if dtype is None or x.spec.dtype is dtype else self.cast_name(name, dtype)

    # -- sizes ----------------------------------------------------------------------------------

    def size(self, value: int) -> str:
        """A size as a tensor of one element."""
        if not isinstance(value, Extent):
            return self.constant([int(value)], np.int64)
        return self._polynomial(value.poly, value.scope)

    def _polynomial(self, poly: Poly, scope: Any) -> str:
        key = frozenset(poly.items())
        if key in self.sizes:
            return self.sizes[key]
        terms = []
        for monomial, factor in poly.items():
            factors = [self._symbol(s, scope) for s in monomial]
            if factor != 1 or not factors:
                factors.append(self.constant([factor], np.int64))
            term = factors[0]
            for other in factors[1:]:
                term = self.emit("Mul", term, other)
            terms.append(term)
        total = terms[0] if terms else self.constant([0], np.int64)
        for term in terms[1:]:
            total = self.emit("Add", total, term)
        self.sizes[key] = total
        return total

    def _symbol(self, name: str, scope: Any) -> str:
        if name in self.sizes:
            return self.sizes[name]
        of = self.shared.symbols.get(name) or self.counted(name)
        if of is not None:
            size = self.emit("Shape", of[0], start=of[1], end=of[1] + 1)
        else:
            known = ((f, a) for n, f, a in scope.derived.values() if n == name)
            fn, args = next(known, (None, ()))
            if fn is None:
                raise NoForm("a size is used outside of the branch in which values decide it")
            if fn not in _OF_SIZES:
                raise NoForm(f"a size is computed by {fn}")
            whole, part = (self._polynomial(a, scope) for a in args)
            if fn is arithmetic.floordiv:  # Div rounds to zero, and -(-n // 2) rounds up
                whole = self.emit("Sub", whole, self.emit("Mod", whole, part))
            size = self.emit(_OF_SIZES[fn], whole, part)
        self.sizes[name] = size
        return size

    def shape(self, sizes: Sequence[int]) -> str:
        """Sizes as one tensor."""
        if not any(isinstance(n, Extent) for n in sizes):
            return self.constant([int(n) for n in sizes], np.int64)
        return self.emit("Concat", *[self.size(n) for n in sizes], axis=0)

    def ints(self, values: Sequence[int]) -> str:
        return self.constant([int(v) for v in values], np.int64)

    # -- graphs ---------------------------------------------------------------------------------

    def write(self, graph: DataflowGraph, wanted: Sequence[Value] | None = None) -> None:
        """Nodes for the nodes of a graph that its outputs need; what fails is noted."""
        needed = set(graph.outputs if wanted is None else wanted)
        chosen = []
        for node in reversed(graph.nodes):
            if any(v in needed for v in node.outputs):
                chosen.append(node)
                needed.update(x for x in node.inputs if isinstance(x, Value))
        for node in reversed(chosen):
            self.write_node(node, needed)

    def write_node(self, node: Node, needed: set[Value]) -> None:
        used = tuple(v in needed for v in node.outputs)
        outer = self.module
        if node.where is not None and node.where.module:
            self.module = node.where.module
        try:
            names = self.outputs_of(node, used)
        except NoForm as error:
            self.shared.failures.append((node, str(error)))
            names = [self.fresh("missing") for _ in node.outputs]
        finally:
            self.module = outer
        self.names.update(zip(node.outputs, names, strict=False))

    def counted(self, name: str) -> tuple[str, int] | None:
        """What has a size that values decide, and its dimension; None if it is of another kind."""
        if name not in self.shared.deciding:
            return None
        node, output, dim = self.shared.deciding[name]
        self.write_late(node.outputs[output])
        return self.names[node.outputs[output]], dim

    def write_late(self, value: Value) -> None:
        """A value's node and those that it needs, as far as they are not written."""
        if value in self.names or value not in self.shared.producers:
            return
        node = self.shared.producers[value]
        for operand in _values(node):
            self.write_late(operand)
        self.write_node(node, set(node.outputs))

    def outputs_of(self, node: Node, used: tuple[bool, ...]) -> Sequence[str]:
        """The names of a node's outputs: by its emitter, else by what it is composed of."""
        inner = node.subgraph
        if inner is None and any(v.spec.dtype.is_complex for v in (*node.outputs, *_values(node))):
            if _settled(node):
                return self.computed(node)
            return self.shared.complex_outputs(self, node)
        emitter, reason = EMITTERS.get(node.record.name), _NO_FORM
        if emitter is not None:
            try:
                outputs = emitter(self, node)
                names = [outputs] if isinstance(outputs, str) else list(outputs)
                if len(names) >= max((k + 1 for k, u in enumerate(used) if u), default=0):
                    return [*names, *[""] * (len(node.outputs) - len(names))]
            except NoForm as error:
                reason = str(error)
        if inner is None:
            if node.record.name in REWRITES:
                return self.rewritten(node, REWRITES[node.record.name])
            if _settled(node):
                return self.computed(node)
            raise NoForm(reason)
        for formal, actual in zip(inner.inputs, node.inputs, strict=True):
            self.names[formal] = self.operand(actual, formal.spec.dtype)
        self.write(inner)
        return [self.names[v] for v in inner.outputs]

    def rewritten(
        self, node: Node, function: Callable[..., Any], pairs: Callable[[Any], Any] | None = None
    ) -> Sequence[str]:
        """What stands for a node whose record has no form, recorded on its operands.

        Complex ones have their parts in a last dimension, and are given as `pairs`.
        """
        graph = ad.Graph()
        with ad.no_grad(), graph:
            operands: list[Any] = []
            for k, x in enumerate(node.inputs):
                if not isinstance(x, Value):
                    operands.append(x)
                elif pairs is not None and x.spec.dtype.is_complex:
                    shape, dtype = (*x.spec.shape, 2), x.spec.dtype.to_real()
                    operands.append(pairs(graph.placeholder(shape, dtype, f"x{k}")))
                else:
                    operands.append(graph.placeholder(x.spec.shape, x.spec.dtype, f"x{k}"))
            tensors = function(*operands, **node.params)
            results = tensors if isinstance(tensors, tuple) else (tensors,)
            typed = [
                x.parts.to(v.spec.dtype.to_real())
                if v.spec.dtype.is_complex
                else x.to(v.spec.dtype)
                for x, v in zip(results, node.outputs, strict=True)
            ]
            outputs = [graph.trace.value_of(x) for x in typed]
        fed = {graph.names[f"x{k}"]: x for k, x in enumerate(node.inputs) if isinstance(x, Value)}
        for value, actual in fed.items():
            self.names[value] = self.names[actual]
        for value, source in zip(graph.body.inputs, graph.trace.sources, strict=True):
            if value not in fed:
                self.names[value] = self.constant(real_parts(array_of(source.given(()))))
        self.write(graph.body, outputs)
        return [self.names[v] for v in outputs]

    def computed(self, node: Node) -> Sequence[str]:
        """The results of a node that depends on no input, as constants."""
        with ad.no_grad():
            results = node.record(*node.inputs, **node.params)
        return [
            self.constant(real_parts(array_of(x)))
            for x in (results if isinstance(results, tuple) else (results,))
        ]

    def body(
        self, graph: DataflowGraph, inputs: Sequence[Value], name: str, before: Sequence[Any] = ()
    ) -> tuple[NodeWriter, list[Any]]:
        """A writer for a graph inside this one, and what its inputs look like."""
        inner = NodeWriter(self.shared, self)
        formals = [*before]
        for value in inputs:
            inner.names[value] = self.fresh("in")
            formals.append(self.info(inner.names[value], value))
        return inner, formals

    def info(self, name: str, value: Value) -> Any:
        """What a value looks like: dynamic sizes are left open."""
        dims = [None if isinstance(n, Extent) else int(n) for n in value.spec.shape]
        return self.onnx.helper.make_tensor_value_info(
            name, NUMBERS[ARRAYS[value.spec.dtype]], dims
        )

    def closed(
        self, outputs: Sequence[tuple[str, Value]], formals: Sequence[Any], name: str
    ) -> Any:
        """The graph that was written: each output has a name of its own."""
        infos = []
        for source, value in outputs:
            own = self.fresh("out")
            self.nodes.append(self.onnx.helper.make_node("Identity", [source], [own]))
            infos.append(self.info(own, value))
        return self.onnx.helper.make_graph(self.nodes, name, list(formals), infos)
