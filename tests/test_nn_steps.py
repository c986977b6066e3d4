"""Five whole training steps of every module: captured or compiled, they equal eager ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.core.tree import flatten
from adjoint.graph import capture
from tests.samples.module_losses import LOSSES
from tests.samples.module_sequences import SEQUENCES
from tests.samples.modules import ROWS, Row

ALL = ROWS | LOSSES | SEQUENCES
WITHOUT_ROWS = {"Module", "Container", "RNNBase", "RNNCellBase"}  # not used by themselves
CASES = [pytest.param(row, id=f"{name}-{i}") for name in ALL for i, row in enumerate(ALL[name])]
# A module's first row; the others, which the captured steps below have all, are slow.
FIRST_ROWS = [
    pytest.param(row, id=f"{name}-{i}", marks=pytest.mark.slow if i else ())
    for name in ALL
    for i, row in enumerate(ALL[name])
]


def floats(x: Any) -> list[Any]:
    """The floating point tensors in a result."""
    return [t for t in flatten(x)[0] if isinstance(t, ad.Tensor) and t.dtype.is_floating_point]


def train(row: Row, wrap: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """Outputs, parameters, buffers and optimizer state along five steps."""
    ad.manual_seed(0)
    module = row.build()
    gain = nn.Parameter(ad.ones(()))
    rng = np.random.default_rng(0)
    batches = [row.inputs(rng) for _ in range(5)]
    with ad.no_grad():
        row.call(module, *[t.clone() for t in batches[0]])  # lazy layers find their shapes
    # Not Adam: where a gradient is zero but for rounding (a key's bias), it would magnify that.
    optimizer = ad.optim.SGD([gain, *module.parameters()], lr=0.1, weight_decay=0.01)

    @wrap
    def step(*inputs: Any) -> Any:
        optimizer.zero_grad()
        scaled = [x * gain if x.dtype.is_floating_point else x for x in inputs]
        out = row.call(module, *scaled)
        loss = sum((t * t).mean() for t in floats(out) if t.requires_grad)
        loss.backward()  # type: ignore[union-attr]
        nn.utils.clip_grad_norm_([gain, *module.parameters()], 1.0)
        optimizer.step()
        return out

    seen = []
    for inputs in batches:
        seen += [t.detach().numpy().copy() for t in flatten(step(*inputs))[0] if is_tensor(t)]
        seen += [p.detach().numpy().copy() for p in [gain, *module.parameters()]]
        seen += [b.numpy().copy() for b in module.buffers()]
    seen += [t.numpy() for held in optimizer.state.values() for t in held.values()]
    seen.append(ad.rand(3).numpy())  # the generator has moved as far
    return seen, step


def is_tensor(x: Any) -> bool:
    return isinstance(x, ad.Tensor)


@cache
def eager(row: Row) -> list[Any]:
    """What steps without compile give: the same for all that are compared with it."""
    return train(row, lambda fn: fn)[0]


WRAPS = [
    pytest.param(capture, id="captured"),
    # By default these are native: tests/test_native_steps.py has them at a lower tolerance.
    pytest.param(ad.compile, id="compiled", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("row", CASES)
def test_steps(row: Row, wrap: Callable[[Any], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        want = eager(row)
        got, recorded = train(row, wrap)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)
    assert recorded.traces == row.traces


def test_every_module_has_a_row() -> None:
    modules = {
        name
        for name, kind in vars(nn).items()
        if isinstance(kind, type) and issubclass(kind, nn.Module)
    }
    missing = modules - ALL.keys() - WITHOUT_ROWS
    assert not missing, f"add rows for {sorted(missing)} to tests/samples/modules.py"
    assert not (ALL.keys() | WITHOUT_ROWS) - modules


def test_packed_outside_a_capture() -> None:
    """Batch sizes that come as an argument have no values: how many steps are there?"""
    layer = nn.GRU(3, 5)
    packed = nn.utils.rnn.pack_padded_sequence(ad.ones(4, 2, 3), [4, 2])
    with pytest.raises(RuntimeError, match=r"GRU: .* Pack inside the captured function"):
        capture(lambda p: layer(p)[0])(packed)
    lengths = ad.tensor([4, 2])
    with pytest.raises(RuntimeError, match=r"test_nn_steps.py:\d+, .* lengths as a list"):
        capture(lambda x: nn.utils.rnn.pack_padded_sequence(x, lengths).data)(ad.ones(4, 2, 3))


def test_lengths_as_static_arguments() -> None:
    layer = nn.GRU(3, 5)

    def run(x: Any, lengths: tuple[int, ...]) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(layer(packed)[0])

    captured = capture(run)
    x = ad.ones(4, 2, 3)
    for lengths in ((4, 2), (1, 4), (4, 2)):
        for got, want in zip(captured(x, lengths), run(x, lengths), strict=True):
            np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-6)
    assert captured.traces == 2
