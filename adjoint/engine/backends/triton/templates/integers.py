"""The template of products of int8, which are int32: cuBLASLt's, or a kernel for odd sizes."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from adjoint.engine.backends.triton.launch_words import ALIGN, alignment, is_aligned
from adjoint.engine.backends.triton.schedule import power_of_two
from adjoint.engine.backends.triton.templates import lines as along
from adjoint.engine.backends.triton.templates import product
from adjoint.engine.backends.triton.templates.lines import pointer
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.compiler.target import Setting, Template
from adjoint.engine.graph.ir import Node, Value

FIRST, SECOND, OUT, ROWS, COLUMNS, FIRST_STEP, SECOND_STEP = range(7)  # words
# Sides of a tile; the least that the units multiply are 16 rows, 16 columns and 32 deep.
TALL, ACROSS, DEEP = 128, 128, 64
LOW, NARROW, LONG = 16, 32, 256  # of a few rows, which take as long as reading the columns
WORD = 16  # bytes, or elements


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Matrices on the GPU, of one batch or of none."""
    if not all(
        isinstance(x, Value) and x.spec.device.type == setting.target.device for x in inputs
    ):
        return False
    x, y = (v.spec.shape for v in inputs)
    alike = x[:-2] == y[:-2] or 1 in (prod(x[:-2]), prod(y[:-2]))
    return alike and along.are_known(*x, *y) and 0 not in (*x, *y)


def is_for_library(setting: Setting, x: Place, y: Place) -> bool:
    """Whether cuBLASLt multiplies such matrices: its lines and addresses are whole words of 16."""
    (m, k), n = x.shape[-2:], y.shape[-2]
    whole = m % WORD == 0 and n % WORD == 0 and k % WORD == 0
    return whole and all(alignment(setting.target, place) % WORD == 0 for place in (x, y))


def tile_of(m: int, n: int, k: int) -> tuple[int, int, int]:
    """Rows, columns and depth of a tile."""
    if m <= LOW:
        return LOW, NARROW, min(LONG, max(32, power_of_two(k)))
    deep = min(DEEP, max(32, power_of_two(k)))
    return min(TALL, max(16, power_of_two(m))), min(ACROSS, max(16, power_of_two(n))), deep


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """A product of the library's; else one launch, a program for each tile of the result."""
    x, y = operands
    if is_for_library(setting, x, y):
        turned = (*y.shape[:-2], y.shape[-1], y.shape[-2])
        strides = (*y.strides[:-2], y.strides[-1], y.strides[-2])
        columns = replace(y, shape=turned, strides=strides)
        return product.steps(setting, node, [x, columns], results)
    out, copies = along.own(setting, results[0], "integer_matmul")
    (m, k), n = x.shape[-2:], y.shape[-2]
    counts = [prod(place.shape[:-2]) for place in (x, y)]
    if counts[1] == 1:  # all of the rows at once
        m, counts = m * counts[0], [1, 1]
    batch = max(counts)
    tile = tile_of(m, n, k)
    aligned = k % ALIGN == 0 and all(is_aligned(setting.target, place) for place in (x, y))
    words: list[Any] = [
        along.address(x), along.address(y), along.address(out), m, n,
        m * k if counts[0] > 1 else 0, n * k if counts[1] > 1 else 0,
    ]  # fmt: skip
    step = along.launch(
        "integer_matmul", source_lines(tile, k, aligned), words, [x, y], [out],
        (-(-m // tile[0]) * -(-n // tile[1]), batch),
        warps=8 if tile[0] * tile[1] > 1 << 13 else 4, stages=3,
        cost=batch * m * n * k // 16, sizes=(m, n, k),
    )  # fmt: skip
    return [step, *copies]


def source_lines(tile: tuple[int, int, int], k: int, aligned: bool) -> list[str]:
    """The kernel: rows of both operands are multiplied, a stretch of each at a time."""
    tall, across, deep = tile
    mask = "" if k % deep == 0 else f" & (at < {k})"
    start = [pointer(word, "tl.int8") for word in (FIRST, SECOND)]
    if aligned:
        start = [f"tl.multiple_of({text}, {ALIGN})" for text in start]
    return [
        f"x = {start[0]}",
        f"y = {start[1]}",
        f"out = {pointer(OUT, 'tl.int32')}",
        f"m = tl.load(w + {ROWS})",
        f"n = tl.load(w + {COLUMNS})",
        "batch = tl.program_id(1).to(tl.int64)",
        f"across = (n + {across - 1}) // {across}",
        "tile = tl.program_id(0).to(tl.int64)",
        f"i = tile // across * {tall} + tl.arange(0, {tall})",
        f"j = tile % across * {across} + tl.arange(0, {across})",
        f"x_row = batch * tl.load(w + {FIRST_STEP}) + tl.minimum(i, m - 1) * {k}",
        f"y_row = batch * tl.load(w + {SECOND_STEP}) + tl.minimum(j, n - 1) * {k}",
        f"total = tl.zeros(({tall}, {across}), tl.int32)",
        f"for base in range(0, {k}, {deep}):",
        f"    at = base + tl.arange(0, {deep})",
        f"    rows = (i < m)[:, None]{row(mask)}",
        f"    columns = (j < n)[None, :]{column(mask)}",
        "    a = tl.load(x + x_row[:, None] + at[None, :], mask=rows, other=0)",
        "    b = tl.load(y + y_row[None, :] + at[:, None], mask=columns, other=0)",
        "    total = tl.dot(a, b, total, out_dtype=tl.int32)",
        "place = (batch * m + i[:, None]) * n + j[None, :]",
        "tl.store(out + place, total, mask=(i < m)[:, None] & (j < n)[None, :])",
    ]


def row(mask: str) -> str:
    """The mask of depths along rows."""
    return f"{mask}[None, :]" if mask else ""


def column(mask: str) -> str:
    """The mask of depths along columns."""
    return f"{mask}[:, None]" if mask else ""


TEMPLATES = {"integer_matmul": Template(accepts, along.packed, steps)}
