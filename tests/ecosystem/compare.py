"""Run the programs beside this file on PyTorch and on Adjoint, and print which agree.

    python tests/ecosystem/compare.py --ours PYTHON --theirs PYTHON [PROGRAM ...]

`--ours` is a Python with the libraries and without PyTorch, `--theirs` one that has PyTorch too. A
program agrees where every number does within 2e-3, relative to the greater of the two and 1e-3;
no number agrees with no number.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOLERANCE = 2e-3
SHARED = ("common", "small_transformers")  # what programs import


def run(command: list[str], path: str, seconds: int) -> tuple[list[float] | None, str]:
    """The numbers a program says, or None and its last line."""
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    environment |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=HERE,
                              timeout=seconds, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, f"no result in {seconds} s"
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT ")), ""
    return None, (done.stderr.strip().splitlines() or ["it said nothing"])[-1]


def remembered(
    command: list[str], path: str, seconds: int, folder: str
) -> tuple[list[float] | None, str]:
    """`run`, or what it gave for the same program before, where a folder to keep results in is given."""
    if not folder:
        return run(command, path, seconds)
    shared = [(HERE / "programs" / f"{name}.py").read_bytes() for name in SHARED]
    texts = [Path(command[-1]).read_bytes(), *shared]
    file = Path(folder) / hashlib.sha256(b"".join(texts)).hexdigest()[:20]
    if file.exists():
        return json.loads(file.read_text()), ""
    found, told = run(command, path, seconds)
    if found is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found))
    return found, told


def agree(ours: list[float], theirs: list[float]) -> bool:
    """Whether all numbers are the same, up to rounding."""
    if len(ours) != len(theirs):
        return False
    pairs = zip(ours, theirs, strict=True)
    return all(
        abs(a - b) <= TOLERANCE * max(abs(a), abs(b), 1e-3) or (math.isnan(a) and math.isnan(b))
        for a, b in pairs
    )


def main() -> int:
    """Run them all; the status is how many do not agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--theirs", required=True)
    parser.add_argument("--libraries", default="", help="a folder for PyTorch's Python to look in")
    parser.add_argument("--tree", default=str(ROOT), help="the checkout of Adjoint to run")
    parser.add_argument("--keep", default="", help="a folder where PyTorch's results are kept")
    parser.add_argument("--seconds", type=int, default=150)
    parser.add_argument("program", nargs="*")
    given = parser.parse_args()
    folder = HERE / "programs"
    names = given.program or sorted({p.stem for p in folder.glob("*.py")} - set(SHARED))
    wrong = 0
    for name in names:
        file = str(folder / f"{name}.py")
        theirs, told = remembered([given.theirs, file], given.libraries, given.seconds, given.keep)
        if theirs is None:
            print(f"{name:28s} PyTorch itself fails: {told[:90]}", flush=True)
            continue
        ours, told = run([given.ours, "-m", "adjoint.cli", "run", file], given.tree, given.seconds)
        if ours is None:
            verdict = f"FAILS: {told[:150]}"
        else:
            verdict = "agrees" if agree(ours, theirs) else f"DIFFERS: {ours[:4]} {theirs[:4]}"
        wrong += verdict != "agrees"
        print(f"{name:28s} {verdict}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
