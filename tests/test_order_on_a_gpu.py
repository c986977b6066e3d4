"""Lines in order on a GPU are NumPy's: sorted, medians, modes.

Without a GPU they run on a stand-in by Triton's interpreter, in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adjoint.engine.backends.array.kernels.order.radix import ELEMENTS
from tests.order_on_a_gpu import DTYPES, LINES, LONG, SHAPES, check, check_line

ROOT = Path(__file__).parent.parent
HAS_TRITON = all(importlib.util.find_spec(name) for name in ("triton", "scipy"))


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TRITON, reason="the interpreter needs Triton and SciPy")
def test_lines_interpreted() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.order_on_a_gpu"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "all cases hold" in done.stdout


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim"), [*SHAPES, *LONG])
def test_lines(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    check(shape, dim, dtype, seed=sum(shape))


@pytest.mark.cuda
@pytest.mark.parametrize(
    "dtype", [name for name in ELEMENTS if name[:4] != "uint" or name == "uint8"]
)
@pytest.mark.parametrize("n", LINES)
def test_one_long_line(n: int, dtype: str) -> None:
    check_line(n, dtype, seed=n)
