"""Kernels of the spine operations."""

from __future__ import annotations

from typing import Any

from adjoint.backends.array.table import NAMED
from adjoint.ops import elementwise

Array = Any

NAMED.update(
    {
        elementwise.ADD: "add",
        elementwise.SUB: "subtract",
        elementwise.MUL: "multiply",
        elementwise.DIV: "divide",
        elementwise.NEG: "negative",
        elementwise.EXP: "exp",
        elementwise.LOG: "log",
        elementwise.SIN: "sin",
        elementwise.COS: "cos",
        elementwise.EQ: "equal",
        elementwise.LT: "less",
        elementwise.GT: "greater",
        elementwise.LOGICAL_NOT: "logical_not",
        elementwise.WHERE: "where",
        elementwise.CONJ: "conj",
    }
)
