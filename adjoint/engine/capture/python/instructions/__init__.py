"""Instruction sets: a table for each version of Python, over semantics they share."""

from __future__ import annotations

import sys

from adjoint.engine.capture.python.decoding import Table

from . import py311, py312, py313, py314

TABLES: dict[tuple[int, int], Table] = {
    (3, 11): py311.TABLE,
    (3, 12): py312.TABLE,
    (3, 13): py313.TABLE,
    (3, 14): py314.TABLE,
}
TABLE: Table = TABLES.get(sys.version_info[:2], {})
