"""Calls found by native code though tensors have more than few elements: the same bits, and errors."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.operations import small_calls
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.operations.small_calls import EVERY, FIRST
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager import straight
from adjoint.nn import functional as F

Call = Callable[..., Any]


def test_tensors_like_larger_ones_are_new() -> None:
    """Of whatever size that is, by programs and without: their layout, value and memory."""
    for shape in ((70, 40), (600, 500)):  # beyond, all cores write them
        x = ad.ones(shape).T
        for _ in range(12 * EVERY):
            for out, value in ((ad.full_like(x, 1.5), 1.5), (ad.zeros_like(x), 0)):
                assert (out.shape, out.stride()) == (x.shape, x.stride())
                assert out[0, 0].item() == out[-1, -1].item() == value
                out.fill_(7)
            made = x.new_ones(3, dtype=ad.int64)
            assert (made.tolist(), made.dtype) == ([1, 1, 1], ad.int64)


@pytest.mark.parametrize(
    "call",
    [ad.neg, ad.relu, ad.sum, ad.amax, ad.exp, F.silu, ad.clone, ad.abs,
     lambda x: ad.softmax(x, -1), lambda x: x.cumsum(0), lambda x: ad.dot(x[0], x[1]),
     lambda x: ad.where(x > 0, x, 0.0), lambda x: x.to(ad.float64), lambda x: x.argmax()],
)  # fmt: skip
def test_calls_on_some_thousand_elements_keep_their_bits(call: Call) -> None:
    """Whether they are found by native code or not, and of numbers that were not met before."""
    rng = np.random.default_rng(6)
    given = [rng.standard_normal((2, 2500)).astype(np.float32) for _ in range(2)]
    first = [call(ad.tensor(a)).numpy().tobytes() for a in given]
    for _ in range(5 * EVERY):
        for a, want in zip(given, first, strict=True):
            assert call(ad.tensor(a)).numpy().tobytes() == want
    with CONTEXT.having(reference=True):
        want = call(ad.tensor(given[0])).numpy()
    np.testing.assert_allclose(call(ad.tensor(given[0])).numpy(), want, rtol=1e-4, atol=1e-4)


def test_few_elements_of_large_tensors_are_picked_by_programs() -> None:
    """Of ever other numbers at ever other places; places that are not there are refused."""
    rng = np.random.default_rng(2)
    for _ in range(8 * EVERY):
        a, at = rng.standard_normal((90, 70)).astype(np.float32), rng.integers(0, 70, 5)
        x, i = ad.tensor(a), ad.tensor(at)
        np.testing.assert_array_equal(x.index_select(1, i).numpy(), a[:, at])
        np.testing.assert_array_equal(x.gather(0, i[:, None]).numpy(), a[at, :1])
        np.testing.assert_array_equal(x.take(i).numpy(), a.reshape(-1)[at])
        np.testing.assert_array_equal(x.diag(3).numpy(), np.diag(a, 3))
        np.testing.assert_allclose(x.trace().item(), np.trace(a), rtol=1e-5)
        loss = F.nll_loss(x[:5], i, ignore_index=int(at[0]))
        counted = at != at[0]
        want = -a[np.arange(5), at][counted].sum() / counted.sum()
        np.testing.assert_allclose(loss.item(), want, rtol=1e-5)
    far = ad.tensor([0, 1, 2, 3, 7000])
    for wrong in (lambda: x.index_select(1, far), lambda: x.gather(0, far[:, None]),
                  lambda: x.take(far), lambda: F.nll_loss(x[:5], far)):  # fmt: skip
        with pytest.raises((IndexError, RuntimeError)):
            wrong()


def looked_at(owner: Any, calls: int) -> list[bool]:
    return [small_calls.is_looked_at(owner) for _ in range(calls)]


@pytest.fixture
def newcomers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One that nobody else asks for."""
    monkeypatch.setattr(small_calls, "NEWCOMERS", small_calls.Newcomers())
    return small_calls.NEWCOMERS


def test_programs_are_looked_for_at_first_calls_and_at_each_of_a_step(newcomers: Any) -> None:
    """However many a step has: none of them is passed over for ever."""
    for period in (2, 3, 4, 5, 7, 8, 12, 13, 16, 21, 32):
        seen = looked_at(SimpleNamespace(seen=0), FIRST + 40 * EVERY * period)
        assert all(seen[:FIRST])
        later = seen[FIRST:]
        assert all(any(later[k::period]) for k in range(period)), period
        assert abs(sum(later) / len(later) * EVERY - 1) < 0.1
    assert len(newcomers.tired) == 11


def test_new_parameters_have_calls_looked_at_as_at_first(newcomers: Any) -> None:
    owner = SimpleNamespace(seen=0)
    looked_at(owner, 2 * FIRST)
    before = looked_at(owner, 8 * EVERY)
    newcomers.begins_anew = True
    after = looked_at(owner, 8 * EVERY)
    assert sum(after) > 2 * sum(before)
    assert not newcomers.begins_anew


def test_a_parameter_is_something_new() -> None:
    small_calls.NEWCOMERS.begins_anew = False
    ad.nn.Linear(2, 3)
    assert small_calls.NEWCOMERS.begins_anew


def test_a_step_is_of_programs_from_its_fifth_time_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations on the tape and their rules, whatever they have been called with before."""
    monkeypatch.setattr(straight, "LOADED", 0)
    x, y = ad.randn(3, 7, 11).requires_grad_(), ad.randn(3, 7, 11)
    plan = (x * y).grad_fn.plan
    for owner in (plan, plan.record):
        monkeypatch.setattr(owner, "seen", 0)
        monkeypatch.setattr(owner, "small", ())
    for _ in range(6):
        (x * y).sum().backward()
    assert plan.record.small
    assert plan.small


def notes_of(step: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many calls without a program were looked at in a step's first call."""
    notes: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(HOOKS, "note_call", lambda *args: notes.append(args))
        step()
    return len(notes)


def test_state_made_beside_a_recording_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, newcomers: Any
) -> None:
    """It is made once: native code for it would be assembled for nothing."""
    monkeypatch.setattr(small_calls, "FIRST", 1 << 20)

    def weights() -> list[ad.Tensor]:
        return [ad.full((k + 3, 7), 1.0).requires_grad_() for k in range(5)]

    def step_of(given: list[ad.Tensor]) -> Callable[[], None]:
        optimizer = ad.optim.AdamW(given, lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            for w in given:
                (w * w).sum().backward()
            optimizer.step()

        return step

    recorded, eager = weights(), weights()
    assert not notes_of(ad.compile(step_of(recorded)), monkeypatch)
    assert notes_of(step_of(eager), monkeypatch)
    for mine, theirs in zip(recorded, eager, strict=True):
        np.testing.assert_allclose(mine.detach(), theirs.detach(), rtol=1e-6)
