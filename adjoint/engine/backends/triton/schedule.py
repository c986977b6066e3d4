"""Schedules on the GPU: the order of dimensions, and how a kernel is cut into tiles.

Note [device tiles]
    A program of a launch computes a tile: `x` of the outer combinations, taken as one row of
    numbers, by `r` of the inner ones. Where a tile holds all inner combinations the kernel is
    *whole*: every value is computed once and kept in registers through all stages. Otherwise each
    stage is a loop over tiles of the inner combinations, and computes again what it needs of
    earlier ones.

    Where operands are the same all along a line, say a row's logsumexp, a tile is a piece of one
    line, so that such operands are one number for it. A kernel that also sums columns (Note
    [column sums]) has a program for each part, which goes through that part's rows and keeps the
    sums in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.compiler.loops.ir import POINT, Form, Kernel, LoopKernel
from adjoint.engine.compiler.loops.nest import host_dtype
from adjoint.engine.compiler.loops.schedule import (
    merge,
    order,
    over_dims,
    stride_classes,
    vector_atom,
)

PROCESSORS = 132  # of the machines this is tuned on; fewer or more work as well
ELEMENTS = 1024  # of a tile of a kernel without reductions
WHOLE_ROW = 8192  # inner combinations that registers hold
ROW = 2048  # elements of a tile in a loop along rows
COLUMNS = 64  # of a tile that reduces down columns
HEAVY = 24  # operations that fill registers
SUMMED_HEAVY = 18  # the same, where loads of a loop are under way beside them
LINE = 1024  # elements of a line that a tile may be a piece of
READ = 4096  # elements of a tile of which only results of rows are written
MANY = 16  # programs for each processor that are worth larger ones
LONG_LINE = 1 << 14  # elements of a line from which its tiles are larger: more is under way
SUMMED = 1024  # elements of a tile of a kernel that also sums columns
ONE_ROW = 1024  # elements of a tile of one row, of which more are loaded ahead


@dataclass(frozen=True, slots=True)
class Tiles:
    """How a kernel is cut (Note [device tiles])."""

    x: int
    r: int  # 0: nothing is reduced
    whole: bool
    warps: int
    line: int = 0  # a tile lies in one line of so many elements: the last of its dimensions


def schedule(kernel: LoopKernel) -> Kernel:
    """Neighbouring elements side by side, dimensions merged, and the form frozen."""
    refs = kernel.refs + [ref for _, ref in kernel.stores]
    vector = vector_atom(kernel, refs)
    parts = [a for a in kernel.atoms if a not in kernel.reduced | kernel.columns]
    outer = order(parts, refs, vector)
    summed = order([a for a in kernel.atoms if a in kernel.columns], refs, vector)
    inner = order([a for a in kernel.atoms if a in kernel.reduced], refs, vector)
    rows = vector in kernel.reduced
    summed_dims = merge(summed, refs)
    outer_dims, inner_dims = merge(outer, refs) + summed_dims, merge(inner, refs)
    dims = outer_dims + inner_dims
    last = len(dims) - 1 if rows else len(outer_dims) - 1
    settled = [over_dims(ref, dims) for ref in refs]
    base = len(kernel.refs)
    form = Form(
        rows=rows,
        outer=len(outer_dims),
        inner=len(inner_dims),
        ops=kernel.ops,
        refs=tuple(stride_classes(ref, last) for ref in settled),
        stores=tuple((v, base + i) for i, (v, _) in enumerate(kernel.stores)),
        hosts=tuple(map(host_dtype, kernel.hosts)),
        columns=len(summed_dims),
    )
    return Kernel(
        form,
        tuple(prod(a.size for a in g) for g in outer_dims),
        tuple(prod(a.size for a in g) for g in inner_dims),
        tuple(settled),
        kernel.hosts,
        extents=kernel.extents,
        faults=tuple(kernel.faults[k][j] for k, j in form.checks()),
        origin=kernel.origin,
    )


def power_of_two(n: int, most: int = 0) -> int:
    """The least power of two that is n or more; `most` is one that it is not to be beyond.

    >>> power_of_two(17), power_of_two(17, 64), power_of_two(17, 8), power_of_two(0)
    (32, 32, 8, 1)
    """
    if not most:
        return 1 << max(n - 1, 0).bit_length()
    while most > 1 and n <= most // 2:  # of a size that is not known, asked no more than needed
        most //= 2
    return most


def tiles_of(form: Form, kernels: list[Kernel]) -> Tiles:
    """How the kernels of a launch are cut, by their largest sizes."""
    outer = max(prod(k.outer) for k in kernels)
    inner = max(prod(k.inner) for k in kernels)
    if form.columns:
        r = power_of_two(inner)
        rows = max(prod(k.outer[-form.columns :]) for k in kernels)
        x = power_of_two(rows, max(1, SUMMED // r))
        return Tiles(x, r, True, row_warps(x * r))
    if not form.inner:
        line = line_of(form, kernels)
        if line:
            sizes = (2048, 1024, 512, 256) if line >= LONG_LINE else (1024, 512, 256)
            wasted = {n: -(-line // n) * n - line for n in sizes}
            x = next((n for n, more in wasted.items() if 16 * more <= line), 256)
            return Tiles(x, 0, True, min(4, x // 256), line)
        x = ELEMENTS
        while x > 128 and outer * len(kernels) < 2 * x * PROCESSORS:
            x //= 2
        x = power_of_two(outer, x)
        return Tiles(x, 0, True, max(1, min(4, x // 128)))
    heavy = operations(form) > HEAVY
    if form.rows:
        r = power_of_two(inner)
        if r <= (WHOLE_ROW // 2 if heavy else WHOLE_ROW):
            written = any(form.ops[v].full for v, _ in form.stores)
            room = 1024 if written else READ
            x = power_of_two(outer, max(1, room // r))
            while x > 1 and outer < x * PROCESSORS * (2 if room == 1024 else MANY):
                x //= 2
            return Tiles(x, r, True, row_warps(x * r) if written else warps(x * r))
        return Tiles(1, ROW, False, 8)
    x = power_of_two(outer, COLUMNS)
    while x > 16 and outer * len(kernels) < x * PROCESSORS:
        x //= 2
    r = power_of_two(inner, max(1, 2048 // x))
    # As timed: fewer threads, each with more under way.
    wide = x == COLUMNS and r < inner and not fills_loops(form)
    return Tiles(x, r, r >= inner, min(4, warps(x * r)) if wide else warps(x * r))


def operations(form: Form) -> int:
    """How many operations each element takes."""
    return sum(op.kind == POINT and op.full for op in form.ops)


def fills_loops(form: Form) -> bool:
    """Whether an element's operations leave a loop few registers for loads under way."""
    return operations(form) > SUMMED_HEAVY


def line_of(form: Form, kernels: list[Kernel]) -> int:
    """The length of the lines along which an operand is the same; 0: none, or too short."""
    if len(kernels) > 1 or form.outer < 2:
        return 0
    stores = {r for _, r in form.stores}
    same = [
        not classes[-1] and any(classes)
        for r, (dtype, classes) in enumerate(form.refs)
        if r not in stores and dtype != "index"
    ]
    length = kernels[0].outer[-1]
    return length if any(same) and length >= LINE else 0


def warps(elements: int) -> int:
    """Warps for a tile of so many elements."""
    return max(1, min(8, elements // 256))


def row_warps(elements: int) -> int:
    """Warps for a tile of whole rows that are written: half as many as for others.

    What is done once for a row every warp does, and each then waits for the others. Timed on an
    H200 for rows of 128 to 2,048 (`benchmarks/notes/gpu_steps.md`).
    """
    return warps(elements // 2)


def same_sizes(kernels: list[Kernel]) -> bool:
    """Whether all kernels of a launch differ in addresses and numbers alone."""
    return len({sizes_of(k) for k in kernels}) == 1


def sizes_of(kernel: Kernel) -> tuple[Any, ...]:
    """All of a kernel that is sizes, strides and offsets."""
    return (
        kernel.outer, kernel.inner, kernel.extents,
        tuple(tuple(r.strides.items()) for r in kernel.refs),
        tuple(r.picks for r in kernel.refs),
        tuple(r.offset for r in kernel.refs if r.buffer is None),
    )  # fmt: skip
