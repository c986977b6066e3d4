"""Calls on a GPU take few launches and give what the CPU gives.

Without a GPU they run on a stand-in by Triton's interpreter, in a process of its own.
"""

from __future__ import annotations

import pytest

from tests.interpreted_process import needs_interpreter, run_by_interpreter
from tests.launches_on_a_gpu import CASES, check

QUICK = (
    "pad and cut",
    "fold",
    "unfold",
    "stft",
    "bucketize",
    "multinomial",
    "masked_scatter",
    "attention with dropout",
    "det of 3 rows",
    "batch_norm",
    "batch_norm by its running statistics",
    "running statistics",
    "instance_norm",
    "clip_grad_norm_ of order 2.0",
    "clip_grad_norm_ of one gradient twice",
)


def interpreted(names: tuple[str, ...]) -> None:
    """Cases in one process, since Triton decides there and then whether it interprets."""
    run_by_interpreter("tests.launches_on_a_gpu", *names, says="all cases hold")


@needs_interpreter
def test_some_interpreted() -> None:
    interpreted(QUICK)


@pytest.mark.slow
@needs_interpreter
def test_all_interpreted() -> None:
    interpreted(())


@pytest.mark.cuda
@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu(name: str) -> None:
    check(name)
