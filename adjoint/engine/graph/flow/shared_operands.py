"""Operands that several graphs share: the branches of `cond`, test and body of `while_loop`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.graph.flow.trees import spec_of
from adjoint.engine.graph.ir import DataflowGraph, Value, extract
from adjoint.engine.graph.record.body import BodyTrace


class SharedOperands:
    """Operands being put together, each with its input in every graph (None: not used there)."""

    def __init__(self) -> None:
        self.operands: list[Any] = []
        self.inputs: list[tuple[Value | None, ...]] = []

    def add(self, operand: Any, *inputs: Value | None) -> None:
        """One more operand."""
        self.operands.append(operand)
        self.inputs.append(inputs)

    def add_lifted(self, *bodies: BodyTrace) -> None:
        """What recordings reached from outside, each thing once."""
        keys = dict.fromkeys(key for body in bodies for key in body.lifted)
        for key in keys:
            inputs = [body.lifted.get(key) for body in bodies]
            source = next(x.source for x in inputs if x is not None)
            self.add(source, *(None if x is None else x.value for x in inputs))

    def graphs(
        self, graphs: Sequence[DataflowGraph], outputs: Sequence[Sequence[Value]]
    ) -> list[DataflowGraph]:
        """Of each graph what computes its outputs, all taking the same inputs."""
        extracts = []
        for k, (graph, wanted) in enumerate(zip(graphs, outputs, strict=True)):
            inputs = []
            for given in self.inputs:
                like = next(v for v in given if v is not None)
                mine = given[k]
                inputs.append(Value("unused", like.spec, host=like.host) if mine is None else mine)
            extracts.append(extract(graph, inputs, wanted))
        return extracts


def check_operands(name: str, operands: Sequence[Any], graph: DataflowGraph) -> None:
    """Refuse operands that are not what a graph takes."""
    if len(operands) != len(graph.inputs):
        raise RuntimeError(f"{name}: {len(operands)} operands for {len(graph.inputs)} inputs")
    for i, (x, v) in enumerate(zip(operands, graph.inputs, strict=True)):
        if not isinstance(x, (bool, int, float, complex)) and spec_of(x) != v.spec:
            raise RuntimeError(f"{name}: operand {i} is {spec_of(x)}, the graph takes {v.spec}")
