"""Fragments on few elements that native code finds and runs (Note [met fragments])."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.backends.llvm.runtime.pool import the_pool
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.operations import public
from adjoint.engine.core.operations.record import HOOKS, REGISTRY
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import timed_runs
from adjoint.engine.graph.eager import fragment, sightings, small_calls
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.graph.eager.straight import STRAIGHT

CALLS = 4  # of which the third and fourth are met natively


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every operation that can be a fragment is one, and is met natively from its third call on."""
    if loops.native() is None:
        pytest.skip("objects are laid out otherwise here: nothing is met natively")
    HOOKS.load_rest()
    FRAGMENTS.forget()
    for record in REGISTRY.values():
        if record.large:
            monkeypatch.setattr(record, "large", 1)
    monkeypatch.setattr(fragment, "OFTEN", 1)
    STRAIGHT.forget()
    monkeypatch.setattr(small_calls, "SIGHTED", 1 << 60)  # functions leave all to their records
    yield
    FRAGMENTS.forget()


@pytest.fixture
def fragment_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fragments that Python called, by what they are made of."""
    names: list[str] = []
    call = fragment.Fragment.__call__

    def counted(self: fragment.Fragment, *given: Any) -> Any:
        names.append(self.what)
        return call(self, *given)

    monkeypatch.setattr(fragment.Fragment, "__call__", counted)
    return names


@pytest.fixture
def several_threads() -> Iterator[None]:
    """Two threads, whatever the machine has."""
    before = ad.get_num_threads()
    ad.set_num_threads(2)
    yield
    ad.set_num_threads(before)


def numbers(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> ad.Tensor:
    return ad.from_numpy(rng.standard_normal(shape).astype(dtype))


OPERATIONS: dict[str, Callable[[ad.Tensor], Any]] = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(0),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "gelu": F.gelu,
    "silu": F.silu,
    "exp": lambda x: x.exp(),
    "product": lambda x: x @ x.mT,
    "columns": lambda x: x.sum(0),
    "variance": lambda x: x.var(-1),
    "sorted": lambda x: x.sort(-1)[0],
    "largest": lambda x: x.topk(2)[0],
    "mean squares": lambda x: F.mse_loss(x, x.detach() * 2),
    "classes": lambda x: F.cross_entropy(x, ad.arange(len(x)) % x.shape[-1]),
}


def with_gradient(fn: Callable[[ad.Tensor], Any], x: ad.Tensor) -> list[Any]:
    leaf = x.detach().requires_grad_()
    out = fn(leaf)
    (out * ad.linspace(-1, 2, out.numel(), dtype=out.dtype).reshape(out.shape)).sum().backward()
    assert leaf.grad is not None
    return [out.detach().numpy().copy(), leaf.grad.numpy().copy()]


QUICK = ("softmax", "largest", "classes")  # what takes rows, sorts and checks its operands


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in OPERATIONS],
)
def test_operations_and_gradients_have_the_bits_of_their_fragments(name: str) -> None:
    """Of random sizes and layouts, all of which native code tells apart."""
    rng = np.random.default_rng(len(name))
    given = [numbers(rng, *rng.integers(2, 9, 2)) for _ in range(2)]
    given += [numbers(rng, 7, 5, dtype=np.float64), given[0].t(), given[1][:, 1:], given[0] * 2]
    given = [x for x in given if x.shape[-1] > 1]
    first = [with_gradient(OPERATIONS[name], x) for x in given]
    for _ in range(CALLS):
        for x, want in zip(given, first, strict=True):
            for mine, theirs in zip(with_gradient(OPERATIONS[name], x), want, strict=True):
                np.testing.assert_array_equal(mine, theirs)


WHOLE = ("softmax", "gelu", "layer_norm", "exp")  # what is one operation of several, or a function


@pytest.mark.parametrize("name", WHOLE)
def test_calls_of_functions_have_the_bits_of_their_fragments(
    name: str, monkeypatch: pytest.MonkeyPatch, fragment_calls: list[str]
) -> None:
    """And are found without them (Note [small calls])."""
    call, rng = OPERATIONS[name], np.random.default_rng(len(name))
    given = [numbers(rng, *rng.integers(2, 9, 2)) for _ in range(2)]
    given += [numbers(rng, 7, 5, dtype=np.float64), given[0].t(), given[0] * 2]
    first = [call(x).numpy() for x in given]
    monkeypatch.setattr(small_calls, "SIGHTED", 0)
    monkeypatch.setattr(small_calls, "LOADED", 0)
    monkeypatch.setattr("adjoint.engine.core.operations.small_calls.EVERY", 1)
    monkeypatch.setattr(public.OVERRIDES, "active", False)
    small_calls.PROGRAMS.forget()
    for turn in range(3):
        if turn == 1:
            fragment_calls.clear()
        for x, want in zip(given, first, strict=True):
            np.testing.assert_array_equal(call(x).numpy(), want)
    assert {*fragment_calls} <= {"clone"}  # of what would have other bits in one program with it
    small_calls.PROGRAMS.forget()


def test_python_is_not_asked_again(fragment_calls: list[str]) -> None:
    x = numbers(np.random.default_rng(0), 4, 5)
    for _ in range(CALLS):
        with_gradient(lambda x: x.softmax(-1), x)
    calls = fragment_calls.count("softmax")
    assert calls < CALLS
    assert REGISTRY["softmax"].small
    with_gradient(lambda x: x.softmax(-1), x)
    assert fragment_calls.count("softmax") == calls


def test_errors_are_those_of_the_operation() -> None:
    scores = numbers(np.random.default_rng(1), 3, 4)
    for _ in range(CALLS):
        F.cross_entropy(scores, ad.tensor([0, 3, 2]))
    with pytest.raises(IndexError, match="Target 4 is out of bounds"):
        F.cross_entropy(scores, ad.tensor([0, 4, 2]))
    for _ in range(CALLS):
        assert scores.gather(1, ad.tensor([[0], [3], [1]])).shape == (3, 1)
    for _ in range(CALLS):
        with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
            scores.gather(1, ad.tensor([[0], [9], [1]]))


def test_results_are_nobody_else_s() -> None:
    x = ad.zeros(2, 2)
    results = [x.softmax(-1) for _ in range(CALLS)]
    for k, out in enumerate(results):
        out.fill_(k)
    assert [out[0, 0].item() for out in results] == [*range(CALLS)]
    assert x.softmax(-1).tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_threads() -> None:
    rng = np.random.default_rng(2)
    given = [numbers(rng, 6, 7) for _ in range(4)]
    want = [with_gradient(lambda x: x.softmax(-1), x) for x in given]

    def check(k: int) -> None:
        for _ in range(50):
            for mine, theirs in zip(
                with_gradient(lambda x: x.softmax(-1), given[k]), want[k], strict=True
            ):
                np.testing.assert_array_equal(mine, theirs)

    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(check, range(4)):
            pass


MUCH: dict[str, Callable[[ad.Tensor], Any]] = {
    "add": lambda x: x + x,
    "sum": lambda x: x.sum(),
    "columns": lambda x: x.sum(0),
    "largest": lambda x: x.amax(-1),
    "softmax": lambda x: x.softmax(-1),
    "reversed": lambda x: x.flip(-1),
}


@pytest.mark.parametrize("name", MUCH)
def test_all_workers_share_what_is_much_and_give_the_same_bits(
    name: str, fragment_calls: list[str], several_threads: None
) -> None:
    """Whatever their number, which may change between calls, and whoever has them just now."""
    x = numbers(np.random.default_rng(8), 257, 509)
    want = MUCH[name](x).numpy().copy()
    with CONTEXT.having(reference=True):
        np.testing.assert_allclose(want, MUCH[name](x).numpy(), rtol=1e-4, atol=1e-4)
    for _ in range(CALLS):
        MUCH[name](x)
    before = len(fragment_calls)
    for threads in (1, 2, 3, 2):
        ad.set_num_threads(threads)
        the_pool().start(threads)
        np.testing.assert_array_equal(MUCH[name](x).numpy(), want)
    assert len(fragment_calls) == before

    the_pool().stop()
    try:
        np.testing.assert_array_equal(MUCH[name](x).numpy(), want)  # alone: workers are taken
        assert len(fragment_calls) == before
    finally:
        the_pool().resume()
    np.testing.assert_array_equal(MUCH[name](x).numpy(), want)  # none are left: Python starts some
    assert len(fragment_calls) == before + 1
    assert the_pool().resident
    np.testing.assert_array_equal(MUCH[name](x).numpy(), want)
    assert len(fragment_calls) == before + 1


def test_what_is_refused_while_workers_share_it(several_threads: None) -> None:
    x = numbers(np.random.default_rng(9), 257, 509)
    index = ad.arange(257 * 509).reshape(257, 509) % 257
    for _ in range(CALLS):
        x.gather(0, index)
    index[256, 508] = 257
    for _ in range(2):
        with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
            x.gather(0, index)
    index[256, 508] = 0
    np.testing.assert_array_equal(
        x.gather(0, index).numpy(), np.take_along_axis(x.numpy(), index.numpy(), 0)
    )


def test_whoever_times_kernels_sees_them(fragment_calls: list[str]) -> None:
    x = numbers(np.random.default_rng(3), 4, 5)
    for _ in range(CALLS):
        x.softmax(-1)
    calls = fragment_calls.count("softmax")
    with timed_runs():
        x.softmax(-1)
    assert fragment_calls.count("softmax") == calls + 1


def test_the_default_dtype_makes_them_anew() -> None:
    x = numbers(np.random.default_rng(4), 4, 5)
    for _ in range(CALLS):
        x.softmax(-1)
    assert REGISTRY["softmax"].small
    before = ad.get_default_dtype()
    try:
        ad.set_default_dtype(ad.float64)
        assert not REGISTRY["softmax"].small
    finally:
        ad.set_default_dtype(before)


DRAWS: dict[str, Callable[[], Any]] = {
    "uniform": lambda: ad.rand(3, 5),
    "normal": lambda: ad.randn(7),
    "integers": lambda: ad.randint(0, 9, (4, 2)),
    "dropout": lambda: F.dropout(ad.ones(4, 6), 0.3),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_go_on_along_their_stream(name: str) -> None:
    """A program is given the seed and the place of each draw, of which none is like another."""
    for seed in (3, 2**63 + 11):
        ad.manual_seed(seed)
        drawn = [DRAWS[name]().numpy().copy() for _ in range(2 * CALLS)]
        ad.manual_seed(seed)
        with CONTEXT.having(reference=True):
            want = [DRAWS[name]().numpy().copy() for _ in range(2 * CALLS)]
        for mine, theirs in zip(drawn, want, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert REGISTRY["random"].small


def test_programs_with_floats_that_may_differ_are_left_to_python() -> None:
    """They are no part of a kind, and native code would have to compare them."""
    x = numbers(np.random.default_rng(5), 4, 5)
    for k in range(CALLS):
        np.testing.assert_allclose((x * (0.5 + k)).numpy(), x.numpy() * (0.5 + k), rtol=1e-6)
    assert not REGISTRY["mul"].small


def test_numbers_of_a_call_are_given_natively(
    fragment_calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Floats differ from call to call: each has what the table gives, no other fragment is made."""
    rng = np.random.default_rng(5)
    x, y = numbers(rng, 5, 7), numbers(rng, 5, 7)
    factors = [*rng.standard_normal(6).tolist(), 0.0, -0.0, float("inf"), float("nan")]
    monkeypatch.setattr(sightings, "LOADING", sightings.WORTH)
    calls: dict[str, Callable[[float], ad.Tensor]] = {
        "mul": lambda c: x * c,
        "sub": lambda c: c - y,
        "clamp": lambda c: x.clamp(c, 0.5),
        "lerp": lambda c: ad.lerp(x, y, c),
    }
    for name, call in calls.items():
        for _ in range(sightings.WORTH + CALLS):
            call(0.25)
        assert REGISTRY[name].small
        before = len(fragment_calls)
        for factor in factors:
            with CONTEXT.having(reference=True):
                want = call(factor).numpy()
            got = call(factor).numpy()
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
            there = ~np.isnan(want)
            assert np.array_equal(np.signbit(got[there]), np.signbit(want[there])), name
        assert len(fragment_calls) == before, name
