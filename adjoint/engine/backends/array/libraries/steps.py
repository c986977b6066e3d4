"""Operations of libraries on operands that were looked at before: forward, and a node's rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.gpu import faults
from adjoint.engine.backends.array.libraries.prepared import (
    BENCHMARK,
    PREPARED,
    PREPARERS,
    key_of,
    prepared_for,
)
from adjoint.engine.core.device import CURRENT_INDEX
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.record import HOOKS, REGISTRY, Record, is_tensor
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager.enlisted import enlist_straight
from adjoint.engine.tensor.tensor import Tensor, wrap

Step = Callable[[tuple[Any, ...]], Any]
WITH_BIAS: dict[str, Record] = {}  # by names of convolutions with a bias: those without
ADDED = "add_to_channels"  # the record that adds one
# Of convolutions, by name: what the cotangents of both operands are (a record and, of its operands
# too, whether the cotangent comes first).
TRANSPOSES = {
    "convolution": (("convolution_transpose", True), ("convolution_weight", False)),
    "convolution_transpose": (("convolution", True), ("convolution_weight", True)),
}


def with_bias(out: Tensor, bias: Tensor) -> Tensor:
    """A bias added to what a library has made: in its memory, where that was met before.

    Nobody else has that memory, so nothing need be asked about it.
    """
    record = REGISTRY[ADDED]
    operands, into = (out, bias), (out._array,)
    if record.met and HOOKS.meet_into(
        ADDED, record.met, operands, {}, switches.computed_with, into
    ):
        return out
    if HOOKS.fragments.compute_into(record, out, bias):
        return out
    with CONTEXT.having(grad_enabled=False):
        made: Tensor = record(out, bias)
        return made


def prepared_step(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Step | None:
    """What a library gives for operands that lie as these do, on the tape; None where nothing was
    prepared for them.

    Such a function gives None where convolutions are to be timed, or no longer.
    """
    arrays = [x._array if is_tensor(x) else x for x in operands]
    name, parts = record.name, WITH_BIAS.get(record.name)
    known = record.by_library or name in PREPARERS
    if not known or arrays[0].__class__ not in DEVICE_LAYOUTS:
        return None
    if len(arrays) != (2 if parts is None else 3):
        return None
    prepared = prepared_for(parts or record, arrays[0], arrays[1], params)
    if prepared is None:
        return None
    timed, is_set, recent = switches.is_set(BENCHMARK), switches.is_set, faults.LATEST.append
    told, chosen, attach = (name, None, 0), record.by_library, HOOKS.attach

    def run_prepared(operands: tuple[Any, ...]) -> Any:
        if chosen and is_set(BENCHMARK) != timed:
            return None
        recent(told)
        x, y = operands[:2]
        out = wrap(prepared(x._array, y._array))
        if parts is not None:
            out = with_bias(out, operands[2])
        if CONTEXT.grad_enabled:
            for x in operands:
                if x._requires_grad or x._base is not None:
                    attach(record, operands, params, out)
                    break
        return out

    return run_prepared


def pull(plan: Any, values: tuple[Any, ...], params: dict[str, Any], rest: Any) -> Any:
    """The cotangents of a convolution's operands, off the tape, as its rules give them.

    `values` are what the tape's `plan` saves and, last, the cotangent; `rest` is what else native
    code compares, the operands whose cotangents are needed among it. None: it is for the rules to
    say what they are. Where all was prepared before, native code finds it the next time.
    """
    record, g = plan.record, values[-1]
    name = WITH_BIAS[record.name].name if record.name in WITH_BIAS else record.name
    transposes = TRANSPOSES.get(name)
    if transposes is None or faults.BLOCKING or g._array.dtype.kind == "c":
        return None
    whole = 0 not in g._array.strides
    if not whole:  # one copy serves both convolutions
        g = g.contiguous()
    index, needed = g._array.data.device_id, rest[1]
    here = cupy().cuda.runtime.getDevice() == index
    results: list[Any] = [None] * (2 if name is record.name else 3)
    known: list[Any] | None = [] if whole else None  # how results come about
    for step in plan.steps:
        position = step.position
        if needed is not None and not needed[position]:
            continue
        if position > 1:
            results[position] = step.fn(g)
            if known is not None:
                known.append((position, step.fn, None, 0, 0))
            continue
        transpose, leads = transposes[position]
        other = plan.saves.index(1 - position)
        places = (-1, other) if leads else (other, -1)
        x, y = (g if at < 0 else values[at] for at in places)
        prepared = PREPARED.get(key_of(transpose, x._array, y._array, **params)) if here else None
        if prepared is None:
            results[position], known = REGISTRY[transpose](x, y, **params), None
            continue
        told = (transpose, None, 0)
        faults.LATEST.append(told)
        results[position] = wrap(prepared(x._array, y._array))
        if known is not None:
            known.append((position, prepared, told, *places))
    if known:
        function = pulled_by(known, len(results), index)
        entry = HOOKS.straight_entry(function, (plan, values, params, rest))
        if entry is not None:
            enlist_straight(plan, entry)
    return results


def pulled_by(known: list[Any], count: int, index: int) -> Callable[..., Any]:
    """What gives cotangents as they were found, of values that lie as those did; None where
    convolutions are to be timed, or no longer, or where another device is the current one."""
    timed, is_set, recent = switches.is_set(BENCHMARK), switches.is_set, faults.LATEST.append
    current = CURRENT_INDEX["cuda"]

    def pulled(*values: Any) -> Any:
        if is_set(BENCHMARK) != timed or current() != index:
            return None
        results: list[Any] = [None] * count
        for position, give, told, first, second in known:
            if told is None:  # of a bias
                results[position] = give(values[-1])
            else:
                recent(told)
                results[position] = wrap(give(values[first]._array, values[second]._array))
        return results

    return pulled


HOOKS.prepared_step = prepared_step
HOOKS.pull_prepared = pull
