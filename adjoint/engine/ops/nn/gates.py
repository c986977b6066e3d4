"""What a gated recurrent cell does after its products, and backward, each as one operation.

A cell is a dozen small operations on every time step; as one, with a kernel of its own, an eager
step costs a third. In a captured graph they are inlined into their elements and fused as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.operations.families import composite
from adjoint.engine.ops.shape.join import cat, stack

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _or_zeros(g: Any, like: Tensor) -> Tensor:
    return like.new_zeros(like.shape) if g is None else g


# -- the steps of a sequence --------------------------------------------------------------------


def _steps(x: Tensor, sizes: Any) -> tuple[Tensor, ...]:
    return tuple(x.unbind(0) if sizes is None else x.split(sizes))


def _steps_joint(gs: Sequence[Any], out_specs: Any, sizes: Any) -> list[Any]:
    like = next(g for g in gs if g is not None)
    filled = [
        like.new_zeros(spec.shape) if g is None else g
        for g, spec in zip(gs, out_specs, strict=True)
    ]
    return [stack(filled) if sizes is None else cat(filled)]


# STEPS(x, sizes): the rows of x, or as many rows at a time as `sizes` says. Not views: the gradient
# of a view is as large as what it shows part of, and there is one for every step.
STEPS = composite(
    "steps", _steps, operands=("x",), outputs=0, joint=_steps_joint, native_check=True
)


# -- long short-term memory ---------------------------------------------------------------------


def lstm_gates(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(h, new c, activations) from the sums (..., 4H) before the gates i, f, g, o."""
    return _lstm_gated(x.chunk(4, -1), c)


def lstm_gates_of_both(x: Tensor, y: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same from the input's and the state's sums, each gate's added when it is made.

    Kernels of a GPU make all gates as one: the sums of both need no launch of their own.
    """
    pairs = zip(x.chunk(4, -1), y.chunk(4, -1), strict=True)
    return _lstm_gated([(a + b).to(c.dtype) for a, b in pairs], c)


def _lstm_gated(sums: Sequence[Tensor], c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    i, f, g, o = sums
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * c + i * g
    return o * new.tanh(), new, cat([i, f, g, o], -1)


def _lstm_backward(
    acts: Tensor, c: Tensor, new: Tensor, gh: Tensor, gc: Tensor, ga: Any = None, dtype: Any = None
) -> tuple[Tensor, Tensor]:
    """The cotangents of the sums, in a dtype of their own if one is asked for, and of c."""
    i, f, g, o = acts.chunk(4, -1)
    t = new.tanh()
    gc = gc + gh * o * (1 - t * t)
    parts = [gc * g, gc * c, gc * i, gh * t]
    if ga is not None:
        parts = [p + a for p, a in zip(parts, ga.chunk(4, -1), strict=True)]
    di, df, dg, do = parts
    pulled = [di * (i * (1 - i)), df * (f * (1 - f)), dg * (1 - g * g), do * (o * (1 - o))]
    if dtype is not None:  # before they are joined, so that the kernel which makes them writes them
        pulled = [p.to(dtype) for p in pulled]
    return cat(pulled, -1), gc * f


LSTM_BACKWARD = composite(
    "lstm_gates_backward",
    _lstm_backward,
    operands=("acts", "c", "new", "gh", "gc"),
    outputs=2,
    native_check=True,
    fragment="computed",
)


def _lstm_joint(gs: Sequence[Any], c: Tensor, later_outs: Any) -> tuple[Tensor, Tensor]:
    new, acts = later_outs
    gh, gc, ga = gs
    gh, gc = _or_zeros(gh, new), _or_zeros(gc, new)
    if ga is None:
        return LSTM_BACKWARD(acts, c, new, gh, gc)
    return _lstm_backward(acts, c, new, gh, gc, ga)  # a derivative of the derivative


# LSTM_GATES(x, c) -> (h, new c, activations): the last for backward.
LSTM_GATES = composite(
    "lstm_gates",
    lstm_gates,
    operands=("x", "c"),
    outputs=3,
    joint=_lstm_joint,
    native_check=True,
    fragment="computed",
)


# -- gated recurrent unit -----------------------------------------------------------------------


def gru_gates(x: Tensor, y: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """(new h, activations) from the input's and the state's sums (..., 3H) for r, z, n."""
    return gru_gated(x.chunk(3, -1), y.chunk(3, -1), h)


def gru_gated(x: Sequence[Tensor], y: Sequence[Tensor], h: Tensor) -> tuple[Tensor, Tensor]:
    """The same from both sums of each gate."""
    (xr, xz, xn), (yr, yz, yn) = x, y
    r, z = (xr + yr).sigmoid(), (xz + yz).sigmoid()
    n = (xn + r * yn).tanh()
    return n + z * (h - n), cat([r, z, n], -1)


def gru_cotangents(
    acts: Tensor, y: Tensor, h: Tensor, g: Tensor, ga: Any = None
) -> tuple[Tensor, ...]:
    """Those of the sums of r, z and n, of the state's sums of n, and of h but by its sums."""
    r, z, n = acts.chunk(3, -1)
    dz, dn = g * (h - n), g * (1 - z)
    if ga is not None:
        ar, az, an = ga.chunk(3, -1)
        dz, dn = dz + az, dn + an
    dn = dn * (1 - n * n)
    dr = dn * y.chunk(3, -1)[2]
    if ga is not None:
        dr = dr + ar
    dr, dz = dr * (r * (1 - r)), dz * (z * (1 - z))
    return dr, dz, dn, dn * r, g * z


def _gru_backward(
    acts: Tensor, y: Tensor, h: Tensor, g: Tensor, ga: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    dr, dz, dn, of_state, gh = gru_cotangents(acts, y, h, g, ga)
    return cat([dr, dz, dn], -1), cat([dr, dz, of_state], -1), gh


GRU_BACKWARD = composite(
    "gru_gates_backward",
    _gru_backward,
    operands=("acts", "y", "h", "g"),
    outputs=3,
    native_check=True,
    fragment="computed",
)


def _gru_joint(
    gs: Sequence[Any], y: Tensor, h: Tensor, later_outs: Any
) -> tuple[Tensor, Tensor, Tensor]:
    acts = later_outs[0]
    g, ga = _or_zeros(gs[0], h), gs[1]
    if ga is None:
        return GRU_BACKWARD(acts, y, h, g)
    return _gru_backward(acts, y, h, g, ga)


# GRU_GATES(x, y, h) -> (new h, activations): the last for backward.
GRU_GATES = composite(
    "gru_gates",
    gru_gates,
    operands=("x", "y", "h"),
    outputs=2,
    joint=_gru_joint,
    native_check=True,
    fragment="computed",
)
