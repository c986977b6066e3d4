"""Kernels of gated recurrent cells: a few passes over all gates at once, mostly in place.

Products are taken in the order of the compositions, so that both round alike.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

from adjoint.engine.backends.array.kernels.elementwise.kernels import sigmoid
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.ops.nn import gates

Array = Any


def _widened(kernel: Any) -> Any:
    """Halves are computed in float32 and rounded once."""

    def run(xp: Any, *arrays: Array) -> Any:
        kind = arrays[0].dtype
        if kind.itemsize > 2:
            return kernel(xp, *arrays)
        return tuple([a.astype(kind) for a in kernel(xp, *[a.astype("f4") for a in arrays])])

    return run


def _blocks(array: Array, count: int) -> list[Array]:
    size = array.shape[-1] // count
    return [array[..., k * size : (k + 1) * size] for k in range(count)]


@lowers(gates.STEPS)
def steps(xp: Any, x: Array, sizes: list[int] | None) -> tuple[Array, ...]:
    if sizes is None:
        return tuple([row.copy() for row in x])
    ends = [0, *accumulate(sizes)]
    return tuple([x[a:b].copy() for a, b in pairwise(ends)])


@lowers(gates.LSTM_GATES)
@_widened
def lstm_gates(xp: Any, x: Array, c: Array) -> tuple[Array, ...]:
    acts = sigmoid(xp, x)
    i, f, g, o = _blocks(acts, 4)
    xp.tanh(_blocks(x, 4)[2], out=g)
    new = f * c
    new += i * g
    h = xp.tanh(new)
    h *= o
    return h, new, acts


@lowers(gates.LSTM_BACKWARD)
@_widened
def lstm_backward(
    xp: Any, acts: Array, c: Array, new: Array, gh: Array, gc: Array
) -> tuple[Array, ...]:
    i, f, g, o = _blocks(acts, 4)
    t = xp.tanh(new)
    total = gh * o
    total *= 1 - t * t
    total += gc
    out = 1 - acts
    out *= acts
    di, df, dg, do = _blocks(out, 4)
    xp.multiply(g, g, out=dg)
    xp.subtract(1, dg, out=dg)
    di *= total * g
    df *= total * c
    dg *= total * i
    do *= gh * t
    total *= f
    return out, total


@lowers(gates.GRU_GATES)
@_widened
def gru_gates(xp: Any, x: Array, y: Array, h: Array) -> tuple[Array, ...]:
    acts = x + y
    size = h.shape[-1]
    acts[..., : 2 * size] = sigmoid(xp, acts[..., : 2 * size])
    r, z, n = _blocks(acts, 3)
    xp.multiply(r, _blocks(y, 3)[2], out=n)
    n += _blocks(x, 3)[2]
    xp.tanh(n, out=n)
    new = h - n
    new *= z
    new += n
    return new, acts


@lowers(gates.GRU_BACKWARD)
@_widened
def gru_backward(xp: Any, acts: Array, y: Array, h: Array, g: Array) -> tuple[Array, ...]:
    r, z, n = _blocks(acts, 3)
    out = 1 - acts
    out *= acts
    dr, dz, dn = _blocks(out, 3)
    dz *= g * (h - n)
    xp.multiply(n, n, out=dn)
    xp.subtract(1, dn, out=dn)
    dn *= g * (1 - z)
    dr *= dn * _blocks(y, 3)[2]
    other = out.copy()
    tail = _blocks(other, 3)[2]
    tail *= r
    return out, other, g * z
