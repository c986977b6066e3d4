"""Small matrices on a GPU: their kernels run on the CPU's threads, and compile."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adjoint.engine.backends.array.kernels.linalg import blocks
from tests.cuda_on_threads import Gpu, threaded
from tests.cupy_stand_in import CupyArray, on_device

needs_cpp = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler of C++")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs CUDA's compiler")
rng = np.random.default_rng(5)


@pytest.fixture
def xp(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Arrays of the stand-in's, and squares of 4 by 4 threads."""
    folder = tmp_path_factory.getbasetemp()
    monkeypatch.setattr(blocks, "SIDE", 4)
    monkeypatch.setattr(
        blocks, "kernels_of", lambda xp, *given, **how: threaded(folder, *given, **how)
    )
    blocks._kernels.cache_clear()
    yield Gpu(np)
    blocks._kernels.cache_clear()


def near(got: Any, want: Any, digits: float = 1) -> None:
    size = np.abs(want).max() if want.size else 1
    eps = np.finfo(want.dtype).eps
    np.testing.assert_allclose(np.asarray(got), want, digits * 40 * eps, digits * 40 * eps * size)


def definite(dtype: str, *shape: int) -> Any:
    x = rng.standard_normal(shape)
    return (x @ x.swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype)


@needs_cpp
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize(("dtype", "n"), [("f", 7), ("d", 13), ("d", 10)])
def test_cholesky(xp: Any, dtype: str, n: int, upper: bool) -> None:
    x = definite(dtype, 2, 3, n, n)
    want = np.linalg.cholesky(x.astype(np.float64)).astype(dtype)
    given = (np.triu if upper else np.tril)(x)  # the other triangle is not read
    given += 99 * (np.tril if upper else np.triu)(np.ones((n, n), dtype), -1 if upper else 1)
    found, info = blocks.cholesky(xp, on_device(given), upper)  # type: ignore[misc]
    near(found, want.swapaxes(-1, -2) if upper else want)
    assert not np.asarray(info).any()


@needs_cpp
def test_what_is_not_positive(xp: Any) -> None:
    x = definite("d", 4, 9, 9)
    x[1, 3, 3] = -1
    x[2, 5, 5] = np.nan
    x[3] = 0
    _, info = blocks.cholesky(xp, on_device(x), False)  # type: ignore[misc]
    assert np.asarray(info).tolist() == [0, 4, 6, 1]


@needs_cpp
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize(
    ("dtype", "m", "n"), [("f", 7, 5), ("d", 5, 13), ("d", 13, 3), ("f", 1, 8)]
)
def test_orthogonal_factors(xp: Any, dtype: str, m: int, n: int, mode: Any) -> None:
    x = rng.standard_normal((3, m, n)).astype(dtype)
    x[1] *= 1e-30 if dtype == "f" else 1e200  # whose squares are none
    x[2, :, 0] = 0
    if m > 1:
        x[2, 1:, 1:2] = 0  # nothing to reflect
    factors: Any = blocks.qr(xp, on_device(x), mode)
    left, right = factors
    for k in range(3):
        want = np.linalg.qr(x[k].astype(np.float64), mode=mode)
        near(right[k], np.asarray(want if mode == "r" else want[1]).astype(dtype))
        if mode == "r":
            assert left is None
        elif k != 2:  # zeros leave a factor open
            near(left[k], want[0].astype(dtype))
        else:
            near(np.asarray(left[k]) @ np.asarray(right[k]), x[k])
            near(np.asarray(left[k]).T @ np.asarray(left[k]), np.eye(left.shape[-1], dtype=dtype))


@needs_cpp
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize(("dtype", "n", "columns"), [("f", 7, 11), ("d", 9, 1)])
def test_triangles(xp: Any, dtype: str, n: int, columns: int, upper: bool, unit: bool) -> None:
    x = rng.standard_normal((3, n, n)).astype(dtype) / 3 + 2 * np.eye(n, dtype=dtype)
    y = rng.standard_normal((3, n, columns)).astype(dtype)
    triangle = (np.triu if upper else np.tril)(x).astype(np.float64)
    if unit:
        triangle += np.eye(n) - np.eye(n) * triangle
    want = np.linalg.solve(triangle, y.astype(np.float64)).astype(dtype)
    x += 1e9 * (np.tril if upper else np.triu)(np.ones((n, n), dtype), -1 if upper else 1)
    near(blocks.triangular_solve(xp, on_device(x), on_device(y), upper, unit), want, 10)
    columnwise = on_device(x.swapaxes(-1, -2).copy()).swapaxes(-1, -2)
    near(blocks.triangular_solve(xp, columnwise, on_device(y), upper, unit), want, 10)
    several = blocks.triangular_solve(xp, on_device(x[:, None]), on_device(y[:, None]), upper, unit)
    near(several, want[:, None], 10)
    one = blocks.triangular_solve(xp, on_device(x[0]), on_device(y[0]), upper, unit)
    near(one, want[0], 10)


def test_what_is_left_to_the_libraries() -> None:
    xp: Any = Gpu(np)
    for x in (
        CupyArray((2, 129, 129), np.float32), CupyArray((3, 4, 4), np.complex64),
        CupyArray((0, 4, 4), np.float32), CupyArray((2, 0, 0), np.float64),
    ):  # fmt: skip
        assert blocks.cholesky(xp, x, False) is None
        assert blocks.qr(xp, x, "reduced") is None
        assert blocks.triangular_solve(xp, x, x, False, False) is None
    wide = CupyArray((2, 100, 100), np.float64)  # whose reflections have no room
    assert blocks.qr(xp, wide, "reduced") is None


@pytest.mark.slow
@needs_nvcc
@pytest.mark.parametrize("generation", ["sm_80", "sm_90", "sm_100"])
def test_compile(tmp_path: Path, generation: str) -> None:
    for kind in blocks.REALS:
        source = tmp_path / f"{kind}.cu"
        source.write_text(blocks.source(kind, 2))
        command = ["nvcc", "-cubin", f"-arch={generation}", str(source), "-o", f"{source}.cubin"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not made.returncode, made.stderr[:2000]
