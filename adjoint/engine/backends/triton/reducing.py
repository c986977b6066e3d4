"""Reductions in Triton: what they add up in, what joins two parts, where they start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.engine.backends.registers.operations import KIND, combine
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.backends.triton.code import TYPES, number
from adjoint.engine.compiler.loops.ir import REDUCE, Form, Op

if TYPE_CHECKING:
    from adjoint.engine.backends.triton.emit import Env, TileEmitter

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


def combined(op: Op, a: V, b: V) -> V:
    """Two parts of a reduction as one."""
    name = op.name
    if op.compute == "bool":
        name = "amin" if name in ("all", "amin", "prod") else "amax"
    return combine(name, a, b)


def alike(form: Form, k: int, env: Env) -> list[int]:
    """A reduction and, if it is a sum, another unknown one that can be done together with it."""
    ops = form.ops
    if (ops[k].name, ops[k].compute) != ("sum", "float32"):
        return [k]
    kind = (REDUCE, "sum", "float32", ops[k].stage)
    more = [
        j
        for j, op in enumerate(ops)
        if j != k and j not in env and (op.kind, op.name, op.compute, op.stage) == kind
    ]
    return [k, *more[:1]]


def reduce_together(
    emitter: TileEmitter, which: list[int], env: Env, inside: Env, stage: int
) -> None:
    """Reductions of whole rows; of two, one exchange between threads."""
    tiles = [emitter.reduced_value(k, env, inside, stage) for k in which]
    if len(which) == 1:
        env[which[0]] = reduced(emitter, which[0], tiles[0].ref)
        return
    code, names = emitter.code, [f"both{k}" for k in which]
    parts = ", ".join(x.ref for x in tiles)
    code.put(f"{', '.join(names)} = tl.reduce(({parts}), 1, plus_both, keep_dims=True)")
    for k, name in zip(which, names, strict=True):
        env[k] = in_own_dtype(emitter, k, code.value(name, "f32", 1))


def reduced(emitter: TileEmitter, k: int, tile: str) -> V:
    """A reduction's result from a tile of parts."""
    op, code = emitter.form.ops[k], emitter.code
    kind = total_kind(op.compute)
    name = reducer(op.name, op.compute, kind)
    total = code.named(f"tl.reduce({tile}, 1, {name}, keep_dims=True)", kind)
    return in_own_dtype(emitter, k, total)


def in_own_dtype(emitter: TileEmitter, k: int, total: V) -> V:
    """A reduction's total in the dtype of its result."""
    op = emitter.form.ops[k]
    total = total.convert(KIND[op.compute][0]) if op.compute == "bool" else total
    return emitter.rounded(total.convert(KIND[op.dtype][0]), op.dtype)
