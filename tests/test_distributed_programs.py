"""Programs as people publish them for several processes, unmodified, under `adjoint launch`.

`tests/scripts/ranks/expected` holds what PyTorch 2.13 prints under torchrun with gloo, on two and
four ranks. (Of `fsdp1`, PyTorch prints three lines and then ends by a segmentation fault.)
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_distributed import LIMIT, free_port, launch

pytest.importorskip("mpi4py", reason="the extra `mpi` is not installed")
FOLDER = Path(__file__).parent / "scripts" / "ranks"
USUAL = ("fsdp2.2",)  # the others are slow only because they are many
PROGRAMS = [
    pytest.param(path.stem, id=path.stem, marks=() if path.stem in USUAL else pytest.mark.slow)
    for path in sorted((FOLDER / "expected").glob("*.txt"))
]


@pytest.mark.parametrize("case", PROGRAMS)
def test_prints_what_pytorch_prints(case: str, tmp_path: Path) -> None:
    name, ranks = case.split(".")
    program = str(FOLDER / f"{name}.py")
    wanted = (FOLDER / "expected" / f"{case}.txt").read_text()
    environment = {"CHECKPOINTS": str(tmp_path), "SPAWN_PORT": str(free_port())}
    if name == "spawn_ddp":
        done = subprocess.run(
            [sys.executable, "-m", "adjoint.cli", "run", program, ranks],
            env={**os.environ, **environment},
            capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip
        code, out, errors = done.returncode, done.stdout, done.stderr
    else:
        more = [str(tmp_path / "snapshot.pt")] if name == "torchrun_trainer" else []
        code, out, errors = launch(f"--nproc-per-node={ranks}", program, *more, **environment)
    assert code == 0, errors
    assert out.startswith(wanted) if name == "fsdp1" else out == wanted
