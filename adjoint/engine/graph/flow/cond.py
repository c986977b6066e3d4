"""`cond`: one of two functions, as a function, a record and its derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.flow.derive import BIND, Pulled, Reverse, batch, flow_record, push, replay
from adjoint.engine.graph.flow.shared_operands import SharedOperands, check_operands
from adjoint.engine.graph.flow.trees import TreeShape, check_same, take_apart
from adjoint.engine.graph.interpreter import Run, interpret
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.record.body import BodyTrace
from adjoint.engine.ops.create.creation import FULL
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.reading.item import known
from adjoint.engine.tensor.tensor import alias

# -- the record ---------------------------------------------------------------------------------


def _infer(
    pred: Any, *operands: Any, true: DataflowGraph, false: DataflowGraph
) -> tuple[Spec, ...]:
    for graph in (true, false):
        check_operands("cond", operands, graph)
    yes, no = ([v.spec for v in graph.outputs] for graph in (true, false))
    if yes != no:
        raise RuntimeError(f"cond: the branches return {yes} and {no}")
    return tuple(yes)


def _run(
    pred: Any, *operands: Any, true: DataflowGraph, false: DataflowGraph, run: Run = interpret
) -> tuple[Any, ...]:
    return tuple(map(alias, run(true if bool(pred) else false, operands)))


# -- derivatives --------------------------------------------------------------------------------


@dataclass(slots=True)
class CondDerivative:
    """How a cond is run forward so that it can run backward."""

    sides: tuple[Reverse, Reverse]
    residuals: tuple[list[Value], list[Value]]
    forward: dict[str, DataflowGraph]  # the branches, each with residuals of both
    count: int  # of results that are the cond's own
    wanted: tuple[bool, ...]

    @property
    def constants(self) -> list[Any]:
        """Further operands."""
        return [*self.sides[0].constants, *self.sides[1].constants]


def make_plan(params: dict[str, DataflowGraph], wanted: tuple[bool, ...]) -> CondDerivative:
    """The plan for a cond differentiated by the `wanted` operands (the predicate left out)."""
    graphs = (params["true"], params["false"])
    key = ("cond", wanted, graphs[1])
    plan = graphs[0].derived.get(key)
    if plan is None:
        count = len(wanted)
        yes, no = (
            Reverse(g, wanted, free=[False] * count, available=[True] * count) for g in graphs
        )
        residuals = []
        for side in (yes, no):
            needs = side.pull(tuple(side.tracked)).needs
            residuals.append([v for v in needs if v not in side.available])
        plan = CondDerivative(
            (yes, no), (residuals[0], residuals[1]), {}, len(graphs[0].outputs), wanted
        )
        plan.forward = _forward_graphs(plan, count)
        plan.forward["true"].derived["plan"] = plan
        graphs[0].derived[key] = plan
    return plan


def _forward_graphs(plan: CondDerivative, count: int) -> dict[str, DataflowGraph]:
    yes, no = (side.trace.graph for side in plan.sides)
    columns = SharedOperands()
    for i in range(count):
        columns.add(None, yes.inputs[i], no.inputs[i])
    for v in yes.inputs[count:]:
        columns.add(None, v, None)
    for v in no.inputs[count:]:
        columns.add(None, None, v)
    own = [[*s.values, *r] for s, r in zip(plan.sides, plan.residuals, strict=True)]
    true, false = columns.graphs((yes, no), own)
    true.outputs += _zeros(true, plan.residuals[1])
    at = plan.count
    false.outputs[at:at] = _zeros(false, plan.residuals[0])
    return {"true": true, "false": false}


def _zeros(graph: DataflowGraph, like: Sequence[Value]) -> list[Value]:
    """Nodes that stand in one branch for the residuals of the other."""
    return [
        graph.add_node(
            FULL,
            (0,),
            {
                "shape": v.spec.shape,
                "dtype": v.spec.dtype,
                "device": v.spec.device,
                "strides": None,
            },
            (v.spec,),
        )[0]
        for v in like
    ]


def bind(pred: Any, operands: Sequence[Any], params: dict[str, DataflowGraph]) -> Any:
    """A cond, with residuals kept if its derivative may be asked for; its own results."""
    wanted = tuple(is_tensor(x) and x.dtype.is_inexact and x.requires_grad for x in operands)
    if CONTEXT.grad_enabled and any(wanted):
        plan = make_plan(params, wanted)
        return COND(pred, *operands, *plan.constants, **plan.forward)[: plan.count]
    return COND(pred, *operands, **params)


def _joint(
    operands: list[Any], outs: list[Any], gs: Sequence[Any], needed: list[bool], params: Any
) -> list[Any]:
    """The chosen branch's backward."""
    pred, *values = operands
    wanted = tuple(needed[1:])
    plan = params["true"].derived.get("plan")
    fits = (
        plan is not None
        and plan.forward["false"] is params["false"]
        and all(g is None for g in gs[plan.count :])
        and all(p or not n for n, p in zip(wanted, plan.wanted, strict=False))
    )
    if not fits:  # residuals were not kept for this
        plan = make_plan(params, wanted)
        outs = list(COND(pred, *values, *plan.constants, **plan.forward))
        values = [*values, *plan.constants]
    cotangents = _run_back(plan, pred, values, outs[plan.count :], gs[: plan.count])
    return [None, *(cotangents.get(i) if w else None for i, w in enumerate(wanted))]


def _run_back(
    plan: CondDerivative, pred: Any, values: list[Any], residuals: list[Any], gs: Sequence[Any]
) -> dict[int, Any]:
    yes, no = plan.sides
    given = [
        (a or b) and g is not None for a, b, g in zip(yes.tracked, no.tracked, gs, strict=True)
    ]
    pulled: list[Pulled] = [side.pull(given, must=side.wanted) for side in plan.sides]
    columns = SharedOperands()
    for g, *inputs in zip(
        [g for g, here in zip(gs, given, strict=True) if here],
        *(p.cotangents for p in pulled),
        strict=True,
    ):
        columns.add(g, *inputs)
    for k, stored in enumerate(plan.residuals):
        for v, x in zip(stored, residuals[k * len(plan.residuals[0]) :], strict=False):
            mine = pulled[k].needs.get(v)
            if mine is not None:
                columns.add(x, *((mine, None) if k == 0 else (None, mine)))
    for i, x in enumerate(values):
        uses = [p.needs.get(_input_at(plan, k, i)) for k, p in enumerate(pulled)]
        if any(v is not None for v in uses):
            columns.add(x, *uses)
    for k, p in enumerate(pulled):
        for x in p.constants:
            columns.add(x.source, *((x.value, None) if k == 0 else (None, x.value)))
    wanted = yes.wanted
    true, false = columns.graphs(
        [p.graph for p in pulled], [[p.outputs[i] for i in wanted] for p in pulled]
    )
    results = bind(pred, columns.operands, {"true": true, "false": false})
    return dict(zip(wanted, results, strict=True))


def _input_at(plan: CondDerivative, k: int, i: int) -> Any:
    """The input of branch k's forward recording that operand i feeds; None if it feeds none."""
    count, shift = len(plan.wanted), len(plan.sides[0].constants)
    if k == 1 and i >= count:
        i = i - shift if i >= count + shift else -1
    inputs = plan.sides[k].trace.graph.inputs
    return inputs[i] if 0 <= i < len(inputs) else None


def _push(operands: Any, tangents: Any, params: Any) -> tuple[Any, Any]:
    """One cond over values and tangents."""
    pred, *values = operands
    has = [t is not None for t in tangents[1:]]
    sides = [params["true"], params["false"]]
    pushed = [push(g, has) for g in sides]
    both = [a or b for a, b in zip(pushed[0].tangents, pushed[1].tangents, strict=True)]
    pushed = [push(g, has, must=[i for i, h in enumerate(both) if h]) for g in sides]
    count = len(values) + sum(has)
    given = [*values, *(t for t in tangents[1:] if t is not None)]
    columns = _joined(given, count, pushed)
    true, false = columns.graphs([m.graph for m in pushed], [m.graph.outputs for m in pushed])
    results = bind(pred, columns.operands, {"true": true, "false": false})
    supply = iter(results[len(both) :])
    return tuple(results[: len(both)]), tuple(next(supply) if h else None for h in both)


def _joined(given: Sequence[Any], count: int, transformed: Sequence[Any]) -> SharedOperands:
    """Operands both graphs take, then the constants that rules brought into each."""
    columns = SharedOperands()
    for i, x in enumerate(given):
        columns.add(x, *(m.graph.inputs[i] for m in transformed))
    for k, m in enumerate(transformed):
        for x, v in zip(m.constants, m.graph.inputs[count:], strict=True):
            columns.add(x, *((v, None) if k == 0 else (None, v)))
    return columns


def _batch(size: int, values: list[Any], batched: Sequence[bool], **params: Any) -> Any:
    """A batched predicate computes both branches and selects; else each branch is batched."""
    pred, *given = values
    has = list(batched[1:])
    sides = [params["true"], params["false"]]
    must: list[int] = list(range(len(sides[0].outputs)))
    if not batched[0]:
        branches = [batch(g, has, size) for g in sides]
        must = [i for i in must if branches[0].batched[i] or branches[1].batched[i]]
    branches = [batch(g, has, size, must=must) for g in sides]
    if batched[0]:
        chosen = [replay(m.graph, [*given, *m.constants]) for m in branches]
        return tuple(
            where(pred.reshape((size, *(1,) * (yes.ndim - 1))).bool(), yes, no)
            for yes, no in zip(*chosen, strict=True)
        )
    columns = _joined(given, len(given), branches)
    true, false = columns.graphs([m.graph for m in branches], [m.graph.outputs for m in branches])
    results = bind(pred, columns.operands, {"true": true, "false": false})
    return tuple(r if i in must else r.expand((size, *r.shape)) for i, r in enumerate(results))


# COND(pred, operands..., true=, false=)
#
# `pred` has one element. Both branches are Graphs with one input per operand (operands of the call,
# then what either branch reaches from outside, tensors and host numbers), used or not, and the same
# output specs, which are the results'.
COND = flow_record("cond", _infer, joint=_joint, push=_push, batch=_batch, run=_run)
BIND[COND] = lambda operands, params: bind(operands[0], operands[1:], params)

# -- the function -------------------------------------------------------------------------------


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.

    `pred` is a boolean, a number or a tensor of one element. Outside a capture this is a Python
    branch. In a captured function it is one operation, whose branches must return the same
    structure, shapes and dtypes and take no random numbers unless both take as many, and whose
    results lie row by row in memory, whichever was taken. Where `vmap` batches the predicate both
    branches are computed and each element takes its own.

    >>> import adjoint as ad
    >>> ad.cond(ad.tensor(True), lambda x: x.sin(), lambda x: x.cos(), (ad.tensor(0.0),))
    tensor(0.)
    """
    if not is_tensor(pred):
        return (true_fn if pred else false_fn)(*operands)
    if pred.numel() != 1:
        raise ShapeError(
            f"cond: pred must have one element, received shape {list(pred.shape)}. Use any(), "
            "all(), or where for a choice by element."
        )
    given, shape = take_apart("cond: operands", tuple(operands))
    if CONTEXT.capture is not None:
        return _record(pred, true_fn, false_fn, given, shape)
    if known(pred) is not None:
        return (true_fn if bool(pred) else false_fn)(*operands)
    yes, like = take_apart("cond: true_fn's result", true_fn(*operands))
    no, other = take_apart("cond: false_fn's result", false_fn(*operands))
    check_same("cond: false_fn's result", other, like, *zip(no, yes, strict=False))
    test = pred.reshape(()).bool()
    return like.fill([where(test, a, b) for a, b in zip(yes, no, strict=True)])


def _record(pred: Any, true_fn: Any, false_fn: Any, given: list[Any], shape: TreeShape) -> Any:
    """One node: each branch recorded."""
    bodies, shapes, results = [], [], []
    for fn, name in ((true_fn, "true_fn"), (false_fn, "false_fn")):
        body = BodyTrace(CONTEXT.capture, "cond")
        stand_ins = [body.parameter(t._spec) for t in given]
        result = body.run(lambda fn=fn, body_in=stand_ins: fn(*shape.fill(body_in)))
        leaves, structure = body.run(take_apart, f"cond: {name}'s result", result)
        body.finish(leaves)
        bodies.append(body)
        shapes.append(structure)
        results.append(leaves)
    check_same("cond: false_fn's result", shapes[1], shapes[0], *zip(*results[::-1], strict=False))
    _settle(bodies)
    columns = SharedOperands()
    for i, x in enumerate(given):
        columns.add(x, *(b.graph.inputs[i] for b in bodies))
    columns.add_lifted(*bodies)
    true, false = columns.graphs([b.graph for b in bodies], [b.graph.outputs for b in bodies])
    test = pred.reshape(()).bool()
    return shapes[0].fill(bind(test, columns.operands, {"true": true, "false": false}))


def _settle(bodies: Sequence[BodyTrace]) -> None:
    """Draw for both branches at once: the generator must not depend on which is taken."""
    yes, no = bodies
    if yes.draws != no.draws:
        yes.refuse(
            "branches that take different amounts of random numbers",
            "Draw outside, and pass the numbers in.",
        )
    outer = CONTEXT.capture
    begins = {g: outer.take(g, count) for g, count in yes.draws.items()}
    for body in bodies:
        body.settle(begins)
        for place in body.places:
            place[0].advance = 0
