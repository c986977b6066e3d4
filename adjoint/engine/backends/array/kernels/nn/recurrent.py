"""Whole recurrent networks on a GPU: by cuDNN, where it is installed and runs their kind.

`ADJOINT_CUDNN_RECURRENCE=0` in the environment has all of them go moment by moment.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from adjoint.engine.backends.array.libraries.convolutions import allows_tf32, wants_determinism
from adjoint.engine.backends.array.libraries.cudnn import installed
from adjoint.engine.backends.array.libraries.recurrent import (
    KINDS,
    PERSISTENT_SMALL,
    STANDARD,
    prepared,
)
from adjoint.engine.backends.array.table import lowers_on_gpu
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.ops.nn import recurrent_networks as ops
from adjoint.engine.ops.nn.recurrent_networks import RecurrentNetwork

Array = Any
ASKED = os.environ.get("ADJOINT_CUDNN_RECURRENCE", "").strip() != "0"
SMALL = 256  # states that the algorithm for small ones was seen to be right for
# When a compiled program has it called, between two graphs of launches: up to so many states, and
# where that takes the host less than kernels take the GPU. Microseconds of a step, as they were
# measured (benchmarks/notes/gpu_calls.md): a moment by kernels where a state has fewer elements;
# a call.
CALLED = 128
MOMENT, CALL = ((512, 9), (8192, 14), (1 << 62, 20)), 580
ALIGNED = 16  # bytes that addresses are multiples of: kernels read so many at once


def choose(network: RecurrentNetwork, index: int) -> RecurrentNetwork | None:
    """The network as cuDNN runs it under today's switches; None where it does not."""
    if STREAM_CAPTURE.graph is not None:
        return None  # to try a kind waits for the GPU, which no captured stream may
    return _choice(network, index, switches.computed_with)


@lru_cache(maxsize=1024)
def _choice(
    network: RecurrentNetwork, index: int, computed_with: tuple[Any, ...]
) -> RecurrentNetwork | None:
    # Sums of a recurrence are taken in an order that its library does not promise.
    if network.dtype not in KINDS or wants_determinism():
        return None
    if not switches.get("backends.cudnn.enabled") or installed()[0] is None:
        return None
    network = replace(network, tf32=network.dtype == "float32" and allows_tf32())
    kinds = (replace(network, algorithm=algorithm) for algorithm in algorithms(network))
    return next((kind for kind in kinds if prepared(index, kind) is not None), None)


def algorithms(network: RecurrentNetwork) -> tuple[int, ...]:
    """Those of cuDNN's to try, the fastest first (benchmarks/notes/gpu_calls.md)."""
    halves = network.dtype in ("float16", "bfloat16")
    if network.hidden > SMALL or (halves and network.cell.startswith("RNN")):
        return (STANDARD,)  # of plain cells of halves the other is wrong (cuDNN 9.19)
    return PERSISTENT_SMALL, STANDARD


def kept(network: RecurrentNetwork, index: int) -> int | None:
    """Bytes that a chosen network keeps; None where kernels of a program are quicker."""
    if network.algorithm != PERSISTENT_SMALL or network.hidden > CALLED:
        return None
    moments = network.length * network.layers * network.directions
    each = next(us for limit, us in MOMENT if network.batch * network.hidden < limit)
    if moments * each < CALL:
        return None
    ready = prepared(index, network)
    return None if ready is None else ready.kept


if ASKED:
    ops.CHOOSE["cuda"], ops.KEPT["cuda"] = choose, kept


def _dense(xp: Any, arrays: Sequence[Array]) -> list[Array]:
    """Arrays without gaps at addresses that kernels can read from."""
    found = []
    for a in arrays:
        if not a.flags.c_contiguous:
            a = xp.ascontiguousarray(a)
        found.append(a.copy() if a.data.ptr % ALIGNED else a)
    return found


@lowers_on_gpu(ops.RECURRENT_NETWORK)
def recurrent_network(
    xp: Any,
    x: Array,
    *rest: Array,
    network: RecurrentNetwork,
    given: int,
    training: bool,
    kept: int = 0,
) -> tuple[Array, ...]:
    first, *others = _dense(xp, (x, *rest))
    run: Any = prepared(x.data.device_id, network)
    outs: tuple[Array, ...] = run.forward(first, others[:given], others[given:], training)
    return outs


@lowers_on_gpu(ops.RECURRENT_GRADIENT)
def recurrent_gradient(
    xp: Any,
    *xs: Array,
    got: tuple[bool, ...],
    wanted: tuple[bool, ...],
    network: RecurrentNetwork,
    given: int,
) -> tuple[Array, ...]:
    """The gradients that are wanted, of the inputs, the first states and the parameters."""
    # Parameters, which come last, are read from what was kept.
    dense = iter(_dense(xp, xs[: sum(got) + 3 + given]))
    gs = [next(dense) if g else None for g in got]
    outs = next(dense), next(dense)
    x, *states = dense
    run: Any = prepared(x.data.device_id, network)
    of_weights = any(wanted[1 + given :])
    dx, first, parts = run.backward(x, states, outs, gs, of_weights)
    found = (dx, *first[:given], *parts)
    return tuple(g for g, w in zip(found, wanted, strict=False) if w)
