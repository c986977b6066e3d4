"""The template of mean and variance in one pass: of each channel, or of groups of channels of each
sample.

Each lane of a program has a running mean and sum of squared differences of the rows it sees
(Welford, 1962); lanes are joined at the end of a part, parts and the channels of a group by a
second kernel (Chan et al., 1979), always in the same order. Nothing is subtracted that is much
larger than what remains.

Where channels lie apart, tiles are rows of some samples, and a part has counted what it has seen:
to divide each element's place by the size of an image took four times as long as to read it.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.launch_words import ALIGN, NAME, Written, is_aligned
from adjoint.engine.backends.triton.schedule import PROCESSORS, power_of_two
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import ARENA, OWN, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.dtype import float32
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import Extent, common_divisor
from adjoint.engine.ops.nn.normalization import MOMENTS

DTYPES = {"float16", "bfloat16", "float32"}
TILE, WARPS, STAGES = 2048, 4, 4
COLUMNS = 64  # channels of a tile where those lie side by side
ROW = 32  # positions of a channel that lie in a row, from which on tiles are of rows
ROW_TILES = (2048, 1024, 512)  # positions of a tile
WAVES = 8  # programs for each processor
PARTS = 512  # at most: the second kernel has all of a channel's at once
FEW_PARTS, JOINED = 64, 4096  # for which it is written too; parts of a tile of it
LONG = 1 << 16  # elements of an image that is worth two launches
LONG_GROUP = 1 << 12  # elements of a group; fewer are one row of a loop
MANY = 256  # channels of a group
JOINING = "moments of parts"
SMALL = 1 << 31  # elements that 32 bits count


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Large images, over all dimensions but that of channels, or those of samples and groups."""
    x = inputs[0]
    if not isinstance(x, Value) or x.host or x.spec.device.type != setting.target.device:
        return False
    shape, dims = x.spec.shape, node.params["dims"]
    of_channels = len(shape) > 1 and dims == (0, *range(2, len(shape)))
    of_groups = (
        len(shape) > 3
        and dims == tuple(range(2, len(shape)))
        and prod(shape[2:]) >= LONG_GROUP
        and shape[2] <= MANY
    )
    return x.spec.dtype.name in DTYPES and (of_channels or of_groups) and prod(shape) >= LONG


def nothing_packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """The operand may lie anyhow."""
    return set()


class ImageParts:
    """How images are cut into tiles and parts: samples that are normalised apart (or one), channels
    of which so many make up a group (or one), and rows of a sample, the positions."""

    def __init__(self, x: Place, grouped: bool) -> None:
        self.samples, self.apart = (x.shape[0], x.strides[0]) if grouped else (1, 0)
        self.group = x.shape[2] if grouped else 1
        self.channels = x.shape[1] * self.group
        self.step = x.strides[2] if grouped and self.group > 1 else x.strides[1] // self.group
        rows = range(3, len(x.shape)) if grouped else (0, *range(2, len(x.shape)))
        self.sizes, self.strides = merged([(x.shape[d], x.strides[d]) for d in rows])
        self.count = prod(self.sizes)
        self.columns = min(COLUMNS, power_of_two(self.channels)) if self.step == 1 else 1
        self.rows = TILE // self.columns
        self.across = -(-self.channels // self.columns)
        tiles = -(-self.count // self.rows)
        programs = WAVES * PROCESSORS // (self.across * self.samples)
        wanted = max(1, min(PARTS // self.group, programs, tiles))
        self.steps = -(-tiles // wanted)  # tiles of a part
        self.parts = -(-tiles // self.steps)
        self.grid = (self.across * self.samples, self.parts)


def merged(dims: list[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes and strides of as few dimensions, in the same order: each of whose elements are a
    constant step apart."""
    found: list[tuple[int, int]] = []
    for n, s in dims:
        if n == 1:
            continue
        if found and found[-1][1] == n * s:
            n *= found.pop()[0]
        found.append((n, s))
    return tuple([n for n, _ in found]), tuple([s for _, s in found])


def lies_by_channels(x: Place) -> bool:
    """Whether the channels of all groups are one dimension."""
    return 1 in x.shape[1:3] or x.strides[1] == x.shape[2] * x.strides[2]


def with_groups_in_runs(x: Place) -> Place:
    """Groups whose elements lie at one constant step, as groups of one channel of so many rows."""
    step, length = 1, 1
    for n, stride in zip(x.shape[:1:-1], x.strides[:1:-1], strict=True):
        if n == 1:
            continue
        if length == 1:
            step = stride
        elif stride != step * length:
            return x
        length *= n
    return Place(x.buffer, (*x.shape[:2], 1, length), (*x.strides[:2], 1, step), x.offset)


class RowParts:
    """How images are cut whose channels lie apart, so that no element's place takes a division: a
    tile is so many positions, side by side, of so many samples, and a part so many tiles."""

    samples = group = 1  # of what is normalised apart
    rows = TILE  # elements of a tile

    def __init__(self, x: Place, positions: int) -> None:
        self.images, self.channels, self.positions = x.shape[0], x.shape[1], positions
        self.between, self.step = x.strides[:2]
        self.count = self.images * positions
        taken = {n: -(-positions // n) * n for n in ROW_TILES}
        row = min(ROW_TILES, key=lambda n: (taken[n], -n))
        self.row = row if row < positions else power_of_two(positions)
        self.beside = min(TILE // self.row, power_of_two(self.images))
        self.across = -(-positions // self.row)
        tiles = self.across * -(-self.images // self.beside)
        wanted = max(1, min(PARTS, WAVES * PROCESSORS // self.channels, tiles))
        self.steps = -(-tiles // wanted)
        self.parts = -(-tiles // self.steps)
        self.grid = (self.channels, self.parts)


def row_parts(x: Place) -> RowParts | None:
    """Such parts of images each of whose channels lies in rows; None of others."""
    sizes, strides = merged([(x.shape[d], x.strides[d]) for d in range(2, len(x.shape))])
    if len(sizes) != 1 or strides[0] != 1 or sizes[0] < ROW or x.shape[0] < 2:
        return None
    return RowParts(x, sizes[0])


class TextNumbers:
    """Numbers of a kernel: where sizes are known they are in its text, in eager mode they are words
    behind its addresses, so that few kernels serve images of all sizes."""

    def __init__(self, addresses: int, is_open: bool, kind: str = "tl.int32") -> None:
        self.addresses, self.is_open, self.kind = addresses, is_open, kind
        self.words: list[int] = []
        self.lines: list[str] = []  # that load them

    def __call__(self, name: str, value: int, even: int = 1) -> str:
        """The text of a number; `even` is what it is said to be a multiple of at most."""
        if not self.is_open:
            return str(value)
        text = f"tl.load(w + {self.addresses + len(self.words)}).to({self.kind})"
        known: Any = common_divisor(value, even)
        if isinstance(known, Extent):
            known = known.pin()
        self.words.append(value)
        if known != 1:
            text = f"tl.multiple_of({text}, {known})"
        self.lines.append(f"    n_{name} = {text}")
        return f"n_{name}"


def place_of_row(cut: ImageParts, told: TextNumbers, even: int) -> str:
    """Where row `r` begins; nothing is divided where all rows are a constant step apart."""
    if not cut.sizes:
        return "r * 0"
    if len(cut.sizes) == 1:
        return f"r * {told('along', cut.strides[0], even)}"
    terms, rest = [], "r"
    for n, s in reversed([*zip(cut.sizes, cut.strides, strict=True)][1:]):
        terms.append(f"({rest} % {n}) * {s}")
        rest = f"({rest} // {n})"
    return " + ".join([*terms, f"{rest} * {cut.strides[0]}"])


def parts_source(x: Place, cut: ImageParts, aligned: bool, is_open: bool) -> tuple[str, list[int]]:
    """The first kernel: a mean and a sum of squares for each sample, part and channel; and those of
    its numbers that are words."""
    reach = 1 + sum((n - 1) * abs(s) for n, s in zip(x.shape, x.strides, strict=True))
    reach += cut.rows * cut.steps * max([1, *map(abs, cut.strides)])  # rows that are not there
    kind = "tl.int64" if reach >= SMALL else "tl.int32"
    told, even = TextNumbers(3, is_open, kind), ALIGN // x.buffer.dtype.itemsize
    across, channels = told("across", cut.across), told("channels", cut.channels, even)
    length, size = told("length", cut.rows * cut.steps, cut.rows), told("size", cut.count)
    tiles, parts = told("tiles", cut.steps), told("parts", cut.parts)
    sample = f"sample * {told('apart', cut.apart, even)} + " if cut.samples > 1 else ""
    at = sample + place_of_row(cut, told, even)
    at += " + c" if cut.step == 1 else f" + c * {told('beside', cut.step, even)}"
    whole_parts = not is_open and cut.count % (cut.rows * cut.steps) == 0
    pointer = f"tl.load(w + 0).to(tl.pointer_type({memory_type(x.buffer.dtype.name)}))"
    lines = [
        "@triton.jit",
        f"def {NAME}(words):",
        "    w = words.to(tl.pointer_type(tl.int64))",
        *told.lines,
        f"    x = tl.multiple_of({pointer}, {ALIGN})" if aligned else f"    x = {pointer}",
        "    means = tl.load(w + 1).to(tl.pointer_type(tl.float32))",
        "    squares = tl.load(w + 2).to(tl.pointer_type(tl.float32))",
        f"    part = tl.program_id(1).to({kind})",
        f"    sample = (tl.program_id(0) // {across}).to({kind})",
        f"    block = tl.program_id(0) % {across}",
        f"    c = block * {cut.columns} + tl.arange(0, {cut.columns})[None, :]",
        f"    inside = c < {channels}",
        f"    begin = part * {length}",
        f"    end = tl.minimum(begin + {length}, {size})",
        f"    mean = tl.zeros(({cut.rows}, {cut.columns}), tl.float32)",
        f"    square = tl.zeros(({cut.rows}, {cut.columns}), tl.float32)",
        f"    for step in tl.range(0, {tiles}, num_stages={STAGES}):",
        f"        r = begin + step * {cut.rows} + tl.arange(0, {cut.rows})[:, None]",
        f"        here = inside{'' if whole_parts else ' & (r < end)'}",
        f"        v = tl.load(x + ({at}), mask=here, other=0).to(tl.float32)",
        "        apart = v - mean",
        "        moved = mean + apart / (step + 1)",
        "        more = square + apart * (v - moved)",
        "        mean = tl.where(here, moved, mean)",
        "        square = tl.where(here, more, square)",
        # How many rows each lane has seen.
        f"    lane = tl.arange(0, {cut.rows})[:, None]",
        f"    seen = ((end - begin - lane + {cut.rows - 1}) // {cut.rows}).to(tl.float32)",
        "    count = (end - begin).to(tl.float32)",
        "    middle = tl.sum(mean * seen, 0, keep_dims=True) / count",
        "    total = tl.sum(square + (mean - middle) * (mean - middle) * seen, 0, keep_dims=True)",
        f"    to = (sample * {parts} + part) * {channels} + c",
        "    tl.store(means + to, middle, mask=inside)",
        "    tl.store(squares + to, total, mask=inside)",
    ]
    return "\n".join(lines) + "\n", told.words


def row_parts_source(
    x: Place, cut: RowParts, aligned: bool, is_open: bool
) -> tuple[str, list[int]]:
    """The first kernel of such parts, which also says how many elements each has."""
    reach = 1 + sum((n - 1) * abs(s) for n, s in zip(x.shape, x.strides, strict=True))
    reach += cut.beside * abs(cut.between) + cut.row  # what is not there
    kind = "tl.int64" if reach >= SMALL else "tl.int32"
    told, even = TextNumbers(4, is_open, kind), ALIGN // x.buffer.dtype.itemsize
    across, tiles = told("across", cut.across), told("tiles", cut.steps)
    images, positions = told("images", cut.images), told("positions", cut.positions, even)
    between, step = told("between", cut.between, even), told("step", cut.step, even)
    pointer = f"tl.load(w + 0).to(tl.pointer_type({memory_type(x.buffer.dtype.name)}))"
    tile = f"({cut.beside}, {cut.row})"
    lines = [
        "@triton.jit",
        f"def {NAME}(words):",
        "    w = words.to(tl.pointer_type(tl.int64))",
        *told.lines,
        f"    x = tl.multiple_of({pointer}, {ALIGN})" if aligned else f"    x = {pointer}",
        "    means = tl.load(w + 1).to(tl.pointer_type(tl.float32))",
        "    squares = tl.load(w + 2).to(tl.pointer_type(tl.float32))",
        "    counts = tl.load(w + 3).to(tl.pointer_type(tl.float32))",
        f"    c = tl.program_id(0).to({kind})",
        f"    part = tl.program_id(1).to({kind})",
        f"    mean = tl.zeros({tile}, tl.float32)",
        f"    square = tl.zeros({tile}, tl.float32)",
        f"    seen = tl.zeros({tile}, tl.float32)",
        f"    for step in tl.range(0, {tiles}, num_stages={STAGES}):",
        f"        tile = part * {tiles} + step",
        f"        image = tile // {across} * {cut.beside} + tl.arange(0, {cut.beside})[:, None]",
        f"        r = tile % {across} * {cut.row} + tl.arange(0, {cut.row})[None, :]",
        f"        here = (image < {images}) & (r < {positions})",
        f"        at = image * {between} + c * {step} + r",
        "        v = tl.load(x + at, mask=here, other=0).to(tl.float32)",
        "        seen = tl.where(here, seen + 1, seen)",
        "        apart = v - mean",
        "        moved = mean + apart / tl.maximum(seen, 1)",
        "        more = square + apart * (v - moved)",
        "        mean = tl.where(here, moved, mean)",
        "        square = tl.where(here, more, square)",
        "    count = tl.sum(tl.sum(seen, 1), 0)",
        "    middle = tl.sum(tl.sum(mean * seen, 1), 0) / count",
        "    total = tl.sum(tl.sum(square + (mean - middle) * (mean - middle) * seen, 1), 0)",
        "    to = part * tl.num_programs(0) + c",
        "    tl.store(means + to, middle)",
        "    tl.store(squares + to, total)",
        "    tl.store(counts + to, count)",
    ]
    return "\n".join(lines) + "\n", told.words


def joined_source(cut: ImageParts | RowParts, is_open: bool) -> tuple[str, int, list[int]]:
    """The second kernel, of so many groups a program; and those of its numbers that are words."""
    groups, length = cut.channels // cut.group, cut.rows * cut.steps
    joined = FEW_PARTS if cut.parts * cut.group <= FEW_PARTS else PARTS
    columns = max(1, min(power_of_two(cut.samples * groups), JOINED // joined))
    kind = "tl.int64" if cut.parts * length * cut.group >= SMALL else "tl.int32"
    counted = isinstance(cut, RowParts)
    out = 3 if counted else 2  # the word of the first result
    told = TextNumbers(out + 2, is_open, kind)
    every, parts = told("every", cut.samples * groups), told("parts", cut.parts)
    channels, size = told("channels", cut.channels), told("size", cut.count)
    tall, total = told("length", length), told("number", cut.count * cut.group)
    number = f"{total}.to(tl.float32)" if is_open else f"tl.full((), {total}, tl.float32)"
    part, first = "each", "g"
    if cut.samples > 1 or cut.group > 1:
        own, group = told("own", groups), told("group", cut.group)
        part = f"each // {group}"
        first = f"g // {own} * {told('apart', cut.parts * cut.channels)} + g % {own} * {group}"
        first += f" + each % {group}"
    lines = [
        "@triton.jit",
        f"def {NAME}(words):",
        "    w = words.to(tl.pointer_type(tl.int64))",
        *told.lines,
        "    means = tl.load(w + 0).to(tl.pointer_type(tl.float32))",
        "    squares = tl.load(w + 1).to(tl.pointer_type(tl.float32))",
        f"    g = tl.program_id(0) * {columns} + tl.arange(0, {columns})[None, :]",
        f"    each = tl.arange(0, {joined})[:, None]",
        f"    part = {part}",
        f"    known = g < {every}",
        f"    inside = known & (part < {parts})",
        f"    at = {first} + part * {channels}",
        "    mean = tl.load(means + at, mask=inside, other=0)",
        "    square = tl.load(squares + at, mask=inside, other=0)",
        *(
            [
                "    counts = tl.load(w + 2).to(tl.pointer_type(tl.float32))",
                "    seen = tl.load(counts + at, mask=inside, other=0)",
            ]
            if counted
            else [
                f"    left = {size} - part * {tall}",
                f"    seen = tl.maximum(tl.minimum(left, {tall}), 0).to(tl.float32)",
            ]
        ),
        f"    number = {number}",
        "    middle = tl.sum(mean * seen, 0, keep_dims=True) / number",
        "    apart = tl.where(inside, mean - middle, 0)",
        "    total = tl.sum(square + apart * apart * seen, 0, keep_dims=True)",
        f"    tl.store(tl.load(w + {out}).to(tl.pointer_type(tl.float32)) + g, middle, mask=known)",
        "    total = total / number",
        f"    variances = tl.load(w + {out + 1}).to(tl.pointer_type(tl.float32))",
        "    tl.store(variances + g, total, mask=known)",
    ]
    return "\n".join(lines) + "\n", columns, told.words


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """Two launches: parts, then all of them."""
    x, outs, copies = operands[0], [], []
    for out in results:
        place = out
        if out.buffer.kind not in OWN or not out.contiguous:
            room = PlannedBuffer(ARENA, out.buffer.dtype, prod(out.shape), name="moments")
            place = row_major(room, out.shape)
            copies.append(copy_step(setting.target, place, out, MOMENTS.name))
        outs.append(place)
    grouped = node.params["dims"][0] != 0
    x = with_groups_in_runs(x) if grouped else x
    if grouped and not lies_by_channels(x):
        place = row_major(
            PlannedBuffer(ARENA, x.buffer.dtype, prod(x.shape), name="grouped"), x.shape
        )
        copied = copy_step(setting.target, x, place, MOMENTS.name)
        return [copied, *steps(setting, node, [place], results)]
    rows = None if grouped else row_parts(x)
    cut = ImageParts(x, grouped) if rows is None else rows
    shape = (cut.samples * cut.parts, cut.channels)
    partial = [
        row_major(PlannedBuffer(ARENA, float32, prod(shape), name="parts"), shape)
        for _ in ("means", "squares", "counts")[: 2 if rows is None else 3]
    ]
    is_open, aligned = not setting.target.sized, is_aligned(setting.target, x)
    if isinstance(cut, RowParts):
        source, numbers = row_parts_source(x, cut, aligned, is_open)
    else:
        source, numbers = parts_source(x, cut, aligned, is_open)
    first = launch(Written(source, cut.grid, WARPS, MOMENTS.name), [x], partial, numbers)
    first.label = sized(MOMENTS.name, cut.count, cut.channels)
    joined, columns, numbers = joined_source(cut, is_open)
    grid = (-(-cut.samples * cut.channels // cut.group // columns), 1)
    last = launch(Written(joined, grid, WARPS, JOINING), partial, outs, numbers)
    return [first, last, *copies]


def launch(text: Written, reads: list[Place], writes: list[Place], numbers: list[int]) -> Launch:
    """A launch of one of the kernels."""
    places = (*reads, *writes)
    return Launch(
        function=f"moments{digest(text.source)}",
        text=text,
        words=[*[Address(p.buffer, p.offset * p.buffer.dtype.itemsize) for p in places], *numbers],
        reads=tuple(whole(p.buffer) for p in reads),
        writes=tuple(whole(p.buffer) for p in writes),
        pieces=prod(text.grid),
        cost=4 * prod(reads[0].shape),
        label=JOINING,
    )


def writes_to(place: Place) -> bool:
    """Places that the second kernel writes to."""
    return place.contiguous


TEMPLATES = {MOMENTS.name: Template(accepts, nothing_packed, steps, writes_to=writes_to)}
