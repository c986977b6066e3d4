"""A recording with the operations that have forms written in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.forms.table import needs_form
from adjoint.engine.graph.forms.writing import FormWriter
from adjoint.engine.graph.ir import DataflowGraph, Node
from adjoint.engine.graph.passes.inline import inline
from adjoint.engine.graph.passes.rewrite import rebuild
from adjoint.engine.graph.record.sources import State
from adjoint.export.forms import frames as frames  # fills the table
from adjoint.export.forms import matrices as matrices


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
