"""The core explained by running code: the explanation runs."""

from __future__ import annotations

import runpy
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "docs" / "internals" / "from_scratch.py"


def test_the_explanation_holds() -> None:
    names = runpy.run_path(str(SOURCE))
    assert {"Record", "bind", "GradLevel", "JvpLevel", "VmapLevel", "capture"} <= names.keys()
