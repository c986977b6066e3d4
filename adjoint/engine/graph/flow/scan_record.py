"""The record of `scan`: its shape rule, the loop itself, and its derivatives, which are scans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.flow.derive import BIND, Pulled, batch, carried, flow_record, push
from adjoint.engine.graph.flow.scan_derivative import ScanDerivative, make_plan
from adjoint.engine.graph.interpreter import Run, interpret
from adjoint.engine.graph.ir import DataflowGraph, Value, extract
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.tensor.tensor import alias


def _infer(
    *operands: Any,
    body: DataflowGraph,
    carries: int,
    xs: int,
    length: int,
    reverse: bool,
    advance: Any,
) -> tuple[Spec, ...]:
    if len(operands) != len(body.inputs):
        raise RuntimeError(f"scan: {len(operands)} operands, the body has {len(body.inputs)}")
    for i, (x, v) in enumerate(zip(operands, body.inputs, strict=True)):
        if not isinstance(x, Spec):
            continue
        wanted = v.spec
        if carries <= i < carries + xs:
            wanted = wanted._replace(shape=(length, *wanted.shape))
        if x != wanted:
            raise RuntimeError(f"scan: operand {i} is {x}, the body wants {wanted}")
    for i, (new, old) in enumerate(zip(body.outputs[:carries], body.inputs, strict=False)):
        if new.spec != old.spec:
            raise RuntimeError(f"scan: carry {i} is {new.spec} after a step, and was {old.spec}")
    last = [v.spec for v in body.outputs]
    stacked = [s._replace(shape=(length, *s.shape)) for s in last[carries:]]
    return (*last[:carries], *stacked)


def _run(
    *operands: Any,
    body: DataflowGraph,
    carries: int,
    xs: int,
    length: int,
    reverse: bool,
    advance: Any,
    run: Run = interpret,
) -> tuple[Any, ...]:
    """The loop, iteration by iteration: what eager execution and the interpreter do."""
    carry = list(operands[:carries])
    rows = operands[carries : carries + xs]
    consts = list(operands[carries + xs :])
    moving = [i for i, a in enumerate(advance) if a]
    steps: list[list[Any]] = []
    order = range(length)
    for i in reversed(order) if reverse else order:
        outs = run(body, [*carry, *[x.select(0, i) for x in rows], *consts])
        carry = outs[:carries]
        steps.append(outs[carries:])
        for k in moving:
            consts[k] = consts[k] + advance[k]
    with CONTEXT.having(grad_enabled=False):
        if reverse:
            steps.reverse()
        ys = [stack(list(column)) for column in zip(*steps, strict=True)]
        if not length:
            ys = [no_rows(v.spec) for v in body.outputs[carries:]]
    return (*map(alias, carry), *ys)


def no_rows(spec: Spec) -> Any:
    """The rows of no iteration."""
    return zeros((0, *spec.shape), dtype=spec.dtype, device=spec.device)


def bind(operands: Sequence[Any], params: dict[str, Any], *, checkpoint: bool = False) -> Any:
    """A scan, with residuals kept if its derivative may be asked for; its own results."""
    wanted = [is_tensor(x) and x.dtype.is_inexact and x.requires_grad for x in operands]
    if CONTEXT.grad_enabled and any(wanted):
        plan = make_plan(params, wanted, checkpoint=checkpoint)
        return _forward(plan, operands, params)[: plan.count]
    return SCAN(*operands, **params)


def _forward(
    plan: ScanDerivative, operands: Sequence[Any], params: dict[str, Any]
) -> tuple[Any, ...]:
    return SCAN(*operands, *plan.reverse.constants, **{**params, "body": plan.forward})


def _joint(
    operands: list[Any], outs: list[Any], gs: Sequence[Any], needed: list[bool], params: Any
) -> list[Any]:
    """A scan the other way, adding up the cotangents of what every iteration shares."""
    plan = params["body"].derived.get("plan")
    fits = (
        plan is not None
        and all(g is None for g in gs[plan.count :])
        and all(p or not n for n, p in zip(needed, _padded(plan.wanted, needed), strict=True))
    )
    if not fits:  # residuals were not kept for this
        plan = make_plan(params, needed)
        outs = list(_forward(plan, operands, params))
        operands = [*operands, *plan.reverse.constants]
    return _run_back(plan, operands, outs, gs[: plan.count], needed, params)


def _padded(wanted: Sequence[bool], like: Sequence[Any]) -> list[bool]:
    return [*wanted, *[False] * (len(like) - len(wanted))]


class ScanDraft:
    """A scan being put together: operands with the inputs of a graph they are for."""

    def __init__(self) -> None:
        self.carries: list[tuple[Value, Any]] = []
        self.rows: list[tuple[Value, Any]] = []
        self.consts: list[tuple[Value, Any, int]] = []

    def bind(
        self,
        graph: DataflowGraph,
        outputs: Sequence[Value],
        length: int,
        reverse: bool,
        *,
        checkpoint: bool = False,
    ) -> Any:
        """The scan whose body is what of `graph` computes `outputs`."""
        inputs = [*self.carries, *self.rows, *((v, x) for v, x, _ in self.consts)]
        params = {
            "body": extract(graph, [v for v, _ in inputs], outputs),
            "carries": len(self.carries),
            "xs": len(self.rows),
            "length": length,
            "reverse": reverse,
            "advance": tuple(a for _, _, a in self.consts),
        }
        return bind([x for _, x in inputs], params, checkpoint=checkpoint)


def _run_back(
    plan: ScanDerivative,
    operands: list[Any],
    outs: Any,
    gs: Sequence[Any],
    needed: list[bool],
    params: Any,
) -> list[Any]:
    reverse, length = plan.reverse, params["length"]
    moved = [i for i in reverse.wanted if i < plan.carries]
    rows = [i for i in reverse.wanted if plan.carries <= i < plan.first]
    given = tuple(
        t and (i < plan.carries or gs[i] is not None) for i, t in enumerate(reverse.tracked)
    )
    back = plan.back(given)
    pulled, loop = back.pulled, ScanDraft()
    cotangents = dict(zip([i for i, g in enumerate(given) if g], pulled.cotangents, strict=True))
    for i in moved:  # one that nothing asks for still has a place in the loop
        value = cotangents.pop(i, None) or Value("unused", reverse.values[i].spec)
        loop.carries.append((value, _or_zeros(gs[i], operands[i])))
    for i, (so_far, _) in back.inside.items():
        loop.carries.append((so_far, operands[i].new_zeros(operands[i].shape)))
    loop.rows += [(value, gs[i]) for i, value in cotangents.items() if i >= plan.carries]
    _add_needs(loop, plan, pulled, operands, outs, params)
    given_rows = dict(loop.rows)
    made_rows = dict.fromkeys(
        v for out in back.outside.values() for v in out.rows if v not in given_rows
    )
    outputs = [
        *(pulled.outputs[i] for i in moved),
        *(total for _, total in back.inside.values()),
        *(pulled.outputs[i] for i in rows),
    ]
    extra = [v for v in made_rows if v not in outputs[len(loop.carries) :]]
    results = loop.bind(pulled.graph, [*outputs, *extra], length, not params["reverse"])
    cotangents_of = dict(zip((*moved, *back.inside, *rows), results, strict=False))
    stacked = zip(
        [*outputs, *extra][len(loop.carries) :], results[len(loop.carries) :], strict=True
    )
    stacks = {**given_rows, **dict(stacked)}
    for i, out in back.outside.items():
        cotangents_of[i] = out.total(length, [stacks[v] for v in out.rows])
    return [cotangents_of.get(i) if n else None for i, n in enumerate(needed)]


def _add_needs(
    loop: ScanDraft,
    plan: ScanDerivative,
    pulled: Pulled,
    operands: list[Any],
    outs: Any,
    params: Any,
) -> None:
    """The operands of a backward loop that come of the forward one."""
    stacks = dict(zip(plan.residuals, outs[plan.count :], strict=True))
    advance = params["advance"]
    loop.consts += [(x.value, x.source, 0) for x in pulled.constants]
    for v, value in pulled.needs.items():
        at = plan.reverse.position.get(v, -1)
        if v in stacks:
            loop.rows.append((value, stacks[v]))
        elif at < plan.first:
            loop.rows.append((value, operands[at]))
        else:
            step = advance[at - plan.first] if at - plan.first < len(advance) else 0
            start = operands[at] + step * (params["length"] - 1) if step else operands[at]
            loop.consts.append((value, start, -step))


def _or_zeros(g: Any, like: Any) -> Any:
    return like.new_zeros(like.shape) if g is None else g


def _loop_of(
    inputs: Sequence[Value], operands: Sequence[Any], params: Any, constants: Sequence[Any] = ()
) -> ScanDraft:
    """A loop like the one of `params`, over other operands; `constants` are further ones."""
    carries, first = params["carries"], params["carries"] + params["xs"]
    loop = ScanDraft()
    pairs = list(zip(inputs, [*operands, *constants], strict=True))
    advance = (*params["advance"], *(0 for _ in constants))
    loop.carries, loop.rows = pairs[:carries], pairs[carries:first]
    loop.consts = [(v, x, a) for (v, x), a in zip(pairs[first:], advance, strict=True)]
    return loop


def _push(operands: Any, tangents: Any, params: Any) -> tuple[Any, Any]:
    """One scan over values and tangents."""
    body, carries = params["body"], params["carries"]
    first, count = carries + params["xs"], len(operands)
    has = carried(body, carries, [t is not None for t in tangents])
    have = [i for i, h in enumerate(has) if h]
    graph, constants, out_has = push(body, has, must=[i for i in have if i < carries])
    inputs = graph.inputs
    further = inputs[count + len(have) :]
    loop = _loop_of([*inputs[:count], *further], operands, params, constants)
    for i, value in zip(have, inputs[count:], strict=False):
        pair = (value, _or_zeros(tangents[i], operands[i]))
        if i < first:
            (loop.carries if i < carries else loop.rows).append(pair)
        else:
            loop.consts.append((*pair, 0))
    outs = len(body.outputs)
    values = dict(enumerate(graph.outputs[:outs]))
    tangents_of = dict(
        zip([i for i, t in enumerate(out_has) if t], graph.outputs[outs:], strict=True)
    )
    order = [(values, i) for i in range(carries)]
    order += [(tangents_of, i) for i in range(carries) if i in tangents_of]
    order += [(values, i) for i in range(carries, outs)]
    order += [(tangents_of, i) for i in range(carries, outs) if i in tangents_of]
    results = loop.bind(graph, [d[i] for d, i in order], params["length"], params["reverse"])
    at = {(d is tangents_of, i): r for (d, i), r in zip(order, results, strict=True)}
    return (
        tuple(at[False, i] for i in range(outs)),
        tuple(at.get((True, i)) for i in range(outs)),
    )


def _batch(size: int, values: list[Any], batched: Sequence[bool], **params: Any) -> Any:
    """One scan of which every iteration handles the batch; carries that meet it take it on."""
    body, carries = params["body"], params["carries"]
    first = carries + params["xs"]
    has = list(batched)
    while True:
        graph, constants, out_has = batch(
            body, has, size, must=[i for i in range(carries) if has[i]]
        )
        new = [i for i in range(carries) if out_has[i] and not has[i]]
        if not new:
            break
        for i in new:
            has[i] = True
    operands = list(values)
    for i in range(first):
        if i < carries and has[i] and not batched[i]:
            operands[i] = operands[i].expand((size, *operands[i].shape))
        elif i >= carries and batched[i]:
            operands[i] = operands[i].movedim(0, 1)
    loop = _loop_of(graph.inputs, operands, params, constants)
    results = loop.bind(graph, graph.outputs, params["length"], params["reverse"])
    return tuple(
        (r if i < carries else r.movedim(1, 0)) if h else r.expand((size, *r.shape))
        for i, (r, h) in enumerate(zip(results, out_has, strict=True))
    )


# SCAN(carries..., xs..., constants..., body=, carries=, xs=, length=, reverse=, advance=)
#
# The operands are, in this order: `carries` initial values, `xs` tensors whose first dimension is
# `length`, and what the body reaches from outside (tensors, host numbers). `body` is a Graph with
# one input per operand, an x without its first dimension, and outputs: the new carries, of the same
# specs, then rows. Iteration k takes x[k] (from the last with `reverse`); the results are the last
# carries and the rows, stacked in the order of xs. `advance` has a number per constant: what is
# added to it after each iteration, 0 but for the offsets of random draws, which are host numbers.
SCAN = flow_record("scan", _infer, joint=_joint, push=_push, batch=_batch, run=_run)
BIND[SCAN] = lambda operands, params: bind(operands, params)
