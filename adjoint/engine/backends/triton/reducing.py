"""Reductions in Triton: what they add up in, what joins two parts, where they start."""

from __future__ import annotations

from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.triton.code import TYPES, number

REDUCERS = {"sum": "plus", "prod": "times"}
REDUCTIONS = {*REDUCERS, "amax", "amin", "any", "all"}  # that there are functions for


def total_kind(compute: str) -> str:
    """The kind in which a reduction adds up."""
    return "i32" if compute == "bool" else KIND[compute][0]


def reducer(name: str, compute: str, kind: str) -> str:
    """The function that joins two parts of a reduction."""
    if compute == "bool":
        return "int_min" if name in ("all", "amin", "prod") else "int_max"
    if name in REDUCERS:
        return REDUCERS[name]
    side = "max" if name in ("amax", "any") else "min"
    return f"nan_{side}" if kind[0] == "f" else f"int_{side}"


def identity(name: str, compute: str, kind: str) -> str:
    """What a reduction starts from."""
    if compute == "bool":
        return "1" if name in ("all", "amin", "prod") else "0"
    if name in ("sum", "prod"):
        return number(int(name == "prod"), kind)
    low = name == "amax"
    if kind[0] == "f":
        return number(float("-inf") if low else float("inf"), kind)
    bits = int(kind[1:])
    if kind[0] == "u":
        return number(0 if low else 2**bits - 1, kind)
    return number(-(2 ** (bits - 1)) if low else 2 ** (bits - 1) - 1, kind)


def identity_text(name: str, compute: str, kind: str) -> str:
    """The same, as a value."""
    return f"tl.full((), {identity(name, compute, kind)}, {TYPES[kind]})"
