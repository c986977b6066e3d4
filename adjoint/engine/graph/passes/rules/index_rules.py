"""Rules of indexing for `simplify`: indices that count upwards are a slice; casts come after."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.graph.passes.rules.algebra import Inputs, Params, made_by, number_in
from adjoint.engine.ops.elementwise.arithmetic import ADD
from adjoint.engine.ops.index.gather import GATHER
from adjoint.engine.ops.shape.convert import CAST
from adjoint.engine.ops.shape.views import SLICE, VIEW_SCATTER


def as_slice(index: Any, shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """SLICE's index for what one arange picks along one dimension, or None."""
    node = made_by(index, "arange")
    if node is None or len(dims) != 1:
        return None
    start, step, length = (node.params[k] for k in ("start", "step", "length"))
    if not (type(start) is type(step) is int) or start < 0 or step < 1 or length < 1:
        return None
    stop = start + (length - 1) * step + 1
    if stop > shape[dims[0]]:
        return None  # the error is the operation's to raise
    entries: list[tuple[int, int, int]] = [(0, n, 1) for n in shape]
    entries[dims[0]] = (start, stop, step)
    return tuple(entries)


def simplify_index(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """x[arange]."""
    x = inputs[0]
    index = as_slice(inputs[1], x.spec.shape, params["dims"]) if len(inputs) == 2 else None
    return None if index is None else b.emit(SLICE, x, index=index)


def simplify_index_put(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """x[arange] = y, or += y, which counts no place twice."""
    if len(inputs) != 3:
        return None
    x, y, places = inputs
    index = as_slice(places, x.spec.shape, params["dims"])
    shown = None if index is None else SLICE.infer(x.spec, index=index)
    if shown is None or y.spec != shown:
        return None
    if params["accumulate"]:
        before = number_in(x)
        y = b.emit(ADD, b.emit(SLICE, x, index=index) if before is None else before, y)
        if y.spec != shown:
            return None
    return b.emit(VIEW_SCATTER, x, y, chain=((SLICE, {"index": index}),))


def simplify_gather(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """A few elements picked from converted ones: picked, then converted."""
    node = made_by(inputs[0], "cast")
    if node is None or prod(spec.shape) >= prod(inputs[0].spec.shape):
        return None
    return b.emit(CAST, b.emit(GATHER, node.inputs[0], inputs[1], **params), dtype=spec.dtype)
