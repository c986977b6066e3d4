"""Results on a GPU lie in memory as the CPU's do.

Without a GPU they are made on a stand-in that lays them out as CuPy does, in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.strides_on_a_gpu import FEW, check

ROOT = Path(__file__).parent.parent
NEEDED = "the stand-in needs Triton and SciPy"
HAS_TRITON = all(importlib.util.find_spec(name) for name in ("triton", "scipy"))


def interpreted(paths: tuple[str, ...]) -> None:
    """Samples of these functions; of all functions without any."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.strides_on_a_gpu", *paths],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "all lie alike" in done.stdout


@pytest.mark.skipif(not HAS_TRITON, reason=NEEDED)
def test_some_lie_alike() -> None:
    interpreted(("exp", "add", "frexp", "i0", "sum", "cumsum", "Tensor.expand"))


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TRITON, reason=NEEDED)
def test_more_lie_alike() -> None:
    interpreted(FEW)


# What cuDNN makes of samples whose channels lie innermost lies so too: convolutions are left out.
@pytest.mark.cuda
@pytest.mark.parametrize("path", [path for path in FEW if path != "conv1d"])
def test_on_a_gpu(path: str) -> None:
    check((path,), ("flipped", "stepped", "expanded"), ("all",))
