"""Convolutions on a GPU that were met before give what the CPU gives, with their gradients.

Without a GPU they run on stand-ins by Triton's interpreter, in a process of its own.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests import convolutions_on_a_gpu as calls
from tests.interpreted_process import needs_interpreter, run_by_interpreter

QUICK = ("conv2d", "transposed")


@needs_interpreter
@pytest.mark.parametrize("names", [QUICK, pytest.param((), marks=pytest.mark.slow)], ids=len)
def test_interpreted(names: tuple[str, ...]) -> None:
    run_by_interpreter("tests.convolutions_on_a_gpu", *names, says="all cases hold")


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", calls.DTYPES, ids=str)
@pytest.mark.parametrize("name", calls.CASES)
def test_on_a_gpu(name: str, dtype: Any) -> None:
    calls.ad.backends.cudnn.allow_tf32 = False
    try:
        calls.check(name, dtype)
    finally:
        calls.ad.backends.cudnn.allow_tf32 = True


@pytest.mark.cuda
def test_second_derivatives_and_refusals_on_a_gpu() -> None:
    calls.ad.backends.cudnn.allow_tf32 = False
    try:
        calls.check_twice()
    finally:
        calls.ad.backends.cudnn.allow_tf32 = True
    calls.check_refusals()
