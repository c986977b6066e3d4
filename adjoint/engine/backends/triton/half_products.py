"""Products of halves that were written in float32, as products of halves.

Note [narrow products]
    Operations on halves round once, at the end: their products are of float32 operands that were
    halves. Tensor cores multiply halves and add up in float32, which is the same sum. So a product
    whose operands are all halves in float32 becomes one of the halves with a result in float32,
    or in halves, where nothing but a cast to them reads it. A factor that is a power of two does
    not round a bfloat16, and moves to the operand. A product in bfloat16 that is handed out in
    float32, or that rows are added to, is written in float32: what is rounded between has the
    same range.

Note [biases]
    A product that is only read to add a vector to all of its rows takes that as a third operand:
    cuBLASLt adds it before the result is rounded and written (halves: once, not twice). So it does
    where the product is of rows, and the sum of more dimensions.
"""

from __future__ import annotations

from math import frexp
from typing import Any

from adjoint.engine.backends.triton.choices import is_plain_view
from adjoint.engine.backends.triton.templates.attention import BACKWARD
from adjoint.engine.compiler.lower.legalise import empty
from adjoint.engine.core.dtype import DType, bfloat16, float32
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.ops.nn.losses.classification import ROW_STATISTICS
from adjoint.engine.ops.nn.normalization import MOMENTS
from adjoint.engine.ops.shape.views import RESHAPE

STATISTICS = {ROW_STATISTICS.name, MOMENTS.name}  # that are found in float32 whatever they read
SMALL, LARGE = 2.0**-16, 2.0**16  # factors that lose nothing of a bfloat16 worth having


def narrow(graph: DataflowGraph) -> DataflowGraph:
    """The graph with products of halves as such."""
    return dce(Narrowing(graph).run())


class Narrowing:
    """Builds the new graph."""

    def __init__(self, graph: DataflowGraph) -> None:
        self.source = graph
        self.builder = GraphBuilder(graph)
        self.users: dict[Value, int] = {}
        for node in graph.nodes:
            for x in node.inputs:
                if isinstance(x, Value):
                    self.users[x] = self.users.get(x, 0) + 1
        for value in graph.outputs:
            self.users[value] = self.users.get(value, 0) + 2
        # Values that lie in memory, and are not read by loops that could widen halves.
        bases = [n.inputs[0] for n in graph.nodes if n.record.name == "index_put"]
        self.handed = {*graph.outputs, *bases}
        self.narrowed: set[Value] = set()

    def run(self) -> DataflowGraph:
        builder = self.builder
        # Inputs are converted first, all in one launch; products read them forward and backward.
        first = [node for node in self.source.nodes if converts_an_input(node)]
        known = set(first)
        for node in [*first, *(n for n in self.source.nodes if n not in known)]:
            builder.graph.where = node.where
            inputs = builder.translate(node.inputs)
            values = self.visit(node, inputs)
            if values is None:
                builder.keep(node, inputs)
            else:
                builder.replace(node, values)
        return builder.finish(self.source)

    def visit(self, node: Node, inputs: tuple[Any, ...]) -> tuple[Value, ...] | None:
        name = node.record.name
        if name == "matmul" and node.outputs[0].spec.dtype is float32:
            return self.product(node, inputs)
        if name == BACKWARD and half_of(inputs[4]) is inputs[0].spec.dtype:
            given = (*inputs[:4], self.half(inputs[4]), *inputs[5:])
            specs = tuple(v.spec for v in node.outputs)
            return self.builder.graph.add_node(node.record, given, node.params, specs)
        if name in STATISTICS and half_of(inputs[0]) is not None:
            specs = tuple(v.spec for v in node.outputs)
            given = (self.half(inputs[0]),)
            return self.builder.graph.add_node(node.record, given, node.params, specs)
        if name == "cast" and node.outputs[0].spec.dtype.is_half:
            narrowed = self.result(node.inputs[0], inputs[0], node.outputs[0].spec.dtype)
            return None if narrowed is None else (narrowed,)
        if name == "cast" and node.outputs[0].spec.dtype is float32:
            return self.unrounded(node, inputs[0])
        if name == "add" and len(inputs) == 2:
            return self.biased(node, inputs)
        return None

    def biased(self, node: Node, inputs: tuple[Any, ...]) -> tuple[Value, ...] | None:
        """A vector added to the rows of a product that nothing else reads (Note [biases])."""
        if (
            inputs[1].__class__ is float
            and not inputs[1]
            and is_sum(inputs[0])
            and inputs[0].spec == node.outputs[0].spec
        ):
            return (inputs[0],)
        for old, x, bias in zip(node.inputs, inputs, inputs[::-1], strict=True):
            if not (is_device_tensor(x) and is_device_tensor(bias)):
                continue
            out, made = node.outputs[0].spec, self.product_of(old, x)
            if made is None or x.spec != out or bias.spec.dtype is not out.dtype:
                continue
            if not (out.dtype is float32 or out.dtype.is_half):
                continue
            if not bias.spec.shape == made.spec.shape[-1:] == out.shape[-1:]:
                continue
            (result,) = self.again(made, made.spec, bias)
            if made in self.narrowed:
                self.narrowed.add(result)
            return (result if made is x else self.builder.emit(RESHAPE, result, shape=out.shape),)
        return None

    def product_of(self, old: Value, x: Value) -> Value | None:
        """The product that a value is, or that it shows in another shape; nothing else reads it."""
        while self.users.get(old) == 1 and x.node is not None and old.node is not None:
            if is_matmul(x):
                return x
            if not x.node.record is old.node.record is RESHAPE:
                return None
            old, x = old.node.inputs[0], x.node.inputs[0]
        return None

    def unrounded(self, node: Node, x: Value) -> tuple[Value, ...] | None:
        """A product in bfloat16 that is handed out in float32."""
        if node.outputs[0] not in self.handed or self.users.get(node.inputs[0]) != 1:
            return None
        if not is_matmul(x) or x.spec.dtype is not bfloat16:
            return None
        return self.again(x, node.outputs[0].spec)

    def again(self, x: Value, spec: Spec, *more: Value) -> tuple[Value, ...]:
        """A product with another result, or with a bias."""
        node = x.node
        assert node is not None
        return tuple(
            self.builder.graph.add_node(node.record, (*node.inputs, *more), node.params, (spec,))
        )

    def product(self, node: Node, inputs: tuple[Any, ...]) -> tuple[Value, ...] | None:
        """A product in float32 of what were halves."""
        dtypes = {half_of(x) for x in inputs}
        if len(dtypes) != 1 or None in dtypes or empty(node, inputs):
            return None
        halves = tuple(self.half(x) for x in inputs)
        results = self.builder.graph.add_node(
            node.record, halves, node.params, (node.outputs[0].spec,)
        )
        self.narrowed.add(results[0])
        return tuple(results)

    def half(self, x: Value) -> Value:
        """The half that a float32 was (`half_of` says that it was one)."""
        node = x.node
        assert node is not None
        if node.record.name == "cast":
            return node.inputs[0]
        if node.record.name == "mul":
            y, factor = factored(node)
            return self.builder.emit(node.record, self.half(y), factor)
        return self.builder.emit(node.record, self.half(node.inputs[0]), **node.params)

    def result(self, old: Value, x: Value, dtype: DType) -> Value | None:
        """A product's result as a half, where nothing else reads it."""
        if self.users.get(old, 0) != 1 or x.node is None or old.node is None:
            return None
        node = x.node
        if x in self.narrowed:
            if node.inputs[0].spec.dtype is not dtype:
                return None
            given = node.inputs
            if len(given) > 2:  # a bias is of the dtype of the result
                if half_of(given[2]) is not dtype:
                    return None
                given = (*given[:2], self.half(given[2]))
            spec = Spec(x.spec.shape, dtype, x.spec.device)
            return self.builder.graph.add_node(node.record, given, node.params, (spec,))[0]
        if not is_plain_view(node):
            return None
        inner = self.result(old.node.inputs[0], node.inputs[0], dtype)
        return None if inner is None else self.builder.emit(node.record, inner, **node.params)


def converts_an_input(node: Node) -> bool:
    """Whether a node is an input's, say a weight's, conversion to halves."""
    if node.record.name != "cast" or not is_device_tensor(node.inputs[0]):
        return False
    x: Value = node.inputs[0]
    return x.node is None and node.outputs[0].spec.dtype.is_half


def is_device_tensor(x: Any) -> bool:
    """Whether an operand lies in memory."""
    return isinstance(x, Value) and not x.host


def is_sum(x: Value) -> bool:
    """Whether a value is a view of attention's gradients: sums that began with zero."""
    while x.node is not None and is_plain_view(x.node):
        x = x.node.inputs[0]
    return x.node is not None and x.node.record.name == BACKWARD


def is_matmul(x: Value) -> bool:
    """Whether a value is a matrix product's, of which nothing was made yet.

    Those of no elements stay as they are: the eager table has them, and takes two operands.
    """
    node = x.node
    if node is None or node.record.name != "matmul" or len(node.inputs) != 2:
        return False
    return not empty(node, node.inputs)


def half_of(x: Any) -> DType | None:
    """The dtype of the half that a float32 is no more than."""
    node = x.node if isinstance(x, Value) else None
    if node is None:
        return None
    if node.record.name == "cast":
        dtype: DType = node.inputs[0].spec.dtype
        return dtype if dtype.is_half and x.spec.dtype is float32 else None
    if is_plain_view(node):
        return half_of(node.inputs[0])
    if node.record.name == "mul":
        y, factor = factored(node)
        exact = (
            factor is not None and frexp(abs(factor))[0] == 0.5 and SMALL <= abs(factor) <= LARGE
        )
        return bfloat16 if exact and half_of(y) is bfloat16 else None
    return None


def factored(node: Node) -> tuple[Any, float | None]:
    """A product's tensor, and the number it is multiplied by."""
    x, y = node.inputs
    if isinstance(x, (int, float)):
        x, y = y, x
    plain = isinstance(x, Value) and not x.host and isinstance(y, (int, float)) and y == y and y
    return (x, float(y)) if plain and abs(y) != float("inf") else (x, None)
