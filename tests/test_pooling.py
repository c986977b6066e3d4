"""Pooling, padding and resizing: what users rely on."""

from __future__ import annotations

import math

import numpy as np
import pytest

import adjoint as ad

F = ad.nn.functional
NAN = float("nan")


def test_max_pool_finds_nan_and_lone_infinities() -> None:
    x = ad.tensor([[1.0, NAN, 3.0, 2.0, -float("inf"), -float("inf")]])
    values, at = F.max_pool1d(x, 2, return_indices=True)
    np.testing.assert_array_equal(values.numpy(), [[NAN, 3.0, -np.inf]])
    assert at.tolist() == [[1, 2, 4]]


def test_padding_is_never_the_place_of_the_largest() -> None:
    x = ad.full((1, 1, 3, 3), -float("inf"))
    _, at = F.max_pool2d(x, 2, 2, 1, return_indices=True)
    assert at.flatten().tolist() == [0, 1, 3, 4]
    assert F.max_pool1d(ad.full((1, 4), -(2**31), dtype=ad.int32), 3, 2, 1).tolist() == [
        [-(2**31)] * 2
    ]


def test_ceil_mode_drops_windows_that_start_beyond_the_end() -> None:
    assert F.max_pool1d(ad.arange(5.0).reshape(1, 5), 2, 2, ceil_mode=True).shape == (1, 3)
    assert F.max_pool1d(ad.arange(4.0).reshape(1, 4), 1, 3, ceil_mode=True).shape == (1, 2)
    assert F.avg_pool1d(ad.ones(1, 5), 3, 2, 1, ceil_mode=True).shape == (1, 3)


def test_mean_pooling_counts_what_it_should() -> None:
    x = ad.ones(1, 4)
    assert F.avg_pool1d(x, 3, 1, 1).tolist()[0][1:3] == [1, 1]
    np.testing.assert_allclose(F.avg_pool1d(x, 3, 1, 1).numpy()[0, 0], 2 / 3, rtol=1e-6)
    np.testing.assert_allclose(
        F.avg_pool1d(x, 3, 1, 1, count_include_pad=False).numpy(), np.ones((1, 4)), rtol=1e-6
    )
    image = ad.ones(1, 2, 2)
    assert F.avg_pool2d(image, 2, divisor_override=2).item() == 2


def test_unpooling_restores_the_largest() -> None:
    x = ad.randn(2, 3, 6, 6)
    values, at = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(values, at, 2)
    assert ((back == x) | (back == 0)).all()
    assert back.sum().item() == pytest.approx(values.sum().item(), rel=1e-5)
    with pytest.raises(ValueError, match="output_size"):
        F.max_unpool2d(values, at, 2, output_size=(9, 9))


def test_random_windows_lie_inside_and_follow_the_seed() -> None:
    x = ad.randn(2, 3, 11, 9)
    ad.manual_seed(3)
    values, at = F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.7), return_indices=True)
    ad.manual_seed(3)
    assert (F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.7)) == values).all()
    assert values.shape == (2, 3, 5, 6)
    assert (x.flatten(2).gather(2, at.flatten(2)) == values.flatten(2)).all()


@pytest.mark.parametrize("rank", [2, 3])
def test_gradients_of_random_windows_go_where_the_largest_are(rank: int) -> None:
    pool = getattr(F, f"fractional_max_pool{rank}d")
    size = (2, 3, *(5, 6, 4)[:rank])
    x = ad.randperm(math.prod(size)).double().reshape(size).requires_grad_()
    drawn = ad.rand(2, 3, rank, dtype=ad.float64)
    values, at = pool(x, 2, output_size=3, return_indices=True, _random_samples=drawn)
    g = ad.randn(values.shape, dtype=ad.float64, requires_grad=True)
    want = ad.zeros(size, dtype=ad.float64).flatten(2).scatter_add(2, at.flatten(2), g.flatten(2))
    (got,) = ad.autograd.grad(values, x, g, create_graph=True)
    ad.testing.assert_close(got, want.reshape(size))
    h = ad.randn(size, dtype=ad.float64)
    (back,) = ad.autograd.grad(got, g, h)
    ad.testing.assert_close(back, h.flatten(2).gather(2, at.flatten(2)).reshape(g.shape))
    assert ad.autograd.gradcheck(lambda z: pool(z, 2, output_size=3, _random_samples=drawn), (x,))


def test_infinities_stay_where_they_are() -> None:
    """Sums touch only what their table names: no 0 * inf."""
    x = ad.zeros(1, 1, 8)
    x[0, 0, 0] = float("inf")
    for out in (
        F.interpolate(x, scale_factor=2, mode="linear"),
        F.adaptive_avg_pool1d(x, 3),
        F.avg_pool1d(x, 3, 2, 1),
    ):
        assert not out.isnan().any()
        assert out.isinf().sum() <= 3


def test_resizing_there_and_back() -> None:
    x = ad.randn(1, 2, 5, 7)
    big = F.interpolate(x, scale_factor=3, mode="nearest")
    assert (F.interpolate(big, size=(5, 7), mode="nearest") == x).all()
    assert (F.interpolate(big, size=(5, 7), mode="area") - x).abs().max() < 1e-6
    same = F.interpolate(x, size=(5, 7), mode="bicubic", align_corners=True)
    assert (same - x).abs().max() < 1e-6


def test_padding_modes() -> None:
    x = ad.arange(4.0).reshape(1, 1, 4)
    assert F.pad(x, (2, 1), "reflect").flatten().tolist() == [2, 1, 0, 1, 2, 3, 2]
    assert F.pad(x, (2, 1), "replicate").flatten().tolist() == [0, 0, 0, 1, 2, 3, 3]
    assert F.pad(x, (2, 1), "circular").flatten().tolist() == [2, 3, 0, 1, 2, 3, 0]
    assert F.pad(x, (-1, 1), value=9).flatten().tolist() == [1, 2, 3, 9]
    with pytest.raises(RuntimeError, match="less than the corresponding input dimension"):
        F.pad(x, (4, 0), "reflect")
    with pytest.raises(RuntimeError, match="more than once"):
        F.pad(x, (5, 0), "circular")
    with pytest.raises(NotImplementedError, match="'constant', 'reflect'"):
        F.pad(x, (1, 1), "mirror")


def test_errors_say_what_was_wanted() -> None:
    x = ad.ones(1, 1, 4, 4)
    with pytest.raises(RuntimeError, match="at most half of effective kernel size"):
        F.max_pool2d(x, 2, padding=2)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.avg_pool2d(x, 5)
    with pytest.raises(ValueError, match="only one of size or scale_factor"):
        F.interpolate(x, 2, 2.0)
    with pytest.raises(NotImplementedError, match="linear mode needs 3D"):
        F.interpolate(x, 2, mode="linear")
    with pytest.raises(RuntimeError, match="divisible by the square of upscale_factor"):
        F.pixel_shuffle(x, 3)


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_halves_are_averaged_in_float32(dtype: ad.dtype) -> None:
    assert F.avg_pool2d(ad.ones(1, 64, 64, dtype=dtype), 64).item() == 1
    assert F.adaptive_avg_pool2d(ad.full((1, 63, 65), 3.0, dtype=dtype), 2).unique().tolist() == [3]
