"""Pieces: the words a kernel is given, and how its work is dealt out among workers.

Note [kernel words]
    A kernel is called as kernel(args, worker, workers). `args` points to 64-bit words: the number
    of instances, the number of pieces of all instances together, then a block per instance:
        first piece | pieces | chunk | chunks | outer sizes | inner sizes
        | for each reference its address and the strides that are neither 0 nor, along the vector
          dimension, 1, and for dimensions picked by values their strides and sizes
        | where indices are checked, the address of the status and a code per check
        | host numbers
    Work is dealt out in pieces; worker w of n does the pieces from total * w // n to
    total * (w + 1) // n, so which worker does a piece never changes what it computes.
"""

from __future__ import annotations

from functools import cache

from adjoint.engine.backends.llvm.ir.blocks import Blocks
from adjoint.engine.backends.llvm.loops.column_sums import sums_columns
from adjoint.engine.backends.registers.vector import Code, V
from adjoint.engine.compiler.loops.ir import LOAD, Form
from adjoint.engine.core.dtype import named
from adjoint.engine.ops.random.random import word_bits

FIRST, PIECES, CHUNK, CHUNKS, SIZES = range(5)
FEW_LANES = 4  # elements at a time of rows that are shorter than a few registers


def words_of(form: Form) -> list[tuple[str, int, int]]:
    """The words of an instance after its sizes: ("address", ref, -1), ("stride", ref, dim), ..."""
    words: list[tuple[str, int, int]] = []
    picked = {op.args[0][1]: len(op.args) - 1 for op in form.ops if op.kind == LOAD}
    for r, (_, classes) in enumerate(form.refs):
        words.append(("address", r, -1))
        words += [("stride", r, d) for d, c in enumerate(classes) if c >= 2]
        for j in range(picked.get(r, 0)):
            words += [("pick", r, j), ("limit", r, j)]
    words += [("extent", k, 0) for k, op in enumerate(form.ops) if op.name == "scatter"]
    checks = form.checks()
    if checks:
        words.append(("status", 0, -1))
        words += [("fault", k, j) for k, j in checks]
    words += [("host", h, -1) for h in range(len(form.hosts))]
    return words


def lanes_of(form: Form) -> int:
    """How many elements at a time: a few registers' worth, few where elements are scattered."""
    last = form.outer + form.inner - 1 if form.rows else form.outer - 1
    if last < 0:
        return 1
    if any(classes[last] == 2 and name != "index" for name, classes in form.refs):
        return FEW_LANES
    drawn = _lanes_of_draw(form)
    if drawn:
        return drawn
    wide = ("float64", "int64")
    # What reduces columns reads a little of every row: take much of it at a time.
    if form.inner and not form.rows and len(form.ops) <= 4 and not sums_columns(form):
        return 16 if any(op.dtype in wide for op in form.ops) else 32
    return 8 if any(op.dtype in wide or op.compute in wide for op in form.ops) else 16


# Blocks of Philox at a time: a round waits for the one before it, so that fewer leave the processor
# idle. Where much else is computed with what is drawn, registers are what is short.
BLOCKS, BLOCKS_AMONG_OTHERS = 8, 4
ALONE = 16  # operations of a kernel that does little but draw


def _lanes_of_draw(form: Form) -> int:
    """The lanes of a kernel that draws one number after another; 0: it does not."""
    draws = [op for op in form.ops if op.name == "random"]
    if not draws or form.inner or form.outer != 1:
        return 0
    bits = max(word_bits(op.params[0], named(op.dtype)) for op in draws)
    blocks = BLOCKS if len(form.ops) <= ALONE else BLOCKS_AMONG_OTHERS
    return blocks * 128 // bits


@cache
def pieces_text() -> str:
    """What kernels share: a worker's part of all pieces, instance by instance."""
    code = Code()
    let, blocks = code.let, Blocks(code)

    def clamp(x: str, most: str) -> str:
        x = let(f"select i1 {let(f'icmp slt i64 {x}, 0')}, i64 0, i64 {x}")
        return let(f"select i1 {let(f'icmp slt i64 {x}, {most}')}, i64 {x}, i64 {most}")

    count, total = fetched(code, "%args", 0), fetched(code, "%args", 1)
    low, high = share(code, total)

    def instance(j: str, _: list[V]) -> list[V]:
        block = instance_of(code, j)
        first, pieces = fetched(code, block, FIRST), fetched(code, block, PIECES)
        start = clamp(let(f"sub i64 {low}, {first}"), pieces)
        stop = clamp(let(f"sub i64 {high}, {first}"), pieces)
        call = f"call void %kernel(ptr {block}, i64 {start}, i64 {stop})"
        blocks.when(let(f"icmp slt i64 {start}, {stop}"), lambda: code.lines.append(call))
        return []

    blocks.loop("0", count, 1, (), instance)
    return walk("pieces", code)


@cache
def turns_text() -> str:
    """The same of instances with as many pieces each, piece by piece (Note [pieces in turns])."""
    code = Code()
    let, blocks = code.let, Blocks(code)
    count = fetched(code, "%args", 0)
    low, high = share(code, fetched(code, instance_of(code, "0"), PIECES))

    def piece(p: str, _: list[V]) -> list[V]:
        after = let(f"add i64 {p}, 1")

        def instance(j: str, _: list[V]) -> list[V]:
            block = instance_of(code, j)
            code.lines.append(f"call void %kernel(ptr {block}, i64 {p}, i64 {after})")
            return []

        blocks.loop("0", count, 1, (), instance)
        return []

    blocks.loop(low, high, 1, (), piece)
    return walk("turns", code)


def fetched(code: Code, block: str, index: int) -> str:
    """A word of a block."""
    return code.let(f"load i64, ptr {code.let(f'getelementptr i64, ptr {block}, i64 {index}')}")


def instance_of(code: Code, j: str) -> str:
    """The block of an instance."""
    at = code.let(f"add i64 {code.let(f'mul i64 {j}, %length')}, 2")
    return code.let(f"getelementptr i64, ptr %args, i64 {at}")


def share(code: Code, total: str) -> tuple[str, str]:
    """Where this worker's part of so many pieces begins and ends."""
    let = code.let
    following = let("add i64 %worker, 1")
    low = let(f"udiv i64 {let(f'mul i64 {total}, %worker')}, %workers")
    return low, let(f"udiv i64 {let(f'mul i64 {total}, {following}')}, %workers")


def walk(name: str, code: Code) -> str:
    """The function that calls a kernel on its pieces."""
    body = "\n".join(code.lines)
    return (
        f"define internal void @{name}(ptr %args, i64 %worker, i64 %workers, ptr %kernel, "
        f"i64 %length) noinline {{\nentry:\n{body}\nret void\n}}\n"
    )
