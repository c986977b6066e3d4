"""Calls that make tensors on a GPU of numbers alone.

Note [made on a device]
    `zeros(64, 64, device="cuda")` is known by literals. What is computed (`arange`) becomes a
    program like other calls on a device (Note [calls on a device]). What is drawn, and what nobody
    has written (`empty`), is a function in its place that native code finds by the same literals
    as on the CPU (Note [small draws]): it takes the same blocks from the GPU's default generator
    and draws by the same record, or takes memory. "cuda" is whichever GPU is the current one, so
    such a function leaves the call to Python where another is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from adjoint.engine.core.device import CURRENT_INDEX, Device
from adjoint.engine.core.dtype import DEFAULT_LISTENERS
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.operations.small_calls import DRAWING, SmallCalls
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.determinism import fills_uninitialized
from adjoint.engine.core.state.late_faults import look
from adjoint.engine.core.state.rng import Generator, default_generator_of
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.graph.eager import device_calls
from adjoint.engine.graph.eager.drawn import SEED, DrawTrace, drawn_graph
from adjoint.engine.graph.eager.enlisted import enlist
from adjoint.engine.graph.eager.fragment import Unfit
from adjoint.engine.graph.eager.small_calls import copied, is_literal, own_warnings
from adjoint.engine.graph.ir import Node, frozen
from adjoint.engine.ops.create.creation import EMPTY
from adjoint.engine.ops.random.random import RANDOM

Entry = tuple[Any, ...] | None
MADE: dict[Any, Entry | int] = {}  # an int: times sighted; None: it has none
DEFAULT_LISTENERS.append(MADE.clear)  # what they give depends on the default dtype


def note(
    calls: SmallCalls, operands: tuple[Any, ...], params: dict[str, Any], call: Callable[[], Any]
) -> None:
    """One more call without a program: give its kind one, if there were some of that kind."""
    device = params["device"]
    if not isinstance(device, (str, Device)) or not str(device).startswith("cuda"):
        return
    if params.get("requires_grad"):
        return
    if calls.name not in DRAWING:
        device_calls.note(calls, operands, params, call)
        return
    values = [value for name, value in params.items() if name != "device"]
    if STREAM_CAPTURE.graph is not None or not all(map(is_literal, (*operands, *values))):
        return
    kind = (calls, frozen(operands), frozen(params))
    entry = MADE.get(kind, 0)
    if entry.__class__ is int:
        if len(MADE) > device_calls.KEPT:
            MADE.clear()
        if entry < device_calls.SIGHTED:
            MADE[kind] = entry + 1
            return
        entry = MADE[kind] = tried(calls, operands, params, call)
    if entry is not None:
        enlist(calls, entry)


def tried(
    calls: SmallCalls, operands: tuple[Any, ...], params: dict[str, Any], call: Callable[[], Any]
) -> Entry:
    """What native code compares with a call of this kind, and calls; None: it runs as it is."""
    look()  # for what earlier calls reported, which is theirs
    given = [copied(x) for x in operands]
    own = {name: copied(x) for name, x in params.items()}
    settings: set[str] = set()
    before = CONTEXT.every_field()
    try:
        with own_warnings() as warned, CONTEXT.having(consulted=settings):
            made = function_of(calls, given, own, call)
            entry: Entry = HOOKS.small_entry(None, made, (), (given, own, True), of="tensors")
    except Exception as error:  # whatever it is, the call itself succeeds or says what is wrong
        if raised_outside(error):
            raise
        return None
    finally:
        CONTEXT.__dict__.update(before)  # an interrupt may have left them
    return None if settings or warned else entry


def function_of(
    calls: SmallCalls, operands: list[Any], params: dict[str, Any], call: Callable[[], Any]
) -> Callable[[], Any]:
    """A function that does what the call does; it gives None where it cannot."""
    index = CURRENT_INDEX["cuda"]()
    source = default_generator_of(Device("cuda", index))
    tensors = device_calls.tensors_of(tuple(operands))
    graph, _, drawn = drawn_graph(DrawTrace(source), tensors, call)
    (node,) = graph.nodes
    if node.params["device"] is not Device("cuda", index) or graph.outputs != [*node.outputs]:
        raise Unfit
    if node.record is EMPTY and not drawn:
        return unwritten(node, index)
    few = prod(graph.outputs[0].spec.shape) <= device_calls.MOST
    if node.record is not RANDOM or node.inputs != (SEED, 0) or not few:
        raise Unfit
    return sampled(calls, node, drawn[0], source, (operands, params))


def unwritten(node: Node, index: int) -> Callable[[], Any]:
    """What gives new memory of the current GPU."""
    shape, strides = tuple(node.params["shape"]), node.params["strides"]
    sample = node.record(**{**node.params, "shape": (), "strides": None})._array
    dense = strides is None or tuple(strides) == contiguous_strides(shape)
    if sample.__class__ not in DEVICE_LAYOUTS or not dense:
        raise Unfit
    make, current = partial(sample.__class__, shape, sample.dtype), CURRENT_INDEX["cuda"]
    wrap = HOOKS.array.wrap
    # As long as no switch is set anew, this one is not either.
    unfilled = None if fills_uninitialized() else switches.computed_with

    def made() -> Any:
        if current() != index:
            return None
        if switches.computed_with is not unfilled and fills_uninitialized():
            return None
        return wrap(make())

    return made


def sampled(
    calls: SmallCalls, node: Node, blocks: int, source: Generator, given: tuple[Any, Any]
) -> Callable[[], Any]:
    """What draws on the current GPU, if it gives the same bytes as the call."""
    record, how, index = node.record, node.params, source.device.index
    current = CURRENT_INDEX["cuda"]

    def drawn(seed: int, offset: int) -> Any:
        if record.met:
            out = HOOKS.meet_on_device(
                record.name, record.met, (seed, offset), how, switches.computed_with
            )
            if out is not None:
                return out
        return record(seed, offset, **how)

    probe = Generator(source.device).manual_seed(SEED)
    operands, params = given
    want = PUBLIC["", calls.name].fn(*operands, **params, generator=probe)
    if not is_tensor(want) or want._requires_grad or probe._offset != blocks:
        raise Unfit
    if not device_calls.same(drawn(SEED, 0), want):
        raise Unfit

    def made() -> Any:
        if current() != index:
            return None
        seed, offset = source.draw(blocks)
        try:
            return drawn(seed, offset)
        except Exception:
            source.advance(-blocks)
            raise

    return made
