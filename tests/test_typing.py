"""Type checkers see what a program's values are, and what is wrong in it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tests" / "typing" / "program.py"


def wrong_lines() -> set[int]:
    lines = PROGRAM.read_text().splitlines()
    return {n for n, line in enumerate(lines, 1) if "# wrong:" in line and "`#" not in line}


def flagged(command: list[str], tmp_path: Path) -> set[int]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = re.findall(r"program\.py:(\d+)(?::\d+)?(?: -|:) error", done.stdout)
    return set(map(int, found))


@pytest.mark.slow
def test_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir"]
    command += [str(tmp_path), str(PROGRAM)]
    assert flagged(command, tmp_path) == wrong_lines()


@pytest.mark.slow
def test_pyright(tmp_path: Path) -> None:
    pyright = shutil.which("pyright") or str(Path(sys.executable).with_name("pyright"))
    if not Path(pyright).exists():
        pytest.skip("pyright is not installed")
    command = [pyright, "--pythonpath", sys.executable, str(PROGRAM)]
    assert flagged(command, tmp_path) == wrong_lines()


def test_the_program_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.typing.program"], cwd=ROOT, capture_output=True, text=True
    )
    assert "has not been called" not in done.stderr
    assert done.returncode == 0, done.stderr
