"""Reductions in Triton: what they add up in, what joins two parts, where they start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.engine.backends.registers.operations import KIND, REDUCERS, combine, reduces_in
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.backends.triton.code import TYPES, TritonCode, number
from adjoint.engine.compiler.loops.ir import REDUCE, Form, Op
from adjoint.engine.core.dtype import DType, bool_

if TYPE_CHECKING:
    from adjoint.engine.backends.triton.emit import Env, TileEmitter

ARITHMETIC = {"sum": "plus", "prod": "times"}
PRELUDED = {*ARITHMETIC, "amax", "amin", "any", "all"}  # whose steps are functions of the prelude


def reduces(name: str, compute: DType) -> bool:
    """Whether kernels reduce so: any step in registers is written beside the kernel."""
    return name in PRELUDED or (compute is not bool_ and reduces_in(name, compute))


def total_kind(compute: str) -> str:
    """The kind in which a reduction adds up."""
    return "i32" if compute == "bool" else KIND[compute][0]


def reducer(name: str, compute: str, kind: str, steps: dict[str, str]) -> str:
    """The function that joins two parts of a reduction; one the prelude lacks is put in `steps`."""
    if name not in PRELUDED:
        step = f"join_{name}_{kind}"
        steps[step] = step_text(step, name, kind)
        return step
    if compute == "bool":
        return "int_min" if name in ("all", "amin", "prod") else "int_max"
    if name in ARITHMETIC:
        return ARITHMETIC[name]
    side = "max" if name in ("amax", "any") else "min"
    return f"nan_{side}" if kind[0] == "f" else f"int_{side}"


def step_text(step: str, name: str, kind: str) -> str:
    """One step of a reduction as a function, from what it is in registers."""
    code = TritonCode()
    joined = combine(name, V(code, "a", kind, 1), V(code, "b", kind, 1))
    lines = ["@triton.jit", f"def {step}(a, b):", *code.lines, f"    return {joined.ref}"]
    return "\n".join(lines) + "\n\n\n"


def identity(name: str, compute: str, kind: str) -> str:
    """What a reduction starts from."""
    if name not in PRELUDED:
        return number(REDUCERS[name].identity(kind), kind)
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
    name = reducer(op.name, op.compute, kind, emitter.steps)
    total = code.named(f"tl.reduce({tile}, 1, {name}, keep_dims=True)", kind)
    return in_own_dtype(emitter, k, total)


def in_own_dtype(emitter: TileEmitter, k: int, total: V) -> V:
    """A reduction's total in the dtype of its result."""
    op = emitter.form.ops[k]
    total = total.convert(KIND[op.compute][0]) if op.compute == "bool" else total
    return emitter.rounded(total.convert(KIND[op.dtype][0]), op.dtype)
