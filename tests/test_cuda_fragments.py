"""Eager operations on a GPU as fragments: they give what the eager table gives, and the CPU.

Without a GPU they run on a stand-in for CuPy by Triton's interpreter, in a process of its own
(`tests/cupy_stand_in.py`); with one, `pytest -m cuda`.
"""

from __future__ import annotations

import pytest

from tests.cuda_fragment_cases import (
    ALONG,
    CASES,
    DTYPES,
    OPTIMIZERS,
    check_bits,
    check_case,
    check_copies,
    check_faults,
    check_lengths,
    check_optimizer,
    check_random_lengths,
    check_sizes,
)
from tests.interpreted_process import needs_interpreter, run_by_interpreter


@pytest.mark.slow
@needs_interpreter
@pytest.mark.parametrize("dtype", DTYPES)
def test_fragments_interpreted(dtype: str) -> None:
    """All cases in one process, since Triton decides there and then whether it interprets."""
    run_by_interpreter("tests.cuda_fragment_cases", dtype, says="all cases hold")


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, dtype: str) -> None:
    check_case(name, dtype)


@pytest.mark.cuda
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    check_optimizer(name)


@pytest.mark.cuda
def test_faults_are_told_where_the_host_waits() -> None:
    check_faults()


@pytest.mark.cuda
def test_one_kernel_serves_sizes() -> None:
    check_sizes()


@pytest.mark.cuda
@pytest.mark.parametrize("name", ALONG)
def test_kernels_serve_many_lengths(name: str) -> None:
    check_lengths(names=[name])


@pytest.mark.cuda
@pytest.mark.parametrize("name", ALONG)
def test_lengths_before_make_no_difference(name: str) -> None:
    check_bits([name])


@pytest.mark.cuda
def test_programs_filled_in_for_random_lengths() -> None:
    check_random_lengths(3)


@pytest.mark.cuda
def test_copies_of_programs() -> None:
    check_copies()
