"""CUDA C of the eager table compiles for every generation, and does on threads of the CPU's what
it is to do: where a compiler is found, of CUDA and of C++.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adjoint.engine.backends.array.gpu import waited
from adjoint.engine.backends.array.kernels.order import choosing, device, rows
from adjoint.engine.backends.array.kernels.shape import repeats
from tests.cuda_on_threads import Gpu, threaded
from tests.cupy_stand_in import on_device

GENERATIONS = ("sm_80", "sm_90", "sm_100")


MODULES = (choosing, device, rows, repeats)


@pytest.fixture
def xp(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """CuPy's stand-in, with small blocks, so that there are several."""
    for name, value in (("THREADS", 32), ("ITEMS", 2), ("PIECE", 64), ("SCAN", 4)):
        monkeypatch.setattr(choosing, name, value)
    for name, value in (("THREADS", 8), ("BLOCKS", 3), ("SHARED", 16), ("FEW", 20)):
        monkeypatch.setattr(device, name, value)
    for name, value in (("THREADS", 8), ("PIECE", 16)):
        monkeypatch.setattr(rows, name, value)
    for name, value in (("THREADS", 8), ("SCAN", 4)):
        monkeypatch.setattr(repeats, name, value)
    folder = tmp_path_factory.getbasetemp()

    for module in MODULES:
        monkeypatch.setattr(
            module, "kernels_of", lambda xp, *given, **how: threaded(folder, *given, **how)
        )
    forget()
    yield Gpu(np)
    forget()
    waited._TOLD.by_stream.clear()


def forget() -> None:
    """Kernels are made again."""
    for kept in (
        choosing._kernels,
        device._counting,
        device._weighing,
        device._extremes,
        rows._kernels,
        repeats._kernels,
    ):
        kept.cache_clear()


needs_cpp = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler of C++")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs CUDA's compiler")
rng = np.random.default_rng(3)


@needs_cpp
@pytest.mark.parametrize(("dtype", "share"), [("uint8", 0.3), ("float32", 1.0), ("float32", 0.0)])
def test_masked(xp: Any, dtype: str, share: float) -> None:
    x = (rng.standard_normal((13, 21)) * 9).astype(dtype)
    mask = rng.random((13, 21)) < share
    found = choosing.masked(xp, on_device(x), on_device(mask))
    np.testing.assert_array_equal(np.asarray(found), x[mask])


@pytest.mark.parametrize(
    ("x", "mask"),
    [
        (np.ones((3, 4), np.complex128), np.ones((3, 4), bool)),  # no word is as wide
        (np.ones((3, 4)), np.ones(3, bool)),  # rows
        (np.ones((3, 4)), np.ones((3, 4), np.uint8)),
        (np.ones((4, 3)).T, np.ones((3, 4), bool)),
        (np.ones((3, 4)), np.ones((4, 3), bool).T),
        (np.ones((0, 4)), np.ones((0, 4), bool)),
    ],
)
def test_not_masked_at_once(x: Any, mask: Any) -> None:
    assert choosing.masked(None, x, mask) is None


@needs_cpp
@pytest.mark.parametrize("kind", ["uint8", "float32"])
def test_coordinates(xp: Any, kind: str) -> None:
    x = (rng.random((7, 5, 6)) * 2).astype(np.int64).astype(kind)
    x[1, 1, 1] = -0.0 if kind == "float32" else 0
    found = np.asarray(choosing.nonzero(xp, on_device(x)))
    np.testing.assert_array_equal(found, np.stack(x.nonzero()))


@needs_cpp
@pytest.mark.parametrize(("dtype", "sort"), [("float32", False), ("int64", True)])
def test_runs(xp: Any, dtype: str, sort: bool) -> None:
    x = rng.integers(0, 3, 150).astype(dtype)
    if dtype == "float32":
        x[[3, 4, 9]] = np.nan
    order = np.argsort(x, kind="stable") if sort else None
    line = x if order is None else x[order]
    there = None if order is None else on_device(order)
    parts = choosing.runs(xp, on_device(line), there)
    values, inverse, counts = map(np.asarray, parts)
    fresh = np.concatenate([[True], line[1:] != line[:-1]])
    np.testing.assert_array_equal(values, line[fresh])
    np.testing.assert_array_equal(values[inverse], x)
    np.testing.assert_array_equal(np.repeat(values, counts), line)
    np.testing.assert_array_equal(np.asarray(choosing.distinct(xp, on_device(line))), line[fresh])


def rows_in_order(x: Any) -> list[int]:
    """Places of rows in their order, NaN last, equal ones as they come."""
    keys = [
        tuple((bool(v != v), 0.0 if v != v else v, k * (v != v)) for v in row)
        for k, row in enumerate(x)
    ]
    return sorted(range(len(x)), key=lambda k: (keys[k], k))


@needs_cpp
@pytest.mark.parametrize(
    ("dtype", "n", "width"),
    [("int64", 75, 3), ("float32", 40, 2), ("float32", 16, 1), ("int64", 3, 4)],
)
def test_rows(xp: Any, dtype: str, n: int, width: int) -> None:
    x = rng.integers(-1, 2, (n, width)).astype(dtype)
    if dtype == "float32":
        x[rng.random(x.shape) < 0.1] = np.nan
        x[x == 0] *= rng.choice([-1.0, 1.0], (x == 0).sum()).astype(dtype)
    places = rows.ordered(xp, on_device(x))
    assert np.asarray(places).tolist() == rows_in_order(x)
    fresh = rows.that_differ(xp, on_device(x), places)
    first, inverse, counts = map(np.asarray, choosing.marked_runs(xp, fresh, places))
    line = x[rows_in_order(x)]
    want = np.concatenate([[True], (line[1:] != line[:-1]).any(1)])
    np.testing.assert_array_equal(x[first], line[want])
    np.testing.assert_array_equal(np.repeat(line[want], counts, 0), line)
    np.testing.assert_array_equal(inverse[rows_in_order(x)], want.cumsum() - 1)
    fresh = rows.that_differ(xp, on_device(x))
    first, inverse, counts = map(np.asarray, choosing.marked_runs(xp, fresh, None))
    want = np.concatenate([[True], (x[1:] != x[:-1]).any(1)])
    np.testing.assert_array_equal(first, want.nonzero()[0])
    np.testing.assert_array_equal(inverse, want.cumsum() - 1)
    np.testing.assert_array_equal(np.repeat(np.arange(len(first)), counts), inverse)


@needs_cpp
@pytest.mark.parametrize(("dtype", "bins"), [("float32", 7), ("float64", 40)])
def test_counts_between(xp: Any, dtype: str, bins: int) -> None:
    x = rng.standard_normal(200).astype(dtype)
    x[:6] = np.nan, np.inf, -np.inf, -1.0, 1.5, 1.5 - 1e-7
    low, high = x.dtype.type(-1), x.dtype.type(1.5)
    found = np.asarray(device.count_between(xp, on_device(x), low, high, bins))
    inside = x[(x >= low) & (x <= high)]
    at = ((inside - low) * x.dtype.type(bins) / (high - low)).astype(np.int64)
    np.testing.assert_array_equal(found, np.bincount(np.minimum(at, bins - 1), minlength=bins))


@needs_cpp
@pytest.mark.parametrize("bins", [7, 40])
def test_counts(xp: Any, bins: int) -> None:
    x = rng.integers(-2, bins + 3, 200)
    inside = (x >= 0) & (x < bins)
    want = np.bincount(x[inside], minlength=bins)
    np.testing.assert_array_equal(np.asarray(device.count(xp, on_device(x), bins)), want)
    weights = rng.standard_normal(200).astype(np.float32)
    sums = np.asarray(device.weigh(xp, on_device(x), on_device(weights), bins))
    want = np.bincount(x[inside], weights[inside], minlength=bins)
    np.testing.assert_allclose(sums, want, 1e-12, 1e-12)


@needs_cpp
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_repeats(xp: Any, dtype: str) -> None:
    for counts in (rng.integers(0, 4, 70), np.array([0, 0, 90, 0]), np.zeros(9), np.ones(1)):
        counts = counts.astype(dtype)
        found = repeats.indices(xp, on_device(counts))
        assert found is not None
        assert found.dtype == counts.dtype
        np.testing.assert_array_equal(np.asarray(found), np.arange(len(counts)).repeat(counts))
    for place in (0, 33, 69):
        counts = rng.integers(0, 4, 70).astype(dtype)
        counts[place] = -1
        assert repeats.indices(xp, on_device(counts)) is None


@needs_cpp
def test_extremes(xp: Any) -> None:
    for n in (1, 13, 300):
        x = rng.integers(-99, 99, n)
        assert device.extremes(xp, on_device(x)) == (x.min(), x.max())
    x = rng.standard_normal(100).astype(np.float32)
    assert device.extremes(xp, on_device(x)) == (x.min(), x.max())
    for place in (0, 57, 99):
        y = x.copy()
        y[place] = np.nan
        assert np.isnan(device.extremes(xp, on_device(y))).all()


@pytest.mark.slow
@needs_nvcc
@pytest.mark.parametrize("generation", GENERATIONS)
def test_compile(tmp_path: Path, generation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts as they are launched on a GPU."""
    texts: list[str] = []
    for module in MODULES:
        monkeypatch.setattr(module, "kernels_of", lambda xp, text, *kernels: texts.append(text))
    for word in choosing.MOVED.values():
        given = f", const {word}* given, {word}* out"
        choosing._kernels.__wrapped__(
            None, 0, "unsigned char", "x[i]", given, "out[at] = given[i];"
        )
    given = ", long long* first, unsigned long long* lengths, long long* inverse"
    choosing._kernels.__wrapped__(
        None, 0, "unsigned char", "x[i]", given, f"first[at] = i; {choosing.LENGTHS}",
        f"inverse[i] = at - !chosen; {choosing.LAST}",
    )  # fmt: skip
    for kind, find in (
        ("long long", device.AS_IT_IS),
        ("float", device.BETWEEN),
        ("double", device.BETWEEN),
    ):
        device._counting.__wrapped__(None, 0, kind, find, "")
    for kind in ("float", "long long"):
        device._extremes.__wrapped__(None, 0, kind)
        rows._kernels.__wrapped__(None, 0, kind)
    device._weighing.__wrapped__(None, 0, "float")
    repeats._kernels.__wrapped__(None, 0, "int")
    for k, text in enumerate(texts):
        source = tmp_path / f"text{k}.cu"
        source.write_text(text)
        command = ["nvcc", "-cubin", f"-arch={generation}", str(source), "-o", f"{source}.cubin"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not made.returncode, made.stderr[:2000]
