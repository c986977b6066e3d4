"""Native code touches nothing outside of arrays: they lie beside pages without access."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="needs mprotect and fork")
def test_kernels_stay_inside_of_arrays() -> None:
    """In a process of its own, which else would end this one."""
    kept = Path(os.environ["ADJOINT_CACHE_DIR"]) / "guarded"  # whose arenas are others
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.guarded_calls"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ADJOINT_CACHE_DIR": str(kept)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert "nothing outside was touched" in done.stdout
