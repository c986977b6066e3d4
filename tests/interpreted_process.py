"""A module of the tests by Triton's interpreter, in a process of its own.

Triton decides once whether it interprets, so the tests' own process cannot do it by the way.
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

needs_interpreter = pytest.mark.skipif(
    not HAS_TRITON, reason="the interpreter needs Triton and SciPy"
)


def run_by_interpreter(module: str, *arguments: str, says: str, strict: bool = True) -> None:
    """Run `python -m module arguments`, which ends well and says so; if `strict`, without warnings."""
    done = subprocess.run(
        [sys.executable, *(["-W", "error"] if strict else []), "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert says in done.stdout
