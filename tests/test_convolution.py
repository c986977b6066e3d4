"""Convolutions against plain loops, and in programs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.graph import capture

F = ad.nn.functional


def direct(x: Any, w: Any, stride: Any, pad: Any, dilation: Any, groups: int) -> Any:
    """The definition, element by element."""
    rank = w.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
    sizes = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    inner, outer = w.shape[1], w.shape[0] // groups
    for o in range(w.shape[0]):
        channels = slice(o // outer * inner, (o // outer + 1) * inner)
        for at in product(*map(range, sizes)):
            for tap in product(*map(range, w.shape[2:])):
                place = [at[d] * stride[d] + tap[d] * dilation[d] for d in range(rank)]
                part = x[(slice(None), channels, *place)]
                out[(slice(None), o, *at)] += part @ w[(o, slice(None), *tap)]
    return out


CASES = [
    ((2, 3, 7), (4, 3, 3), 1, 0, 1, 1),
    ((2, 4, 9), (6, 2, 3), 2, 1, 2, 2),
    ((2, 3, 6, 5), (4, 3, 3, 2), 1, 1, 1, 1),
    ((1, 4, 7, 8), (4, 1, 3, 3), 2, 1, 1, 4),
    ((2, 2, 5, 5), (3, 2, 1, 1), 2, 0, 1, 1),
    ((1, 2, 4, 5, 4), (2, 2, 2, 3, 2), 1, 1, 1, 1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_definition(case: Any) -> None:
    shape, kernel, stride, pad, dilation, groups = case
    rank = len(shape) - 2
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape), rng.standard_normal(kernel)
    want = direct(x, w, [stride] * rank, [pad] * rank, [dilation] * rank, groups)
    conv = getattr(F, f"conv{rank}d")
    got = conv(ad.tensor(x), ad.tensor(w), None, stride, pad, dilation, groups)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
    single = conv(ad.tensor(x[0]), ad.tensor(w), None, stride, pad, dilation, groups)
    np.testing.assert_allclose(single.numpy(), want[0], atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_transpose_is_the_adjoint(case: Any) -> None:
    """<conv(x), y> = <x, conv_transpose(y)> for the size a stride leaves open."""
    shape, kernel, stride, pad, dilation, groups = case
    rank = len(shape) - 2
    rng = np.random.default_rng(0)
    x, w = ad.tensor(rng.standard_normal(shape)), ad.tensor(rng.standard_normal(kernel))
    out = getattr(F, f"conv{rank}d")(x, w, None, stride, pad, dilation, groups)
    y = ad.tensor(rng.standard_normal(tuple(out.shape)))
    layer = getattr(ad.nn, f"ConvTranspose{rank}d")(
        kernel[0], kernel[1] * groups, kernel[2:], stride, pad, 0, groups, False, dilation
    )
    layer.weight = ad.nn.Parameter(w)
    back = layer(y, output_size=shape[2:])
    assert back.shape == x.shape
    np.testing.assert_allclose((out * y).sum().item(), (x * back).sum().item(), rtol=1e-10)


def test_many_examples_in_blocks() -> None:
    """More columns than one block holds."""
    x, w = ad.randn(40, 8, 32, 32), ad.randn(4, 8, 3, 3)
    whole = F.conv2d(x, w, padding=1)
    parts = ad.cat([F.conv2d(part, w, padding=1) for part in x.split(7)])
    np.testing.assert_allclose(whole.numpy(), parts.numpy(), rtol=1e-4, atol=1e-4)


def test_per_example_gradients() -> None:
    layer = ad.nn.Conv2d(2, 3, 3, padding=1)
    x = ad.randn(4, 2, 5, 5)

    def loss(weight: Any, example: Any) -> Any:
        return F.conv2d(example, weight, layer.bias.detach(), padding=1).square().sum()

    weight = layer.weight.detach()
    batched = ad.func.vmap(ad.func.grad(loss), in_dims=(None, 0))(weight, x)
    for i in range(4):
        one = ad.func.grad(loss)(weight, x[i])
        np.testing.assert_allclose(batched[i].numpy(), one.numpy(), rtol=1e-4, atol=1e-4)


def test_captured_training_steps() -> None:
    def make() -> Any:
        ad.manual_seed(0)
        net = ad.nn.Sequential(
            ad.nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect"),
            ad.nn.MaxPool2d(2),
            ad.nn.ConvTranspose2d(4, 2, 2, stride=2),
            ad.nn.Upsample(scale_factor=2, mode="bilinear"),
            ad.nn.AvgPool2d(3, 2, 1),
            ad.nn.AdaptiveAvgPool2d((3, 2)),
        )
        x = ad.randn(2, 1, 6, 6)

        def step() -> Any:
            loss = net(x).square().mean()
            loss.backward()
            with ad.no_grad():
                for p in net.parameters():
                    p.sub_(p.grad * 0.1)
                    p.grad = None
            return loss

        return step

    eager, captured = make(), capture(make())
    for _ in range(5):
        assert eager().item() == captured().item()
    assert captured.traces == 1


def test_padding_same_and_modes() -> None:
    x = ad.arange(6.0).reshape(1, 1, 6)
    ones = ad.ones(1, 1, 4)
    assert F.conv1d(x, ones, padding="same").flatten().tolist() == [3, 6, 10, 14, 12, 9]
    layer = ad.nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular", bias=False)
    layer.weight = ad.nn.Parameter(ad.ones(1, 1, 3))
    assert layer(x).flatten().tolist() == [6, 3, 6, 9, 12, 9]


def test_errors_say_what_was_wanted() -> None:
    x, w = ad.ones(1, 3, 5, 5), ad.ones(4, 3, 3, 3)
    with pytest.raises(RuntimeError, match=r"expected input.* to have 3 channels, but got 2"):
        F.conv2d(ad.ones(1, 2, 5, 5), w)
    with pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
        F.conv2d(ad.ones(1, 3, 2, 2), w)
    with pytest.raises(RuntimeError, match="should be the same"):
        F.conv2d(x.double(), w)
    with pytest.raises(RuntimeError, match="bias of size"):
        F.conv2d(x, w, ad.ones(3))
    with pytest.raises(RuntimeError, match="not supported for strided"):
        F.conv2d(x, w, stride=2, padding="same")
    with pytest.raises(RuntimeError, match=r"Conv2d: expected input of shape \(N, 3, H, W\)"):
        ad.nn.Conv2d(3, 4, 3)(ad.ones(1, 5, 5, 3))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        ad.nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ValueError, match="padding_mode"):
        ad.nn.Conv2d(3, 4, 3, padding_mode="mirror")


def test_lazy_layers_take_the_channels() -> None:
    layer = ad.nn.LazyConvTranspose2d(4, 3, groups=2)
    assert layer(ad.randn(2, 6, 5, 5)).shape == (2, 4, 7, 7)
    assert type(layer) is ad.nn.ConvTranspose2d
    assert layer.weight.shape == (6, 2, 3, 3)
