"""Graphs with the operations that have forms written in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.forms import searching as searching  # fills the table
from adjoint.engine.graph.forms.table import FORMS, Unwritten, needs_form
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.inline import Keep, splice
from adjoint.engine.graph.passes.pipeline import keeping, run_passes
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.tensor.storage import Storage

# A context in which nothing is on but a recording.
PLAIN: dict[str, Any] = {
    "grad_enabled": False, "levels": (), "autocast": None, "inference": False,
    "observers": (), "saved_hooks": (), "device": None,
}  # fmt: skip


# What is written in its form where a program is compiled, too.
COMPILED = frozenset({"searchsorted", "histc", "histogramdd", "multinomial", "argmode"})


def with_compiled_forms(
    graph: DataflowGraph, keep: Keep, takes: Callable[[Node], bool] = lambda node: False
) -> DataflowGraph:
    """A graph that went through the passes, in operations that have native code.

    `takes` says which a target has code for though they have forms.
    """

    def is_written(node: Node) -> bool:
        return _is_written(node) and not takes(node)

    if not any(map(is_written, graph.nodes)):
        return graph
    writer = FormWriter()

    def visit(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Any:
        return writer.visit(builder, node, inputs) if is_written(node) else None

    return run_passes(rebuild(graph, visit), keeping(keep))


def _is_written(node: Node) -> bool:
    """Whether a node of a compiled program is: on the CPU, of known sizes, in numbers of its own.

    Bins of halves are found in halves, which kernels compute with in float32.
    """
    specs = [v.spec for v in (*node.inputs, *node.outputs) if isinstance(v, Value)]
    return (
        node.record.name in COMPILED
        and needs_form(node)
        and not any(is_extent(n) for spec in specs for n in spec.shape)
        and all(0 not in spec.shape and spec.device.type == "cpu" for spec in specs)
        and not (node.record.name.startswith("hist") and any(spec.dtype.is_half for spec in specs))
    )


class FormWriter:
    """Writes forms, and collects the constants that they hold."""

    def __init__(self, forms: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self.forms = forms  # a target's own; None: those of the table
        self.constants: dict[Storage, Value] = {}

    def visit(self, builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Any:
        """What stands for a node's results; None where it stays."""
        if (self.forms is None and not needs_form(node)) or any(
            v.host for v in inputs if isinstance(v, Value)
        ):
            return None
        form = (FORMS if self.forms is None else self.forms)[node.record.name]
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
