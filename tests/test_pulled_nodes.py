"""Backward by native code, node by node (Note [pulled nodes]), against Python's own way."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.autodiff.tape.engine import Backward
from adjoint.engine.autodiff.tape.node import BackwardNode
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.operations.record import HOOKS


@pytest.fixture(autouse=True)
def loaded() -> None:
    if loops.native() is None or HOOKS.pull is None:
        pytest.skip("no native code of nodes on this interpreter")


@pytest.fixture
def by_python() -> Callable[[Callable[[], Any]], Any]:
    """Runs a function with Python's own way of going backward."""

    def run(fn: Callable[[], Any]) -> Any:
        natively = HOOKS.pull, HOOKS.pass_on
        HOOKS.pull = HOOKS.pass_on = None
        try:
            return fn()
        finally:
            HOOKS.pull, HOOKS.pass_on = natively

    return run


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "add itself": lambda x, y: x + x,
    "three times": lambda x, y: x * x * x,
    "sub": lambda x, y: x - y,
    "number": lambda x, y: x * 1.5 + 2,
    "row": lambda x, y: x * y[0],
    "tanh": lambda x, y: (x + y).tanh(),
    "relu": lambda x, y: x.relu() + y,
    "product": lambda x, y: x @ y.t() @ x,
    "pieces": lambda x, y: ad.cat([x[:2], y[2:]]),
    "written": lambda x, y: (x * 1.0).index_add_(0, ad.tensor([0]), y[:1]),
    "largest": lambda x, y: x.max(1).values[:, None] * y,
    "split": lambda x, y: sum(p * k for k, p in enumerate(x.unbind(0))) + y,
    "softmax": lambda x, y: x.softmax(-1) * y,
    "spread": lambda x, y: x.sum() * y,
}


def gradients(seed: int, **options: Any) -> list[np.ndarray]:
    chosen, rng = random.Random(seed), np.random.default_rng(seed)
    x, y = (ad.from_numpy(rng.standard_normal((3, 3)).astype("f4")) for _ in "xy")
    x.requires_grad_()
    y.requires_grad_(chosen.random() < 0.7)
    names = [chosen.choice([*STEPS]) for _ in range(8)]
    a, b = x, y
    for name in names:
        a, b = STEPS[name](a, b), a
        a = a / (1 + a.detach().abs().amax())
    leaves = [z for z in (x, y) if z.requires_grad]
    told = []
    for _ in range(1 + ("retain_graph" in options)):
        (a * b).sum().backward(**options)
        told += [np.zeros(1) if z.grad is None else z.grad.numpy().copy() for z in leaves]
    loss = (a * b).sum()
    asked = ad.autograd.grad(loss, [leaves[-1]], allow_unused=True)[0]
    return [*told, np.zeros(1) if asked is None else asked.numpy()]


@pytest.mark.parametrize("seed", range(40))
def test_gradients_are_the_same_to_the_bit(seed: int, by_python: Any) -> None:
    options = {"retain_graph": True}
    want = by_python(lambda: gradients(seed, **options))
    for _ in range(24):  # until there are programs
        got = gradients(seed, **options)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


def warm(run: Callable[[], Any]) -> None:
    """Call until there are programs."""
    for _ in range(200):  # what was often called is looked at less often
        run()


def test_some_nodes_are_pulled_and_others_left() -> None:
    x = ad.randn(3).requires_grad_()
    warm(lambda: (x * 2).tanh().sum().backward())
    y = (x * 2).tanh()
    pull: Any = HOOKS.pull
    node = y.grad_fn
    g = ad.ones(()).expand(3)  # as a sum hands it on
    assert pull(node, [g])[0].tolist() == (1 - y.detach() ** 2).tolist()
    assert pull((x + 1).grad_fn, [x])[0] is x  # handed on
    assert pull((x.expand(2, 3) + x).grad_fn, [ad.ones(2, 3)]) is None  # made to fit
    assert pull(BackwardNode((), 1), [x]) is None
    assert pull(node, [None]) is None
    node.release()
    assert pull(node, [g]) is None


def test_what_was_written_to_since_is_refused() -> None:
    x = ad.randn(3).requires_grad_()

    def squares() -> Any:
        y = x * 1.0
        return y, (y * y).sum()

    warm(lambda: squares()[1].backward())
    y, loss = squares()
    with ad.no_grad():
        y += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_second_backward_is_refused() -> None:
    x = ad.randn(3).requires_grad_()
    warm(lambda: (x * x).sum().backward())
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def engine() -> Any:
    return Backward(
        retain_graph=False, create_graph=False, targets=None, accumulate=True, level=None
    )


def test_cotangents_go_where_edges_lead(by_python: Any) -> None:
    x = ad.randn(3).requires_grad_()
    one, other = (x * 2).grad_fn, (x * 3).grad_fn
    several = ad.max(x.expand(2, 3), 1).values.grad_fn
    edges: list[Any] = [(one, 0), None, (x, 0), (one, 0), (several, 0), (other, 0), (other, 0)]
    grads = [ad.ones(3), ad.ones(3), ad.ones(3), ad.ones(3), ad.ones(2), None, ad.ones(3), None]

    def sent() -> Any:
        run = engine()
        run.send(edges, grads)
        buffers = {
            k: [None if g is None else g.tolist() for g in v] for k, v in run.buffers.items()
        }
        return buffers, sorted(run.queue), [g.tolist() for _, g, _ in run.leaves.values()]

    assert sent() == by_python(sent)
    assert len(sent()[1]) == 3


def test_references_are_counted() -> None:
    x = ad.randn(3).requires_grad_()
    node, grad = (x * 2).grad_fn, ad.ones(3)
    edges: list[Any] = [(node, 0), (x, 0), None]
    grads = [grad, grad, grad]
    warm(lambda: (x * x).backward(grad))

    def turn() -> None:
        buffers: dict[Any, Any] = {}
        queue: list[Any] = []
        assert HOOKS.pass_on is not None
        left = HOOKS.pass_on(buffers, queue, edges, grads)
        assert left == [(edges[1], grad)]
        assert queue == [(-node.sequence, node)]
        assert buffers[node][0] is grad
        y = x * x
        assert HOOKS.pull is not None
        assert HOOKS.pull(y.grad_fn, [grad]) is not None

    def counted() -> list[int]:
        gc.collect()
        return [sys.getrefcount(o) for o in (x, node, grad, edges[0], node.plan, None)]

    turn()
    before = counted()
    for _ in range(50):
        turn()
    after = counted()
    assert after[:-1] == before[:-1]
    assert abs(after[-1] - before[-1]) < 25  # None is everybody's
