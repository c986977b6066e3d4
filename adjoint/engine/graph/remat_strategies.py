"""The ways to choose what is computed again; `passes.recomputation` follows them."""

from __future__ import annotations

STRATEGIES = ("memory", "speed", "balanced")
DEFAULT = "balanced"
