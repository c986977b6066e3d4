"""Transforms, windows, samplers and special functions: identities, and refusals of bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad


def draw(*shape: int, seed: int = 0) -> Any:
    return ad.tensor(np.random.default_rng(seed).normal(size=shape))


def close(a: Any, b: Any, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_inverse_transforms_undo(n: int, norm: str | None) -> None:
    x = draw(3, n)
    close(ad.fft.ifft(ad.fft.fft(x, norm=norm), norm=norm).real, x)
    close(ad.fft.irfft(ad.fft.rfft(x, norm=norm), n, norm=norm), x)
    close(ad.fft.hfft(ad.fft.ihfft(x, norm=norm), n, norm=norm), x)
    close(ad.fft.irfftn(ad.fft.rfftn(x, norm=norm), (3, n), norm=norm), x)
    close(ad.fft.hfftn(ad.fft.ihfftn(x, norm=norm), (3, n), norm=norm), x)


def test_a_half_spectrum_is_half_of_the_spectrum() -> None:
    x = draw(2, 9)
    close(ad.fft.rfft(x), ad.fft.fft(x)[:, :5])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_transforms_and_their_gradients(dtype: str) -> None:
    """Of as many elements as are compiled (Note [fragments]), and in any layout."""
    rng = np.random.default_rng(8)
    limit = 1e-6 if dtype == "float32" else 1e-14
    signals = ad.from_numpy(rng.standard_normal((30, 331)).astype(dtype))
    for x, dim in ((signals, 1), (signals, 0), (signals.T[1:], 0), (signals[:, 1:], -1)):
        given = x.detach().clone().requires_grad_()
        wide = x.numpy().astype(np.float64)
        spectrum = ad.fft.rfft(given, dim=dim)
        back = ad.fft.irfft(spectrum, x.shape[dim], dim=dim)
        whole = ad.fft.fft(given, dim=dim)
        for got, want in (
            (spectrum, np.fft.rfft(wide, axis=dim)), (back, wide), (whole, np.fft.fft(wide, axis=dim)),
        ):  # fmt: skip
            size = np.abs(want).max()
            np.testing.assert_allclose(got.detach().numpy(), want, rtol=0, atol=limit * size)
        ((back**2).sum() + whole.real.sum()).backward()
        constant = np.fft.fft(np.ones_like(wide), axis=dim).real
        np.testing.assert_allclose(
            given.grad.numpy(), 2 * wide + constant, rtol=0, atol=1e3 * limit
        )


def test_energy_and_its_gradient() -> None:
    """Parseval: the energy of an orthonormal spectrum is the signal's, so its gradient is 2x."""
    for transform in (ad.fft.fft, ad.fft.fft2):
        x = draw(4, 5).requires_grad_()
        (transform(x, norm="ortho").abs() ** 2).sum().backward()
        close(x.grad, 2 * x.detach())


def test_frequencies() -> None:
    assert ad.fft.fftfreq(5, 0.5).tolist() == pytest.approx([0, 0.4, 0.8, -0.8, -0.4])
    assert ad.fft.rfftfreq(4).tolist() == [0, 0.25, 0.5]
    for n in range(1, 7):
        np.testing.assert_allclose(ad.fft.rfftfreq(n, 0.5), np.fft.rfftfreq(n, 0.5), rtol=1e-6)
        np.testing.assert_allclose(ad.fft.fftfreq(n, 0.5), np.fft.fftfreq(n, 0.5), rtol=1e-6)
    assert ad.fft.fftshift(ad.fft.fftfreq(4)).tolist() == [-0.5, -0.25, 0, 0.25]


@pytest.mark.parametrize("center", [True, False])
def test_istft_undoes_stft(center: bool) -> None:
    x = draw(2, 64)
    window = ad.hamming_window(16, dtype=ad.float64)
    spectrum = ad.stft(x, 16, 4, window=window, center=center, return_complex=True)
    close(ad.istft(spectrum, 16, 4, window=window, center=center, length=64), x)


def test_stft_in_parts_and_whole() -> None:
    x = draw(32)
    whole = ad.stft(x, 8, return_complex=True)
    parts = ad.stft(x, 8, return_complex=False)
    close(ad.complex(parts[..., 0], parts[..., 1]), whole)


def test_hann_windows_add_to_one() -> None:
    w = ad.hann_window(8, dtype=ad.float64)
    close(w[:4] + w[4:], ad.ones(4, dtype=ad.float64))
    assert ad.signal.windows.hann(9, dtype=ad.float64)[:8].tolist() == pytest.approx(w.tolist())


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_sampling_at_the_pixels_gives_the_image(mode: int) -> None:
    image = draw(1, 2, 3, 4)
    y, x = ad.linspace(-1, 1, 3).to(ad.float64), ad.linspace(-1, 1, 4).to(ad.float64)
    grid = ad.stack([x.expand(3, 4), y.unsqueeze(1).expand(3, 4)], -1).unsqueeze(0)
    close(ad.grid_sampler_2d(image, grid, mode, 0, True), image, 1e-6)


def test_special_identities() -> None:
    x = draw(20).abs() + 0.1
    special = ad.special
    wronskian = special.bessel_j1(x) * special.bessel_y0(x)
    wronskian = wronskian - special.bessel_j0(x) * special.bessel_y1(x)
    close(wronskian, 2 / (math.pi * x))
    close(special.i1e(x), special.i1(x) * (-x).exp())
    close(special.ndtri(special.ndtr(x)), x, 1e-7)
    close(special.log_ndtr(-x).exp(), special.ndtr(-x))
    close(special.chebyshev_polynomial_t(x.cos(), 11), (11 * x).cos())
    assert float(special.zeta(ad.tensor(2.0, dtype=ad.float64), 1)) == pytest.approx(math.pi**2 / 6)


def test_airy_is_zero_far_to_the_right() -> None:
    """SciPy's is NaN there."""
    for dtype in (ad.float16, ad.float32, ad.float64):
        x = ad.tensor([9e3, 2e4, 1e10, math.inf], requires_grad=True, dtype=dtype)
        for fn in (ad.special.airy_ai, ad.compile(ad.special.airy_ai)):
            out = fn(x)
            assert out.tolist() == [0.0] * 4
            assert ad.autograd.grad(out.sum(), x)[0].tolist() == [0.0] * 4
    assert ad.special.airy_ai(ad.tensor([2**40, 3])).tolist()[0] == 0
    assert ad.special.airy_ai(ad.tensor(math.nan)).isnan()


def test_polynomials_of_odd_degrees() -> None:
    x = ad.tensor([0.5, 2.0])
    assert ad.special.legendre_polynomial_p(x, -1).tolist() == [0, 0]
    assert ad.special.hermite_polynomial_he(x, 2.9).tolist() == [-0.75, 3.0]
    degrees = ad.tensor([0, 1, 2])
    assert ad.special.laguerre_polynomial_l(0.5, degrees).tolist() == [1.0, 0.5, 0.125]


REFUSED: list[tuple[type[Exception], str, Any]] = [
    (RuntimeError, "rfft.*real", lambda: ad.fft.rfft(ad.zeros(3, dtype=ad.complex64))),
    (RuntimeError, "normalization", lambda: ad.fft.fft(ad.zeros(3), norm="none")),
    (RuntimeError, "data points", lambda: ad.fft.fft(ad.zeros(3, 0))),
    (RuntimeError, "data points", lambda: ad.fft.irfft(ad.zeros(1))),
    (RuntimeError, "unique", lambda: ad.fft.fftn(ad.zeros(3, 3), dim=(0, 0))),
    (RuntimeError, "same length", lambda: ad.fft.fftn(ad.zeros(3, 3), (2,), (0, 1))),
    (RuntimeError, "float16", lambda: ad.fft.fft(ad.zeros(4, dtype=ad.float16))),
    (IndexError, "dim", lambda: ad.fft.fft(ad.zeros(()))),
    (TypeError, "must be int", lambda: ad.fft.fft(ad.zeros(3), 2.0)),
    (RuntimeError, "return_complex", lambda: ad.stft(ad.zeros(16), 8)),
    (RuntimeError, "win_length", lambda: ad.stft(ad.zeros(16), 8, 2, 9, return_complex=True)),
    (RuntimeError, "overlap", lambda: ad.istft(ad.ones(5, 4) + 0j, 8, window=ad.zeros(8))),
    (RuntimeError, "complex-valued", lambda: ad.istft(ad.ones(5, 4), 8)),
    (RuntimeError, "non-negative", lambda: ad.hann_window(-1)),
    (ValueError, "non-negative", lambda: ad.signal.windows.hann(-1)),
    (ValueError, "tau", lambda: ad.signal.windows.exponential(3, tau=0)),
    (NotImplementedError, "complex", lambda: ad.special.i1e(ad.zeros(2, dtype=ad.complex64))),
    (TypeError, "zeta", lambda: ad.special.zeta(2, 3)),
    (
        RuntimeError,
        "batch size",
        lambda: ad.grid_sampler_2d(ad.zeros(1, 1, 2, 2), ad.zeros(2, 1, 1, 2), 0, 0, False),
    ),
    (
        RuntimeError,
        "bicubic",
        lambda: ad.grid_sampler_3d(ad.zeros(1, 1, 2, 2, 2), ad.zeros(1, 1, 1, 1, 3), 2, 0, False),
    ),
]


@pytest.mark.parametrize(("kind", "message", "call"), REFUSED)
def test_bad_input_is_refused(kind: type[Exception], message: str, call: Any) -> None:
    with pytest.raises(kind, match=message):
        call()
