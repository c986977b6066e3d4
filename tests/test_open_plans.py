"""Programs of eager mode for many sizes (Note [open kinds], Note [open plans]).

What a plan made once says at some size is compared with a plan made there afresh: launches, words,
texts of kernels, memory. Kernels are not run here; `tests/test_cuda_fragments.py` does.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HAS_TRITON = all(importlib.util.find_spec(name) for name in ("triton", "scipy"))


@pytest.mark.skipif(not HAS_TRITON, reason="the stand-in needs Triton and SciPy")
@pytest.mark.parametrize("family", ["products", "rows", "moved", "sequences"])
def test_plans_filled_in_are_those_made_afresh(family: str) -> None:
    """In a process of its own, whose CuPy is a stand-in."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.open_plan_cases", family, "1"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "recordings hold" in done.stdout
