"""Lines in order on a GPU are NumPy's: sorted, medians, modes.

Without a GPU they run on a stand-in by Triton's interpreter, in a process of its own.
"""

from __future__ import annotations

import pytest

from adjoint.engine.backends.array.kernels.order.radix import ELEMENTS
from tests.interpreted_process import needs_interpreter, run_by_interpreter
from tests.order_on_a_gpu import DTYPES, LINES, LONG, SHAPES, check, check_line


@pytest.mark.slow
@needs_interpreter
def test_lines_interpreted() -> None:
    run_by_interpreter("tests.order_on_a_gpu", says="all cases hold")


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
