"""Errors inside native programs, calls from several threads, forks, programs inside programs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.compiler import compile


def native(fn: Any) -> Any:
    return compile(fn, backend="native")


# -- errors ---------------------------------------------------------------------------------------


class Trained:
    """A model whose step fails on some arguments, and all it could change."""

    def __init__(self, failing: Callable[[Any, Any], Any], early: bool) -> None:
        ad.manual_seed(0)
        self.embedding = nn.Embedding(5, 4)
        self.norm = nn.BatchNorm1d(4)
        self.seen = ad.zeros(4)
        params = [*self.embedding.parameters(), *self.norm.parameters()]
        self.optimizer = ad.optim.Adam(params, lr=0.1)

        def step(rows: Any, x: Any) -> Any:
            more = failing(rows, x) if early else 0
            self.seen += x.sum(0)
            hidden = F.dropout(self.norm(self.embedding(ad.arange(3)) + x), 0.5)
            loss = (hidden * hidden).mean() + more
            loss.backward()
            self.optimizer.step()
            if not early:
                loss = loss + failing(rows, x)
            return loss

        self.run = native(step)

    def state(self) -> list[Any]:
        params = [p for group in self.optimizer.param_groups for p in group["params"]]
        held = [*params, *self.norm.buffers(), self.seen]
        held += [t for kept in self.optimizer.state.values() for t in kept.values()]
        held += [p.grad for p in params]
        return [t.detach().numpy().copy() for t in held] + [ad.get_rng_state().numpy().copy()]


def factor(rows: Any, x: Any) -> Any:
    """Singular where one of the rows is 0."""
    return ad.linalg.inv(rows.to(ad.float32).diag_embed()).sum()


def solve(rows: Any, x: Any) -> Any:
    """A call of the eager table, since there are more matrices than messages."""
    return ad.linalg.inv(rows.to(ad.float32).diag_embed().expand(100, 3, 3)).sum()


FAILING: dict[str, tuple[Callable[[Any, Any], Any], type[Exception]]] = {
    "index": (lambda rows, x: x[rows].sum(), IndexError),
    "gather": (lambda rows, x: x.gather(0, rows.view(3, 1)).sum(), RuntimeError),
    "embedding": (lambda rows, x: F.embedding(rows, x).sum(), IndexError),
    "scatter": (lambda rows, x: x.scatter(0, rows.view(3, 1), 1.0).sum(), RuntimeError),
    "divide": (lambda rows, x: (7 // (rows - 9)).sum(), RuntimeError),
    "remainder": (lambda rows, x: (ad.ones_like(rows) % (rows - 9)).sum(), RuntimeError),
    "probability": (lambda rows, x: ad.bernoulli(rows / 3).sum(), RuntimeError),
    "factor": (lambda rows, x: factor((rows != 9) + 0.0, x), RuntimeError),
    "call": (lambda rows, x: solve((rows != 9) + 0.0, x), RuntimeError),
}


@pytest.mark.parametrize("early", [True, False], ids=["early", "late"])
@pytest.mark.parametrize("name", FAILING)
def test_an_error_changes_nothing(name: str, early: bool) -> None:
    failing, kind = FAILING[name]
    trained = Trained(failing, early)
    good, bad = ad.tensor([0, 1, 2]), ad.tensor([0, 9, 2])
    x = ad.ones(3, 4) * ad.arange(3.0).view(3, 1)
    for _ in range(2):
        trained.run(good, x)
    before = trained.state()
    for _ in range(2):
        with pytest.raises(kind):
            trained.run(bad, x)
        for now, was in zip(trained.state(), before, strict=True):
            np.testing.assert_array_equal(now, was)
    trained.run(good, x)
    assert any((a != b).any() for a, b in zip(trained.state(), before, strict=True))


def test_state_written_by_the_kernel_that_fails() -> None:
    state = ad.zeros(4)
    table = ad.arange(3.0)

    @native
    def add(at: Any) -> None:
        state.add_(table[at])

    add(ad.tensor([0, 1, 2, 1]))
    with pytest.raises(IndexError):
        add(ad.tensor([2, 2, 2, 7]))
    assert state.tolist() == [0.0, 1.0, 2.0, 1.0]
    with pytest.raises(IndexError):
        compile(lambda at: state.index_put_((at,), ad.ones(2), accumulate=True), backend="native")(
            ad.tensor([1, 8])
        )
    assert state.tolist() == [0.0, 1.0, 2.0, 1.0]


def test_arguments_and_gradients_survive_an_error() -> None:
    w = ad.ones(3, requires_grad=True)

    @native
    def step(x: Any, at: Any) -> Any:
        x.mul_(2)
        loss = (w * x)[at].sum()
        loss.backward()
        return loss

    x = ad.ones(3)
    step(x, ad.tensor([0, 1]))
    assert w.grad is not None
    kept = w.grad.numpy().copy()
    with pytest.raises(IndexError):
        step(x, ad.tensor([0, 5]))
    assert x.tolist() == [2.0, 2.0, 2.0]
    np.testing.assert_array_equal(w.grad.numpy(), kept)
    step(x, ad.tensor([0, 1]))
    assert x.tolist() == [4.0, 4.0, 4.0]


# -- threads --------------------------------------------------------------------------------------


def at_once(*jobs: Callable[[], None]) -> None:
    """Run jobs in threads of their own; what fails in one fails here."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(jobs))

    def guard(job: Callable[[], None]) -> None:
        try:
            start.wait()
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guard, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_one_function_from_several_threads() -> None:
    """Each call has its own arguments and results, though they share the program's memory."""
    run = native(lambda x: (x @ x.t()).softmax(-1).cumsum(0).mode(-1, True).values.sum(1))
    inputs = [ad.randn(40, 40) for _ in range(4)]
    wants = [run(x).numpy() for x in inputs]

    def job(k: int) -> Callable[[], None]:
        def many() -> None:
            for _ in range(50):
                np.testing.assert_array_equal(run(inputs[k]).numpy(), wants[k])

        return many

    at_once(*[job(k) for k in range(4)])


def test_effects_from_several_threads() -> None:
    total = ad.zeros(1000)

    @native
    def add(x: Any) -> Any:
        total.add_(x)
        return total.sum()

    add(ad.zeros(1000))
    at_once(*[lambda: [add(ad.ones(1000)) for _ in range(100)] and None for _ in range(4)])
    assert total.tolist() == [400.0] * 1000


def test_different_functions_from_several_threads() -> None:
    def job(k: int) -> Callable[[], None]:
        def many() -> None:
            x = ad.full((60, 60), float(k))
            run = native(lambda x: (x * k + 1).sin() @ x)  # compiled while others are running
            want = ((x * k + 1).sin() @ x).numpy()
            for _ in range(20):
                np.testing.assert_allclose(run(x).numpy(), want, rtol=1e-4, atol=1e-4)

        return many

    at_once(*[job(k) for k in range(4)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_while_programs_run() -> None:
    """The child has neither the threads nor the locks they held."""
    run = native(lambda x: (x @ x).sin().mode(-1).values.sum())
    state = ad.zeros(3)
    add = native(lambda x: state.add_(x))
    x = ad.randn(80, 80)
    want = run(x).numpy()
    add(ad.ones(3))
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            run(x)
            add(ad.ones(3))

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            assert in_child(lambda: check_child(run, add, x, want)) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    np.testing.assert_array_equal(run(x).numpy(), want)


def check_child(run: Any, add: Any, x: Any, want: Any) -> None:
    np.testing.assert_array_equal(run(x).numpy(), want)
    add(ad.ones(3))
    fresh = native(lambda x: x * 3 + 1)  # a trace of its own
    assert fresh(ad.ones(2)).tolist() == [4.0, 4.0]


def in_child(job: Callable[[], None]) -> int:
    """The exit status of a child that does a job; one that hangs is ended after a while."""
    pid = os.fork()
    if pid == 0:
        import signal

        signal.alarm(300)
        try:
            job()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# -- programs in programs -------------------------------------------------------------------------


def test_compiled_functions_inside_one_another() -> None:
    inner = native(lambda x: x.sin() * 2)
    x = ad.randn(5, 5)
    outer = native(lambda x: inner(x) + inner(x.t()))
    expected = (x.sin() * 2 + x.t().sin() * 2).numpy()
    np.testing.assert_allclose(outer(x).numpy(), expected, rtol=1e-6, atol=1e-6)  # they may cancel
    (g,) = ad.autograd.grad(inner(y := x.clone().requires_grad_()).sum(), y)
    np.testing.assert_allclose(g.numpy(), (x.cos() * 2).numpy(), rtol=1e-5)
    step = native(lambda x: ad.func.grad(lambda v: inner(v).sum())(x))
    np.testing.assert_allclose(step(x).numpy(), (x.cos() * 2).numpy(), rtol=1e-5)
    many = ad.func.vmap(inner)(x)
    np.testing.assert_allclose(many.numpy(), inner(x).numpy(), rtol=1e-6)
