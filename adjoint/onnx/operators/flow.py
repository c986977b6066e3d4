"""If, Loop and Scan.

Where a condition is known they are Python's; in a recording that does not know it, `If` and `Loop`
become `cond` and `while_loop`, which need the same shapes whichever way it goes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.tensor.reading.item import known
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.reading import LARGEST, OnnxError
from adjoint.onnx.table import NodeCall, operator
from adjoint.onnx.types import Value, element, number, value_of


def _is_known(value: Value) -> bool:
    return not isinstance(value, Tensor) or known(value) is not None


@operator("If")
def if_(
    condition: Tensor, *, then_branch: Any, else_branch: Any, call: NodeCall
) -> tuple[Value, ...]:
    """One graph or another."""
    yes, no = call.body(then_branch), call.body(else_branch)
    if _is_known(condition):
        return tuple(yes() if bool(number(condition)) else no())
    return tuple(ad.cond(condition.reshape(()), lambda: tuple(yes()), lambda: tuple(no())))


@operator("Loop")
def loop(
    trips: Value, condition: Value, *initial: Value, body: Any, call: NodeCall
) -> tuple[Value, ...]:
    """A graph repeated so many times, or while a condition holds; some outputs are stacked."""
    run = call.body(body)
    limit = None if trips is None else int(number(trips))
    if limit is None and condition is None:
        raise OnnxError("onnx: a Loop without a count and without a condition never ends.")
    if not _is_known(condition):
        return _unknown_loop(run, limit, condition, initial, len(body.output))
    carried, going = list(initial), condition is None or bool(number(condition))
    rows: list[list[Tensor]] = [[] for _ in range(len(body.output) - 1 - len(initial))]
    step, stacked_elements = 0, 0
    if limit is not None and limit > LARGEST and _goes_by_count(body):
        raise OnnxError(f"onnx: a Loop of {limit} rounds is refused; at most {LARGEST} are run.")
    while going and (limit is None or step < limit):
        after, *results = run(ad.tensor(step), ad.tensor(True), *carried)
        carried = results[: len(initial)]
        for column, value in zip(rows, results[len(initial) :], strict=True):
            column.append(value)
            stacked_elements += value.numel() if isinstance(value, Tensor) else np.size(value)
        if stacked_elements > LARGEST:
            raise OnnxError(f"onnx: a Loop stacks more than {LARGEST} elements, which is refused.")
        step += 1
        if not _is_known(after):
            if condition is None:
                continue
            if rows:
                raise _stacked()
            return _unknown_loop(
                run,
                None if limit is None else limit - step,
                after,
                tuple(carried),
                len(body.output),
                step,
            )
        going = condition is None or bool(number(after))
    formals = body.output[1 + len(initial) :]
    stacked = [
        ad.stack(column) if column else _no_rows(formal)
        for column, formal in zip(rows, formals, strict=True)
    ]
    return (*carried, *stacked)


def _goes_by_count(body: Any) -> bool:
    """Whether nothing in a Loop changes its condition."""
    sources = {node.output[0]: node for node in body.node if node.op_type == "Identity"}
    name = body.output[0].name
    while name in sources:
        name = sources.pop(name).input[0]
    computed = {output for node in body.node for output in node.output}
    return name not in computed


def _no_rows(formal: Any) -> Value:
    """The rows of no iteration: of the type that the body states, of size 0 where it does not."""
    stated = formal.type.tensor_type
    kind = element(stated.elem_type, "Loop")
    return value_of(np.zeros((0, *[d.dim_value for d in stated.shape.dim]), kind))


def _stacked() -> OnnxError:
    return OnnxError(
        "onnx: a Loop whose condition depends on the inputs and whose outputs are stacked "
        "has no size that a "
        "recording could know. Run it without compile."
    )


def _unknown_loop(
    run: Any,
    limit: int | None,
    condition: Tensor,
    initial: tuple[Value, ...],
    outputs: int,
    step: int = 0,
) -> tuple[Value, ...]:
    """The loop of a recording that does not know how often it runs."""
    if outputs != 1 + len(initial):
        raise _stacked()

    def goes(k: Tensor, going: Tensor, *carried: Tensor) -> Tensor:
        return going if limit is None else going & (k < step + limit)

    def once(k: Tensor, going: Tensor, *carried: Tensor) -> tuple[Tensor, ...]:
        after, *results = run(k, going, *carried)
        return (k + 1, after.reshape(()), *results)

    _, _, *last = ad.while_loop(goes, once, (ad.tensor(step), condition.reshape(()), *initial))
    return tuple(last)


@operator("Scan")
def scan(
    *inputs: Value,
    body: Any,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
    directions: list[int] | None = None,
    call: NodeCall,
) -> tuple[Value, ...]:
    """A graph applied along an axis, with a state; some outputs are stacked."""
    run = call.body(body)
    if call.opset < 9:
        return _batched_scan(run, inputs, num_scan_inputs, directions)
    count = len(inputs) - num_scan_inputs
    outs = len(body.output) - count
    return _scanned(
        run,
        list(inputs[:count]),
        list(inputs[count:]),
        scan_input_axes or [0] * num_scan_inputs,
        scan_input_directions or [0] * num_scan_inputs,
        scan_output_axes or [0] * outs,
        scan_output_directions or [0] * outs,
    )


def _scanned(
    run: Any,
    states: list[Value],
    columns: list[Tensor],
    axes: list[int],
    backwards: list[int],
    out_axes: list[int],
    out_backwards: list[int],
) -> tuple[Value, ...]:
    sizes = [x.shape[axis] for x, axis in zip(columns, axes, strict=True)]
    if any(map(is_extent, sizes)):
        return _scanned_openly(run, states, columns, axes, backwards, out_axes, out_backwards)
    lengths = {int(size) for size in sizes}
    if len(lengths) != 1:
        raise OnnxError(f"onnx: Scan: its inputs have lengths {sorted(lengths)}; they must agree.")
    (length,) = lengths
    rows: list[list[Tensor]] = [[] for _ in out_axes]
    for t in range(length):
        now = [
            x.select(axis, length - 1 - t if back else t)
            for x, axis, back in zip(columns, axes, backwards, strict=True)
        ]
        results = run(*states, *now)
        states = results[: len(states)]
        for column, value in zip(rows, results[len(states) :], strict=True):
            column.append(value)
    stacked = [
        ad.stack(column[::-1] if back else column, axis)
        for column, axis, back in zip(rows, out_axes, out_backwards, strict=True)
    ]
    return (*states, *stacked)


def _scanned_openly(
    run: Any,
    states: list[Value],
    columns: list[Tensor],
    axes: list[int],
    backwards: list[int],
    out_axes: list[int],
    out_backwards: list[int],
) -> tuple[Value, ...]:
    """The same along an axis whose length is open: one loop of the recording."""
    rows = [
        x.movedim(axis, 0).flip(0) if back else x.movedim(axis, 0)
        for x, axis, back in zip(columns, axes, backwards, strict=True)
    ]

    def once(carried: tuple[Value, ...], now: tuple[Tensor, ...]) -> Any:
        results = run(*carried, *now)
        return tuple(results[: len(states)]), tuple(results[len(states) :])

    last, stacked = ad.scan(once, tuple(states), tuple(rows))
    outputs = [
        (column.flip(0) if back else column).movedim(0, axis)
        for column, axis, back in zip(stacked, out_axes, out_backwards, strict=True)
    ]
    return (*last, *outputs)


def _batched_scan(
    run: Any, inputs: tuple[Value, ...], count: int, directions: list[int] | None
) -> tuple[Value, ...]:
    """Scan of opset 8: the first input says lengths, and every other has a batch in front."""
    lengths, *rest = inputs
    if lengths is not None:
        raise OnnxError(
            "onnx: Scan of opset 8 with sequence lengths is not supported; convert the model "
            "to opset 9 or later."
        )
    states, columns = rest[: len(rest) - count], rest[len(rest) - count :]
    batch = int(columns[0].shape[0])
    per = [
        _scanned(
            run,
            [s[b] for s in states],
            [x[b] for x in columns],
            [0] * count,
            directions or [0] * count,
            *[_outputs(run, states, columns, b)] * 2,
        )
        for b in range(batch)
    ]
    return tuple(ad.stack(list(column)) for column in zip(*per, strict=True))


def _outputs(run: Any, states: list[Tensor], columns: list[Tensor], b: int) -> list[int]:
    outputs = run(*[s[b] for s in states], *[x[b][0] for x in columns])
    return [0] * (len(outputs) - len(states))
