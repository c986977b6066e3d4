"""Results of compiled functions that nobody uses: gradients are those of eager execution."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import adjoint as ad


class KnownGradient(ad.autograd.Function):
    """Computes its gradient forward and takes no cotangent, as fused losses do."""

    @staticmethod
    def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
        ctx.save_for_backward(x)
        return (x * x).sum()

    @staticmethod
    def backward(ctx: Any, g: ad.Tensor) -> ad.Tensor:
        (x,) = ctx.saved_tensors
        result: ad.Tensor = 2 * x
        return result


class Shifted(ad.autograd.Function):
    """A backward that is not linear."""

    @staticmethod
    def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: ad.Tensor) -> ad.Tensor:
        return g.sign() + 1


class TellsThemApart(ad.autograd.Function):
    """A backward that asks which of its results were used."""

    @staticmethod
    def forward(ctx: Any, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, a: ad.Tensor | None, b: ad.Tensor | None) -> ad.Tensor:
        total = ad.zeros(3) if a is None else 2 * a
        return total + (7 if b is None else 100 * b)


def _made_of_each_other(x: ad.Tensor) -> tuple[ad.Tensor, ...]:
    features = x * 3
    return features, KnownGradient.apply(features), (features - 3).log()


def _written_inside(x: ad.Tensor) -> tuple[ad.Tensor, ...]:
    written = x.clone().mul_(2)
    return written, written * written, KnownGradient.apply(written)


FUNCTIONS: dict[str, Callable[[ad.Tensor], tuple[ad.Tensor, ...]]] = {
    "known gradient": lambda x: (x * 3, KnownGradient.apply(x)),
    "not linear": lambda x: (x * 3, Shifted.apply(x), x.exp()),
    "tells them apart": TellsThemApart.apply,
    "infinite slopes": lambda x: (x * x, (x - 1).log(), (x - 1).sqrt()),
    "made of each other": _made_of_each_other,
    "written inside": _written_inside,
    "of one node": lambda x: tuple((x - 1).abs().sqrt().unbind(0)),
}
CASES = [
    (name, used)
    for name, fn in FUNCTIONS.items()
    for n in [len(fn(ad.ones(3)))]
    for count in range(1, n + 1)
    for used in combinations(range(n), count)
]


def _gradient(fn: Any, used: tuple[int, ...], create_graph: bool, seen: bool) -> Any:
    x = ad.tensor([1.0, 2.0, 4.0], requires_grad=True)
    results = fn(x)
    if seen:
        results[0].retain_grad()
    loss = sum((results[i] * results[i]).sum() for i in used)
    (g,) = ad.autograd.grad(loss, x, create_graph=create_graph)
    if not create_graph:
        return g.tolist()
    (g * g).sum().backward()
    assert x.grad is not None
    return x.grad.tolist()


@pytest.mark.parametrize(("name", "used"), CASES)
def test_gradients_of_some_results(name: str, used: tuple[int, ...]) -> None:
    fn = FUNCTIONS[name]
    compiled = ad.compile(fn)
    for create_graph, seen in ((False, False), (True, False), (False, True)):
        got = _gradient(compiled, used, create_graph, seen)
        want = _gradient(fn, used, create_graph, seen)
        np.testing.assert_allclose(
            got, want, rtol=1e-5, atol=1e-6, err_msg=f"{create_graph} {seen}"
        )


def test_sizes_that_differ() -> None:
    """One recording for many sizes has the same rule for each."""

    def fn(x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor, ad.Tensor]:
        return x * 3, KnownGradient.apply(x), (x - 1).log()

    compiled = ad.compile(fn, dynamic=True)
    for n in (4, 7, 5):
        x = ad.ones(n, requires_grad=True)
        for k, want in ((0, 18.0), (1, 2.0)):
            (g,) = ad.autograd.grad((compiled(x)[k] ** 2).sum(), x)
            assert g.tolist() == [want] * n


def test_sizes_that_differ_where_a_result_has_a_hook() -> None:
    def fn(x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor, ad.Tensor]:
        features = x * 2
        return features, features * features, (features - 2).log()

    compiled = ad.compile(fn, dynamic=True)
    for n in (4, 7, 5):
        x, seen = ad.ones(n, requires_grad=True), list[Any]()
        features, squares, _ = compiled(x)
        features.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
        squares.sum().backward()
        assert seen == [[4.0] * n]
        assert x.grad is not None
        assert x.grad.tolist() == [8.0] * n


def test_how_gradients_of_some_results_lie() -> None:
    """Strides are those of eager execution, whichever results are used."""

    def fn(x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        return x.t().contiguous() * 2, x * 3

    compiled = ad.compile(fn)
    for used in ((0,), (1,), (0, 1)):
        for turned in (False, True):
            lies = []
            for f in (fn, compiled):
                leaf = ad.ones(3, 4, requires_grad=True)
                x = leaf * 1
                outs = [f(x)[i] for i in used]
                seeds = [ad.ones(*o.shape[::-1]).t() if turned else ad.ones(*o.shape) for o in outs]
                (g,) = ad.autograd.grad(outs, x, seeds)
                lies.append((g.stride(), g.tolist()))
            assert lies[0] == lies[1], (used, turned)


def test_a_hook_beside_results_that_cannot_be_asked() -> None:
    """What was overwritten has no backward any more; the others have theirs, hooks included."""

    def fn(x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor, ad.Tensor]:
        first = x * 2
        overwritten = first.exp()
        overwritten.mul_(3)
        return overwritten * first, overwritten, first

    for f in (fn, ad.compile(fn)):
        x, seen = ad.ones(2, requires_grad=True), list[Any]()
        product, _, first = f(x)
        first.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
        (first * first).sum().backward(retain_graph=True)
        assert seen == [[4.0, 4.0]]
        assert x.grad is not None
        assert x.grad.tolist() == [8.0, 8.0]
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
