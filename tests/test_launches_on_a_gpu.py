"""Calls on a GPU take few launches and give what the CPU gives.

Without a GPU they run on a stand-in by Triton's interpreter, in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launches_on_a_gpu import CASES, check

ROOT = Path(__file__).parent.parent
NEEDED = "the interpreter needs Triton and SciPy"
HAS_TRITON = all(importlib.util.find_spec(name) for name in ("triton", "scipy"))
QUICK = ("pad and cut", "fold", "unfold", "stft", "bucketize", "multinomial")


def interpreted(names: tuple[str, ...]) -> None:
    """Cases in one process, since Triton decides there and then whether it interprets."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.launches_on_a_gpu", *names],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "all cases hold" in done.stdout


@pytest.mark.skipif(not HAS_TRITON, reason=NEEDED)
def test_some_interpreted() -> None:
    interpreted(QUICK)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TRITON, reason=NEEDED)
def test_all_interpreted() -> None:
    interpreted(())


@pytest.mark.cuda
@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu(name: str) -> None:
    check(name)
