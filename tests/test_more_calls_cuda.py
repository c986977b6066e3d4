"""Single calls on a GPU that have kernels or plans of their own, beside the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

pytestmark = pytest.mark.cuda
rng = np.random.default_rng(8)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return rng.standard_normal(shape).astype(dtype)


def definite(*shape: int, dtype: Any = np.float32) -> Any:
    x = normal(*shape, dtype=dtype)
    return x @ x.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1], dtype=dtype)


Call = Callable[..., Any]
# By name: a function, and its operands.
CLOSE: dict[str, tuple[Call, tuple[Any, ...]]] = {
    **{
        f"cholesky of {n}, {np.dtype(dtype).name}": (ad.linalg.cholesky, (definite(5, n, n, dtype=dtype),))
        for n in (1, 16, 33, 64, 128, 150)
        for dtype in (np.float32, np.float64)
    },
    "upper cholesky": (lambda x: ad.linalg.cholesky(x, upper=True), (definite(2, 3, 40, 40),)),
    "cholesky of columns": (lambda x: ad.linalg.cholesky(x.mT), (definite(2, 40, 40),)),
    "cholesky of one": (ad.linalg.cholesky, (definite(100, 100),)),
    "inverse by cholesky": (
        lambda x: ad.cholesky_inverse(ad.linalg.cholesky(x)), (definite(4, 30, 30),)
    ),
    **{
        f"qr of {m} by {n}, {mode}, {np.dtype(dtype).name}": (
            lambda x, mode=mode: tuple(y for y in ad.linalg.qr(x, mode) if y.numel()),
            (normal(3, m, n, dtype=dtype),),
        )
        for m, n in ((64, 64), (100, 17), (9, 30), (128, 70), (140, 20))
        for mode in ("reduced", "complete", "r")
        for dtype in (np.float32, np.float64)
    },
    **{
        f"a triangle of {n} with {k}, {np.dtype(dtype).name}": (
            lambda x, y, upper=upper: ad.linalg.solve_triangular(x, y, upper=upper),
            (normal(3, n, n, dtype=dtype) / 9 + 3 * np.eye(n, dtype=dtype), normal(3, n, k, dtype=dtype)),
        )
        for n, k, upper in ((64, 64, False), (64, 65, True), (1, 3, False), (100, 1, True), (130, 9, False))
        for dtype in (np.float32, np.float64)
    },
    "one triangle of columns": (
        lambda x, y: ad.linalg.solve_triangular(x.mT, y, upper=True),
        (normal(50, 50) / 9 + 3 * np.eye(50, dtype=np.float32), normal(50, 7)),
    ),
    "one triangle for all": (
        lambda x, y: ad.linalg.solve_triangular(x, y, upper=False),
        (normal(20, 20) / 9 + 3 * np.eye(20, dtype=np.float32), normal(6, 20, 7)),
    ),
}  # fmt: skip


def complexes(*shape: int, dtype: Any = np.complex64) -> Any:
    return (normal(*shape) + 1j * normal(*shape)).astype(dtype)


def both_ways(name: str, **how: Any) -> Call:
    """A transform and what undoes it, in each normalisation."""

    def run(x: Any) -> Any:
        outs = []
        for norm in ("backward", "forward", "ortho"):
            there = getattr(ad.fft, name)(x, norm=norm, **how)
            outs += [there, getattr(ad.fft, f"i{name}")(there, norm=norm, **how)]
        return tuple(ad.view_as_real(y) if y.is_complex() else y for y in outs)

    return run


CLOSE |= {
    "fft": (both_ways("fft"), (complexes(3, 40, 33),)),
    "fft of doubles": (both_ways("fft"), (complexes(64, dtype=np.complex128),)),
    "fft of reals": (both_ways("fft"), (normal(40, 32),)),
    "fft along the first": (both_ways("fft", dim=0), (complexes(24, 5, 7),)),
    "fft between": (both_ways("fft", dim=1), (complexes(5, 16, 6),)),
    "fft of columns": (lambda x: both_ways("fft")(x.t()), (complexes(20, 24),)),
    "fft of a part": (lambda x: both_ways("fft")(x.reshape(-1)[1:33]), (complexes(20, 24),)),
    "fft2": (both_ways("fft2"), (complexes(3, 4, 12, 18),)),
    "fft2 in another order": (both_ways("fft2", dim=(2, 1)), (complexes(3, 12, 18),)),
    "fft2 apart": (both_ways("fft2", dim=(0, 2)), (complexes(6, 12, 18),)),
    "fftn of four": (both_ways("fftn"), (complexes(3, 4, 5, 6),)),
    "rfft": (both_ways("rfft", n=32), (normal(5, 32),)),
    "rfft of a part": (lambda x: ad.view_as_real(ad.fft.rfft(x[1:])), (normal(34),)),
    "rfft of odd length": (
        lambda x: ad.view_as_real(ad.fft.rfft(x)),
        (normal(5, 33, dtype=np.float64),),
    ),
    "rfft along the first": (both_ways("rfft", n=10, dim=0), (normal(10, 7),)),
    "rfft2": (both_ways("rfft2"), (normal(4, 3, 16, 18),)),
    "rfft2 of doubles": (both_ways("rfft2"), (normal(16, 18, dtype=np.float64),)),
    "rfft2 in another order": (both_ways("rfft2", dim=(-1, -2)), (normal(2, 16, 18),)),
    "rfft2 of columns": (lambda x: both_ways("rfft2")(x.transpose(1, 2)), (normal(2, 16, 18),)),
    "rfftn": (both_ways("rfftn"), (normal(6, 5, 4),)),
    "rfftn of four": (both_ways("rfftn"), (normal(3, 6, 5, 4),)),
    "rfft2 resized": (lambda x: ad.view_as_real(ad.fft.rfft2(x, s=(9, 20))), (normal(2, 16, 18),)),
}


def whole(most: int, *shape: int) -> Any:
    return rng.integers(0, most, shape)


def every(name: str, **how: Any) -> Call:
    """All results of looking for distinct elements."""
    return lambda x: getattr(ad, name)(x, return_inverse=True, return_counts=True, **how)


# What has the CPU's bits.
EXACT: dict[str, tuple[Call, tuple[Any, ...]]] = {
    "distinct rows": (every("unique", dim=0), (whole(9, 5000, 3),)),
    "distinct rows, few": (every("unique", dim=0), (whole(3, 700, 2),)),
    "distinct rows alone": (lambda x: x.unique(dim=0), (whole(30, 20000, 3),)),
    "distinct rows of one": (every("unique", dim=0), (whole(9, 3000, 1),)),
    "distinct columns": (every("unique", dim=1), (whole(2, 4, 3000),)),
    "distinct slices of floats": (every("unique", dim=1), (whole(2, 2, 2500, 2).astype(np.float32),)),
    "distinct rows of halves": (every("unique", dim=0), (whole(4, 900, 2).astype(np.float16),)),
    "distinct rows of truth": (every("unique", dim=0), (whole(2, 4000, 4) > 0,)),
    "distinct rows of columns": (lambda x: x.t().unique(dim=0), (whole(3, 3, 2100),)),
    "one row": (every("unique", dim=0), (whole(3, 1, 4),)),
    "runs": (every("unique_consecutive"), (whole(3, 40, 700),)),
    "runs alone": (ad.unique_consecutive, (whole(3, 100_000),)),
    "runs alone of truth": (ad.unique_consecutive, (whole(2, 9000) > 0,)),
    "runs alone of halves": (ad.unique_consecutive, (whole(3, 9000).astype(np.float16),)),
    "runs alone of nothing": (ad.unique_consecutive, (whole(3, 0),)),
    "runs of rows": (every("unique_consecutive", dim=0), (whole(2, 5000, 2),)),
    "runs of columns": (every("unique_consecutive", dim=1), (whole(2, 2, 5000, 1),)),
    "runs of NaN": (
        lambda x: every("unique_consecutive")(ad.where(x > 1, x, float("nan"))),
        (whole(4, 3000).astype(np.float32),),
    ),
    "repeated as often as told": (lambda x, n: x.repeat_interleave(n, 0), (normal(900, 3), whole(5, 900))),
    "repeated by int32": (
        lambda x, n: x.repeat_interleave(n.int(), 1), (normal(3, 900), whole(5, 900))
    ),
    "repeats of much and nothing": (
        lambda n: ad.repeat_interleave(n * n * n), (whole(2, 5000) * whole(30, 5000),)
    ),
    "repeats of nothing": (lambda n: (n * 0).repeat_interleave(n * 0), (whole(3, 40),)),
    "repeats of no elements": (ad.repeat_interleave, (whole(3, 0),)),
    "repeats of a known sum": (
        lambda n: ad.repeat_interleave(n, output_size=80), (np.full(40, 2),)
    ),
    "one_hot of what occurs": (
        lambda x: ad.nn.functional.one_hot(x), (whole(40, 30, 7),)
    ),
    "one_hot again and again": (
        lambda x: tuple(ad.nn.functional.one_hot(x + k % 2) for k in range(30)), (whole(9, 30),)
    ),
    "unique, all": (every("unique"), (whole(500, 300, 200),)),
    "poisson again and again": (
        lambda x: tuple(ad.poisson(x.abs() * 4) for _ in range(40)), (normal(60, 70),)
    ),
    "poisson of doubles": (lambda x: ad.poisson(x.abs() * 30), (normal(60, 70, dtype=np.float64),)),
    "poisson of halves": (lambda x: ad.poisson(x.abs().half() * 30), (normal(60, 70),)),
    "poisson of columns": (lambda x: ad.poisson(x.abs().t()), (normal(60, 70),)),
    "poisson of nothing": (lambda x: ad.poisson(x), (normal(0),)),
    "gamma": (lambda x: ad._standard_gamma(x.abs() * 3), (normal(60, 70),)),
    "gamma of doubles": (lambda x: ad._standard_gamma(x.abs()), (normal(61, dtype=np.float64),)),
    "histogram": (lambda x: ad.histc(x, 50), (normal(300, 70),)),
    "histogram of doubles": (lambda x: ad.histc(x, 9000), (normal(300, 70, dtype=np.float64),)),
    "histogram of what is the same": (lambda x: ad.histc(x * 0 + 3, 7), (normal(90),)),
    "histogram of nothing": (lambda x: ad.histc(x, 7), (normal(0),)),
    "histogram between": (lambda x: ad.histc(x, 50, -1, 1), (normal(300, 70),)),
    "counts": (lambda x: x.bincount(minlength=70), (whole(60, 50_000),)),
    "counts of many": (lambda x: x.bincount(), (whole(60_000, 50_000),)),
    "counts of bytes": (lambda x: x.bincount(), (whole(200, 5000).astype(np.uint8),)),
    "whole weights": (lambda x, w: x.bincount(w), (whole(60, 50_000), whole(9, 50_000).astype(np.float32))),
    "whole weights of many": (
        lambda x, w: x.bincount(w, 70_000), (whole(60_000, 50_000), whole(9, 50_000).astype(np.float64))
    ),
}  # fmt: skip
GRADIENTS = (
    "cholesky of 33, float64", "upper cholesky", "qr of 100 by 17, reduced, float64",
    "a triangle of 64 with 65, float64", "inverse by cholesky", "rfft2 of doubles",
)  # fmt: skip


def results(name: str, device: str, *, gradients: bool) -> list[Any]:
    fn, given = (CLOSE | EXACT)[name]
    ad.manual_seed(3)
    leaves = [ad.tensor(x).to(device).requires_grad_(gradients) for x in given]
    out = fn(*leaves)
    found = list(out) if isinstance(out, tuple) else [out]
    if gradients:
        weighed = [
            (x * (ad.arange(x.numel(), device=device) % 5 + 1).reshape(x.shape)).sum()
            for x in found
        ]
        found += ad.autograd.grad(sum(weighed), leaves)
    for x, y in zip(found, moved := [x.detach().cpu() for x in found], strict=True):
        assert y.stride() == x.stride()
    return moved


@pytest.mark.parametrize("name", CLOSE)
def test_as_on_the_cpu(name: str) -> None:
    gradients = name in GRADIENTS
    got, want = (results(name, device, gradients=gradients) for device in ("cuda", "cpu"))
    for one, other in zip(got, want, strict=True):
        rough = 1e-9 if other.dtype is ad.float64 else 2e-4
        ad.testing.assert_close(one, other, rtol=rough, atol=rough * float(other.abs().max()))
        assert one.stride() == other.stride()


@pytest.mark.parametrize("name", EXACT)
def test_the_cpu_s_bits(name: str) -> None:
    got, want = (results(name, device, gradients=False) for device in ("cuda", "cpu"))
    ad.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    assert [x.dtype for x in got] == [x.dtype for x in want]
    assert [x.stride() for x in got] == [x.stride() for x in want]


def test_what_moves_between_devices_lies_as_it_did() -> None:
    x = ad.tensor(normal(2, 3, 4, 5))
    images = x.to(memory_format=ad.channels_last)
    for y in (
        x, images, x.mT, x.permute(3, 0, 2, 1), x[0, 0].t(), x.half().permute(1, 0, 3, 2),
        x[:, ::2], x[:1].expand(4, 3, 4, 5), x.mT[:, :, 1:], x[:0].mT, x[0, 0, 0, 0],
    ):  # fmt: skip
        there, want = y.cuda(), y.clone()
        assert there.stride() == want.stride()
        assert there.cpu().stride() == want.stride()
        assert there.cpu().equal(y)
    there = images.cuda()
    assert there[:, :, 1:].cpu().stride() == images[:, :, 1:].clone().stride()
    there[0, 0] = 7  # in memory of its own
    assert there.cpu()[0, 0].eq(7).all()
    assert not images[0, 0].eq(7).all()


def test_each_nan_is_one_of_its_own_in_rows() -> None:
    x = ad.tensor([[1, np.nan], [1, 2], [np.nan, 0], [1, np.nan], [1, 2]], device="cuda")
    values, inverse, counts = x.unique(dim=0, return_inverse=True, return_counts=True)
    assert values[0].tolist() == [1, 2]
    assert counts.tolist() == [2, 1, 1, 1]
    assert inverse.tolist() == [1, 0, 3, 2, 0]


def test_classes_below_zero_are_told() -> None:
    one_hot = ad.nn.functional.one_hot
    for values in ([-3], [-1, 4]):
        with pytest.raises(RuntimeError, match="Class values must be non-negative"):
            one_hot(ad.tensor(values, device="cuda")).cpu()


def test_a_rate_that_is_none_is_told_when_somebody_waits() -> None:
    with pytest.raises(RuntimeError, match="Poisson rate"):
        ad.poisson(ad.tensor([1.0, -1.0], device="cuda")).cpu()


def test_samples_with_gradients() -> None:
    x = ad.tensor(normal(50)).abs().cuda().requires_grad_()
    assert ad.autograd.grad(ad.poisson(x).sum(), x)[0].abs().sum() == 0
    y = x.detach().cpu().requires_grad_()
    found = []
    for leaf in (x, y):
        ad.manual_seed(4)
        found.append(ad.autograd.grad(ad._standard_gamma(leaf).sum(), leaf)[0].cpu())
    ad.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_transforms_on_several_streams() -> None:
    """A plan has room to work in, which two streams do not share."""
    xs = [ad.tensor(complexes(64, 10007)).cuda() for _ in range(3)]  # a prime: it needs room
    want = [ad.fft.fft(x).cpu() for x in xs]
    streams = [ad.cuda.Stream() for _ in xs]
    for s in streams:
        s.wait_stream(ad.cuda.current_stream())
    outs: list[Any] = []
    for _ in range(3):
        outs = []
        for x, s in zip(xs, streams, strict=True):
            with ad.cuda.stream(s):
                outs.append(ad.fft.fft(x))
    ad.cuda.synchronize()
    for out, w in zip(outs, want, strict=True):
        ad.testing.assert_close(out.cpu(), w, rtol=1e-3, atol=1e-2)


def test_what_cannot_be_counted_is_told() -> None:
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        ad.repeat_interleave(ad.tensor([1, -1, 4], device="cuda"))
    with pytest.raises(RuntimeError, match="not finite"):
        ad.histc(ad.tensor([1.0, np.nan], device="cuda"))
    with pytest.raises(RuntimeError, match="non-negative"):
        ad.tensor([1, -1], device="cuda").bincount()


def test_what_is_not_positive_definite_is_told_at_once() -> None:
    x = ad.eye(20).repeat(3, 1, 1)
    x[1, 4, 4] = -1
    for device in ("cpu", "cuda"):
        with pytest.raises(ad.linalg.LinAlgError, match=r"Batch element 1.*order 5"):
            ad.linalg.cholesky(x.to(device))
    factor, info = ad.linalg.cholesky_ex(x.cuda())
    assert info.tolist() == [0, 5, 0]
    ad.testing.assert_close(factor.cpu()[::2], x[::2])
