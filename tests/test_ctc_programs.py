"""CTC as one program: eager fragments and compiled loops beside the steps one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.nn.losses.ctc import CTC_LOSS_SMALL, record_for


def case(seed: int) -> tuple[Any, Any, Any, Any]:
    """Scores of more than 1,024 elements, with lengths of all kinds: none, all, too long to fit."""
    rng = np.random.default_rng(seed)
    steps, batch, classes, longest = 12, 4, 29, 5
    scores = rng.standard_normal((steps, batch, classes)).astype(np.float32)
    targets = rng.integers(1, classes, (batch, longest))
    targets[0, 1:] = targets[0, 0]  # blanks are needed between equal labels
    ins = np.array([steps, 0, rng.integers(1, steps), 3])
    outs = np.array([longest, 0, rng.integers(1, 4), 5])
    return scores, targets, ins, outs


def losses(x: ad.Tensor, seed: int, how: str, zero_infinity: bool) -> ad.Tensor:
    _, targets, ins, outs = map(ad.from_numpy, case(seed))
    return F.ctc_loss(
        x.log_softmax(-1), targets, ins, outs, reduction=how, zero_infinity=zero_infinity
    )


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("how", ["none", "mean"])
def test_one_program_gives_what_the_steps_give(how: str, zero_infinity: bool) -> None:
    seed = 7

    def both(x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        x = x.detach().requires_grad_()
        loss = losses(x, seed, how, zero_infinity)
        (gradient,) = ad.autograd.grad(loss.sum(), x)
        return loss.detach(), gradient

    x = ad.from_numpy(case(seed)[0])
    with CONTEXT.having(reference=True):
        want = [t.numpy() for t in both(x.double())]
    compiled: Any = ad.compile(both, backend="native")
    for got in (both(x), both(x), compiled(x)):
        for mine, right in zip(got, want, strict=True):
            np.testing.assert_allclose(mine.numpy(), right, rtol=2e-5, atol=2e-6)


@pytest.mark.usefixtures("anew")
def test_a_program_of_many_steps_is_a_loop() -> None:
    """So it takes no longer to compile than one of few: its launches do not grow with them."""
    launches = []
    for steps in (40, 80):
        loss: Any = ad.compile(
            lambda x: F.ctc_loss(x, ad.ones(2, 3, dtype=ad.int64), (9, 9), (3, 3)),
            backend="native",
        )
        loss(ad.zeros(steps, 2, 17))
        launches.append(len(loss.latest.executable.plan.steps))
    assert launches[0] == launches[1]


@pytest.mark.parametrize("steps", [4, 40])
def test_a_vector_of_no_targets(steps: int) -> None:
    """All labels are blanks then; compiled, lengths are not known beforehand."""
    x = ad.from_numpy(np.random.default_rng(steps).standard_normal((steps, 2, 5))).log_softmax(-1)
    ins, outs = ad.tensor([steps, steps - 1]), ad.tensor([0, 0])
    want = [-x[:, 0, 0].sum().item(), -x[:-1, 1, 0].sum().item()]

    def loss(x: ad.Tensor, ins: ad.Tensor, outs: ad.Tensor) -> ad.Tensor:
        return F.ctc_loss(x, ad.zeros(0, dtype=ad.int64), ins, outs, reduction="none")

    compiled: Any = ad.compile(loss)
    with CONTEXT.having(reference=True):
        plainly = loss(x, ins, outs)
    for got in (loss(x, ins, outs), plainly, compiled(x, ins, outs)):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_no_sequences_are_refused() -> None:
    lengths = ad.zeros(0, dtype=ad.int64)
    with pytest.raises(RuntimeError, match="must not be empty"):
        F.ctc_loss(ad.zeros(8, 0, 5), ad.ones(0, 3, dtype=ad.int64), lengths, lengths)


def test_autocast_takes_the_way_that_is_taken_without_it() -> None:
    """Its records see to casts: in its region too, a GPU's kernel and few elements are one node."""
    few = ad.randn(6, 2, 5, requires_grad=True)
    targets, lengths = ad.tensor([[1, 2], [3, 3]]), (ad.tensor([6, 5]), ad.tensor([2, 2]))
    found = []
    for enabled in (False, True):
        with ad.autocast("cpu", enabled=enabled):
            assert record_for(few) is CTC_LOSS_SMALL
            loss = F.ctc_loss(few.log_softmax(-1), targets, *lengths)
        found.append([loss, *ad.autograd.grad(loss, few)])
    ad.testing.assert_close(*found, rtol=0, atol=0)
