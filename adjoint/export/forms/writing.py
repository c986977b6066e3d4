"""A recording with the operations that have forms written in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.inline import inline, splice
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.graph.record.sources import State
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.tensor.storage import Storage
from adjoint.export.forms import frames as frames  # fills the table
from adjoint.export.forms import matrices as matrices
from adjoint.export.forms import searching as searching
from adjoint.export.forms.table import FORMS, Unwritten, needs_form

# A context in which nothing is on but a recording.
PLAIN: dict[str, Any] = {
    "grad_enabled": False, "levels": (), "autocast": None, "inference": False,
    "observers": (), "saved_hooks": (), "device": None,
}  # fmt: skip


def with_forms(task: Task) -> Task:
    """The task in operations that have native code; what forms hold is among its inputs."""
    if not _has_forms(task.graph):
        return task
    writer = FormWriter()
    inlined = inline(task.graph, lambda node, inputs: not _inside(node))
    graph = rebuild(inlined, writer.visit)
    storages = list(writer.constants)
    return replace(
        task,
        graph=graph,
        sources=(*task.sources, *map(State, storages)),
        examples=(*task.examples, *(np.asarray(storage.buffer) for storage in storages)),
        sizing=None,  # how a form goes about it may depend on sizes
    )


def _has_forms(graph: DataflowGraph) -> bool:
    return any(needs_form(node) or _inside(node) for node in graph.nodes)


def _inside(node: Node) -> bool:
    """Whether a composite is made of operations that have forms."""
    composed = None if node.record.compose is None else node.subgraph
    return composed is not None and _has_forms(composed)


class FormWriter:
    """Writes forms, and collects the constants that they hold."""

    def __init__(self) -> None:
        self.constants: dict[Storage, Value] = {}

    def visit(self, builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Any:
        """What stands for a node's results; None where it stays."""
        if not needs_form(node) or any(v.host for v in inputs if isinstance(v, Value)):
            return None
        form = FORMS[node.record.name]
        inner = Trace()
        given = [
            inner.wrap(inner.graph.add_input(x.spec)) if isinstance(x, Value) else x for x in inputs
        ]
        try:
            with CONTEXT.having(**PLAIN, capture=inner):
                result = form(*given, **node.params)
                many = result if isinstance(result, tuple) else (result,)
                inner.graph.outputs = [inner.value_of(t) for t in many]
        except Unwritten:
            return None
        constants = self._held(builder, inner.sources, inner.graph.inputs[-len(inner.sources) :])
        operands = [x for x in inputs if isinstance(x, Value)]
        return splice(builder.graph, inner.graph, (*operands, *constants))

    def _held(
        self, builder: GraphBuilder, sources: Sequence[Any], values: Sequence[Value]
    ) -> list[Value]:
        """The constants that a form reached, as inputs of the program."""
        constants = []
        for source, value in zip(sources, values, strict=False):
            storage = source.own_storage
            if storage not in self.constants:
                self.constants[storage] = builder.graph.add_input(value.spec)
            constants.append(self.constants[storage])
        return constants
