"""What a function of tensors reads of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten
from adjoint.engine.graph.eager.recorded import OperationTrace
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.passes.cse import cse
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.inline import inline
from adjoint.engine.graph.passes.unmark import unmark
from adjoint.engine.tensor.tensor import Tensor


def what_is_read(tensors: Sequence[Tensor], fn: Callable[[], Any]) -> set[int] | None:
    """By id, which of these a function reads elements of; None where it reads others."""
    body = OperationTrace(None, "a rule")
    try:
        with CONTEXT.having(grad_enabled=False):
            out = body.run(fn)
        leaves, _ = flatten(out)
        lifted = {id(source.value): source.source for source in body.lifted.values()}
        graph = body.finish([x for x in leaves if x is not None])
        graph = dce(cse(unmark(inline(graph))))
        used = {id(x) for node in graph.nodes for x in node.inputs if x.__class__ is Value}
        used |= {id(x) for x in graph.outputs}
        read = {id(source) for value, source in lifted.items() if value in used}
        return read if read <= {id(x) for x in tensors} else None
    finally:
        body.lifted.clear()  # operands would be held until the collector comes
