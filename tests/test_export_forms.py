"""Operations that C gets by other operations, and transforms: equal to NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.export import ExportError, aot

RANDOM = np.random.default_rng(0)
NOWHERE = [np.nan, np.inf, -np.inf]


def normal(*shape: int) -> Any:
    return RANDOM.normal(size=shape)


def parts(x: Any) -> Any:
    return np.stack([x.real, x.imag], -1)


def run(fn: Callable[..., Any], *arrays: Any) -> list[Any]:
    """The results of a program, as arrays."""
    tensors = tuple(ad.tensor(a) for a in arrays)
    out = aot(fn, tensors)(*tensors)
    return [t.numpy() for t in (out if isinstance(out, tuple) else (out,))]


def near(ours: Any, theirs: Any, limit: float = 1e-12) -> None:
    assert ours.shape == theirs.shape
    scale = max(float(np.abs(theirs).max(initial=0)), 1e-300)
    assert float(np.abs(ours - theirs).max(initial=0)) <= limit * scale


# 1 and 2; powers of two; many factors; primes by a table, by a convolution; a prime times another.
LENGTHS = (1, 2, 12, 97, 131, 240, 257, 1024, 7 * 151)


def transforms(n: int) -> None:
    x, y = normal(3, n), normal(3, n)
    (found,) = run(lambda a, b: ad.view_as_real(ad.fft.fft(ad.complex(a, b))), x, y)
    near(found, parts(np.fft.fft(x + 1j * y)))
    (found,) = run(lambda a: ad.view_as_real(ad.fft.rfft(a, norm="ortho")), x)
    near(found, parts(np.fft.rfft(x, norm="ortho")))
    half = normal(3, n // 2 + 1), normal(3, n // 2 + 1)
    (found,) = run(lambda a, b: ad.fft.irfft(ad.complex(a, b), n), *half)
    near(found, np.fft.irfft(half[0] + 1j * half[1], n))


def test_a_transform() -> None:
    transforms(36)


@pytest.mark.slow
@pytest.mark.parametrize("n", LENGTHS)
def test_transforms(n: int) -> None:
    transforms(n)


@pytest.mark.slow
def test_transforms_of_images_and_of_sound() -> None:
    x = normal(2, 6, 10)
    (found,) = run(lambda a: ad.view_as_real(ad.fft.ifft2(ad.fft.fft2(a) * 2)), x)
    near(found, parts(2 * x.astype(complex)))
    sound, window = normal(2, 64), np.hanning(17)[:-1]
    frames = np.stack([sound[:, k : k + 16] for k in range(0, 49, 4)], 1) * window
    (found,) = run(lambda a, w: ad.stft(a, 16, 4, window=w, center=False, return_complex=True).abs(), sound, window)  # fmt: skip
    near(found, np.abs(np.fft.rfft(frames)).swapaxes(1, 2))
    (found,) = run(lambda a, w: ad.istft(ad.stft(a, 16, 4, window=w, return_complex=True), 16, 4, window=w), sound, window)  # fmt: skip
    near(found, sound)


def test_searches_and_histograms() -> None:
    edges, values = np.sort(normal(37)), np.concatenate([normal(50), NOWHERE])
    rows, asked = np.sort(RANDOM.integers(0, 9, (3, 16))), RANDOM.integers(-1, 11, (3, 7))

    def fn(e: Any, v: Any, r: Any, a: Any, x: Any) -> Any:
        return (
            ad.searchsorted(e, v), ad.bucketize(v, e, right=True), ad.searchsorted(r, a),
            ad.isin(r, a[0]), x.histc(7, -1, 1), *ad.histogram(x, 5),
        )  # fmt: skip

    x = normal(200)
    left, right, found, held, counts, bins, ends = run(fn, edges, values, rows, asked, x)
    assert (left == np.searchsorted(edges, values)).all()
    assert (right == np.searchsorted(edges, values, "right")).all()
    assert all((found[k] == np.searchsorted(rows[k], asked[k])).all() for k in range(3))
    assert (held == np.isin(rows, asked[0])).all()
    assert (counts == np.histogram(x, 7, (-1, 1))[0]).all()
    assert (bins == np.histogram(x, 5)[0]).all()
    near(ends, np.histogram(x, 5)[1])


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (6, 3), (3, 6), (2, 4, 4), (40, 40)])
def test_reflections(shape: tuple[int, ...]) -> None:
    """LAPACK's own factors, signs included."""
    x = normal(*shape)
    for mode in ("reduced", "complete"):
        found = run(lambda a, mode=mode: tuple(ad.linalg.qr(a, mode)), x)
        for ours, theirs in zip(found, np.linalg.qr(x, mode), strict=True):
            near(ours, theirs, 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "rank"),
    [((1, 1), 1), ((5, 5), 5), ((6, 4), 2), ((4, 6), 3), ((4, 4), 0), ((5, 1), 1), ((33, 33), 33)],
)
@pytest.mark.parametrize("full", [False, True])
def test_rotations(shape: tuple[int, int], rank: int, full: bool) -> None:
    """Orthogonal, of the right lengths, and factors of the matrix, whatever its rank."""
    x = normal(shape[0], max(rank, 1)) @ normal(max(rank, 1), shape[1]) * (rank > 0)
    u, s, vh = run(lambda a: tuple(ad.linalg.svd(a, full_matrices=full)), x)
    near(u.T @ u, np.eye(u.shape[1]))
    near(vh @ vh.T, np.eye(vh.shape[0]))
    near(s, np.linalg.svd(x)[1], 1e-11)
    k = min(shape)
    near((u[:, :k] * s) @ vh[:k], x, 1e-11)
    if shape[0] == shape[1]:
        symmetric = x + x.T
        values, vectors = run(lambda a: tuple(ad.linalg.eigh(a)), symmetric)
        near(values, np.linalg.eigvalsh(symmetric), 1e-11)
        near(vectors.T @ vectors, np.eye(k))
        near((vectors * values) @ vectors.T, symmetric, 1e-11)


@pytest.mark.parametrize("replacement", [False, True])
def test_choices_are_those_of_python(replacement: bool) -> None:
    def fn(w: Any) -> Any:
        return ad.multinomial(w, 4, replacement=replacement)

    weights = ad.rand(3, 20)
    ad.manual_seed(5)
    program = aot(fn, (weights,))
    found = [program(weights) for _ in range(3)]
    ad.manual_seed(5)
    for choice in found:
        assert (choice == fn(weights)).all()
    with pytest.raises(RuntimeError, match="element < 0"):
        program(-weights)


def test_draws_that_reject_are_those_of_python() -> None:
    def fn(x: Any) -> Any:
        return ad.poisson(x), ad.binomial(x.ceil(), x / 41), ad._standard_gamma(x)

    x = ad.linspace(0.1, 40.0, 50, dtype=ad.float64)
    ad.manual_seed(5)
    found = aot(fn, (x,))(x)
    ad.manual_seed(5)
    for ours, theirs in zip(found, fn(x), strict=True):
        assert ours.tolist() == theirs.tolist()
    (value,) = run(lambda x: ad.special.legendre_polynomial_p(x, 5), x.numpy() / 41)
    near(value, ad.special.legendre_polynomial_p(x / 41, 5).numpy())


@pytest.mark.slow
def test_sizes_that_change() -> None:
    program = aot(lambda x: ad.fft.rfft(x).abs(), ad.zeros(2, 9), dynamic={"x": {1: ("n", 8, 12)}})
    for n in range(8, 13):
        x = normal(2, n).astype(np.float32)
        near(program(ad.tensor(x)).numpy(), np.abs(np.fft.rfft(x)), 1e-5)


def test_what_is_left_is_listed_with_what_to_do() -> None:
    def fn(x: Any) -> Any:
        return ad.linalg.eigvals(x).real + ad.special.bessel_j0(x).sum()

    with pytest.raises(ExportError) as told:
        aot(fn, ad.randn(3, 3))
    message = str(told.value)
    line = fn.__code__.co_firstlineno + 1
    assert f"eig at {__file__}:{line}" in message
    assert "linalg.eigh, of symmetric matrices, is exported" in message
    assert f"bessel_j0 at {__file__}:{line}" in message
    assert "pass it as an argument" in message


def test_parts_without_elements() -> None:
    x = ad.randn(3, 4)
    program = aot(lambda x: (ad.cat([x[:0] * 2, x.exp()]), x[:, :0] + 1), (x,))
    whole, none = program(x)
    ad.testing.assert_close(whole, x.exp())
    assert none.shape == (3, 0)
