"""Convolutions as kernels of our own: matrix products over windows that are never laid out.

For what cuDNN has no plan for, and where it is not installed. Each is a product of tiles, summed in
float32: forward of positions by maps, over taps and channels; its transpose of positions of the
image by channels, over taps and maps; by weights, at each tap, of maps by channels, over positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from adjoint.engine.backends.array.libraries.convolutions import DATA, FORWARD, WEIGHT
from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.launch_words import NAME, Written
from adjoint.engine.backends.triton.schedule import power_of_two
from adjoint.engine.compiler.memory.places import Place

DTYPES = {"float16", "bfloat16", "float32"}
ROWS, COLUMNS, DEPTH = 64, 64, 32  # of a tile; what is summed at once
LEAST = 16  # that tensor cores multiply
WARPS = 4
SMALL = 1 << 31  # elements that 32 bits count
Shape = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ConvolutionForm:
    """A convolution between images (N, G I, S...), weights (G O, I, K...), maps (N, G O, L...)."""

    image: Place
    weights: Place
    maps: Place
    stride: Shape
    padding: Pairs
    dilation: Shape
    groups: int
    tf32: bool

    @property
    def inputs(self) -> int:
        """Channels of a group."""
        return self.weights.shape[1]

    @property
    def outputs(self) -> int:
        """Maps of a group."""
        return self.weights.shape[0] // self.groups

    @property
    def taps(self) -> Shape:
        return self.weights.shape[2:]

    @property
    def kind(self) -> str:
        """The integers that count elements."""
        places = (self.image, self.weights, self.maps)
        spans = [
            1 + sum((n - 1) * abs(s) for n, s in zip(p.shape, p.strides, strict=True))
            for p in places
        ]
        return "tl.int64" if max(spans) >= SMALL else "tl.int32"


def tile(size: int, most: int) -> int:
    """The length of a tile along so many elements."""
    return max(LEAST, min(most, power_of_two(size)))


def dims(prefix: str, number: str, sizes: Shape) -> list[str]:
    """Lines that take a number apart into coordinates, the first the rest."""
    lines, rest = [], number
    for d in reversed(range(len(sizes))):
        lines.append(f"{prefix}{d} = {rest} % {sizes[d]}" if d else f"{prefix}0 = {rest}")
        rest = f"({rest} // {sizes[d]})"
    return lines


def at(place: Place, coordinates: list[str]) -> str:
    """The number of an element in memory."""
    return " + ".join(f"({c}) * {s}" for c, s in zip(coordinates, place.strides, strict=True))


def head(w: ConvolutionForm, kind: str) -> list[str]:
    """The beginning of a kernel: `a`, `b` and `c` are the operands and the result."""
    memory = memory_type(w.image.buffer.dtype.name)
    return [
        "@triton.jit",
        f"def {NAME}(words):",
        "    w = words.to(tl.pointer_type(tl.int64))",
        *(f"    {p} = tl.load(w + {i}).to(tl.pointer_type({memory}))" for i, p in enumerate("abc")),
        f"    first = tl.program_id(0).to({kind})",
        f"    second = tl.program_id(1).to({kind})",
    ]


def precision(w: ConvolutionForm) -> str:
    """How float32 is multiplied."""
    return '"tf32"' if w.tf32 else '"ieee"'


def positions_source(w: ConvolutionForm, which: str) -> tuple[str, tuple[int, int]]:
    """Forward or its transpose: a program for a tile of positions and channels of a group."""
    forward, kind, rank = which == FORWARD, w.kind, len(w.stride)
    source, out = (w.image, w.maps) if forward else (w.maps, w.image)
    depth, width = (w.inputs, w.outputs) if forward else (w.outputs, w.inputs)
    rows = out.shape[0] * prod(out.shape[2:])
    m, n, k = tile(rows, ROWS), tile(width, COLUMNS), tile(depth, DEPTH)
    columns = -(-width // n)
    lines = [
        f"i = first * {m} + tl.arange(0, {m})",
        f"known = i < {rows}",
        *dims("q", "i", (out.shape[0], *out.shape[2:])),
        f"group = second // {columns}",
        f"j = second % {columns} * {n} + tl.arange(0, {n})",
        f"total = tl.zeros(({m}, {n}), tl.float32)",
        f"for tap in range({prod(w.taps)}):",
    ]
    inner = [*dims("t", "tap", w.taps), "inside = known"]
    for d in range(rank):
        step, low, spread, size = w.stride[d], w.padding[d][0], w.dilation[d], source.shape[2 + d]
        if forward:
            inner.append(f"p{d} = q{d + 1} * {step} + t{d} * {spread} - {low}")
        else:
            inner += [
                f"u{d} = q{d + 1} + {low} - t{d} * {spread}",
                f"p{d} = u{d} // {step}",
                f"inside = inside & (u{d} >= 0) & (u{d} % {step} == 0)",
            ]
        inner.append(f"inside = inside & (p{d} >= 0) & (p{d} < {size})")
    read = at(source, ["q0", f"group * {depth}", *(f"p{d}" for d in range(rank))])
    taps = [f"t{d}" for d in range(rank)]
    into = ["group * {0} + j", "0"] if forward else ["group * {0}", "j"]
    weight = at(w.weights, [*(c.format(w.outputs) for c in into), *taps])
    along = w.weights.strides[1] if forward else w.weights.strides[0]
    inner += [
        f"row = {read}",
        f"column = {weight}",
        f"for base in range(0, {depth}, {k}):",
        f"    k = base + tl.arange(0, {k})",
        (
            f"    x = tl.load(a + row[:, None] + (k * {source.strides[1]})[None, :], "
            f"mask=inside[:, None] & (k < {depth})[None, :], other=0)"
        ),
        (
            f"    y = tl.load(b + column[None, :] + (k * {along})[:, None], "
            f"mask=(k < {depth})[:, None] & (j < {width})[None, :], other=0)"
        ),
        f"    total = tl.dot(x, y, total, input_precision={precision(w)})",
    ]
    lines += [f"    {line}" for line in inner]
    target = at(out, ["q0", "0", *(f"q{d + 1}" for d in range(rank))])
    memory = memory_type(out.buffer.dtype.name)
    lines += [
        f"place = ({target})[:, None] + ((group * {width} + j) * {out.strides[1]})[None, :]",
        f"fits = known[:, None] & (j < {width})[None, :]",
        f"tl.store(c + place, total.to({memory}), mask=fits)",
    ]
    text = "\n".join([*head(w, kind), *(f"    {line}" for line in lines)]) + "\n"
    return text, (-(-rows // m), columns * w.groups)


def weights_source(w: ConvolutionForm) -> tuple[str, tuple[int, int]]:
    """By weights: a program for a tile of maps and channels of a group, at one tap."""
    kind, rank = w.kind, len(w.stride)
    rows = w.maps.shape[0] * prod(w.maps.shape[2:])
    m, n, k = tile(w.outputs, ROWS), tile(w.inputs, COLUMNS), tile(rows, DEPTH)
    columns = -(-w.inputs // n)
    lines = [
        f"tap = second % {prod(w.taps)}",
        f"group = second // {prod(w.taps)}",
        *dims("t", "tap", w.taps),
        f"i = first // {columns} * {m} + tl.arange(0, {m})",
        f"j = first % {columns} * {n} + tl.arange(0, {n})",
        f"total = tl.zeros(({m}, {n}), tl.float32)",
        f"for base in range(0, {rows}, {k}):",
    ]
    inner = [
        f"k = (base + tl.arange(0, {k})).to({kind})",
        f"known = k < {rows}",
        *dims("q", "k", (w.maps.shape[0], *w.maps.shape[2:])),
        "inside = known",
    ]
    for d in range(rank):
        step, low, spread = w.stride[d], w.padding[d][0], w.dilation[d]
        inner += [
            f"p{d} = q{d + 1} * {step} + t{d} * {spread} - {low}",
            f"inside = inside & (p{d} >= 0) & (p{d} < {w.image.shape[2 + d]})",
        ]
    seen = at(w.maps, ["q0", f"group * {w.outputs}", *(f"q{d + 1}" for d in range(rank))])
    read = at(w.image, ["q0", f"group * {w.inputs}", *(f"p{d}" for d in range(rank))])
    inner += [
        f"along = {seen}",
        f"down = {read}",
        (
            f"x = tl.load(b + (i * {w.maps.strides[1]})[:, None] + along[None, :], "
            f"mask=(i < {w.outputs})[:, None] & known[None, :], other=0)"
        ),
        (
            f"y = tl.load(a + down[:, None] + (j * {w.image.strides[1]})[None, :], "
            f"mask=inside[:, None] & (j < {w.inputs})[None, :], other=0)"
        ),
        f"total = tl.dot(x, y, total, input_precision={precision(w)})",
    ]
    lines += [f"    {line}" for line in inner]
    row, column, *steps = w.weights.strides
    shift = " + ".join(f"t{d} * {s}" for d, s in enumerate(steps))
    memory = memory_type(w.weights.buffer.dtype.name)
    lines += [
        f"place = ((group * {w.outputs} + i) * {row} + {shift})[:, None] + (j * {column})[None, :]",
        f"fits = (i < {w.outputs})[:, None] & (j < {w.inputs})[None, :]",
        f"tl.store(c + place, total.to({memory}), mask=fits)",
    ]
    text = "\n".join([*head(w, kind), *(f"    {line}" for line in lines)]) + "\n"
    return text, (-(-w.outputs // m) * columns, w.groups * prod(w.taps))


def written(w: ConvolutionForm, which: str) -> Written:
    """The kernel of one of the three."""
    source = weights_source(w) if which == WEIGHT else positions_source(w, which)
    text, grid = source
    return Written(text, grid, WARPS, which, stages=3, fused=True)


__all__ = ["DATA", "DTYPES", "FORWARD", "WEIGHT", "ConvolutionForm", "written"]
