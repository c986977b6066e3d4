"""The templates of pooling and of what moves elements along one dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import product
from math import prod
from typing import Any

from adjoint.engine.backends.array.kernels.image.resample import layers
from adjoint.engine.backends.llvm.templates.convolution.pixels.pooling import (
    pixel_pool_steps,
    pools_pixels,
)
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK
from adjoint.engine.backends.llvm.templates.pooling import kernel as pooling
from adjoint.engine.backends.llvm.templates.pooling import lines
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers
from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.lower.indexed import bounds_fault
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.schedule.steps import Address, Launch, Status, double_bits, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import typical
from adjoint.engine.ops.image.resample import Rule, Rules, inside, is_copied, table

FLOATS = {"float32": "f32", "float64": "f64"}
COPIED = {**FLOATS, "float16": "i16", "bfloat16": "i16"}
MOST_LINES = 1 << 12  # whose numbers go with a launch
KEPT_WHOLE = ("resample_all", "max_pool_of_channels")
LONG_RUN = 4  # elements of a run from which on it is copied sooner than gathered


def first_packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """The operand is read in row-major order."""
    return set() if layout(inputs[0]).contiguous else {0}


def in_lines_or_pixels(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """The operand is read in row-major order, or pixel by pixel."""
    place = layout(inputs[0])
    in_pixels = has_wide_registers() and len(place.shape) > 2 and place.strides[1] == 1
    return set() if place.contiguous or in_pixels else {0}


def address(place: Place) -> Address:
    """Where a place begins."""
    return Address(place.buffer, place.offset * place.buffer.dtype.itemsize)


def on_cpu(node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether all operands are values on the CPU."""
    return all(isinstance(x, Value) for x in inputs) and node.outputs[0].spec.device.type == "cpu"


# -- max pooling --------------------------------------------------------------------------------


def accepts_max(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Floats, of up to RANK dimensions."""
    windows = node.params["windows"]
    return (
        on_cpu(node, inputs)
        and node.outputs[0].spec.dtype.name in FLOATS
        and len(windows) <= RANK
        and all(map(inside, windows))
    )


def window_words(rule: Rule) -> list[int]:
    """The words of one dimension's windows."""
    if rule[0] == "adaptive":
        return pooling.WindowWords(rule[1], rule[2], 1, 1, 0, 1, adaptive=1).listed()
    _, source, size, extent, step, offset, dilation = rule
    return pooling.WindowWords(source, size, extent, step, offset, dilation, adaptive=0).listed()


def whole_windows(rule: Rule) -> tuple[int, int]:
    """The range of windows whose taps are all inside."""
    if rule[0] == "adaptive":
        return 0, 0
    _, source, size, extent, step, offset, dilation = rule
    left = min(-(offset // step) if offset < 0 else 0, size)
    last = source - 1 - (extent - 1) * dilation - offset
    right = min(last // step + 1, size) if last >= 0 else 0
    return left, max(left, right)


def of_full_rank(windows: Sequence[Any]) -> list[Any]:
    """The rules of all dimensions that kernels go through; those before are one window of one."""
    return [("window", 1, 1, 1, 1, 0, 1)] * (RANK - len(windows)) + list(windows)


def number_of_places(kind: str, full: list[Any]) -> str:
    """The type of places in a plane: as wide as an element if it can be, as one mask does then."""
    near = kind == "f32" and prod(rule[1] for rule in full) < 1 << 31
    return "i32" if near else "i64"


def max_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Any]
) -> list[Launch]:
    """One launch: the largest of all windows, and where they are if anybody reads that.

    Images that lie pixel by pixel are laid in rows for it where windows of pixels do not do.
    """
    windows = node.params["windows"]
    values, at = results
    if at is None and pools_pixels(operands[0], values, windows):
        return pixel_pool_steps(operands[0], values, windows)
    places = [operands[0], *(place for place in results if place is not None)]
    if not all(place.contiguous for place in places):
        rows = [in_rows(place) for place in places]
        made = [*rows[1:], None][:2]
        first = copy_step(setting.target, places[0], rows[0], "max_pool")
        back = [
            copy_step(setting.target, row, place, "max_pool")
            for place, row in zip(places[1:], rows[1:], strict=True)
        ]
        return [first, *max_steps(setting, node, [rows[0]], made), *back]
    tells = at is not None
    kind = FLOATS[values.buffer.dtype.name]
    full = of_full_rank(windows)
    planes = prod(values.shape[: len(values.shape) - len(windows)])
    starts = (address(operands[0]), address(values), address(at) if tells else 0)
    words: list[Any]
    taps = prod(rule[3] if rule[0] == "window" else -(-rule[1] // rule[2]) + 1 for rule in full)
    text: Callable[[str], Any]
    if all(whole_windows(rule) == (0, rule[2]) for rule in full):
        function = f"whole_windows_{kind}"
        text = partial(pooling.whole_windows_text, kind=kind, tells=tells)
        words = inner_words(starts, planes, full)
        pieces = planes
    else:
        step = full[-1][4] if full[-1][0] == "window" else 0
        step = step if step in pooling.STEPS else 0
        number = number_of_places(kind, full)
        left, right = whole_windows(full[-1])
        lanes = pooling.windows_at_once(kind, number, typical(right - left))
        function = f"max_pool_{kind}_{number}_{step}_{lanes}"
        text = partial(
            pooling.max_pool_text, kind=kind, number=number, step=step, lanes=lanes, tells=tells
        )
        words = pooling.PoolingWords(*starts, planes, left, right).listed()
        for rule in full:
            words += window_words(rule)
        pieces = planes * full[0][2]
    launch = Launch(
        function=function if tells else f"{function}_values",
        text=text,
        words=words,
        reads=(whole(operands[0].buffer),),
        writes=tuple(whole(place.buffer) for place in results if place is not None),
        pieces=pieces,
        cost=2 * prod(values.shape) * taps,
        label="max_pool",
    )
    return [launch]


def in_rows(place: Place) -> Place:
    """A row-major place of the same shape."""
    buffer = PlannedBuffer(ARENA, place.buffer.dtype, prod(place.shape), name="rows")
    return row_major(buffer, place.shape)


def max_of_channels_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch, a row of windows with all their channels at a time."""
    windows = node.params["windows"]
    values, at = results
    kind = FLOATS[values.buffer.dtype.name]
    full = of_full_rank(windows)
    number = number_of_places(kind, full)
    plain = all(rule[0] == "window" and rule[6] == 1 for rule in full)
    images, channels = values.shape[0], values.shape[-1]
    words = pooling.ChannelPoolingWords(
        address(operands[0]), address(values), address(at), images, channels
    ).listed()
    for rule in full:
        words += window_words(rule)
    taps = prod(rule[3] if rule[0] == "window" else -(-rule[1] // rule[2]) + 1 for rule in full)
    launch = Launch(
        function=f"max_pool_of_channels_{kind}_{number}_{int(plain)}",
        text=partial(pooling.max_of_channels_text, kind=kind, number=number, plain=plain),
        words=words,
        reads=(whole(operands[0].buffer),),
        writes=(whole(values.buffer), whole(at.buffer)),
        pieces=images * full[0][2] * full[1][2],
        cost=prod(values.shape) * taps,
        label="max_pool",
    )
    return [launch]


def inner_words(starts: tuple[Any, Any, Any], planes: int, rules: list[Rule]) -> list[Any]:
    """The words of windows that all lie inside."""
    sources = [rule[1] for rule in rules]
    steps = [prod(sources[d + 1 :]) for d in range(RANK)]
    taps = [
        sum(t * rule[6] * s for t, rule, s in zip(tap, rules, steps, strict=True))
        for tap in product(*(range(rule[3]) for rule in rules))
    ]
    sizes = [rule[2] for rule in rules]
    source, target, at = starts
    words = pooling.InnerWords(
        source, target, at, planes, plane=prod(sources), windows=prod(sizes), tap_count=len(taps),
        sizes=sizes, steps=[rule[4] * s for rule, s in zip(rules, steps, strict=True)],
    )  # fmt: skip
    return [*words.listed(), *taps]


# -- elements put or added at indices -----------------------------------------------------------


def accepts_scatter(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Lines along one dimension, each with its own indices."""
    if not on_cpu(node, inputs):
        return False
    base, _, index = inputs
    dim, shape = node.params["dim"], base.spec.shape
    compute, stored = KIND.get(node.outputs[0].spec.dtype.name, ("", "?"))
    return (
        compute == stored
        and len(shape) > 0
        and index.spec.dtype.name == "int64"
        and (*shape[:dim], *shape[dim + 1 :])
        == (*index.spec.shape[:dim], *index.spec.shape[dim + 1 :])
    )


def scatter_packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Values and indices are read in row-major order."""
    return {i for i in (1, 2) if not layout(inputs[i]).contiguous}


def scatter_steps(
    setting: Setting, node: Node, operands: list[Place | None], results: list[Place]
) -> list[Launch]:
    """The base copied, unless it is zeros, then the values put into it."""
    base, values, index = operands
    assert values is not None
    assert index is not None
    out, dim = results[0], node.params["dim"]
    kind = KIND[out.buffer.dtype.name][0]
    how = node.params.get("reduce") or ("sum" if node.params["accumulate"] else lines.PUT)
    cleared = base is None
    inner = prod(out.shape[dim + 1 :])
    count = prod(out.shape[:dim]) * inner
    launch = Launch(
        function=f"scatter_{kind}_{how}_{int(cleared)}",
        text=lambda name: lines.scatter_text(name, kind, how, cleared),
        words=lines.ScatterWords(
            target=address(out),
            values=address(values),
            index=address(index),
            lines=count,
            inner=inner,
            count=index.shape[dim],
            size=out.shape[dim],
            status=Status(),
            fault=bounds_fault(node, 0),
        ).listed(),
        reads=(whole(values.buffer), whole(index.buffer), whole(out.buffer)),
        writes=(whole(out.buffer),),
        pieces=count,
        cost=2 * prod(index.shape) + prod(out.shape) / 4,
        label=node.record.name,
    )
    if base is None or base == out:
        return [launch]
    return [copy_step(setting.target, base, out, node.record.name), launch]


# -- weighted sums ------------------------------------------------------------------------------


def accepts_resample(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Floats."""
    return on_cpu(node, inputs) and node.outputs[0].spec.dtype.name in FLOATS


def resample_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; the table of terms goes with its words."""
    (source,), out, dim = operands, results[0], node.params["dim"]
    kind = FLOATS[out.buffer.dtype.name]
    rule, transposed = node.params["rule"], node.params["transposed"]
    label = f"resample {rule[0]}"
    if is_copied(((dim, rule),), None, transposed):
        return [_copied(source, out, ((dim, rule),), label)]
    if dim == len(out.shape) - 1 and (runs := copied_runs(rule, transposed)) is not None:
        return [_copy(source, out, source.shape[dim], out.shape[dim], (0,), 1, runs, label)]
    rows = table(rule, transposed)
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row))
    outer, inner = prod(out.shape[:dim]), prod(out.shape[dim + 1 :])
    across = inner == 1
    pieces = -(-outer // lines.LANES) if across else outer * out.shape[dim]
    pairs = [word for row in rows for i, weight in row for word in (i, double_bits(weight))]
    words = lines.ResampleWords(
        source=address(source), target=address(out), outer=outer, inner=inner,
        source_size=source.shape[dim], size=out.shape[dim], pieces=pieces,
    )  # fmt: skip
    launch = Launch(
        function=f"resample_{kind}_{int(across)}",
        text=lambda name: lines.resample_text(name, kind, across),
        words=[*words.listed(), *starts, *pairs],
        reads=(whole(source.buffer),),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=2 * outer * inner * starts[-1],
        label=label,
    )
    return [launch]


@lru_cache(maxsize=512)
def copied_runs(rule: Rule, transposed: bool) -> list[tuple[int, ...]] | None:
    """Words of the runs that a line is made of, where they are few and nothing is weighed."""
    source, size = (rule[2], rule[1]) if transposed else (rule[1], rule[2])
    rows = table(rule, transposed)
    if not all(row and all(weight == 1.0 for _, weight in row) for row in rows):
        return None
    words: list[tuple[int, ...]] = []
    for t, layer in enumerate(layers(rule, transposed, size // LONG_RUN)):
        if not isinstance(layer, list):
            return None
        for to, at, _ in layer:
            first, places = to.indices(size), at.indices(source)
            if first[2] != 1:
                return None
            words.append((first[0], places[0], places[2], len(range(*first)), int(t > 0)))
    return words


def accepts_copied(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Elements that are only moved, of sizes that are known."""
    if not on_cpu(node, inputs) or not is_copied(**node.params):
        return False
    rules, shape = node.params["rules"], node.outputs[0].spec.shape
    dims = sorted(dim for dim, _ in rules)
    known = all(type(n) is int for _, rule in rules for n in rule[1:3])
    between = shape[dims[0] : dims[-1]]
    return (
        known
        and node.outputs[0].spec.dtype.name in COPIED
        and all(type(n) is int for n in between)
        and prod(between) <= MOST_LINES
    )


def copied_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch, along all dimensions at once."""
    rules = node.params["rules"]
    return [_copied(operands[0], results[0], rules, f"resample {rules[0][1][0]}")]


def _copied(source: Place, out: Place, rules: Rules, label: str) -> Launch:
    """Elements moved along some dimensions, one of which may be the last."""
    by_dim = dict(rules)
    first, last, end = min(by_dim), max(by_dim), len(out.shape) - 1
    along = by_dim.pop(end, None)
    outside = range(first, end if along is not None else last + 1)
    numbers = [0]
    for dim in outside:
        rule = by_dim.get(dim)
        steps = [row[0][0] for row in table(rule, False)] if rule else [*range(out.shape[dim])]
        numbers = [n * source.shape[dim] + step for n in numbers for step in steps]
    lines_of_source = prod([source.shape[dim] for dim in outside])
    places: Sequence[Any]
    if along is not None:
        source_size, size = along[1], along[2]
        runs = copied_runs(along, False)
        places = runs if runs is not None else [row[0][0] for row in table(along, False)]
    else:
        source_size = size = prod(out.shape[last + 1 :])
        places = [(0, 0, 1, size, 0)]
    return _copy(source, out, source_size, size, numbers, lines_of_source, places, label)


def _copy(
    source: Place,
    out: Place,
    source_size: int,
    size: int,
    numbers: Sequence[int],
    source_count: int,
    places: Sequence[Any],
    label: str,
) -> Launch:
    kind = COPIED[out.buffer.dtype.name]
    in_runs = bool(places) and isinstance(places[0], tuple)
    pieces = prod(out.shape) // size if size else 0
    words = lines.CopyWords(
        source=address(source), target=address(out), source_size=source_size, size=size,
        source_count=source_count, count=len(numbers), runs=len(places) if in_runs else 0,
        pieces=pieces,
    )  # fmt: skip
    table_words = [word for run in places for word in run] if in_runs else places
    return Launch(
        function=f"resample_copy_{kind}_{int(in_runs)}",
        text=lambda name: lines.copy_text(name, kind, in_runs),
        words=[*words.listed(), *numbers, *table_words],
        reads=(whole(source.buffer),),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=prod(out.shape),
        label=label,
    )


TEMPLATES = {
    "max_pool": Template(
        accepts_max, in_lines_or_pixels, max_steps, optional=frozenset({1}), ordered=True
    ),
    "max_pool_of_channels": Template(accepts_max, first_packed, max_of_channels_steps),
    "scatter": Template(accepts_scatter, scatter_packed, scatter_steps, zeros=frozenset({0})),
    "scatter_reduce": Template(accepts_scatter, scatter_packed, scatter_steps),
    "resample": Template(accepts_resample, first_packed, resample_steps),
    "resample_all": Template(accepts_copied, first_packed, copied_steps),
}
