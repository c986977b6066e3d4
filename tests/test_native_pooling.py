"""Pooling, resampling and scattering in native code equal eager execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler import compile

Pool = Callable[[Any], Any]


def max_pool(rank: int, *arguments: Any, **options: Any) -> Pool:
    pool = getattr(F, f"max_pool{rank}d")
    return lambda x: pool(x, *arguments, return_indices=True, **options)


CASES: list[tuple[str, tuple[int, ...], Pool]] = [
    ("halves", (2, 3, 28, 30), max_pool(2, 2)),
    ("overlapping", (2, 3, 29, 28), max_pool(2, 3, 2, 1)),
    ("step 1", (1, 2, 11, 40), max_pool(2, 3, 1, 1)),
    ("dilated", (2, 3, 29, 28), max_pool(2, 3, 2, 1, 2)),
    ("ceil", (2, 3, 10, 11), max_pool(2, 3, 2, ceil_mode=True)),
    ("one dimension", (2, 3, 40), max_pool(1, 3)),
    ("three dimensions", (2, 3, 6, 7, 20), max_pool(3, 2)),
    ("no tap inside", (1, 1, 2), max_pool(1, 2, 1, 2, 5)),
    ("adaptive", (2, 3, 13, 17), lambda x: F.adaptive_max_pool2d(x, 5, return_indices=True)),
    ("regular and not", (3, 12, 17), lambda x: F.adaptive_max_pool2d(x, (4, 5), True)),
    ("mean", (2, 3, 12, 17), lambda x: F.avg_pool2d(x, 2)),
    ("mean of what is there", (2, 3, 12, 17), lambda x: F.avg_pool2d(x, 3, 2, 1, False, False)),
    ("mean, one dimension", (2, 3, 33), lambda x: F.avg_pool1d(x, 4, 3)),
    ("adaptive mean", (2, 3, 12, 17), lambda x: F.adaptive_avg_pool2d(x, (5, 4))),
    ("one mean", (2, 3, 12, 17), lambda x: F.adaptive_avg_pool2d(x, 1)),
    ("nearest", (2, 3, 5, 7), lambda x: F.interpolate(x, scale_factor=2)),
    ("bilinear", (2, 3, 5, 7), lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear")),
    ("reflected", (2, 3, 5, 7), lambda x: F.pad(x, (1, 2, 3, 1), mode="reflect")),
    ("put back", (2, 3, 12, 16), lambda x: F.max_unpool2d(*max_pool(2, 2)(x), 2)),
    ("columns", (2, 3, 12, 16), lambda x: F.unfold(x, (3, 2), 2, 1, (2, 1))),
    ("columns added", (2, 12, 20), lambda x: F.fold(x, (9, 10), (3, 2), 1, 1, (2, 3))),
    ("transposed", (2, 3, 12, 16), lambda x: F.max_pool2d(x.transpose(2, 3), 3, 2)),
]


def both(pool: Pool) -> Pool:
    """A pooling's results, and the gradient of the first."""

    def run(x: Any) -> Any:
        y = pool(x)
        many = y if isinstance(y, tuple) else (y,)
        return *many, *ad.autograd.grad(many[0], (x,), many[0].detach() * 1.5 + 1)

    return run


def source(shape: tuple[int, ...], dtype: Any = ad.float32) -> Any:
    x = np.random.default_rng(0).standard_normal(shape)
    return ad.tensor(x, dtype=dtype, requires_grad=True)


def agree(got: Any, want: Any) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.dtype is b.dtype
        limit = 2e-6 if a.dtype is ad.float32 else 1e-13
        np.testing.assert_allclose(
            a.detach().numpy(), b.detach().numpy(), rtol=limit, atol=limit, equal_nan=True
        )


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize(("shape", "pool"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_equals_eager(shape: tuple[int, ...], pool: Pool, dtype: Any) -> None:
    run = both(pool)
    agree(compile(run, backend="native")(source(shape, dtype)), run(source(shape, dtype)))


@pytest.mark.parametrize(("shape", "pool"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_no_part_runs_in_python(shape: tuple[int, ...], pool: Pool) -> None:
    run = compile(both(pool), backend="native")
    run(source(shape))
    calls = 1 if shape == (1, 1, 2) else 0  # windows that lie outside
    assert f", {calls} calls of the eager table" in run.explain()


def test_not_a_number_is_the_largest_and_the_last_of_them_is_meant() -> None:
    x = np.random.default_rng(0).standard_normal((2, 2, 9, 20)).astype("float32")
    x.reshape(-1)[::7] = np.nan
    x[:, :, 4:6] = -np.inf
    for pool in (max_pool(2, 2), max_pool(2, 3, 2, 1), max_pool(2, 2, 1), max_pool(2, 2, 3)):
        agree(compile(pool, backend="native")(ad.tensor(x)), pool(ad.tensor(x)))


def test_the_first_of_equals_is_meant() -> None:
    pool = max_pool(2, 3, 2, 1)
    x = ad.zeros(1, 2, 9, 30)
    agree(compile(pool, backend="native")(x), pool(x))


def test_an_index_out_of_bounds_is_refused() -> None:
    def run(x: Any, at: Any) -> Any:
        return ad.zeros(3, 5).scatter_add(1, at, x)

    compiled = compile(run, backend="native")
    at = ad.tensor([[0, 4, 0], [1, 1, 1], [2, 2, 3]])
    agree([compiled(ad.ones(3, 3), at)], [run(ad.ones(3, 3), at)])
    with pytest.raises(RuntimeError, match="out of bounds for dimension 1 with size 5"):
        compiled(ad.ones(3, 3), at + 1)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter(dim: int, accumulate: bool) -> None:
    rng = np.random.default_rng(0)
    shape = [4, 5, 6]
    x = ad.tensor(rng.standard_normal(shape))
    shape[dim] = 9
    y = ad.tensor(rng.standard_normal(shape))
    at = ad.tensor(rng.integers(0, x.shape[dim], shape))

    def run(x: Any, y: Any, at: Any) -> Any:
        return x.scatter_add(dim, at, y) if accumulate else x.scatter(dim, at, y)

    agree([compile(run, backend="native")(x, y, at)], [run(x, y, at)])


@st.composite
def pools(draw: Any) -> tuple[tuple[int, ...], Pool]:
    rank = draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 4)) for _ in range(rank)]
    step = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilation = [draw(st.integers(1, 2)) for _ in range(rank)]
    pad = [draw(st.integers(0, k // 2)) for k in kernel]
    sizes = [
        d * (k - 1) + 1 + draw(st.integers(0, 20)) for k, d in zip(kernel, dilation, strict=True)
    ]
    ceil = draw(st.booleans())
    return (2, 2, *sizes), max_pool(rank, kernel, step, pad, dilation, ceil_mode=ceil)


@settings(max_examples=30, deadline=None)
@given(pools())
def test_any_window(case: tuple[tuple[int, ...], Pool]) -> None:
    shape, pool = case
    run = both(pool)
    agree(compile(run, backend="native")(source(shape)), run(source(shape)))


NUMPY_MODES: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", NUMPY_MODES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_padding_from_inside_copies(mode: str, data: Any) -> None:
    """Every bit, -0.0 and NaN among them, in rows long enough to be copied run by run."""
    shape = (*data.draw(st.sampled_from([(2, 3), (1, 1)])), *data.draw(_pairs(9, 40)))
    (before, after), (above, below) = data.draw(_pairs(0, 6)), data.draw(_pairs(0, 6))
    x = np.random.default_rng(7).standard_normal(shape)
    x[x > 1], x[x < -1] = -0.0, np.nan
    wide = np.pad(x, ((0, 0), (0, 0), (above, below), (before, after)), mode=NUMPY_MODES[mode])
    pad = compile(lambda x: F.pad(x, (before, after, above, below), mode=mode))
    for given_ in (ad.tensor(x), ad.tensor(x.swapaxes(2, 3).copy()).transpose(2, 3)):
        got = pad(given_).numpy()
        np.testing.assert_array_equal(got, wide)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wide))
    # Each element's gradient is the sum of those of the places it was copied to.
    places = np.arange(x.size, dtype=float).reshape(shape)
    origin = np.pad(places, ((0, 0), (0, 0), (above, below), (before, after)), NUMPY_MODES[mode])
    g = np.round(wide.size * np.sin(np.arange(wide.size)))
    want = np.bincount(origin.astype(int).ravel(), g, x.size).reshape(shape)
    source = ad.tensor(places, requires_grad=True)
    compile(
        lambda x: (
            F.pad(x, (before, after, above, below), mode=mode) * ad.tensor(g.reshape(wide.shape))
        ).sum()
    )(source).backward()
    np.testing.assert_array_equal(source.grad.numpy(), want)


def _pairs(low: int, high: int) -> Any:
    return st.tuples(st.integers(low, high), st.integers(low, high))


MOVED = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("seed", range(3))
def test_elements_that_are_only_moved(seed: int, dtype: str) -> None:
    """Padding with what is inside, and nearest pixels: bit for bit, along all dimensions at once."""
    rng = np.random.default_rng(seed)
    rank = seed + 1
    sizes = rng.integers(4, 24, rank).tolist()
    x = ad.from_numpy(rng.standard_normal((2, 3, *sizes))).to(getattr(ad, dtype))
    layouts = [x, x.transpose(0, 1), x.contiguous().flip(-1)]
    widths = rng.integers(0, 4, (rank, 2)).tolist()
    wanted = rng.integers(1, 60, rank).tolist()
    for y in layouts:
        array = y.double().numpy()
        for mode, name in MOVED.items():
            around = [n for pair in reversed(widths) for n in pair]
            pad: Any = ad.compile(
                lambda y, mode=mode, around=around: F.pad(y, around, mode=mode), backend="native"
            )
            right = np.pad(array, [(0, 0), (0, 0), *widths], mode=name)  # type: ignore[call-overload]
            assert np.array_equal(pad(y).double().numpy(), right)
            assert np.array_equal(F.pad(y, around, mode=mode).double().numpy(), right)
        right = array
        for d, (n, size) in enumerate(zip(sizes, wanted, strict=True)):
            places = np.minimum(np.arange(size, dtype=np.float32) * np.float32(n / size), n - 1)
            right = right.take(places.astype(int), axis=d + 2)
        assert np.array_equal(F.interpolate(y, wanted).double().numpy(), right)


@pytest.mark.parametrize("channels", [1, 7, 8, 43])
@pytest.mark.parametrize("rank", [2, 3])
def test_windows_of_channels_innermost(rank: int, channels: int) -> None:
    """Largest elements and their places are those of images in rows, whatever the windows."""
    innermost = {2: ad.channels_last, 3: ad.channels_last_3d}[rank]
    pool = getattr(ad.nn.functional, f"max_pool{rank}d")
    rows = (ad.randn(2, channels, 6, 7, 8)[..., : 8 if rank == 3 else 1] * 2).round()
    rows = rows.reshape(2, channels, *(6, 7, 8)[:rank])
    rows[rows == 3] = float("nan")
    rows[rows == -3] = -float("inf")
    last = rows.contiguous(memory_format=innermost)
    for window in ((2,), (3, 2, 1), (2, 1, 0, 2), (3, 3, 1, 1, True), ((3, 1, 2)[:rank], 1)):
        wanted, found = (pool(x, *window, return_indices=True) for x in (rows, last))
        assert found[0].is_contiguous(memory_format=innermost)
        for want, got in zip(wanted, found, strict=True):
            assert np.array_equal(want.numpy(), got.numpy(), equal_nan=True)


@pytest.mark.parametrize("sizes", [(6, 10), (3, 15), (9, 5), (3, 5), (4, 10), (6, 4, 6)])
def test_pixels_of_channels_innermost_are_repeated(sizes: tuple[int, ...]) -> None:
    """To whole multiples, some or all of one, and others: as images in rows, in memory of its own."""
    source = (3, 5, 2)[: len(sizes)]
    innermost = {2: ad.channels_last, 3: ad.channels_last_3d}[len(sizes)]
    rows = ad.randn(4, 33, *source)
    weights = ad.randn(4, 33, *sizes)
    made = []
    for x in (rows.clone(), rows.clone(memory_format=innermost)):
        for _ in range(3):  # met again, it is a program
            x.requires_grad_().grad = None
            out = ad.nn.functional.interpolate(x, size=sizes)
            (out * weights).sum().backward()
        assert out.data_ptr() != x.data_ptr()
        made.append((out.detach(), x.grad))
    assert made[1][0].is_contiguous(memory_format=innermost)
    assert ad.equal(made[0][0], made[1][0])
    assert ad.allclose(made[0][1], made[1][1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["bilinear", "bilinear smooth", "bicubic smooth", "bytes"])
def test_sizes_that_stay_keep_their_elements(kind: str, compiled: bool) -> None:
    """Whatever the factor; by the other one, columns are resized as those of rows alone are."""
    mode, smooth = ("bicubic" if "bicubic" in kind else "bilinear"), "smooth" in kind

    def resized(x: Any, down: float, along: float) -> Any:
        return F.interpolate(x, scale_factor=(down, along), mode=mode, antialias=smooth)

    fn = compile(resized) if compiled else resized
    x = ad.randn(2, 3, 8, 5) * 40 + 100
    x = x.to(ad.uint8) if kind == "bytes" else x
    assert ad.equal(fn(x, 1.1, 1.1), x)
    whole, single = fn(x, 1.1, 2.0), x.reshape((2, 24, 1, 5))
    assert whole.shape == (2, 3, 8, 10)
    assert ad.equal(whole, fn(single, 1.0, 2.0).reshape((2, 3, 8, 10)))
    if kind != "bytes":
        x[0, 0, 3, 2] = float("inf")
        assert ad.equal(fn(x, 1.0, 1.0), x)


@pytest.mark.parametrize(
    ("shape", "window", "step", "padding"),
    [
        ((1, 3, 17, 19), 3, 2, 1),
        ((2, 2, 8, 8), 2, 2, 0),
        ((1, 2, 9, 40), 5, 1, 2),
        ((1, 2, 30, 17), 3, 3, 1),
        ((1, 4, 7, 6, 5), 3, 2, 1),
        ((1, 4, 23), 4, 2, 2),
    ],
)
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_the_largest_alone_are_those_whose_places_are_told(
    shape: tuple[int, ...], window: int, step: int, padding: int, dtype: ad.dtype
) -> None:
    """A kernel that need not say where they are finds the same, NaN and infinities among them."""
    pool = {3: F.max_pool1d, 4: F.max_pool2d, 5: F.max_pool3d}[len(shape)]
    x = ad.randn(*shape, dtype=dtype)
    x.view(-1)[::11] = float("-inf")
    x.view(-1)[::23] = float("nan")
    x.view(-1)[3::29] = float("inf")
    alone = ad.compile(lambda x: pool(x, window, step, padding))
    told = ad.compile(lambda x: pool(x, window, step, padding, return_indices=True))
    ad.testing.assert_close(alone(x), told(x)[0], rtol=0, atol=0, equal_nan=True)
    ad.testing.assert_close(
        alone(x), pool(x, window, step, padding), rtol=0, atol=0, equal_nan=True
    )
