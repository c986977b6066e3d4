"""Norms of eager mode on a GPU, and small programs, are right however few launches they take."""

from __future__ import annotations

import pytest

from tests.interpreted_process import needs_interpreter, run_by_interpreter
from tests.norms_on_a_gpu import check


@needs_interpreter
def test_some_interpreted() -> None:
    run_by_interpreter("tests.norms_on_a_gpu", "4", says="norms hold")


@pytest.mark.slow
@needs_interpreter
def test_many_interpreted() -> None:
    run_by_interpreter("tests.norms_on_a_gpu", "60", says="norms hold")


@pytest.mark.cuda
def test_on_a_gpu() -> None:
    check(60)
