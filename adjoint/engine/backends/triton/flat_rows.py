"""Rows in several dimensions as rows in one, where kernels also sum them up.

A norm's backward reduces rows and sums columns in one kernel, by parts of some rows (Note [column
sums], compiler.fuse). Parts of a batch of sequences whose length no part divides, say 197 tokens,
begin and end within sequences: so what is done to each element, and to each row, is done to rows
in one dimension there.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.triton.choices import is_pointwise
from adjoint.engine.core.spec import is_known
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.ops.shape.views import RESHAPE

Shape = tuple[int, ...]


def flatten_rows(graph: DataflowGraph, part: int) -> DataflowGraph:
    """The graph with such rows in one dimension; parts have about so many of them."""
    shapes = summed_both_ways(graph, part)
    return dce(Flattening(graph, shapes).run()) if shapes else graph


def summed_both_ways(graph: DataflowGraph, part: int) -> set[Shape]:
    """Shapes of values whose rows are reduced and whose columns are summed up, in odd parts."""
    rows: set[Shape] = set()
    columns: set[Shape] = set()
    for node in graph.nodes:
        if node.record.reduces and isinstance(node.inputs[0], Value):
            shape = node.inputs[0].spec.shape
            if len(shape) > 2 and all(map(is_known, shape)) and shape[-2] % part:
                found = rows if is_along_rows(node) else columns if is_down_columns(node) else None
                if found is not None:
                    found.add(shape)
    return {shape for shape in rows & columns if prod(shape[:-1]) % part == 0}


def is_along_rows(node: Node) -> bool:
    """Whether a reduction is one of each row, which stays a row of one element."""
    last = len(node.inputs[0].spec.shape) - 1
    return tuple(node.params["dims"]) == (last,) and bool(node.params["keepdim"])


def is_down_columns(node: Node) -> bool:
    """Whether a reduction is one of each column."""
    last = len(node.inputs[0].spec.shape) - 1
    return tuple(node.params["dims"]) == tuple(range(last)) and not node.params["keepdim"]


class Flattening:
    """Builds the new graph."""

    def __init__(self, graph: DataflowGraph, shapes: set[Shape]) -> None:
        self.source, self.builder = graph, GraphBuilder(graph)
        self.shapes = shapes | {(*shape[:-1], 1) for shape in shapes}

    def run(self) -> DataflowGraph:
        builder = self.builder
        for node in self.source.nodes:
            builder.graph.where = node.where
            inputs = builder.translate(node.inputs)
            value = self.visit(node, inputs)
            if value is None:
                builder.keep(node, inputs)
            else:
                builder.replace(node, (value,))
        return builder.finish(self.source)

    def visit(self, node: Node, inputs: tuple[Any, ...]) -> Value | None:
        """What a node becomes; None: it stays."""
        if node.record is RESHAPE:
            return self.reshaped(inputs[0], node.outputs[0].spec.shape)
        shape = node.outputs[0].spec.shape
        if is_pointwise(node) and len(node.outputs) == 1 and shape in self.shapes:
            if node.record.draws or not all(self.is_fitting(x, shape) for x in inputs):
                return None
            flat = self.builder.emit(node.record, *map(self.flat, inputs), **node.params)
            return self.reshaped(flat, shape)
        if node.record.reduces and len(inputs) == 1 and inputs[0].spec.shape in self.shapes:
            return self.reduced(node, inputs[0])
        return None

    def reduced(self, node: Node, x: Value) -> Value | None:
        """A reduction of rows or of columns."""
        shape, rows = node.outputs[0].spec.shape, is_along_rows(node)
        if not rows and not is_down_columns(node):
            return None
        params = {**node.params, "dims": (1,) if rows else (0,)}
        return self.reshaped(self.builder.emit(node.record, self.flat(x), **params), shape)

    def is_fitting(self, x: Any, shape: Shape) -> bool:
        """Whether an operand is rows of the same number, one row for all, or a number."""
        if not isinstance(x, Value) or x.host or not x.spec.shape:
            return True
        own = x.spec.shape
        return len(own) == 1 or (own in self.shapes and own[:-1] == shape[:-1])

    def flat(self, x: Any) -> Any:
        """An operand with its rows in one dimension."""
        if not isinstance(x, Value) or x.host or len(x.spec.shape) < 2:
            return x
        return self.reshaped(x, (prod(x.spec.shape[:-1]), x.spec.shape[-1]))

    def reshaped(self, x: Value, shape: Shape) -> Value:
        """A value in another shape: one view of what it is a view of."""
        while x.node is not None and x.node.record is RESHAPE:
            x = x.node.inputs[0]
        return x if x.spec.shape == shape else self.builder.emit(RESHAPE, x, shape=shape)
