"""Utilities around training."""

from __future__ import annotations

import importlib
from typing import Any

from adjoint.utils import checkpoint as checkpoint


def __getattr__(name: str) -> Any:
    if name == "data":  # loaded on first use: it brings in multiprocessing
        return importlib.import_module("adjoint.utils.data")
    raise AttributeError(f"module 'adjoint.utils' has no attribute {name!r}")
