"""Writes through views that the tape follows: values and gradients against writes by masks."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.operations.record import HOOKS, REGISTRY

SHAPE = (5, 4)
KEYS: list[Any] = [
    0, -1, slice(1, None), slice(None, -1), slice(None, None, 2), (slice(None), 0), (2, 3),
    (slice(1, 4), slice(None, 2)), (Ellipsis, 1), slice(2, 2), (None, 1),
]  # fmt: skip
WRITES = ["add", "mul", "number", "tensor", "spread", "itself", "part of a part", "column"]


def put(x: Any, key: Any, part: Any) -> Any:
    """x with a part replaced, by a mask: the oracle of `x[key] = part`."""
    numbers = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    chosen = numbers[key]
    places = np.zeros(SHAPE, np.int64)
    places[key] = np.arange(chosen.size).reshape(chosen.shape)
    mask = np.zeros(SHAPE, bool)
    mask[key] = True
    if not chosen.size:
        return x * 1.0
    spread = part.expand(chosen.shape) if tuple(part.shape) != chosen.shape else part
    return ad.where(ad.from_numpy(mask), spread.reshape(-1)[ad.from_numpy(places)], x)


def written(x: Any, y: Any, steps: list[tuple[str, Any]]) -> Any:
    """The writes as users make them."""
    for kind, key in steps:
        part = x[key]
        match kind:
            case "add":
                x[key] += y[key]
            case "mul":
                x[key] *= 1.5
            case "number":
                x[key] = 2.0
            case "tensor":
                x[key] = y[key] * 2
            case "spread":
                x[key] = y[0, 0]
            case "itself":
                part.sin_()
                x[key] = part
            case "part of a part":
                x[1:][:2] += y[2:4]
            case "column":
                x[:, 1][1:3] = y[0, :2]
            case _:
                raise AssertionError(kind)
    return x


def masked(x: Any, y: Any, steps: list[tuple[str, Any]]) -> Any:
    """The same, each write a choice between elements."""
    for kind, key in steps:
        part, given = x[key], y[key]
        match kind:
            case "add":
                x = put(x, key, part + given)
            case "mul":
                x = put(x, key, part * 1.5)
            case "number":
                x = put(x, key, ad.tensor(2.0, dtype=x.dtype))
            case "tensor":
                x = put(x, key, given * 2)
            case "spread":
                x = put(x, key, y[0, 0])
            case "itself":
                x = put(x, key, part.sin())
            case "part of a part":
                x = put(x, slice(1, 3), x[1:3] + y[2:4])
            case "column":
                x = put(x, (slice(1, 3), 1), y[0, :2])
            case _:
                raise AssertionError(kind)
    return x


def or_zeros(g: Any) -> np.ndarray:
    """A gradient, zeros where there is none."""
    return np.zeros(SHAPE) if g is None else g.detach().numpy()


def outcome(run: Any, seed: int, followed: str, steps: Any, layout: str) -> list[np.ndarray]:
    """The value, first gradients, and gradients of those."""
    rng = np.random.default_rng(seed)
    given = [ad.from_numpy(rng.standard_normal(SHAPE)) for _ in "xyw"]
    if layout == "turned":
        given = [x.t().contiguous().t() for x in given]
    x, y, w = given
    leaves = [z.requires_grad_() for z, name in zip((x, y), "xy", strict=True) if name in followed]
    base = x * 1.0 if "x" in followed else x.clone()
    out = run(base, y, steps)
    results = [out.detach().numpy().copy()]
    if not out.requires_grad:
        return results
    loss = (out * out.cos() * w).sum()
    first = ad.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    plain = ad.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    for g, h in zip(first, plain, strict=True):
        np.testing.assert_array_equal(or_zeros(g), or_zeros(h))
        results.append(or_zeros(h))
    total = sum(((g * g).sum() for g in first if g is not None), x.sum() * 0 + y.sum() * 0)
    second = ad.autograd.grad(total, leaves, allow_unused=True)
    return results + [or_zeros(g) for g in second]


@pytest.mark.parametrize("seed", range(80))
def test_writes_are_choices_between_elements(seed: int) -> None:
    chosen = random.Random(seed)
    steps = [(chosen.choice(WRITES), chosen.choice(KEYS)) for _ in range(chosen.randint(1, 5))]
    followed, layout = chosen.choice(["x", "y", "xy", ""]), chosen.choice(["rows", "turned"])
    got = outcome(written, seed, followed, steps, layout)
    want = outcome(masked, seed, followed, steps, layout)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12, err_msg=f"{steps} {followed}")


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("key", KEYS)
def test_a_cotangent_is_taken_apart_as_the_rules_say(key: Any, turned: bool) -> None:
    g = np.random.default_rng(0).standard_normal(SHAPE)
    g = np.asfortranarray(g) if turned else g
    seen = ad.from_numpy(g)[key]
    chain = seen._chain
    if not seen.numel():  # what is nowhere cannot be told from a copy: left to the rules
        assert HOOKS.array.taken_apart(g, chain, True, True) is None
        return
    rest, shown = HOOKS.array.taken_apart(g, chain, True, True)
    zeros = ad.zeros(seen.shape, dtype=ad.float64)
    by_rule = REGISTRY["view_scatter"](ad.from_numpy(g), zeros, chain=chain)
    assert HOOKS.same_arrays([rest, shown], [by_rule.numpy(), seen.clone().numpy()])
    assert HOOKS.array.taken_apart(g, chain, True, False)[1] is None
    assert HOOKS.array.taken_apart(g, chain, False, True)[0] is None


def test_putting_a_written_part_back_counts_as_a_write() -> None:
    x = ad.ones(3, requires_grad=True) * 2
    part = x[0]
    part += 1
    square = x * x  # keeps x
    x[0] = part
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()


@pytest.mark.parametrize("followed", [False, True])
def test_adding_to_a_part_is_two_writes(followed: bool) -> None:
    x = ad.ones(3, requires_grad=followed) * 2
    x[0] += 1
    x[1:] *= 2
    assert x._version == 4
    assert x.tolist() == [3, 4, 4]
    with ad.no_grad():
        leaf = ad.ones(3, requires_grad=True)
        leaf[0] += 1
    assert leaf._version == 2
    assert leaf.tolist() == [2, 1, 1]


def test_another_part_is_copied() -> None:
    x = ad.arange(6.0).reshape(3, 2)
    x[0] = x[1]
    x[1:] = x[:2]
    part = x[:, 1:][0]
    x[0] = part
    assert x.tolist() == [[3, 3], [2, 3], [2, 3]]


def test_a_part_cut_off_the_tape_is_written_as_a_constant() -> None:
    leaf = ad.ones(3, requires_grad=True)
    x = leaf * 2
    x[1:] += 1
    x[0] = x[0].detach()
    x.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [0, 2, 2]


def test_what_may_not_be_written_is_refused() -> None:
    leaf = ad.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf[0] = 1.0
    with pytest.raises(RuntimeError, match="leaf"):
        leaf[0] += 1.0
    x = leaf * 2
    with ad.no_grad():
        view = x[:2]
    with pytest.raises(RuntimeError, match="no_grad"):
        view[0] = 1.0
    with pytest.raises(RuntimeError, match="single memory location"):
        x[:1].expand(3)[:] = x
