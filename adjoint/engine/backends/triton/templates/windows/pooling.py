"""The templates of max pooling: the largest of each window, and backward its gradient.

Forward, an element of the result looks at the taps of its window. Backward, an element of the
image looks at the windows that it is in, and takes what those say whose largest element it is: so
nobody adds to what another program writes, and the order of sums is always the same.

Note [taps]
    Where nothing but its gradient reads where the largest elements are, that is told as the number
    of a tap in its window, a byte, instead of a place in the image (`with_taps`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.launch_words import ALIGN, NAME, Written, is_aligned
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import ARENA, OWN, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.schedule.steps import Address, Launch, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.dtype import uint8
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.ops.image.pooling import MAX_POOL, MAX_POOL_BACKWARD
from adjoint.engine.ops.image.resample import Rule, inside

FLOATS = {"float16", "bfloat16", "float32", "float64"}
BLOCK, WARPS = 1024, 4
MOST = 128  # taps of a window, or windows of an element
UNROLLED = 32  # taps that are written out: 121 of them took 35 seconds to compile
ROW = 16  # taps of a row that are, in a loop over rows: so many loads are under way at once
LEAST, PROGRAMS = 128, 264  # of a block, where there would be fewer programs: two a processor
SMALL = 1 << 31  # elements that 32 bits count


def taps(rule: Rule) -> int:
    """How many places along a dimension a window has at most."""
    return rule[3] if rule[0] == "window" else -(-rule[1] // rule[2]) + 1


def covers(rule: Rule) -> int:
    """How many windows along a dimension an element can be in."""
    if rule[0] == "adaptive":
        return -(-rule[2] // rule[1]) + 1
    _, _, _, extent, step, _, dilation = rule
    return -(-((extent - 1) * dilation + 1) // step)


def accepts(count: Callable[[Rule], int]) -> Callable[[Setting, Node, tuple[Any, ...]], bool]:
    """Floats on the device, of windows that are written out."""

    def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
        return (
            all(isinstance(x, Value) and not x.host for x in inputs)
            and fits(inputs[0].spec, setting.target.device)
            and is_written(node, count)
        )

    return accepts


def fits(spec: Spec, device: str) -> bool:
    """Whether a tensor is one of floats on the device."""
    return spec.dtype.name in FLOATS and spec.device.type == device and 0 not in spec.shape


def is_written(node: Node, count: Callable[[Rule], int]) -> bool:
    """Whether windows are few enough to be written out, and all of them inside."""
    windows = node.params["windows"]
    return prod(map(count, windows)) <= MOST and all(map(inside, windows))


def nothing_packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands may lie anyhow."""
    return set()


class Walk:
    """A kernel's lines: what goes through all elements of a result, in the order they lie in."""

    def __init__(
        self,
        out: Place,
        places: list[Place],
        aligned: list[bool],
        block: int = BLOCK,
        kind: str = "",  # what elements are moved as; else they are what they are
    ) -> None:
        self.size, self.block = prod(out.shape), block
        wide = max(map(span, (out, *places))) >= SMALL
        self.kind = "tl.int64" if wide else "tl.int32"
        self.lines = [
            "@triton.jit",
            f"def {NAME}(words):",
            "    w = words.to(tl.pointer_type(tl.int64))",
        ]
        for i, (place, fine) in enumerate(zip(places, aligned, strict=True)):
            of = kind or memory_type(place.buffer.dtype.name)
            pointer = f"tl.load(w + {i}).to(tl.pointer_type({of}))"
            self.lines.append(
                f"    p{i} = tl.multiple_of({pointer}, {ALIGN})"
                if fine
                else f"    p{i} = {pointer}"
            )
        self.lines += [
            f"    e = tl.program_id(0).to({self.kind}) * {block} + tl.arange(0, {block})",
            f"    valid = e < {self.size}",
        ]
        # Coordinates, innermost first.
        order = sorted(range(len(out.shape)), key=lambda d: (out.strides[d], -d))
        rest = "e"
        for d in order:
            n = out.shape[d]
            self.lines.append(f"    c{d} = {rest} % {n}" if n > 1 else f"    c{d} = e * 0")
            if n > 1:
                self.lines.append(f"    r{d} = {rest} // {n}")
                rest = f"r{d}"

    def add(self, *lines: str) -> None:
        self.lines += [f"    {line}" for line in lines]

    def at(self, place: Place, coordinates: list[str]) -> str:
        """The number of an element in memory, by its coordinates."""
        terms = [
            f"{c} * {s}" for c, s, n in zip(coordinates, place.strides, place.shape, strict=True)
            if n > 1
        ]  # fmt: skip
        return " + ".join(terms) or "e * 0"

    def source(self) -> str:
        return "\n".join(self.lines) + "\n"


def span(place: Place) -> int:
    """Elements from the first to the last."""
    return 1 + sum((n - 1) * abs(s) for n, s in zip(place.shape, place.strides, strict=True))


def block_for(out: Place) -> int:
    """Elements of a program, so few that there are programs for all processors."""
    size, block = prod(out.shape), BLOCK
    while block > LEAST and size < block * PROGRAMS:
        block //= 2
    return block


def lead_of(out: Place, windows: tuple[Rule, ...]) -> tuple[int, list[str]]:
    """How many dimensions are not pooled, and their coordinates."""
    lead = len(out.shape) - len(windows)
    return lead, [f"c{d}" for d in range(lead)]


def forward_source(places: list[Place], windows: tuple[Rule, ...], aligned: list[bool]) -> str:
    """The largest of each window, and where it is."""
    x, values, at = places
    walk = Walk(values, places, aligned, block_for(values))
    lead, first = lead_of(values, windows)
    wide = "tl.float64" if x.buffer.dtype.name == "float64" else "tl.float32"
    for d, rule in enumerate(windows):
        if rule[0] == "adaptive":
            _, source, size = rule
            walk.add(
                f"s{d} = c{lead + d} * {source} // {size}",
                f"f{d} = ((c{lead + d} + 1) * {source} + {size - 1}) // {size}",
            )
        else:
            walk.add(f"s{d} = c{lead + d} * {rule[4]} + {rule[5]}")
    walk.add(
        f'best = tl.full(({walk.block},), float("-inf"), {wide})',
        f"where = tl.full(({walk.block},), -1, {walk.kind})",
    )
    as_taps = at.buffer.dtype is uint8
    tests, flat, steps = ["valid"], "0", []
    for d, rule in enumerate(windows):
        spread = rule[6] if rule[0] == "window" else 1
        steps.append(f"q{d} = s{d} + t{d} * {spread}")
        end = f"{rule[1]}" if rule[0] == "window" else f"f{d}"
        tests.append(f"(q{d} >= 0) & (q{d} < {end})")
        flat = f"q{d}" if d == 0 else f"({flat}) * {rule[1]} + q{d}"
    place = walk.at(x, [*first, *(f"q{d}" for d in range(len(windows)))])
    look = [
        *steps,
        f"here = {' & '.join(tests)}",
        f'v = tl.load(p0 + ({place}), mask=here, other=float("-inf")).to({wide})',
        "better = here & ((v > best) | (v != v) | (where < 0))",
        "best = tl.where(better, v, best)",
        f"where = tl.where(better, {'number' if as_taps else flat}, where)",
    ]
    sizes = [taps(rule) for rule in windows]
    if prod(sizes) > UNROLLED and 1 < sizes[-1] <= ROW:
        row = sizes.pop()
        last = f"t{len(sizes)}"
        walk.add(f"for row in range({prod(sizes)}):", "    rest = row")
        for d in reversed(range(len(sizes))):
            walk.add(f"    t{d} = rest % {sizes[d]}", f"    rest = rest // {sizes[d]}")
        for t in range(row):
            walk.add(f"    number = row * {row} + {t}", f"    {last} = {t}")
            walk.add(*[f"    {line}" for line in look])
    elif prod(sizes) > UNROLLED:
        walk.add(f"for number in range({prod(sizes)}):", "    rest = number")
        for d in reversed(range(len(sizes))):
            walk.add(f"    t{d} = rest % {sizes[d]}", f"    rest = rest // {sizes[d]}")
        walk.add(*[f"    {line}" for line in look])
    else:
        for number, tap in enumerate(product(*map(range, sizes))):
            walk.add(f"number = {number}", *[f"t{d} = {t}" for d, t in enumerate(tap)], *look)
    here = walk.at(at, [f"c{d}" for d in range(len(at.shape))])
    walk.add(
        f"tl.store(p1 + e, best.to({memory_type(values.buffer.dtype.name)}), mask=valid)",
        f"tl.store(p2 + ({'e' if at.strides == values.strides else here}), where, mask=valid)",
    )
    return walk.source()


def backward_source(places: list[Place], windows: tuple[Rule, ...], aligned: list[bool]) -> str:
    """What the windows of each element say of it."""
    g, at, out = places
    walk = Walk(out, places, aligned)
    lead, first = lead_of(out, windows)
    wide = "tl.float64" if g.buffer.dtype.name == "float64" else "tl.float32"
    flat = "0"
    for d, rule in enumerate(windows):
        flat = f"c{lead + d}" if d == 0 else f"({flat}) * {rule[1]} + c{lead + d}"
        if rule[0] == "adaptive":  # the first window that ends after it
            walk.add(f"s{d} = c{lead + d} * {rule[2]} // {rule[1]}")
        else:  # the last one that begins before it; never below 0 when divided
            shift = (-(min(-rule[5], 0) // rule[4])) * rule[4]
            walk.add(f"s{d} = (c{lead + d} + {shift - rule[5]}) // {rule[4]} - {shift // rule[4]}")
    as_taps = at.buffer.dtype is uint8
    other, number = (255, "tl.int32") if as_taps else (-1, "tl.int64")
    walk.add(f"total = tl.full(({BLOCK},), 0, {wide})")
    if not as_taps:
        walk.add(f"mine = ({flat}).to(tl.int64)")
    for step in product(*(range(covers(rule)) for rule in windows)):
        tests = ["valid"]
        for d, (rule, j) in enumerate(zip(windows, step, strict=True)):
            walk.add(f"o{d} = s{d} {'+' if rule[0] == 'adaptive' else '-'} {j}")
            tests.append(f"(o{d} >= 0) & (o{d} < {rule[2]})")
            if as_taps:
                tests += tap_lines(walk, rule, d, f"c{lead + d}")
        if as_taps:
            walk.add(f"mine = {tap_number(windows)}")
        chosen = [*first, *(f"o{d}" for d in range(len(windows)))]
        walk.add(
            f"here = {' & '.join(tests)}",
            f"t = tl.load(p1 + ({walk.at(at, chosen)}), mask=here, other={other}).to({number})",
            f"v = tl.load(p0 + ({walk.at(g, chosen)}), mask=here & (t == mine), other=0)",
            f"total += v.to({wide})",
        )
    walk.add(f"tl.store(p2 + e, total.to({memory_type(out.buffer.dtype.name)}), mask=valid)")
    return walk.source()


def tap_lines(walk: Walk, rule: Rule, d: int, place: str) -> list[str]:
    """Write which tap of a window an element is along a dimension; tests that it is one."""
    if rule[0] == "adaptive":
        walk.add(f"t{d} = {place} - o{d} * {rule[1]} // {rule[2]}")
        return [f"(t{d} >= 0) & (t{d} < {taps(rule)})"]
    _, _, _, extent, step, offset, spread = rule
    walk.add(f"u{d} = {place} - o{d} * {step} - {offset}", f"t{d} = u{d} // {spread}")
    return [f"(u{d} >= 0) & (u{d} % {spread} == 0) & (t{d} < {extent})"]


def tap_number(windows: tuple[Rule, ...]) -> str:
    """The number of a tap among all of its window."""
    number = "t0"
    for d, rule in enumerate(windows[1:], 1):
        number = f"({number}) * {taps(rule)} + t{d}"
    return number


def with_taps(graph: DataflowGraph, device: str) -> DataflowGraph:
    """The graph in which pools tell taps instead of places, where that will do (Note [taps])."""
    places = {node.outputs[1] for node in graph.nodes if is_pool(node, device)} - set(graph.outputs)
    for node in graph.nodes:
        if node.record is not MAX_POOL_BACKWARD:
            places.difference_update(x for x in node.inputs if isinstance(x, Value))
    if not places:
        return graph
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        builder.graph.where = node.where
        inputs = builder.translate(node.inputs)
        if node.record is MAX_POOL and node.outputs[1] in places:
            values, at = (v.spec for v in node.outputs)
            specs = values, Spec(at.shape, uint8, at.device)
            results = builder.graph.add_node(node.record, inputs, node.params, specs)
            builder.became.update(zip(node.outputs, results, strict=True))
        else:
            builder.keep(node, inputs)
    return builder.finish(graph)


def is_pool(node: Node, device: str) -> bool:
    """Whether a node is a pool that the template takes."""
    if node.record is not MAX_POOL or not isinstance(node.inputs[0], Value):
        return False
    return fits(node.inputs[0].spec, device) and is_written(node, taps)


def own_places(setting: Setting, results: list[Place]) -> tuple[list[Place], list[Launch]]:
    """Where results are written, without gaps, and copies to where they belong."""
    places, copies = [], []
    for out in results:
        place = out
        if out.buffer.kind not in OWN or span(out) != prod(out.shape) or out.offset:
            room = PlannedBuffer(ARENA, out.buffer.dtype, prod(out.shape), name="pooled")
            place = row_major(room, out.shape)
            copies.append(copy_step(setting.target, place, out, MAX_POOL.name))
        places.append(place)
    return places, copies


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch: the largest, and their places."""
    outs, copies = own_places(setting, results)
    places = [operands[0], *outs]
    aligned = [is_aligned(setting.target, p) for p in places]
    source = forward_source(places, node.params["windows"], aligned)
    count = prod(map(taps, node.params["windows"]))
    return [launch(source, "max_pool", operands, outs, count, block_for(outs[0])), *copies]


def backward_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch: the gradient of the image."""
    outs, copies = own_places(setting, results)
    places = [*operands, *outs]
    aligned = [is_aligned(setting.target, p) for p in places]
    source = backward_source(places, node.params["windows"], aligned)
    count = prod(map(covers, node.params["windows"]))
    return [launch(source, "max_pool_backward", operands, outs, count), *copies]


def launch(
    source: str,
    label: str,
    reads: list[Place],
    writes: list[Place],
    count: int,
    block: int = BLOCK,
) -> Launch:
    """A launch that goes through all elements of the first place that it writes."""
    size = prod(writes[0].shape)
    return Launch(
        function=f"pool{digest(source)}",
        text=Written(source, (-(-size // block), 1), WARPS, label),
        words=[Address(p.buffer, p.offset * p.buffer.dtype.itemsize) for p in (*reads, *writes)],
        reads=tuple(whole(p.buffer) for p in reads),
        writes=tuple(whole(p.buffer) for p in writes),
        pieces=-(-size // block),
        cost=2 * size * count,
        label=label,
    )


TEMPLATES = {
    MAX_POOL.name: Template(accepts(taps), nothing_packed, steps, ordered=True),
    MAX_POOL_BACKWARD.name: Template(accepts(covers), nothing_packed, backward_steps, ordered=True),
}
