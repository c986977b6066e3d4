"""Coordinates that are only compared, in words of 32 bits.

A mask of causal attention is made of coordinates: j - i >= 1. As whole numbers of 64 bits they take
half as many lanes as the float32 they are about, and with them the whole kernel does. Where sizes
say that neither they nor what is made of them on the way to a comparison comes near the end of 32
bits, the comparisons come out the same in those.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Any

from adjoint.engine.compiler.loops.ir import INDEX, POINT, LoopKernel, Op
from adjoint.engine.graph.sizes.extents import is_undecided

MOST = 2**30  # sums and differences of two such numbers have room
BEYOND = 64  # elements that a vector may reach over the end
_WIDE, _NARROW = "int64", "int32"
_COMPARISONS = frozenset("eq ne lt le gt ge".split())
_FOLLOWED = ("add", "sub", "neg", "arange")  # whose results are between known numbers
_TRIANGLES = ("triu", "tril")
Interval = tuple[int, int]


def narrowed(kernel: LoopKernel) -> tuple[Op, ...]:
    """The kernel's operations, with such coordinates in 32 bits."""
    ops = kernel.ops
    if not any(op.kind == INDEX for op in ops):
        return ops
    stored = {v for v, _ in kernel.stores}
    narrow: Container[int] = intervals(kernel).keys() - stored
    while True:  # what anybody else uses stays wide, and so does what is made of that
        wide = {x for k, op in enumerate(ops) for x in _wide_uses(op, k in narrow, narrow)}
        kept = {k for k in range(len(ops)) if k in narrow and k not in wide}
        kept = {k for k in kept if ops[k].kind == INDEX or _is_within(ops[k], kept)}
        if all(k in kept for k in range(len(ops)) if k in narrow):
            break
        narrow = kept
    return tuple(
        replace(op, compute=_NARROW, dtype=_NARROW)
        if k in narrow
        else replace(op, compute=_NARROW)
        if _compares(op) and _is_within(op, narrow)
        else op
        for k, op in enumerate(ops)
    )


def _wide_uses(op: Op, is_narrow: bool, narrow: Container[int]) -> list[int]:
    """The values that an operation takes as they are."""
    if is_narrow or (_compares(op) and _is_within(op, narrow)):
        return []
    taken = (
        op.args[:1] if op.name in _TRIANGLES and _is_small(dict(op.params)["diagonal"]) else None
    )
    if taken is not None and all(x in narrow for kind, x in op.args[1:] if kind == "v"):
        return [x for kind, x in taken if kind == "v"]
    return [x for kind, x in op.args if kind == "v"]


def intervals(kernel: LoopKernel) -> dict[int, Interval]:
    """Between which numbers coordinates, and what is made of them, are: where 32 bits hold them."""
    found: dict[int, Interval] = {}
    for k, op in enumerate(kernel.ops):
        interval: Interval | None = None
        if op.kind == INDEX:
            interval = _of_coordinate(kernel, op.args[0][1])
        elif op.kind == POINT and op.compute == op.dtype == _WIDE:
            parts = [
                found.get(x) if kind == "v" else (x, x) if type(x) is int else None
                for kind, x in op.args
            ]
            interval = _of_result(op, [part for part in parts if part is not None])
        if interval is not None and all(map(_is_small, interval)):
            found[k] = interval
    return found


def _of_coordinate(kernel: LoopKernel, r: int) -> Interval | None:
    ref = kernel.refs[r]
    if not _is_decided(ref.offset) or not all(_is_decided(a.size) for a in ref.strides):
        return None  # decided later
    low = high = ref.offset
    for atom, stride in ref.strides.items():
        last = stride * (max(atom.size, 1) - 1 + BEYOND)
        low, high = low + min(last, 0), high + max(last, 0)
    return low, high


def _of_result(op: Op, parts: list[Interval]) -> Interval | None:
    if op.name not in _FOLLOWED:
        return None
    params = dict(op.params or ())
    match op.name, parts:
        case "add", [(a, b), (c, d)] if not params:
            return a + c, b + d
        case "sub", [(a, b), (c, d)] if not params:
            return a - d, b - c
        case "neg", [(a, b)]:
            return -b, -a
        case "arange", [(a, b)] if type(params["start"]) is type(params["step"]) is int:
            ends = [params["start"] + params["step"] * x for x in (a, b)]
            return (min(ends), max(ends)) if _is_small(params["step"]) else None
    return None


def _compares(op: Op) -> bool:
    return op.kind == POINT and op.name in _COMPARISONS and op.compute == _WIDE


def _is_decided(number: object) -> bool:
    """Whether it is a whole number that choices may go by."""
    return isinstance(number, int) and not is_undecided(number)


def _is_small(number: Any) -> bool:
    return _is_decided(number) and type(number) is not bool and bool(abs(number) <= MOST)


def _is_within(op: Op, narrow: Container[int]) -> bool:
    """Whether an operation is of such values and small numbers alone."""
    return all(x in narrow if kind == "v" else _is_small(x) for kind, x in op.args)
