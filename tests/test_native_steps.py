"""Whole training steps in native code: every module, loss, optimizer and scheduler equals eager."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import compile
from adjoint.engine.backends.threads import available_processors
from tests import test_models, test_nn_steps, test_optim_capture
from tests.samples import optimizers
from tests.samples.modules import Row


def native(fn: Any) -> Any:
    return compile(fn, backend="native")


def alike(got: list[Any], want: list[Any], limit: float = 2e-5) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=limit, atol=limit)


@pytest.mark.parametrize("row", test_nn_steps.FIRST_ROWS)
def test_modules(row: Row) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        want = test_nn_steps.eager(row)
        got, compiled = test_nn_steps.train(row, native)
    alike(got, want)
    assert compiled.traces == row.traces


def same_training(
    make: Any, schedule: Any = None, scaler: Any = lambda: None, **kwargs: Any
) -> None:
    want, _ = test_optim_capture.train(lambda fn: fn, make, schedule, scaler=scaler(), **kwargs)
    got, compiled = test_optim_capture.train(native, make, schedule, scaler=scaler(), **kwargs)
    alike(got, want)
    assert compiled.traces <= 2


@pytest.mark.parametrize("row", optimizers.ROWS, ids=optimizers.ident)
def test_optimizers(row: Any) -> None:
    kind, options = row
    held = {k: copy.deepcopy(v) for k, v in options.items()}
    same_training(test_optim_capture.maker(kind, held))


@pytest.mark.parametrize("name", test_optim_capture.SCHEDULERS)
def test_schedulers(name: str) -> None:
    same_training(test_optim_capture.ADAM, test_optim_capture.SCHEDULERS[name])


@pytest.mark.parametrize("kind", test_optim_capture.SCALED)
def test_scaled_gradients(kind: str) -> None:
    same_training(
        test_optim_capture.SCALED[kind],
        scaler=lambda: ad.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2),
        bad=(0, 3),
    )


@pytest.mark.parametrize("name", test_models.LEARNERS)
def test_models_at_several_thread_counts(name: str) -> None:
    before = ad.get_num_threads()
    want = test_models.trained(name, lambda fn: fn)
    found = []
    try:
        # More workers than processors would wait for each other at every launch.
        for threads in (1, min(2, available_processors())):
            ad.set_num_threads(threads)
            found.append(test_models.trained(name, native))
    finally:
        ad.set_num_threads(before)
    alike(found[0], want, 1e-4)
    for other in found[1:]:
        for g, w in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(g, w)


def test_more_workers_than_processors() -> None:
    """They sleep for each other instead of polling: steps end, with the bits of one worker."""

    def losses(workers: int) -> list[float]:
        ad.manual_seed(0)
        net = ad.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        optimizer = ad.optim.AdamW(net.parameters(), lr=1e-3)

        @native
        def step(x: Any) -> Any:
            loss = (net(x) - x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        x = ad.randn(8, 32, 64)
        ad.set_num_threads(workers)
        found = [step(x).item() for _ in range(5)]
        assert "all workers" in step.explain().splitlines()[0]
        return found

    before = ad.get_num_threads()
    try:
        alone = losses(1)
        for workers in (available_processors() + 1, 4 * available_processors()):
            assert losses(workers) == alone
    finally:
        ad.set_num_threads(before)


# Those whose rates are numbers (a float32 tensor is rounded), and that look at elements alone.
RATES = [
    (kind, options)
    for kind, options in optimizers.ROWS
    if kind.elementwise and isinstance(options.get("lr"), float)
]


@pytest.mark.parametrize("row", RATES, ids=optimizers.ident)
def test_rates_of_float64_parameters_are_not_rounded(row: optimizers.Row) -> None:
    kind, options = row

    def train(wrap: Any) -> Any:
        p = ad.nn.Parameter(ad.linspace(-1, 2, 7, dtype=ad.float64))
        optimizer = kind([p], **options)

        def step() -> None:
            optimizer.zero_grad()
            (p * p.cos()).sum().backward()
            optimizer.step()

        step = wrap(step)
        for _ in range(8):
            step()
        return p.detach().numpy()

    np.testing.assert_allclose(train(native), train(lambda fn: fn), rtol=1e-12, atol=1e-12)
