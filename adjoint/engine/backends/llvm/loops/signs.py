"""Signs that values of a kernel are known to have, by how they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.compiler.loops.ir import POINT, REDUCE, Op

FLOATS = ("float32", "float64")
Argument = tuple[str, Any]  # of an operation: ("v", number of a value) or ("c", constant)


def never_positive(ops: Sequence[Op], argument: Argument) -> bool:
    """Whether an operation's argument is at most 0 (or NaN): its exponential takes less then."""
    kind, k = argument
    if kind != "v" or ops[k].kind != POINT or ops[k].compute not in FLOATS:
        return False
    op = ops[k]
    if op.params:
        return False
    match op.name:
        case "sub":
            return _from_largest(ops, *op.args)
        case "mul":
            return any(
                number[0] == "c" and number[1] <= 0 and _is_square(ops, other)
                for number, other in (op.args, op.args[::-1])
            )
        case "neg":
            return _is_square(ops, op.args[0])
    return False


def _from_largest(ops: Sequence[Op], x: Argument, top: Argument) -> bool:
    """Whether what is taken from x is the largest of all x."""
    if x[0] != "v" or top[0] != "v":
        return False
    largest = ops[top[1]]
    return largest.kind == REDUCE and largest.name == "amax" and largest.args[0] == x


def _is_square(ops: Sequence[Op], argument: Argument) -> bool:
    """Whether an argument is a value multiplied by itself; squares of integers may wrap around."""
    if argument[0] != "v":
        return False
    op = ops[argument[1]]
    if op.kind != POINT or op.name != "mul" or op.params or op.compute not in FLOATS:
        return False
    x, y = op.args
    return x[0] == "v" and x == y
