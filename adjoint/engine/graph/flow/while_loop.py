"""`while_loop`: iterate while a test holds, as a function, a record and its derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import CaptureError, ShapeError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.flow.cond import cond
from adjoint.engine.graph.flow.derive import (
    batch,
    carried,
    flow_record,
    opened,
    push,
    recording,
    replay,
)
from adjoint.engine.graph.flow.scan import scan
from adjoint.engine.graph.flow.shared_operands import SharedOperands, check_operands
from adjoint.engine.graph.flow.trees import TreeShape, check_same, check_unwritten, take_apart
from adjoint.engine.graph.interpreter import Run, interpret
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.record.body import BodyTrace
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.tensor.reading.item import known
from adjoint.engine.tensor.tensor import alias
from adjoint.engine.tensor.writing.mutation import payload

# -- the record ---------------------------------------------------------------------------------


def _infer(
    *operands: Any, test: DataflowGraph, body: DataflowGraph, carries: int
) -> tuple[Spec, ...]:
    for graph in (test, body):
        check_operands("while_loop", operands, graph)
    for i, (new, old) in enumerate(zip(body.outputs, body.inputs[:carries], strict=True)):
        if new.spec != old.spec:
            raise RuntimeError(f"while_loop: carry {i} becomes {new.spec}, and was {old.spec}")
    return tuple(v.spec for v in body.outputs)


def _run(
    *operands: Any, test: DataflowGraph, body: DataflowGraph, carries: int, run: Run = interpret
) -> tuple[Any, ...]:
    carry, consts = list(operands[:carries]), operands[carries:]
    while bool(run(test, [*carry, *consts])[0]):
        carry = run(body, [*carry, *consts])
    return tuple(map(alias, carry))


# -- derivatives --------------------------------------------------------------------------------


def _joint() -> Any:
    raise CaptureError(
        "while_loop: a captured loop of unknown length has no reverse derivative, for which every "
        "iteration would have to be kept. Give max_iterations, use scan, or use forward mode "
        "(func.jvp, func.jacfwd)."
    )


def _push(operands: Any, tangents: Any, params: Any) -> tuple[Any, Any]:
    """One loop over values and tangents, going on as long as the values say."""
    body, test, carries = params["body"], params["test"], params["carries"]
    count = len(operands)
    has = carried(body, carries, [t is not None for t in tangents])
    have = [i for i, h in enumerate(has) if h]
    moved = [i for i in have if i < carries]
    graph, constants, _ = push(body, has, must=moved)
    filled = dict(zip(have, graph.inputs[count:], strict=False))
    columns = SharedOperands()

    def add(i: int) -> None:
        t = tangents[i]
        columns.add(operands[i].new_zeros(operands[i].shape) if t is None else t, None, filled[i])

    for i in range(carries):
        columns.add(operands[i], test.inputs[i], graph.inputs[i])
    for i in moved:
        add(i)
    for i in range(carries, count):
        columns.add(operands[i], test.inputs[i], graph.inputs[i])
    for i in have[len(moved) :]:
        add(i)
    for x, v in zip(constants, graph.inputs[count + len(have) :], strict=True):
        columns.add(x, None, v)
    new_test, new_body = columns.graphs((test, graph), (test.outputs, graph.outputs))
    results = WHILE_LOOP(
        *columns.operands, test=new_test, body=new_body, carries=carries + len(moved)
    )
    tangents_of = dict(zip(moved, results[carries:], strict=True))
    return tuple(results[:carries]), tuple(tangents_of.get(i) for i in range(carries))


def _batch(size: int, values: list[Any], batched: Sequence[bool], **params: Any) -> Any:
    """Iterate until no element goes on; those that are done stay as they are."""
    test, body, carries = params["test"], params["body"], params["carries"]
    has = list(batched)
    while True:
        batched_body = batch(body, has, size, must=[i for i in range(carries) if has[i]])
        tested = batch(test, has, size)
        grown = [
            i
            for i in range(carries)
            if not has[i] and (batched_body.batched[i] or tested.batched[0])
        ]
        if not grown:
            break
        for i in grown:
            has[i] = True
    graphs = (tested.graph, batched_body.graph)
    constants = [tested.constants, batched_body.constants]
    if tested.batched[0]:
        graphs, shared = _selecting(tested, batched_body, size, carries)
        constants = [shared, shared]
    columns = SharedOperands()
    for i, x in enumerate(values):
        late = i < carries and has[i] and not batched[i]
        columns.add(x.expand((size, *x.shape)) if late else x, *(g.inputs[i] for g in graphs))
    for k, (graph, further) in enumerate(zip(graphs, constants, strict=True)):
        for x, v in zip(further, graph.inputs[len(values) :], strict=True):
            columns.add(x, *((v, None) if k == 0 else (None, v)))
    new_test, new_body = columns.graphs(graphs, [g.outputs for g in graphs])
    results = WHILE_LOOP(*columns.operands, test=new_test, body=new_body, carries=carries)
    return tuple(r if h else r.expand((size, *r.shape)) for r, h in zip(results, has, strict=False))


def _selecting(tested: Any, batched_body: Any, size: int, carries: int) -> tuple[Any, list[Any]]:
    """Test and body for a batch whose elements end at different times."""
    count = len(batched_body.graph.inputs) - len(batched_body.constants)
    constants = [*tested.constants, *batched_body.constants]
    graphs = []
    for kind in ("test", "body"):
        like = DataflowGraph()
        like.inputs = [
            *batched_body.graph.inputs,
            *tested.graph.inputs[count:],
        ]
        like.inputs[count:] = [*tested.graph.inputs[count:], *batched_body.graph.inputs[count:]]
        body, operands = opened(like, "vmap")
        own, later = operands[:count], operands[count:]
        middle = len(tested.constants)
        with recording(body):
            (goes_on,) = replay(tested.graph, [*own, *later[:middle]])
            goes_on = goes_on.reshape((size,)).bool()
            if kind == "test":
                outs = [goes_on.any()]
            else:
                new = replay(batched_body.graph, [*own, *later[middle:]])
                outs = [
                    where(goes_on.reshape((size, *(1,) * (n.ndim - 1))), n, old)
                    for n, old in zip(new, own[:carries], strict=True)
                ]
            body.finish(outs)
        graphs.append(body.graph)
    return tuple(graphs), constants


# WHILE_LOOP(carries..., constants..., test=, body=, carries=)
#
# Both Graphs have one input per operand: `carries` initial values, then what either reaches from
# outside. `test` gives one boolean, `body` the new carries, of the same specs; the results are the
# carries for which the test fails.
WHILE_LOOP = flow_record("while_loop", _infer, joint=_joint, push=_push, batch=_batch, run=_run)

# -- the function -------------------------------------------------------------------------------


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: Any,
    *,
    max_iterations: int | None = None,
) -> Any:
    """Replace the carried values by `body_fn(*carried)` while `cond_fn(*carried)` holds.

    `carried_inputs` is a tuple (or a list) of tensors or nested containers of them; anything else
    is handed to the functions as one argument. The values keep structure, shapes and dtypes. At
    most `max_iterations` are run; a captured loop needs that number to be differentiated in
    reverse. Where `vmap` batches the test, the loop goes on until all elements are done.

    >>> import adjoint as ad
    >>> ad.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (ad.tensor(0), ad.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    spread = isinstance(carried_inputs, (tuple, list)) and not hasattr(carried_inputs, "_fields")
    carry, shape = take_apart("while_loop: carried_inputs", carried_inputs)

    def call(fn: Callable[..., Any], values: Sequence[Any]) -> Any:
        tree = shape.fill(values)
        return fn(*tree) if spread else fn(tree)

    def test(values: Sequence[Any]) -> Any:
        answer = call(cond_fn, values)
        (truth,), _ = take_apart("while_loop: the result of cond_fn", answer)
        if truth.numel() != 1:
            raise ShapeError(
                "while_loop: cond_fn must return one boolean, received shape "
                f"{list(truth.shape)}. Use any() or all()."
            )
        return truth.reshape(()).bool()

    def body(values: Sequence[Any]) -> list[Any]:
        result = call(body_fn, values)
        new, structure = take_apart("while_loop: the carry", _like(result, shape, spread))
        check_same("while_loop: the carry", structure, shape, *zip(new, values, strict=False))
        return new

    last: Sequence[Any]
    if CONTEXT.capture is None:
        last = _loop(test, body, carry, max_iterations)
    elif max_iterations is None:
        operands, params = _record(test, body, carry)
        last = WHILE_LOOP(*operands, **params)
    else:
        last = _counted(test, body, carry, max_iterations)
    return shape.fill(last)


def _like(result: Any, shape: TreeShape, spread: bool) -> Any:
    """A body's result in the container of the first values: a tuple for a list is fine."""
    kind = shape.structure.kind
    if not spread:
        return result
    if isinstance(result, (tuple, list)):
        return kind(result)
    return kind((result,))


def _loop(test: Any, body: Any, carry: list[Any], limit: int | None) -> list[Any]:
    """Iteration by iteration; the tape and the transforms see the operations."""
    done = 0
    while limit is None or done < limit:
        goes_on = test(carry)
        before = [t._storage.version for t in carry]
        if known(goes_on) is not None:
            if not bool(goes_on):
                break
            new = body(carry)
        else:
            if not _any(goes_on):
                break
            new = [where(goes_on, n, old) for n, old in zip(body(carry), carry, strict=True)]
        check_unwritten("while_loop", carry, before)
        carry = new
        done += 1
    return carry


def _any(flag: Any) -> bool:
    """Whether a flag holds for any element of the batches it stands for."""
    while flag._storage.level is not None:
        value = payload(flag)
        flag = getattr(value, "primal", value)
    return bool(flag.any())


def _counted(test: Any, body: Any, carry: list[Any], limit: int) -> Sequence[Any]:
    """A loop that counts its iterations, unless a reverse derivative may be asked for."""
    if not _reversible(carry):
        start = zeros((), dtype=int64)
        operands, params = _record(
            lambda c: (c[0] < limit) & test(c[1:]),
            lambda c: [c[0] + 1, *body(c[1:])],
            [start, *carry],
        )
        if not _reversible(operands):
            return WHILE_LOOP(*operands, **params)[1:]
    return _bounded(test, body, carry, limit)


def _reversible(operands: Sequence[Any]) -> bool:
    """Whether operands are on the tape or may yet come to be, inside a transform or a body."""
    if CONTEXT.levels or isinstance(CONTEXT.capture, BodyTrace):
        return True
    return CONTEXT.grad_enabled and any(is_tensor(x) and x.requires_grad for x in operands)


def _bounded(test: Any, body: Any, carry: list[Any], limit: int) -> list[Any]:
    """A scan of `limit` iterations, of which those after the end change nothing."""

    def step(values: list[Any], _: None) -> tuple[list[Any], None]:
        new = cond(
            test(values), lambda *v: tuple(body(list(v))), lambda *v: tuple(v), tuple(values)
        )
        return list(new), None

    return scan(step, carry, None, length=limit)[0]


def _record(test: Any, body: Any, carry: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Operands and parameters of one node: test and body recorded."""
    recorded = []
    for fn in (lambda c: [test(c)], body):
        inner = BodyTrace(CONTEXT.capture, "while_loop")
        stand_ins = [inner.parameter(t._spec) for t in carry]
        inner.finish(inner.run(fn, stand_ins))
        if inner.draws:
            inner.refuse(
                "a random draw in a loop of unknown length",
                "Use scan, draw outside, or give max_iterations and draw outside.",
            )
        recorded.append(inner)
    columns = SharedOperands()
    for i, x in enumerate(carry):
        columns.add(x, *(b.graph.inputs[i] for b in recorded))
    columns.add_lifted(*recorded)
    new_test, new_body = columns.graphs(
        [b.graph for b in recorded], [b.graph.outputs for b in recorded]
    )
    return columns.operands, {"test": new_test, "body": new_body, "carries": len(carry)}
