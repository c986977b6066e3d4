"""Fourier transforms in compiled programs: NumPy's results, of any length, without calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.llvm.templates.spectra import stages, template
from adjoint.engine.ops.signal.fft import SPECTRUM
from tests.test_native_complex import calls_of

# One, powers, products of small primes, radices of their own, and large primes (Note [chirps]).
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 30, 31, 37, 49, 60, 74, 128, 210)
NORMS = ("backward", "ortho", "forward")
CLOSE = {"float32": 4e-7, "float64": 2e-15}  # of the largest element


def complex_numbers(rng: Any, shape: tuple[int, ...]) -> Any:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def close(actual: Any, want: Any, dtype: str, what: Any) -> None:
    error = np.abs(actual.numpy().astype(want.dtype) - want).max()
    assert error <= CLOSE[dtype] * max(np.abs(want).max(), 1e-3), (what, error)


@pytest.mark.parametrize(
    ("dtype", "lengths"),
    [
        ("float32", (1, 14, 37)),
        pytest.param("float32", LENGTHS, marks=pytest.mark.slow),
        pytest.param("float64", LENGTHS, marks=pytest.mark.slow),
    ],
    ids=["few", "float32", "float64"],
)
def test_every_length_is_transformed(dtype: str, lengths: tuple[int, ...]) -> None:
    """Along the last dimension, and along one with others after it, which are read as vectors."""
    rng = np.random.default_rng(3)
    kind = np.complex64 if dtype == "float32" else np.complex128
    given = [
        complex_numbers(rng, shape).astype(kind) for n in lengths for shape in ((7, n), (n, 8))
    ]

    def transform(xs: list[Any]) -> list[Any]:
        found = []
        for k, x in enumerate(xs):
            d, n, norm = 1 - k % 2, x.shape[1 - k % 2], NORMS[k % 3]
            found.append(ad.fft.fft(x, dim=d, norm=norm))
            found.append(ad.fft.ifft(x, dim=d, norm=norm))
            found.append(ad.fft.rfft(x.real, dim=d, norm=norm))
            found.append(ad.fft.irfft(x.narrow(d, 0, n // 2 + 1), n, dim=d, norm=norm))
        return found

    compiled = ad.compile(transform)
    results = iter(compiled([ad.from_numpy(x) for x in given]))
    assert calls_of(compiled) == "0 calls of the eager table"
    for k, x in enumerate(given):
        d, norm = 1 - k % 2, NORMS[k % 3]
        wide, n = x.astype(np.complex128), x.shape[d]
        close(next(results), np.fft.fft(wide, axis=d, norm=norm), dtype, ("fft", n))
        close(next(results), np.fft.ifft(wide, axis=d, norm=norm), dtype, ("ifft", n))
        close(next(results), np.fft.rfft(wide.real, axis=d, norm=norm), dtype, ("rfft", n))
        half = wide[:, : n // 2 + 1] if d else wide[: n // 2 + 1]
        close(next(results), np.fft.irfft(half, n, axis=d, norm=norm), dtype, ("irfft", n))


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_long_lines_are_sheets(kind: str) -> None:
    """Few lines, and many long ones: their columns, then their rows (Note [sheets])."""
    rng = np.random.default_rng(8)
    lanes = outer_tile(kind).lanes
    dtype, complexes = ("float32", np.complex64) if kind == "f32" else ("float64", np.complex128)
    shapes = [(lines, lanes * lanes * m) for lines, m in ((1, 1), (3, 2), (2, 5), (1, 21))]
    shapes.append((lanes + 1, -(-template.LONG // lanes**2) * lanes**2))
    for lines, n in shapes:
        sheet = template.sheet_of(n, lines, lanes)
        assert sheet is not None
        rows, columns = sheet
        assert rows * columns == n
        assert rows % lanes == columns % lanes == 0
    assert template.sheet_of(lanes * lanes, lanes, lanes) is None  # side by side
    assert template.sheet_of(lanes * lanes * 83, 1, lanes) is None  # Note [chirps]
    assert template.sheet_of(lanes * lanes + lanes, 1, lanes) is None
    given = [complex_numbers(rng, shape).astype(complexes) for shape in shapes]

    def transform(xs: list[Any]) -> list[Any]:
        pairs = [(x, NORMS[k % 3]) for k, x in enumerate(xs)]
        whole = [way(x, norm=norm) for x, norm in pairs for way in (ad.fft.fft, ad.fft.ifft)]
        n = [2 * x.shape[-1] for x in xs]
        reals = [ad.view_as_real(x).flatten(1) for x in xs]
        half = [
            way(x, norm=norm)
            for x, (_, norm) in zip(reals, pairs, strict=True)
            for way in (ad.fft.rfft, ad.fft.ihfft)
        ]
        back = [
            way(ad.cat([x, x[:, :1]], 1), k, norm=norm)
            for (x, norm), k in zip(pairs, n, strict=True)
            for way in (ad.fft.irfft, ad.fft.hfft)
        ]
        return whole + half + back

    compiled = ad.compile(transform)
    results = iter(compiled([*map(ad.from_numpy, given)]))
    assert calls_of(compiled) == "0 calls of the eager table"
    for k, x in enumerate(given):
        wide, norm = x.astype(np.complex128), NORMS[k % 3]
        close(next(results), np.fft.fft(wide, norm=norm), dtype, ("fft", x.shape))
        close(next(results), np.fft.ifft(wide, norm=norm), dtype, ("ifft", x.shape))
    for k, x in enumerate(given):
        real, norm = x.view(dtype).astype(np.float64), NORMS[k % 3]
        close(next(results), np.fft.rfft(real, norm=norm), dtype, ("rfft", x.shape))
        close(next(results), np.fft.ihfft(real, norm=norm), dtype, ("ihfft", x.shape))
    for k, x in enumerate(given):
        n, norm = 2 * x.shape[-1], NORMS[k % 3]
        half = np.concatenate([x, x[:, :1]], 1).astype(np.complex128)
        close(next(results), np.fft.irfft(half, n, norm=norm), dtype, ("irfft", x.shape))
        close(next(results), np.fft.hfft(half, n, norm=norm), dtype, ("hfft", x.shape))


def test_layouts_several_dimensions_and_what_is_around() -> None:
    rng = np.random.default_rng(4)
    z = complex_numbers(rng, (6, 4, 10)).astype(np.complex64)

    def run(x: Any) -> Any:
        spectrum = ad.fft.fft2(x, dim=(0, 2))
        filtered = spectrum * spectrum.conj() / (1 + spectrum.abs())
        return ad.fft.ifftn(filtered), ad.fft.irfft2(x, dim=(1, 2)) * 2, ad.fft.hfft(x), x + 1

    compiled = ad.compile(run)
    x = ad.from_numpy(z)
    for given in (x, x.transpose(0, 2), x[::2, :, ::3], x[1:, 1:], x.conj()):
        for got, want in zip(compiled(given), run(given), strict=True):
            assert got.dtype is want.dtype
            assert got.shape == want.shape
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=2e-5)


def test_gradients_go_through() -> None:
    rng = np.random.default_rng(5)
    x = ad.from_numpy(rng.standard_normal((3, 14)))
    weight = ad.from_numpy(rng.standard_normal((3, 8)))

    def loss(x: Any) -> Any:
        spectrum = ad.fft.rfft(x, norm="ortho")
        low = ad.fft.irfft(spectrum * weight, 14)
        return (low * x).sum() + (ad.fft.fft(x).abs().square() / 7).sum()

    step = ad.compile(ad.func.grad(loss))
    np.testing.assert_allclose(step(x).numpy(), ad.func.grad(loss)(x).numpy(), rtol=1e-10)
    assert calls_of(step) == "0 calls of the eager table"


def test_the_record_on_pairs_is_what_numpy_computes() -> None:
    """By the eager table, which runs it where sizes are not known or there is no template."""
    rng = np.random.default_rng(6)
    z = complex_numbers(rng, (3, 5))
    x = ad.view_as_real(ad.from_numpy(z))
    for norm in NORMS:
        out = SPECTRUM(x, way="whole", dim=1, n=5, inverse=True, norm=norm)
        np.testing.assert_allclose(ad.view_as_complex(out).numpy(), np.fft.ifft(z, norm=norm))
        out = SPECTRUM(x.contiguous(), way="back", dim=1, n=9, inverse=True, norm=norm)
        np.testing.assert_allclose(out.numpy(), np.fft.irfft(z, 9, norm=norm))
        real = ad.from_numpy(z.real.copy())
        out = SPECTRUM(real, way="half", dim=0, n=3, inverse=False, norm=norm)
        want = np.fft.rfft(z.real, axis=0, norm=norm)
        np.testing.assert_allclose(ad.view_as_complex(out).numpy(), want)


def test_sizes_that_are_not_known_are_transformed_too() -> None:
    compiled = ad.compile(lambda x: ad.fft.irfft(ad.fft.rfft(x) * 2j, x.shape[-1]), dynamic=True)
    rng = np.random.default_rng(7)
    for n in (4, 6, 10):
        x = rng.standard_normal((n, 8))
        want = np.fft.irfft(np.fft.rfft(x) * 2j, 8)
        np.testing.assert_allclose(compiled(ad.from_numpy(x)).numpy(), want, atol=1e-12)


def test_tables_and_lengths() -> None:
    """Roots of unity are products of two; padded lengths have small factors and least work."""
    for order in (1, 2, 5, 127, 128, 129, 1000, 4099):
        bits, low, high = stages.table_of(order)
        for k in {0, 1 % order, order // 3, order // 2, order - 1}:
            got = low[k % (1 << bits)] * high[k >> bits]
            exact = np.exp(-2j * 4 * np.arctan(np.longdouble(1)) * k / order)
            assert abs(got - complex(exact)) < 4e-16
    for least in (1, 2, 7, 73, 1000):
        found = template.smooth(least)
        work = {
            n: n * len(stages.radices_of(n))
            for n in range(least, 2 * least + 1)
            if set(stages.radices_of(n)) <= {2, 3, 4, 5, 8}
        }
        assert work[found] == min(work.values())
    for n in range(1, 100):
        assert np.prod(stages.radices_of(n)) == n


def direct(x: Any, n: int, sign: int) -> Any:
    """The transform of rows by its definition, in long doubles."""
    turn = 8 * np.arctan(np.longdouble(1)) * np.arange(n) / n
    roots = np.cos(turn) + sign * 1j * np.sin(turn)
    return x.astype(np.clongdouble) @ roots[np.outer(np.arange(n), np.arange(n)) % n]


def resized(x: Any, n: int) -> Any:
    """Rows cut off or filled with zeros."""
    out = np.zeros((*x.shape[:-1], n), x.dtype)
    m = min(n, x.shape[-1])
    out[..., :m] = x[..., :m]
    return out


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_length_by_the_definition(dtype: str) -> None:
    """Random lengths, with zeros added and elements cut off, in every norm."""
    rng = np.random.default_rng(len(dtype))
    complexes = np.complex64 if dtype == "float32" else np.complex128
    lengths = [2, 97, *map(int, rng.integers(1, 140, 2))]
    given = [
        complex_numbers(rng, (5, int(rng.integers(1, 150)))).astype(complexes) for _ in lengths
    ]

    def transforms(xs: list[Any]) -> list[Any]:
        found = []
        for k, (x, n) in enumerate(zip(xs, lengths, strict=True)):
            norm = NORMS[k % 3]
            found.append(ad.fft.fft(x, n, norm=norm))
            found.append(ad.fft.ifft(x, n, norm=norm))
            found.append(ad.fft.rfft(x.real, n, norm=norm))
            found.append(ad.fft.irfft(x, n, norm=norm))
        return found

    compiled = ad.compile(transforms)
    results = iter(compiled([*map(ad.from_numpy, given)]))
    assert calls_of(compiled) == "0 calls of the eager table"
    for k, (x, n) in enumerate(zip(given, lengths, strict=True)):
        there = {"backward": 1, "ortho": 1 / np.sqrt(n), "forward": 1 / n}[NORMS[k % 3]]
        back = 1 / n / there
        half = resized(x, n // 2 + 1)
        half[..., 0] = half[..., 0].real
        whole = np.zeros((*x.shape[:-1], n), x.dtype)
        for j in range(n // 2 + 1):
            whole[..., -j % n], whole[..., j] = half[..., j].conj(), half[..., j]
        if n % 2 == 0:
            whole[..., n // 2] = half[..., n // 2].real
        close(next(results), direct(resized(x, n), n, -1) * there, dtype, ("fft", n))
        close(next(results), direct(resized(x, n), n, 1) * back, dtype, ("ifft", n))
        want = direct(resized(x.real, n), n, -1)[..., : n // 2 + 1]
        close(next(results), want * there, dtype, ("rfft", n))
        close(next(results), direct(whole, n, 1) * back, dtype, ("irfft", n))


def test_gradients_of_lengths_that_are_padded_and_cut() -> None:
    rng = np.random.default_rng(12)
    x = ad.from_numpy(rng.standard_normal((2, 11)))

    def loss(x: Any) -> Any:
        half = ad.fft.rfft(x, 14)
        back = ad.fft.irfft(half * (1 + 2j), 41)
        return (back**3).sum() + ad.fft.fft(back, 9).abs().sum()

    step = ad.compile(ad.func.grad(loss))
    np.testing.assert_allclose(step(x).numpy(), ad.func.grad(loss)(x).numpy(), rtol=1e-9)
    assert calls_of(step) == "0 calls of the eager table"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reals_of_an_even_number_are_folded(dtype: str) -> None:
    """Against NumPy in doubles, beside rows that are huge or not finite, which stay apart."""
    rng = np.random.default_rng(9)
    given = [
        rng.standard_normal((n, 4) if dim == 0 else (9, n)).astype(dtype)
        for n in (2, 74, *map(int, 2 * rng.integers(1, 300, 2)))
        for dim in (0, 1)
    ]
    both = lambda x, dim: (
        ad.fft.rfft(x, dim=dim), ad.fft.ihfft(x, dim=dim), ad.fft.hfft(x + 0j, dim=dim),
    )  # fmt: skip
    compiled = ad.compile(lambda xs: [both(x, k % 2) for k, x in enumerate(xs)])
    for k, (x, pair) in enumerate(zip(given, compiled([*map(ad.from_numpy, given)]), strict=True)):
        wide = x.astype(np.float64)
        close(pair[0], np.fft.rfft(wide, axis=k % 2), dtype, ("rfft", x.shape))
        close(pair[1], np.fft.ihfft(wide, axis=k % 2), dtype, ("ihfft", x.shape))
        close(pair[2], np.fft.hfft(wide, axis=k % 2), dtype, ("hfft", x.shape))
    x = rng.standard_normal((5, 12)).astype(dtype)
    transform = ad.compile(ad.fft.rfft)
    before = transform(ad.from_numpy(x)).numpy()
    x[1], x[3, 2] = 1e30, np.nan
    after = transform(ad.from_numpy(x)).numpy()
    np.testing.assert_array_equal(after[[0, 2, 4]], before[[0, 2, 4]])
    assert np.isnan(after[3]).any()
