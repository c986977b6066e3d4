"""Whole training steps of every module: their graphs after the passes equal eager ones."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from adjoint.engine.graph.passes.pipeline import run_passes
from adjoint.graph import Task, capture, interpreted
from tests.samples.modules import Row
from tests.test_nn_steps import FIRST_ROWS, eager, train


def optimised(task: Task) -> Any:
    """A task whose graph is rewritten, verified after every pass, and interpreted."""
    return interpreted(replace(task, graph=run_passes(task.graph, verify=True)))


# tests/test_native_steps.py has every module's steps after the passes, in native code: of a graph
# that is interpreted, one module in three is enough.
SOME = [
    pytest.param(*case.values, id=case.id, marks=pytest.mark.slow if n % 3 else case.marks)
    for n, case in enumerate(sorted(FIRST_ROWS, key=lambda case: bool(case.marks)))
]


@pytest.mark.parametrize("row", SOME)
def test_steps(row: Row) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        want = eager(row)
        got, _ = train(row, lambda fn: capture(fn, optimised))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
