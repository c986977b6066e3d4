"""Nodes and views that native code makes of a GPU's tensors.

Without a GPU they are made on a stand-in by Triton's interpreter, in a process of its own.
"""

from __future__ import annotations

import pytest

from tests.interpreted_process import needs_interpreter, run_by_interpreter
from tests.nodes_on_a_gpu import CHECKS


@needs_interpreter
def test_interpreted() -> None:
    run_by_interpreter("tests.nodes_on_a_gpu", says="all cases hold")


@pytest.mark.cuda
@pytest.mark.parametrize("name", CHECKS)
def test_on_a_gpu(name: str) -> None:
    CHECKS[name]()
