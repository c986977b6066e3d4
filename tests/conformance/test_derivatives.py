"""Derivatives of every sample: finite differences to second order, vjp against jvp, vmap, capture.

All checks are directional: for cotangents u and a direction v, with <a, b> = Re(sum(conj(a) b)),
    d/dt <u, f(x + t v)> = <vjp(u), v> = <u, jvp(v)>
and the same again for x -> <vjp(u), w>.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.graph import capture
from tests.conformance.cases import Case, firsts, make, rows

ROWS = rows()
GRAD_ROWS = [r for r in ROWS if r.grad]
STEP = 1e-5


def dot(a: Any, b: Any) -> float:
    return float(np.real(np.sum(np.conj(a.detach().numpy()) * b.detach().numpy())))


def like(tensors: list[Any], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)

    def draw(t: Any) -> Any:
        a = rng.uniform(-1, 1, tuple(t.shape))
        if t.dtype.is_complex:
            a = a + 1j * rng.uniform(-1, 1, tuple(t.shape))
        return ad.tensor(a).to(t.dtype)

    return [draw(t) for t in tensors]


def total(us: list[Any], outs: list[Any]) -> float:
    return sum(dot(u, o) for u, o in zip(us, outs, strict=True))


class Point:
    """A case restricted to the tensors it is differentiated by."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.xs = [case.tensors[i] for i in case.wanted]

    def directions(self, seed: int) -> list[Any]:
        """Directions to move in; along symmetric matrices only where the operation assumes so."""
        drawn = like(self.xs, seed)
        return [
            (v + v.transpose(-2, -1)) / 2 if symmetric else v
            for v, symmetric in zip(drawn, self.case.symmetric, strict=True)
        ]

    def outs(self, xs: list[Any]) -> list[Any]:
        tensors = list(self.case.tensors)
        for i, x in zip(self.case.wanted, xs, strict=True):
            tensors[i] = x
        return self.case.floats(tensors)

    def vjp(self, xs: list[Any], us: list[Any], *, create_graph: bool = False) -> list[Any]:
        leaves = xs if create_graph else [x.detach().clone().requires_grad_() for x in xs]
        outs = self.outs(leaves)
        pairs = [(o, u) for o, u in zip(outs, us, strict=True) if o.requires_grad]
        if not pairs:
            return [x.new_zeros(x.shape) for x in xs]
        return list(
            ad.autograd.grad(
                [o for o, _ in pairs],
                leaves,
                [u for _, u in pairs],
                create_graph=create_graph,
                materialize_grads=True,
            )
        )

    def moved(self, vs: list[Any], t: float) -> list[Any]:
        return [x + v * t for x, v in zip(self.xs, vs, strict=True)]


def close(a: float, b: float, what: str, tolerance: float = 2e-5) -> None:
    scale = max(1.0, abs(a), abs(b))
    assert abs(a - b) <= tolerance * scale, f"{what}: {a} != {b}"


@pytest.mark.parametrize("row", GRAD_ROWS, ids=repr)
def test_first_order(row: Any) -> None:
    point = Point(make(row))
    if not point.xs:
        pytest.fail(f"{row!r} differentiates nothing: mark it _grad=False")
    vs = point.directions(1)
    us = like(point.outs(point.xs), 2)
    numeric = (
        total(us, point.outs(point.moved(vs, STEP))) - total(us, point.outs(point.moved(vs, -STEP)))
    ) / (2 * STEP)
    reverse = total(point.vjp(point.xs, us), vs)
    close(reverse, numeric, "vjp against finite differences")
    _, tangents = ad.func.jvp(lambda *xs: point.outs(list(xs)), tuple(point.xs), tuple(vs))
    close(total(us, list(tangents)), reverse, "jvp against vjp", 1e-8)


@pytest.mark.parametrize("row", GRAD_ROWS, ids=repr)
def test_second_order(row: Any) -> None:
    point = Point(make(row))
    vs, ws = point.directions(1), point.directions(3)
    us = like(point.outs(point.xs), 2)
    numeric = (
        total(point.vjp(point.moved(vs, STEP), us), ws)
        - total(point.vjp(point.moved(vs, -STEP), us), ws)
    ) / (2 * STEP)
    leaves = [x.detach().clone().requires_grad_() for x in point.xs]
    firsts = point.vjp(leaves, us, create_graph=True)
    pairs = [(g, w) for g, w in zip(firsts, ws, strict=True) if g.requires_grad]
    seconds = (
        ad.autograd.grad(
            [g for g, _ in pairs], leaves, [w for _, w in pairs], materialize_grads=True
        )
        if pairs
        else [x.new_zeros(x.shape) for x in leaves]
    )
    close(total(list(seconds), vs), numeric, "second order against finite differences", 2e-4)


@pytest.mark.parametrize("row", [r for r in ROWS if r.vmap], ids=repr)
def test_vmap_equals_a_loop(row: Any) -> None:
    case = make(row)
    if not case.tensors:
        return
    other = [t.clone() if not t.dtype.is_inexact else t * 1.01 for t in case.tensors]
    full = [ad.stack([a, b]) for a, b in zip(case.tensors, other, strict=True)]
    rows_ = [case.fn(*case.tensors), case.fn(*other)]
    check_vmap(ad.func.vmap(lambda *ts: tuple(case.fn(*ts)))(*full), rows_)
    first = [full[0], *case.tensors[1:]]
    dims = (0, *(None,) * (len(first) - 1))
    rows_ = [rows_[0], case.fn(other[0], *case.tensors[1:])]
    check_vmap(ad.func.vmap(lambda *ts: tuple(case.fn(*ts)), in_dims=dims)(*first), rows_)


def check_vmap(got: Any, want: list[list[Any]]) -> None:
    for g, *ws in zip(got, *want, strict=True):
        for i, w in enumerate(ws):
            np.testing.assert_allclose(g[i].numpy(), w.numpy(), rtol=1e-9, atol=1e-11)
            assert g.dtype is w.dtype


# Captured, the gradient of what every iteration shares is one product over all of them.
SUMMED_OTHERWISE = ("lstm", "gru", "rnn_tanh", "rnn_relu", "scan")


@pytest.mark.parametrize("row", firsts([r for r in ROWS if r.capture]))
def test_capture_equals_eager(row: Any) -> None:
    """Forward, gradients and in-place writes, recorded and replayed by the interpreter."""
    case = make(row)
    point = Point(case)
    outs = point.outs(point.xs)
    us = like(outs, 2)

    def step(*tensors: Any) -> Any:
        values = case.fn(*tensors)
        if not row.grad:
            return values, []
        here = Point(case)
        xs = [tensors[i].detach().clone().requires_grad_() for i in case.wanted]
        floats = here.outs(xs)
        pairs = [(o, u) for o, u in zip(floats, us, strict=True) if o.requires_grad]
        if not pairs:
            return values, []
        grads = ad.autograd.grad(
            [o for o, _ in pairs], xs, [u for _, u in pairs], materialize_grads=True
        )
        return values, list(grads)

    ad.manual_seed(0)
    want = step(*case.tensors)
    captured = capture(step)
    for _ in range(2):
        ad.manual_seed(0)
        got = captured(*case.tensors)
        for g, w in zip([*got[0], *got[1]], [*want[0], *want[1]], strict=True):
            assert g.dtype is w.dtype
            a, b = g.detach().numpy(), w.detach().numpy()
            if row.path in SUMMED_OTHERWISE:
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
            else:
                np.testing.assert_array_equal(a, b)
    assert captured.traces == 1
