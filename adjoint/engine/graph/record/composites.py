"""Recording a composite: one node, with what it is made of as a subgraph."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import get_default_dtype
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.spec import Spec, has_symbols
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.ir import DataflowGraph, frozen
from adjoint.engine.tensor.strides import result_strides

if TYPE_CHECKING:
    from adjoint.engine.graph.record.trace import Trace

# A context in which nothing is on, whoever asks for a composition.
_PLAIN: dict[str, Any] = {
    "capture": None, "grad_enabled": False, "levels": (), "autocast": None, "inference": False,
    "observers": (), "saved_hooks": (), "device": None,
}  # fmt: skip


def specs_of(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands with specs in the place of tensors."""
    return tuple([x._spec if is_tensor(x) else x for x in operands])


def record_composite(trace: Trace, record: Record, operands: tuple[Any, ...], params: Any) -> Any:
    """Add one node for a composite to a trace, with its composition as a subgraph.

    Where the composition depends on more than the operands' values (numbers the host may change,
    tensors from outside, draws), its operations are recorded one by one instead.
    """
    if any(isinstance(x, HostScalar) for x in (*operands, *params.values())):
        return record.compose(*operands, **params)  # type: ignore[misc]
    key = _decides(record, operands, params)
    composed = trace.compositions.get(key) if key is not None else None
    if composed is None:
        composed = (
            _inferred_composition(trace, record, operands, params) if key is not None else None
        )
        if composed is None:
            inner = trace.apart()
            inner.compositions = trace.compositions
            many = _compose(inner, record, specs_of(operands), params)
            if inner.sources or inner.guards or inner.host_guards or inner.draws or inner.counts:
                inner.undo()
                return record.compose(*operands, **params)  # type: ignore[misc]
            composed = inner.graph, tuple([v.spec for v in inner.graph.outputs]), many
        if key is not None:
            trace.compositions[key] = composed
    composition, specs, many = composed
    trace.relocate()
    inputs = tuple([trace.operand(x) for x in operands])
    values = trace.graph.add_node(record, inputs, params, specs, composition)
    outs = tuple(
        [trace.wrap(v, result_strides(record, operands, params, v.spec.shape)) for v in values]
    )
    trace.reshapes.doubt(operands, outs)
    return outs if many else outs[0]


def _compose(inner: Trace, record: Record, specs: tuple[Any, ...], params: Any) -> bool:
    """Record a composition on tensors like these; whether its results are many."""
    stand_ins = [inner.wrap(inner.graph.add_input(x)) if isinstance(x, Spec) else x for x in specs]
    with CONTEXT.having(capture=inner):
        result = record.compose(*stand_ins, **params)  # type: ignore[misc]
        many = isinstance(result, tuple)
        inner.graph.outputs = [inner.value_of(t) for t in (result if many else (result,))]
    return many


def _inferred_composition(
    trace: Trace, record: Record, operands: tuple[Any, ...], params: Any
) -> Any:
    """What a composite's results look like where it says so: it is composed when asked for.

    A program that is found on disk never asks.
    """
    if record.infer_specs is None or CONTEXT.autocast is not None or CONTEXT.observers:
        return None
    specs = specs_of(operands)
    out = record.infer_specs(*specs, **params)
    if out is None:
        return None
    apart = trace.apart  # not the trace itself, which a node that is kept would keep

    @cache
    def composed() -> DataflowGraph:
        with CONTEXT.having(**_PLAIN):
            inner = apart()
            _compose(inner, record, specs, params)
            return inner.graph

    many = not isinstance(out, Spec)
    return composed, out if many else (out,), many


def _decides(record: Record, operands: tuple[Any, ...], params: Any) -> Any:
    """What decides a composition; None where sizes are symbols or parameters have no hash.

    A model's layers are alike: what was recorded for one serves all. Graphs are not changed once
    they are made, so nodes can share one.
    """
    described = [
        (x._spec.shape, x._spec.dtype, x._spec.device) if is_tensor(x) else frozen(x)
        for x in operands
    ]
    if has_symbols(described) or has_symbols(params):
        return None
    key = (record, tuple(described), frozen(params), CONTEXT.autocast, get_default_dtype())
    try:
        hash(key)
    except TypeError:
        return None
    return key
