"""A few rows times a weight in groups: what counts is to read the weight once, as fast as can be.

A program has some outputs; its threads go along their rows of the weight, a word each. Rows of the
input are read word by word as well, and serve all outputs of the program. All is summed in float32,
zero points being multiplied with the sum of a word's elements, which all outputs share: to take
them off every number took twice the time.
"""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.templates.groups.form import OUT, GroupedRows, X
from adjoint.engine.backends.triton.templates.lines import pointer

MOST = 2  # rows
LANES = 32  # threads of a warp
HALF = 16  # bits of a word below which numbers need no shift


@dataclass(frozen=True, slots=True)
class FewWay:
    """Outputs of a program, its warps, and words of a row that a thread has under way."""

    outputs: int
    warps: int
    deep: int
    word: int = 4  # bytes that a thread loads at once, at most


def ways() -> list[FewWay]:
    """The ways worth trying, the likeliest first."""
    return [FewWay(4, 4, 1, 8), FewWay(4, 4, 2)]


def word_bytes(form: GroupedRows, most: int) -> int:
    """Bytes of the weight that are read at once: those of a word are of one group."""
    return next(
        size
        for size in (8, 4, 1)
        if size <= most and form.aligned[1] % size == 0 and form.group * form.bits % (8 * size) == 0
    )


def few_lines(form: GroupedRows, way: FewWay, rows: int) -> list[str]:
    """The kernel, for so many rows."""
    size = word_bytes(form, way.word)
    words = form.bytes // size
    wide = LANES * way.warps * way.deep
    mask = "" if words % wide == 0 else f", mask=at < {words}, other=0"
    lines = [
        # Not said to be aligned: words, not vectors of them, give neighbours to neighbours, as the
        # loads of rows do, so that nothing moves between threads.
        *form.start({8: "tl.int64", 4: "tl.int32", 1: "tl.uint8"}[size], hinted=False),
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
        *(f"    {line}" for line in along_lines(form, size, wide, rows, mask)),
    ]
    for r in range(rows):
        lines += [f"sum{r} = tl.sum(total{r}, 1)"]
        if form.bias:
            bias = "tl.load(bias + first + j, mask=j < left, other=0).to(tl.float32)"
            lines += [f"sum{r} += {bias}"]
        place = f"out + {r} * n + first + j"
        lines += [f"tl.store({place}, sum{r}.to({memory_type(form.dtype)}), mask=j < left)"]
    return lines


def along_lines(form: GroupedRows, size: int, wide: int, rows: int, mask: str) -> list[str]:
    """What a stretch of words adds to the totals."""
    each = 8 * size // form.bits  # numbers of a word
    per = min(each, HALF // form.bits)  # of those, that need no shift
    factors = [1 << (form.bits * k) for k in range(per)]
    group = "0" if form.count == 1 else f"at * {each} // {form.group}"
    lines = [
        f"at = base + tl.arange(0, {wide})[None, :]",
        f"word = tl.load(weight + line * {form.bytes // size} + at{mask})",
        *halves_of(form, size),
        f"group = line * {form.count} + {group}",
        f"factor = tl.load(scale + group{mask}).to(tl.float32)",
        *([f"points = tl.load(zero + group{mask}).to(tl.float32)"] if form.zero else []),
    ]
    numbers = [form.number(bits_of(form, i, per), factors[i % per]) for i in range(each)]
    lines += [f"number{i} = {number}" for i, number in enumerate(numbers)]
    for r in range(rows):
        lines += row_lines(form, each, r, mask)
        if form.zero:
            lines.append(f"sum_of_word = {' + '.join(f'x{i}' for i in range(each))}")
        for i in range(each):
            scaled = f"x{i} * {1 / factors[i % per]!r}" if i % per else f"x{i}"
            part = f"tl.fma(number{i}, {scaled}, part)" if i else f"number{i} * {scaled}"
            lines.append(f"part = {part}")
        if form.zero:
            lines.append("part = tl.fma(-points, sum_of_word, part)")
        lines.append(f"total{r} = tl.fma(part, factor, total{r})")
    return lines


def halves_of(form: GroupedRows, size: int) -> list[str]:
    """`bits0`, `bits1`, ...: 16 bits of a word after another, in the lower halves of 32."""
    flip = {4: " ^ -2139062144", 1: " ^ 128"}[min(size, 4)] if form.bits == 8 else ""
    if size == 1:
        return [f"bits0 = word.to(tl.int32){flip}"]
    lines = [f"bits0 = word.to(tl.int32){flip}", "bits1 = bits0 >> 16"]
    if size == 8:
        lines += [f"bits2 = (word >> 32).to(tl.int32){flip}", "bits3 = bits2 >> 16"]
    return lines


def bits_of(form: GroupedRows, i: int, per: int) -> str:
    """The bits of a number of a word, where they are in it or in its upper half."""
    mask = ((1 << form.bits) - 1) << (form.bits * (i % per))
    return f"bits{i // per} & {mask}"


def row_lines(form: GroupedRows, each: int, r: int, mask: str) -> list[str]:
    """`x0`, `x1`, ...: the elements of a row that the numbers of a word are multiplied with."""
    if form.dtype == "float32" or each % 2 or form.aligned[0] % 4:
        place = f"x + {r * form.step} + at * {each}"
        return [f"x{i} = tl.load({place} + {i}{mask}).to(tl.float32)" for i in range(each)]
    lines: list[str] = []
    if each % 4 or form.aligned[0] % 8:
        pairs = f"{pointer(X, 'tl.int32')} + {r * form.step // 2} + at * {each // 2}"
        lines += [f"pair{p} = tl.load({pairs} + {p}{mask})" for p in range(each // 2)]
    else:
        fours = f"{pointer(X, 'tl.int64')} + {r * form.step // 4} + at * {each // 4}"
        for p in range(each // 4):
            lines += [
                f"four = tl.load({fours} + {p}{mask})",
                f"pair{2 * p} = four.to(tl.int32)",
                f"pair{2 * p + 1} = (four >> 32).to(tl.int32)",
            ]
    for p in range(each // 2):
        low, high = f"x{2 * p}", f"x{2 * p + 1}"
        if form.dtype == "bfloat16":
            lines += [
                f"{low} = (pair{p} << 16).to(tl.float32, bitcast=True)",
                f"{high} = (pair{p} & -65536).to(tl.float32, bitcast=True)",
            ]
        else:
            half = "to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)"
            lines += [f"{low} = pair{p}.{half}", f"{high} = (pair{p} >> 16).{half}"]
    return lines
