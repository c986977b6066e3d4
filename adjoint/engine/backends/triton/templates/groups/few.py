"""A few rows times a weight in groups: what counts is to read the weight once, as fast as can be.

A program has some outputs; its threads go along their rows of the weight, a word each. Rows of the
input are read word by word as well, and serve all outputs of the program. All is summed in float32.
"""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.templates.groups.form import OUT, GroupedRows, X
from adjoint.engine.backends.triton.templates.lines import pointer

MOST = 4  # rows
LANES = 32  # threads of a warp
HALF = 16  # bits of a word below which numbers need no shift


@dataclass(frozen=True, slots=True)
class FewWay:
    """Outputs of a program, its warps, and words of a row that a thread has under way."""

    outputs: int
    warps: int
    deep: int


def ways(form: GroupedRows, outputs: int) -> list[FewWay]:
    """The ways worth trying, the likeliest first."""
    return [FewWay(8, 4, 1), FewWay(4, 4, 2), FewWay(4, 8, 1), FewWay(16, 4, 1)]


def word_bytes(form: GroupedRows) -> int:
    """Bytes of the weight that are read at once: those of a word are of one group."""
    whole = form.aligned[1] % 4 == 0 and form.group % (32 // form.bits) == 0
    return 4 if whole else 1


def few_lines(form: GroupedRows, way: FewWay, rows: int) -> list[str]:
    """The kernel, for so many rows."""
    size = word_bytes(form)
    each = 8 * size // form.bits  # numbers of a word
    words = form.bytes // size
    wide = LANES * way.warps * way.deep
    mask = "" if words % wide == 0 else f", mask=at < {words}, other=0"
    lines = [
        # Not said to be aligned: words, not vectors of them, give neighbours to neighbours, as the
        # loads of rows do, so that nothing moves between threads.
        *form.start("tl.int32" if size == 4 else "tl.uint8", hinted=False),
        f"out = {pointer(OUT, memory_type(form.dtype))}",
        f"first = tl.program_id(0).to(tl.int64) * {way.outputs}",
        f"left = tl.minimum(n - first, {way.outputs}).to(tl.int32)",
        f"j = tl.arange(0, {way.outputs})",
        "line = tl.minimum(j, left - 1)[:, None]",
        f"weight += first * {words}",
        f"scale += first * {form.count}",
        *([f"zero += first * {form.count}"] if form.zero else []),
        *(f"total{r} = tl.zeros(({way.outputs}, {wide}), tl.float32)" for r in range(rows)),
        f"for base in range(0, {words}, {wide}):",
    ]
    lines += [f"    {line}" for line in along_lines(form, each, words, wide, size, rows, mask)]
    for r in range(rows):
        lines += [f"sum{r} = tl.sum(total{r}, 1)"]
        if form.bias:
            bias = "tl.load(bias + first + j, mask=j < left, other=0).to(tl.float32)"
            lines += [f"sum{r} += {bias}"]
        place = f"out + {r} * n + first + j"
        lines += [f"tl.store({place}, sum{r}.to({memory_type(form.dtype)}), mask=j < left)"]
    return lines


def along_lines(
    form: GroupedRows, each: int, words: int, wide: int, size: int, rows: int, mask: str
) -> list[str]:
    """What a stretch of words adds to the totals."""
    per = min(each, HALF // form.bits)  # numbers that need no shift
    factors = [1 << (form.bits * k) for k in range(per)]
    flip = {(8, 4): " ^ -2139062144", (8, 1): " ^ 128"}.get((form.bits, size), "")
    group = "0" if form.count == 1 else f"at * {each} // {form.group}"
    lines = [
        f"at = base + tl.arange(0, {wide})[None, :]",
        f"bits0 = tl.load(weight + line * {words} + at{mask}).to(tl.int32){flip}",
        *(["bits1 = bits0 >> 16"] if each > per else []),
        f"group = line * {form.count} + {group}",
        f"factor = tl.load(scale + group{mask}).to(tl.float32)",
        *form.zero_lines(f"tl.load(zero + group{mask})", factors),
        *(
            f"number{i} = {form.number(bits_of(form, i, per), i % per, factors[i % per])}"
            for i in range(each)
        ),
    ]
    for r in range(rows):
        lines += row_lines(form, each, r, mask)
        for i in range(each):
            factor = "" if i % per == 0 else f" * {1 / factors[i % per]!r}"
            if i == 0:
                lines.append("part = number0 * x0")
            else:
                lines.append(f"part = tl.fma(number{i}, x{i}{factor}, part)")
        lines.append(f"total{r} = tl.fma(part, factor, total{r})")
    return lines


def bits_of(form: GroupedRows, i: int, per: int) -> str:
    """The bits of a number of a word, where they are in it or in its upper half."""
    mask = ((1 << form.bits) - 1) << (form.bits * (i % per))
    return f"bits{i // per} & {mask}"


def row_lines(form: GroupedRows, each: int, r: int, mask: str) -> list[str]:
    """`x0`, `x1`, ...: the elements of a row that the numbers of a word are multiplied with."""
    place = f"{r * form.step} + at * {each}"
    if each % 2 or form.dtype == "float32" or form.aligned[0] % 4:
        return [f"x{i} = tl.load(x + {place} + {i}{mask}).to(tl.float32)" for i in range(each)]
    lines = [f"pairs = {pointer(X, 'tl.int32')} + {r * form.step // 2} + at * {each // 2}"]
    for p in range(each // 2):
        low, high = f"x{2 * p}", f"x{2 * p + 1}"
        lines.append(f"pair = tl.load(pairs + {p}{mask})")
        if form.dtype == "bfloat16":
            lines += [
                f"{low} = (pair << 16).to(tl.float32, bitcast=True)",
                f"{high} = (pair & -65536).to(tl.float32, bitcast=True)",
            ]
        else:
            half = "to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)"
            lines += [f"{low} = pair.{half}", f"{high} = (pair >> 16).{half}"]
    return lines
