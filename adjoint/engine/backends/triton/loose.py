"""Values that may be rough, because halves are all that follows from them.

Note [loose values]
    A result in halves has a precision of 2^-11 or less. Values of which nothing is read but what is
    rounded to halves are *loose*: functions of them are the GPU's own, within 2^-18, and a kernel
    all of whose arithmetic is loose may round a product and a sum once.

    GELU's 1 + tanh(u) is 2 / (1 + exp(-2 u)), precise also where it is small; where a tanh is read
    as that or as 1 - tanh(u)^2, its absolute precision is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.compiler.loops.ir import POINT, Form, Op
from adjoint.engine.core.dtype import named

SIGMOID = "libdevice.fast_dividef(tl.full((), {1}, tl.float32), 1.0 + tl.exp2({0} * {2}))"
LOG2E = 1.4426950408889634
ONE_PLUS_TANH = SIGMOID.replace("{1}", "2.0").replace("{2}", str(-2 * LOG2E))
LOOSE = {
    "exp": f"tl.exp2({{0}} * {LOG2E})",
    "tanh": f"rough_tanh({{0}}, {ONE_PLUS_TANH})",
    "sigmoid": SIGMOID.replace("{1}", "1.0").replace("{2}", str(-LOG2E)),
}
UNROUNDED = {"cast", "clone", "where"}  # operations in float32 that compute nothing


@dataclass(frozen=True, slots=True)
class Loose:
    """What is loose in a kernel."""

    values: set[int]
    near_one: set[int]  # hyperbolic tangents whose absolute precision is enough
    one_plus: dict[int, int]  # sums of one and such a tangent: their tangent's operand


def loose_parts(form: Form) -> Loose:
    """All that is loose in a form."""
    readers: dict[int, list[int]] = {}
    for k, op in enumerate(form.ops):
        for tag, x in op.args:
            if tag == "v":
                readers.setdefault(x, []).append(k)
    values = loose_values(form, readers)
    near_one = {k for k in values if is_near_one(form, k, readers)}
    one_plus = {
        k: form.ops[t].args[0][1]
        for t in near_one
        for k in readers[t]
        if is_one_and(form.ops[k], "add", t) and form.ops[t].args[0][0] == "v"
    }
    return Loose(values, near_one, one_plus)


def loose_values(form: Form, readers: dict[int, list[int]]) -> set[int]:
    """Values of which nothing is read but what is rounded to halves."""
    stored = {v for v, _ in form.stores}
    loose: set[int] = set()
    for k in reversed(range(len(form.ops))):
        op = form.ops[k]
        if op.kind != POINT or op.compute != "float32":
            continue
        if named(op.dtype).is_half:
            loose.add(k)
            continue
        after = [form.ops[r] for r in readers.get(k, ())]
        rounded = all(
            o.kind == POINT and (named(o.dtype).is_half or r in loose)
            for r, o in zip(readers.get(k, ()), after, strict=True)
        )
        if after and rounded and k not in stored and op.dtype == "float32":
            loose.add(k)
    return loose


def is_near_one(form: Form, k: int, readers: dict[int, list[int]]) -> bool:
    """Whether a value is a tangent that is only read as 1 + tanh, or squared as 1 - tanh^2."""
    ops = form.ops
    if ops[k].name != "tanh" or ops[k].dtype != "float32":
        return False
    for r in readers[k]:
        square = ops[r].name == "mul" and ops[r].args == (("v", k), ("v", k))
        if square and all(is_one_and(ops[s], "sub", r) for s in readers.get(r, ())):
            continue
        if not is_one_and(ops[r], "add", k):
            return False
    return True


def is_one_and(op: Op, name: str, k: int) -> bool:
    """Whether an operation is 1 + x, or 1 - x, of a value x."""
    if op.name != name or op.dtype != "float32" or len(op.args) != 2:
        return False
    ways = [(("c", 1.0), ("v", k))] + ([(("v", k), ("c", 1.0))] if name == "add" else [])
    return op.args in ways


def rounds_to_halves(form: Form, loose: set[int]) -> bool:
    """Whether all arithmetic of a kernel in floats is loose."""
    floats = [
        k
        for k, op in enumerate(form.ops)
        if op.kind == POINT and op.compute in ("float32", "float64") and op.name not in UNROUNDED
    ]
    return bool(floats) and loose.issuperset(floats)
