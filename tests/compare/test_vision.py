"""Convolution, pooling and resizing beside PyTorch, where the operation database is silent."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import adjoint as ad  # noqa: E402
from tests.compare.bridge import ours, theirs  # noqa: E402

pytestmark = pytest.mark.compare
NAN, INF = float("nan"), float("inf")


def both(name: str, *args: Any, **kwargs: Any) -> None:
    """The same call in both, results and the gradient of the first argument."""
    x = args[0].clone().requires_grad_()
    y = ours(args[0].clone()).requires_grad_()
    want = getattr(torch.nn.functional, name)(x, *args[1:], **kwargs)
    got = getattr(ad.nn.functional, name)(y, *ours(list(args[1:])), **ours(kwargs))
    wants = want if isinstance(want, tuple) else (want,)
    gots = got if isinstance(got, tuple) else (got,)
    for w, g in zip(wants, gots, strict=True):
        torch.testing.assert_close(theirs(g), w.detach(), rtol=1e-6, atol=1e-6, equal_nan=True)
    seed = torch.randn(wants[0].shape, dtype=wants[0].dtype)
    wants[0].backward(seed)
    gots[0].backward(ours(seed))
    torch.testing.assert_close(theirs(y.grad), x.grad, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("batch", [True, False])
def test_random_windows_from_the_same_numbers(rank: int, batch: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(*([2] if batch else []), 3, *(9, 8, 7)[:rank], dtype=torch.float64)
    samples = torch.rand(2 if batch else 1, 3, rank, dtype=torch.float64)
    for sizes in ({"output_size": (4, 3, 2)[:rank]}, {"output_ratio": (0.6,) * rank}):
        both(
            f"fractional_max_pool{rank}d", x, 2, **sizes, return_indices=True,
            _random_samples=samples,
        )  # fmt: skip


def test_pooling_of_nan_infinities_and_ties() -> None:
    x = torch.tensor([[[1, 1, NAN, 2, 2, -INF], [-INF, -INF, -INF, -INF, 5, NAN],
                       [3, 3, INF, INF, NAN, NAN], [0, -0.0, 0, 0, NAN, 1]]])  # fmt: skip
    for kwargs in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 1, "padding": 1}):
        both("max_pool2d", x, **kwargs, return_indices=True)
    both("adaptive_max_pool2d", x, (3, 4), return_indices=True)
    finite = torch.tensor([[[1.0, INF, 2.0, 3.0, 4.0, 5.0, 6.0]]])
    both("avg_pool1d", finite, 3, 2, 1)
    both("adaptive_avg_pool1d", finite, 3)
    both("interpolate", finite, size=3, mode="nearest")


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("factor", [0.3, 0.71, 1.0, 1.9, 2.0, 3.3, (0.5, 2.7)])
@pytest.mark.parametrize("recompute", [None, True])
def test_resizing_by_factors(mode: str, factor: Any, recompute: bool | None) -> None:
    x = torch.randn(1, 2, 13, 11, dtype=torch.float64)
    both("interpolate", x, None, factor, mode, recompute_scale_factor=recompute)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(5, 4), (20, 30), (1, 1), (13, 3)])
def test_smooth_resizing(mode: str, align: bool, size: Any) -> None:
    x = torch.randn(1, 2, 13, 11, dtype=torch.float64)
    both("interpolate", x, size, None, mode, align, antialias=True)
    both("interpolate", x, size, None, mode, align)


def test_sizes_of_pooling_agree_everywhere() -> None:
    """ceil_mode, padding, stride and dilation in all small combinations."""
    for n in range(1, 9):
        x = torch.arange(float(n)).reshape(1, n)
        y = ours(x)
        for k in (1, 2, 3):
            for s in (1, 2, 3):
                for p in range(k // 2 + 1):
                    for d in (1, 2):
                        for ceil in (False, True):
                            compare_pool(x, y, (k, s, p, d), ceil)


def compare_pool(x: Any, y: Any, numbers: Any, ceil: bool) -> None:
    k, s, p, d = numbers
    F, G = torch.nn.functional, ad.nn.functional
    calls = [("max_pool1d", (k, s, p, d, ceil))]
    if d == 1:
        calls += [("avg_pool1d", (k, s, p, ceil, include)) for include in (True, False)]
    for name, args in calls:
        try:
            want = getattr(F, name)(x, *args)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                getattr(G, name)(y, *args)
            continue
        got = getattr(G, name)(y, *args)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6, err_msg=f"{name}{args}")


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_from_inside_adds_and_cuts(mode: str, compiled: bool) -> None:
    rng = np.random.default_rng(11)
    compared = 0
    for _ in range(8 if compiled else 80):
        rank, most = int(rng.integers(1, 4)), int(rng.choice([6, 24]))
        sizes = [int(n) for n in rng.integers(1, most, rank)]
        pads = [int(p) for n in reversed(sizes) for p in rng.integers(-min(n, 4), min(n, 4) + 1, 2)]
        data = rng.standard_normal((2, 2, *sizes)).astype(np.float32)
        x, y = torch.tensor(data, requires_grad=True), ad.tensor(data, requires_grad=True)
        pad: Any = functools.partial(ad.nn.functional.pad, pad=pads, mode=mode)
        pad = ad.compile(pad) if compiled else pad
        before_after = zip(reversed(sizes), pads[::2], pads[1::2], strict=True)
        wraps_too_far = [max(a, b, 0) > n + min(a, 0) + min(b, 0) for n, a, b in before_after]
        try:
            if mode == "circular" and any(wraps_too_far):
                raise RuntimeError  # PyTorch looks at the size before cutting: what it reads is junk
            want = torch.nn.functional.pad(x, pads, mode)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                pad(y)
            continue
        got = pad(y)
        np.testing.assert_array_equal(got.detach().numpy(), want.detach().numpy())
        if want.numel() == 0:  # some of PyTorch's gradients are left unwritten then
            continue
        weight = rng.standard_normal(want.shape).astype(np.float32)
        (want * torch.tensor(weight)).sum().backward()
        (got * ad.tensor(weight)).sum().backward()
        np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), rtol=1e-5, atol=1e-5)
        compared += 1
    assert compared


LAYERS = [
    ("Conv2d", (3, 4, 3), {}),
    ("Conv2d", (4, 4, (3, 5)), {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}),
    ("Conv1d", (4, 4, 3), {"padding": "same", "padding_mode": "circular", "bias": False}),
    ("ConvTranspose3d", (4, 4, 3), {"stride": 2, "output_padding": 1}),
    ("LazyConv2d", (4, 3), {}),
    ("MaxPool2d", (3, 2), {"ceil_mode": True}),
    ("AvgPool1d", (3,), {}),
    ("AvgPool3d", (3,), {"padding": 1}),
    ("MaxUnpool2d", (2,), {}),
    ("LPPool2d", (2, 3), {}),
    ("AdaptiveAvgPool2d", ((3, None),), {}),
    ("AdaptiveMaxPool1d", (3,), {}),
    ("FractionalMaxPool2d", (3,), {"output_ratio": 0.5}),
    ("ConstantPad2d", ((1, 2, 3, 4), 3.5), {}),
    ("ZeroPad2d", (2,), {}),
    ("ReflectionPad1d", (2,), {}),
    ("ReplicationPad3d", (2,), {}),
    ("CircularPad2d", (2,), {}),
    ("Upsample", (), {"scale_factor": 2, "mode": "bilinear"}),
    ("Upsample", ((3, 4),), {}),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}),
    ("PixelShuffle", (2,), {}),
    ("PixelUnshuffle", (2,), {}),
    ("ChannelShuffle", (2,), {}),
    ("Fold", ((4, 5), 2), {}),
    ("Unfold", (2,), {}),
    ("LocalResponseNorm", (2,), {}),
    ("CrossMapLRN2d", (5,), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), LAYERS)
def test_layers_print_and_hold_what_pytorch_holds(name: str, args: Any, kwargs: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = getattr(torch.nn, name)(*args, **kwargs)
    got = getattr(ad.nn, name)(*args, **kwargs)
    assert repr(got) == repr(want)
    assert list(got.state_dict()) == list(want.state_dict())
    public = {k: v for k, v in vars(want).items() if not k.startswith("_") and k != "training"}
    assert {k: getattr(got, k) for k in public} == public


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_cross_map_normalisation(size: int) -> None:
    x = torch.randn(2, 6, 3, 3, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = torch.nn.CrossMapLRN2d(size, 0.5, 0.7, 1.5)(x)
    got = ad.nn.CrossMapLRN2d(size, 0.5, 0.7, 1.5)(ours(x))
    torch.testing.assert_close(theirs(got), want, rtol=1e-7, atol=1e-7)


def test_initial_weights_have_the_same_spread() -> None:
    for name, args in (("Conv2d", (8, 64, 5)), ("ConvTranspose2d", (8, 64, 5))):
        want, got = getattr(torch.nn, name)(*args), getattr(ad.nn, name)(*args)
        for w, g in zip(want.parameters(), got.parameters(), strict=True):
            assert tuple(g.shape) == tuple(w.shape)
            assert g.abs().max().item() == pytest.approx(w.abs().max().item(), rel=0.1)
