"""Cotangents of slices that lie side by side are joined: the same as each put into zeros."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.engine.autodiff.tape.pieces import Pieces

Cut = tuple[str, int, int, int]  # how, dimension, and two numbers


@st.composite
def cuts(draw: Any) -> list[Cut]:
    kinds = st.sampled_from(["split", "chunk", "unbind", "narrow", "select", "step", "whole"])
    one = st.tuples(kinds, st.integers(0, 2), st.integers(0, 5), st.integers(1, 4))
    return draw(st.lists(one, min_size=1, max_size=5))


def parts_of(x: Any, cut: Cut) -> list[Any]:
    how, dim, first, count = cut
    size = x.shape[dim]
    if how == "split":
        return list(x.split(count, dim))
    if how == "chunk":
        return list(x.chunk(count, dim))
    if how == "unbind":
        return list(x.unbind(dim))
    if how == "narrow":
        start = first % size
        return [x.narrow(dim, start, min(count, size - start))]
    if how == "select":
        return [x.select(dim, first % size)]
    return [x[(slice(None),) * dim + (slice(None, None, 2),)]] if how == "step" else [x]


def loss_of(x: Any, chosen: list[Cut], some: int) -> Any:
    """A function of parts of x, or of what is made of it, of which some go unused."""
    h = x * 1.5 if len(chosen) % 2 else x
    parts = [part for cut in chosen for part in parts_of(h, cut)]
    used = [part for k, part in enumerate(parts) if (k + some) % 3] or parts
    return sum((part.sin() * (k + 1)).sum() for k, part in enumerate(used))


def gradient(x: Any, chosen: list[Cut], some: int) -> Any:
    leaf = x.detach().requires_grad_()
    loss_of(leaf, chosen, some).backward()
    return leaf.grad


@settings(max_examples=25, deadline=None)
@given(cuts(), st.integers(0, 2))
def test_parts_have_the_gradients_that_zeros_and_sums_give(chosen: list[Cut], some: int) -> None:
    x = ad.randn(3, 4, 6, dtype=ad.float64)
    leaf = x.detach().requires_grad_()
    (apart,) = ad.autograd.grad(loss_of(leaf, chosen, some), leaf)  # for chosen tensors: as ever
    ad.testing.assert_close(gradient(x, chosen, some), apart, rtol=1e-13, atol=1e-13)
    leaf.grad = None
    loss_of(leaf, chosen, some).backward(create_graph=True)
    ad.testing.assert_close(leaf.grad.detach(), apart, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_a_split_is_joined_once(dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = []
    whole = Pieces.joined

    def counting(self: Pieces) -> Any:
        joined.append(len(self.parts))
        return whole(self)

    monkeypatch.setattr(Pieces, "joined", counting)
    x = ad.randn(4, 4, 4)
    wanted = (x * 1.5).cos() * 1.5
    got = gradient(x, [("unbind", dim, 0, 1)], 1)
    assert joined == [3]
    scale = [0.0 if (k + 1) % 3 == 0 else 1.0 for k in range(4)]
    factors = iter(range(1, 5))
    rows = [s * next(factors) if s else 0.0 for s in scale]
    shape = [4 if d == dim else 1 for d in range(3)]
    ad.testing.assert_close(got, wanted * ad.tensor(rows).reshape(shape))


def test_signs_of_zeros_stay() -> None:
    x = ad.tensor([[0.0, 1.0, 2.0, 3.0]], requires_grad=True)

    def step() -> None:
        a, b = (x * 1.0).split(2, 1)
        (a * -0.0 + b * -0.0).sum().backward()

    step()
    assert [math.copysign(1.0, n) for n in x.grad.flatten().tolist()] == [-1.0] * 4
    x.grad = None
    ad.compile(step)()  # whose zeros may have either sign
    assert x.grad.tolist() == [[0.0] * 4]


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_functions_of_parts(dynamic: bool) -> None:
    x = ad.randn(4, 6, dtype=ad.float64, requires_grad=True)
    outside = (x * 1.5).split(2, 1)  # parts that the compiled function did not make

    def inside(leaf: Any, parts: Any) -> Any:
        mine = (leaf * 2.0).unbind(0)
        return sum((p.sin() * (k + 1)).sum() for k, p in enumerate([*mine[1:], *parts[:2]]))

    compiled = ad.compile(inside, dynamic=dynamic)
    (wanted,) = ad.autograd.grad(inside(x, outside), x, retain_graph=True)
    for _ in range(3):
        x.grad = None
        compiled(x, outside).backward(retain_graph=True)
        ad.testing.assert_close(x.grad, wanted)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_steps_of_parts(dynamic: bool) -> None:
    weight = ad.randn(3, 3, dtype=ad.float64, requires_grad=True)

    def step(x: Any) -> None:
        first, rest = (x @ weight).split([2, x.shape[0] - 2])
        (first.sin().sum() + (rest[0] * 2).sum()).backward()

    compiled = ad.compile(step, dynamic=dynamic)
    for size in (5, 6, 7):
        x = ad.randn(size, 3, dtype=ad.float64)
        weight.grad = None
        step(x)
        wanted, weight.grad = weight.grad, None
        compiled(x)
        ad.testing.assert_close(weight.grad, wanted)


def test_hooks_on_parts_see_their_own_gradient() -> None:
    x = ad.ones(4, requires_grad=True)
    seen: list[Any] = []
    a, b = (x * 2).split(2)
    a.register_hook(lambda g: seen.append(g.tolist()))
    (a.sum() + 3 * b.sum()).backward()
    assert seen == [[1.0, 1.0]]
    assert x.grad.tolist() == [2.0, 2.0, 6.0, 6.0]
