"""The template of attention: a pass over keys that never holds all weights (Dao et al., 2022).

Weights are kept as running maxima and sums of exponentials, in float32; they are rounded to the
operands' dtype before they multiply values, as tensor cores want them. It gives no weights: a
program that reads them (a derivative that is written with them) has attention in parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e as EULER
from math import log2, prod
from typing import Any

from adjoint.engine.backends.triton.schedule import power_of_two
from adjoint.engine.backends.triton.words import NAME, Written
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import ARENA, OWN, Buffer, Place, row_major
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value

ATTENTION = "scaled_dot_product_attention"
DTYPES = {"float16", "bfloat16", "float32"}
SIZES = (16, 32, 64, 128, 256)  # of heads, as tiles have them


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Query, key and value of the same batches and heads, without mask or dropout."""
    if len(inputs) != 3 or not all(isinstance(x, Value) for x in inputs):
        return False
    query, key, value = (x.spec for x in inputs)
    alike = query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
    return (
        alike
        and not node.params["masked"]
        and query.dtype.name in DTYPES
        and query.dtype is key.dtype is value.dtype
        and query.device.type == setting.target.device
        and query.shape[-1] in SIZES
        and value.shape[-1] in SIZES
        and 0 not in (*query.shape, *key.shape)
    )


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands may lie anyhow."""
    return set()


@dataclass(frozen=True, slots=True)
class Attention:
    """All that a kernel's text depends on; strides in elements, batches first."""

    dtype: str
    batches: tuple[int, ...]
    queries: int
    keys: int
    size: int
    value_size: int
    strides: tuple[tuple[int, ...], ...]  # of query, key, value, result
    scale: float
    causal: bool

    @property
    def tile(self) -> tuple[int, int]:
        """Queries and keys of a tile."""
        if self.dtype == "float32" or self.size > 128:
            return 32, 32
        rows = min(128, max(16, power_of_two(self.queries)))
        return rows, min(64, max(16, power_of_two(self.keys)))

    @property
    def warps(self) -> int:
        return 8 if self.tile[0] * self.size >= 128 * 128 else 4


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; state, which an error must not change, is written by a copy."""
    out = results[0]
    if out.buffer.kind not in OWN:
        own = row_major(Buffer(ARENA, out.buffer.dtype, prod(out.shape), name="out"), out.shape)
        done = steps(setting, node, operands, [own, *results[1:]])
        return [*done, copy_step(setting.target, own, out, ATTENTION)]
    query, key, value = operands
    kind = Attention(
        query.buffer.dtype.name, query.shape[:-2], query.shape[-2], key.shape[-2],
        query.shape[-1], value.shape[-1], tuple(p.strides for p in (*operands, out)),
        node.params["scale"], node.params["causal"],
    )  # fmt: skip
    source = forward_source(kind)
    places = (query, key, value, out)
    grid = (-(-kind.queries // kind.tile[0]), prod(kind.batches))
    work = grid[1] * kind.queries * kind.keys
    return [
        Launch(
            function=f"attention{digest(f'{source};{kind.warps}')}",
            text=Written(source, grid, kind.warps, ATTENTION),
            words=[Address(p.buffer, p.offset * p.buffer.dtype.itemsize) for p in places],
            reads=tuple(whole(p.buffer) for p in operands),
            writes=(whole(out.buffer),),
            pieces=grid[0] * grid[1],
            cost=2 * work * (kind.size + kind.value_size),
            label=sized("attention", kind.queries, kind.keys, kind.size),
        )
    ]


def forward_source(kind: Attention) -> str:
    """The kernel: a program for each tile of queries of each head."""
    rows, columns = kind.tile
    pointer = f"tl.pointer_type(tl.{kind.dtype})"
    exact = ', input_precision="ieee"' if kind.dtype == "float32" else ""
    lines = ["@triton.jit", f"def {NAME}(words):", "    w = words.to(tl.pointer_type(tl.int64))"]
    lines += ["    batch = tl.program_id(1).to(tl.int64)", *batch_lines(kind)]
    for i, name in enumerate("qkvo"):
        at = " + ".join(
            f"b{d} * {s}" for d, s in enumerate(kind.strides[i][:-2]) if kind.batches[d] > 1
        )
        lines.append(f"    {name} = tl.load(w + {i}).to({pointer}) + ({at or 0})")
    (q1, q2), (k1, k2), (v1, v2), (o1, o2) = (s[-2:] for s in kind.strides)
    stop = str(kind.keys)
    if kind.causal:
        stop = f"tl.minimum({kind.keys}, start + {rows})"
    seen = f"(here < {kind.keys})[None, :]"
    if kind.causal:
        seen += " & (row[:, None] >= here[None, :])"
    lines += [
        f"    start = tl.program_id(0) * {rows}",
        f"    row = start + tl.arange(0, {rows})",
        f"    column = tl.arange(0, {columns})",
        f"    e = tl.arange(0, {kind.size})",
        f"    f = tl.arange(0, {kind.value_size})",
        f"    inside = (row < {kind.queries})[:, None]",
        f"    query = tl.load(q + row[:, None] * {q1} + e[None, :] * {q2}, mask=inside, other=0)",
        f'    top = tl.full(({rows},), float("-inf"), tl.float32)',
        f"    total = tl.full(({rows},), 0, tl.float32)",
        f"    out = tl.full(({rows}, {kind.value_size}), 0, tl.float32)",
        f"    for base in range(0, {stop}, {columns}):",
        "        here = base + column",
        (
            f"        key = tl.load(k + here[None, :] * {k1} + e[:, None] * {k2}, "
            f"mask=(here < {kind.keys})[None, :], other=0)"
        ),
        f"        s = tl.dot(query, key{exact}) * {kind.scale * log2(EULER)!r}",
        f'        s = tl.where({seen}, s, float("-inf"))',
        "        higher = tl.maximum(top, tl.max(s, 1))",
        "        p = tl.exp2(s - higher[:, None])",
        "        shrink = tl.exp2(top - higher)",
        "        total = total * shrink + tl.sum(p, 1)",
        (
            f"        value = tl.load(v + here[:, None] * {v1} + f[None, :] * {v2}, "
            f"mask=(here < {kind.keys})[:, None], other=0)"
        ),
        f"        out = out * shrink[:, None] + tl.dot(p.to(tl.{kind.dtype}), value{exact})",
        "        top = higher",
        (
            f"    tl.store(o + row[:, None] * {o1} + f[None, :] * {o2}, "
            f"(out / total[:, None]).to(tl.{kind.dtype}), mask=inside)"
        ),
    ]
    return "\n".join(lines) + "\n"


def batch_lines(kind: Attention) -> list[str]:
    """The index along each batch dimension."""
    lines = []
    for d in reversed(range(len(kind.batches))):
        lines += [
            f"    b{d} = batch % {kind.batches[d]}",
            f"    batch = batch // {kind.batches[d]}",
        ]
    return lines


TEMPLATES = {ATTENTION: Template(accepts, packed, steps)}
