"""The eager table's kernels on a GPU are called at once, and give what the CPU gives.

Without a GPU they run on a stand-in by Triton's interpreter, in a process of its own.
"""

from __future__ import annotations

import pytest

from tests.cupy_stand_in import CupyArray
from tests.interpreted_process import needs_interpreter, run_by_interpreter
from tests.table_on_a_gpu import (
    CASES,
    REFUSED,
    check,
    check_networks_under_autocast,
    check_refused,
)


@needs_interpreter
def test_interpreted() -> None:
    run_by_interpreter("tests.table_on_a_gpu", says="all cases hold")


def test_the_stand_in_fills_no_array_with_extremes() -> None:
    """As CuPy, which sends them through CUB where it can."""
    x = CupyArray((3,))
    for extreme in (x.min, x.max):
        with pytest.raises(TypeError, match="cannot be put"):
            extreme(out=CupyArray(()))


@pytest.mark.cuda
@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu(name: str) -> None:
    check(name)


@pytest.mark.cuda
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    check_refused(name)


@pytest.mark.cuda
def test_networks_under_autocast() -> None:
    check_networks_under_autocast()
