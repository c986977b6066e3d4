"""Settings of every test: graphs are verified wherever they are made, and code is kept apart."""

from __future__ import annotations

import os
from pathlib import Path

# Before adjoint is imported: both are read when first needed.
os.environ.setdefault("ADJOINT_VERIFY", "1")
os.environ.setdefault("ADJOINT_CACHE_DIR", str(Path(__file__).parent.parent / ".cache"))
