"""Every example runs, in its quick form."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from math import log
from pathlib import Path

import pytest

from adjoint.datasets import shakespeare

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {"array_api": "scipy"}  # what is not among our dependencies


def run_quick(path: Path, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(path), "--quick"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    said = run_quick(path, tmp_path)
    assert said.strip()
    if path.stem == "char_gpt":
        found = re.search(r"on Macbeth (\d+\.\d+)", said)
        assert found is not None
        # More than how frequent each character is: it has learned which follow which.
        assert float(found[1]) < entropy(shakespeare()) - 0.2


def entropy(text: str) -> float:
    """Of a character, from its frequency alone, in nats."""
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(p * log(p) for p in shares)
