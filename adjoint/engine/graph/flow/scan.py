"""`scan`: a loop over the first dimension, run as Python or recorded as one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.autodiff.tape.checkpoint import checkpoint as again
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.flow.scan_record import ScanDraft, no_rows
from adjoint.engine.graph.flow.trees import TreeShape, check_same, check_unwritten, take_apart
from adjoint.engine.graph.record.body import BodyTrace
from adjoint.engine.ops.shape.join import stack


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    *,
    dim: int = 0,
    checkpoint: bool = False,
) -> tuple[Any, Any]:
    """Run `carry, y = f(carry, x)` over the slices x of `xs`; the last carry and all ys, stacked.

    `init`, `xs` and the ys are tensors or nested containers of them (None where there are none);
    without `xs`, `length` says how often. The carry keeps its structure, shapes and dtypes. With
    `checkpoint`, backward computes each iteration again instead of keeping what it needs. In a
    captured function the loop is one operation, whatever its length.

    >>> import adjoint as ad
    >>> ad.scan(lambda total, x: (total + x, total * x), ad.tensor(0.0), ad.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([0., 2., 9.]))
    """
    return scan_growing(f, init, xs, length, reverse, dim=dim, checkpoint=checkpoint)


def scan_growing(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    *,
    dim: int = 0,
    checkpoint: bool = False,
    growing: Sequence[tuple[HostScalar, int]] = (),
) -> tuple[Any, Any]:
    """`scan` with host numbers that grow with each iteration; those only in a recording."""
    carry, carry_shape = take_apart("scan: init", init)
    rows, rows_shape = take_apart("scan: xs", xs)
    if dim:
        rows = [x.movedim(dim, 0) for x in rows]
    count = _length(rows, length)

    def step(carry: Sequence[Any], x: Sequence[Any]) -> tuple[list[Any], list[Any], TreeShape]:
        result = f(carry_shape.fill(carry), rows_shape.fill(x))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeError(
                "scan: the function must return (carry, y), received "
                f"{type(result).__name__}. Return (carry, None) where there is nothing to stack."
            )
        new, shape = take_apart("scan: the carry", result[0])
        check_same("scan: the carry", shape, carry_shape, *zip(new, carry, strict=False))
        ys, ys_shape = take_apart("scan: y", result[1])
        return new, ys, ys_shape

    if CONTEXT.capture is None:
        last, ys, ys_shape = _loop(step, carry, rows, count, reverse, checkpoint)
    else:
        last, ys, ys_shape = _record(step, carry, rows, count, reverse, checkpoint, growing)
    return carry_shape.fill(last), ys_shape.fill(ys)


def _length(rows: list[Any], length: int | None) -> int:
    if any(not x.ndim for x in rows):
        raise ShapeValueError("scan: a tensor of xs has no dimension to go along")
    sizes = [x.shape[0] for x in rows]
    if length is not None:
        sizes.append(length if isinstance(length, int) else int(length))
    if not sizes or any(n != sizes[0] for n in sizes):
        raise ShapeValueError(
            "scan: tensors of xs and `length` must agree on the size of the first dimension, "
            f"received sizes {[x.shape[0] for x in rows]} and length={length}"
        )
    return sizes[0]


def _loop(
    step: Any, carry: list[Any], rows: list[Any], count: int, reverse: bool, checkpoint: bool
) -> tuple[list[Any], list[Any], TreeShape]:
    """Iteration by iteration; the tape and the transforms see the operations."""
    if not count:
        return _empty(step, carry, rows)
    if checkpoint:
        step = _checkpointed(step, len(carry))
    columns = [x.unbind(0) for x in rows]
    order = range(count)
    outs: list[list[Any]] = []
    shape = None
    for i in reversed(order) if reverse else order:
        given = [*carry, *(c[i] for c in columns)]
        before = [t._storage.version for t in given]
        carry, ys, now = step(carry, given[len(carry) :])
        check_unwritten("scan", given, before)
        if shape is not None:
            check_same("scan: y", now, shape, *zip(ys, outs[-1], strict=False))
        shape = now
        outs.append(ys)
    if reverse:
        outs.reverse()
    return carry, [stack(list(column)) for column in zip(*outs, strict=True)], shape  # type: ignore[return-value]


def _empty(step: Any, carry: list[Any], rows: list[Any]) -> tuple[list[Any], list[Any], TreeShape]:
    """No iteration at all: what the ys would look like is found by looking at one."""
    body = BodyTrace(None, "scan")
    with CONTEXT.having(capture=body, levels=(), grad_enabled=False):
        c = [body.parameter(t._spec) for t in carry]
        x = [body.parameter(t._spec._replace(shape=tuple(t.shape[1:]))) for t in rows]
        _, ys, shape = step(c, x)
    return carry, [no_rows(y._spec) for y in ys], shape


def _checkpointed(step: Any, carries: int) -> Any:
    def run(carry: list[Any], x: list[Any]) -> Any:
        return again(
            lambda *flat: step(flat[:carries], flat[carries:]), *carry, *x, use_reentrant=False
        )

    return run


def _record(
    step: Any,
    carry: list[Any],
    rows: list[Any],
    count: int,
    reverse: bool,
    checkpoint: bool,
    growing: Sequence[tuple[HostScalar, int]],
) -> tuple[list[Any], list[Any], TreeShape]:
    """One node: the body recorded once."""
    body = BodyTrace(CONTEXT.capture, "scan")
    stand_ins = [body.parameter(t._spec) for t in carry]
    slices = [body.parameter(t._spec._replace(shape=tuple(t.shape[1:]))) for t in rows]
    new, ys, shape = body.run(step, stand_ins, slices)
    body.finish([*new, *ys])
    outer = CONTEXT.capture
    body.settle({g: outer.take(g, drawn * count) for g, drawn in body.draws.items()})
    for number, amount in growing:
        if number.key in body.lifted:
            body.lifted[number.key].advance = amount
    loop = ScanDraft()
    inputs = body.graph.inputs
    loop.carries = list(zip(inputs, carry, strict=False))
    loop.rows = list(zip(inputs[len(carry) :], rows, strict=False))
    loop.consts = [(x.value, x.source, x.advance) for x in body.lifted.values()]
    outs = loop.bind(body.graph, body.graph.outputs, count, reverse, checkpoint=checkpoint)
    return list(outs[: len(carry)]), list(outs[len(carry) :]), shape


HOOKS.scan = scan_growing
