"""Control flow: cond, scan and while_loop as If, Scan (or a recurrent layer) and Loop."""

from __future__ import annotations

import numpy as np

import adjoint as ad
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.onnx.exporting.recurrent import emit_layer, layer_of
from adjoint.onnx.exporting.writer import NodeWriter, NoForm, emits


def _outer(w: NodeWriter, inner: NodeWriter, formals: list[Value], actuals: list[object]) -> None:
    """What a body only reads is the outer graph's value itself."""
    for formal, actual in zip(formals, actuals, strict=True):
        inner.names[formal] = w.operand(actual, formal.spec.dtype)


@emits("cond")
def cond(w: NodeWriter, node: Node) -> list[str]:
    condition, *operands = node.inputs
    graphs = {}
    for key, side in (("then_branch", "true"), ("else_branch", "false")):
        graph: DataflowGraph = node.params[side]
        inner = NodeWriter(w.shared, w)
        _outer(w, inner, graph.inputs, operands)
        inner.write(graph)
        graphs[key] = inner.closed([(inner.names[v], v) for v in graph.outputs], [], side)
    outputs = w.emit("If", w.operand(condition, ad.bool), outputs=len(node.outputs), **graphs)
    return [outputs] if isinstance(outputs, str) else outputs


@emits("scan")
def scan(w: NodeWriter, node: Node) -> list[str]:
    body, carries, xs = (node.params[k] for k in ("body", "carries", "xs"))
    if any(node.params["advance"]):
        raise NoForm("a scan whose constants advance")
    layer = layer_of(node)
    if layer is not None:
        return emit_layer(w, layer)
    moving = body.inputs[: carries + xs]
    inner, formals = w.body(body, moving, "body")
    _outer(w, inner, body.inputs[carries + xs :], list(node.inputs[carries + xs :]))
    if not xs:
        raise NoForm("a scan over nothing")
    inner.write(body)
    graph = inner.closed([(inner.names[v], v) for v in body.outputs], formals, "body")
    names = [
        w.operand(x, formal.spec.dtype)
        for x, formal in zip(node.inputs[: carries + xs], moving, strict=True)
    ]
    back = int(bool(node.params["reverse"]))
    outs = len(body.outputs) - carries
    outputs = w.emit(
        "Scan",
        *names,
        outputs=len(body.outputs),
        body=graph,
        num_scan_inputs=int(xs),
        scan_input_directions=[back] * xs,
        scan_output_directions=[back] * outs if outs else None,
    )
    return [outputs] if isinstance(outputs, str) else outputs


@emits("while_loop")
def while_loop(w: NodeWriter, node: Node) -> list[str]:
    test, body, carries = (node.params[k] for k in ("test", "body", "carries"))
    names = [w.operand(x, f.spec.dtype) for x, f in zip(node.inputs, body.inputs, strict=True)]
    first = NodeWriter(w.shared, w)  # the test before the first time, in this graph
    first.nodes = w.nodes
    first.names.update(zip(test.inputs, names, strict=True))
    first.write(test)
    helper = w.onnx.helper
    step, going = w.fresh("step"), w.fresh("going")
    inner, formals = w.body(
        body,
        body.inputs[:carries],
        "body",
        [
            helper.make_tensor_value_info(step, 7, []),
            helper.make_tensor_value_info(going, 9, []),
        ],
    )
    inner.names.update(zip(body.inputs[carries:], names[carries:], strict=True))
    inner.write(body)
    results = [inner.names[v] for v in body.outputs]
    inner.names.update(zip(test.inputs, [*results, *names[carries:]], strict=True))
    inner.write(test)
    outputs = [(inner.names[test.outputs[0]], test.outputs[0])]
    graph = inner.closed([*outputs, *zip(results, body.outputs, strict=True)], formals, "body")
    limit = w.constant(np.iinfo(np.int64).max, np.int64)
    emitted = w.emit(
        "Loop", limit, first.names[test.outputs[0]], *names[:carries], outputs=carries, body=graph
    )
    return [emitted] if isinstance(emitted, str) else emitted
