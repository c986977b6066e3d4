"""How gradients lie in memory, which depends on how the cotangents do.

A derivative is recorded for cotangents that lie row by row, as most do. For others its tape is
followed once more, with tensors of their strides, when somebody can see how the gradients lie:
whoever asked for them (`autograd.grad`), hooks, and the rest of the tape. A leaf that is given its
gradient lays it out as itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.autodiff.tape.node import Edge
from adjoint.engine.capture.backward.derivative import Derivative, Strides, Tape
from adjoint.engine.capture.program.layouts import laid_out, permuted_strides
from adjoint.engine.core.layout import strided
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.backward_graph import outward
from adjoint.engine.graph.record.trace import TRACING

CotangentStrides = tuple[Strides, ...]
LAYOUTS = 8  # of cotangents for which something is kept


def cotangent_strides(derivative: Derivative, grads: Sequence[Any]) -> CotangentStrides:
    """The strides of cotangents; None where they are row-major, or nobody can follow them."""
    if not _followable(derivative):
        return (None,) * len(grads)
    return tuple(
        [permuted_strides(g) if is_tensor(g) and g.layout is strided else None for g in grads]
    )


def _followable(derivative: Derivative) -> bool:
    return derivative.tape is not None and derivative.resized is None  # else sizes are symbols


def lay_out(
    derivative: Derivative,
    arrays: list[Any],
    grads: Sequence[Any],
    edges: Sequence[Edge | None],
    needed: Sequence[bool] | None,
) -> None:
    """Have gradients lie as in eager execution, as far as anybody sees that."""
    seen = [
        i
        for i, edge in enumerate(edges)
        if (not _accumulates(edge) if needed is None else needed[i])
        and arrays[i] is not None
        and arrays[i].ndim
    ]
    if not seen:
        return
    given = cotangent_strides(derivative, grads)
    asked = frozenset([i for i, g in enumerate(grads) if g is not None])
    strides = derivative.strides
    if any(given) or (len(asked) < len(grads) and _followable(derivative)):
        strides = _strides_for(derivative, given, asked)
    for i in seen:
        wanted = strides[i]
        if wanted is not None:
            arrays[i] = laid_out(arrays[i], wanted)


def _accumulates(edge: Edge | None) -> bool:
    """Whether a gradient goes to a leaf without hooks, or to nobody."""
    return edge is None or (is_tensor(edge[0]) and not getattr(edge[0]._grad_meta, "hooks", None))


def _strides_for(
    derivative: Derivative, given: CotangentStrides, asked: frozenset[int]
) -> list[Strides]:
    """The strides of the gradients for cotangents of these strides, the `asked` ones alone."""
    known = derivative.strides_by_cotangents
    if known is None or len(known) >= LAYOUTS:
        known = derivative.strides_by_cotangents = {}
    if (given, asked) not in known:
        known[given, asked] = _followed(derivative, given, asked)
    return known[given, asked]


def _followed(
    derivative: Derivative, given: CotangentStrides, asked: frozenset[int]
) -> list[Strides]:
    tape: Tape = derivative.tape  # type: ignore[assignment]
    trace = tape.trace
    before = set(trace.cells)
    with TRACING, tape.resumed(), CONTEXT.having(grad_enabled=False):
        roots = [
            (edge, trace.wrap(trace.graph.add_input(spec), strides))
            for i, ((edge, spec), strides) in enumerate(zip(tape.seeds, given, strict=True))
            if i in asked and i not in derivative.refused
        ]
        gradients = outward(trace, roots)
        strides_of = {edge: permuted_strides(g) for edge, g in gradients.items()}
    for identity in trace.cells.keys() - before:
        del trace.cells[identity]
    return [strides_of.get(end) for end in tape.ends]
