"""Convolutions on a GPU that were met before give what the CPU gives, with their gradients.

Without a GPU they run on stand-ins by Triton's interpreter, in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import convolutions_on_a_gpu as calls

ROOT = Path(__file__).parent.parent
HAS_TRITON = all(importlib.util.find_spec(name) for name in ("triton", "scipy"))


QUICK = ("conv2d", "transposed")


@pytest.mark.skipif(not HAS_TRITON, reason="the interpreter needs Triton and SciPy")
@pytest.mark.parametrize("names", [QUICK, pytest.param((), marks=pytest.mark.slow)], ids=len)
def test_interpreted(names: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.convolutions_on_a_gpu", *names],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "all cases hold" in done.stdout


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
