"""The templates of pooling and of what moves elements along one dimension."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from adjoint.engine.backends.array.kernels.image.resample import layers
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK
from adjoint.engine.backends.llvm.templates.pooling import kernel as pooling
from adjoint.engine.backends.llvm.templates.pooling import lines
from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.lower.indexed import bounds_fault
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Address, Launch, Status, double_bits, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.ops.image.resample import Rule, inside, table

FLOATS = {"float32": "f32", "float64": "f64"}
LONG_RUN = 4  # elements of a run from which on it is copied sooner than gathered


def first_packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """The operand is read in row-major order."""
    return set() if layout(inputs[0]).contiguous else {0}


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


def max_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch: the largest of all windows, and where they are."""
    windows = node.params["windows"]
    values, at = results
    kind = FLOATS[values.buffer.dtype.name]
    full = [("window", 1, 1, 1, 1, 0, 1)] * (RANK - len(windows)) + list(windows)
    planes = prod(values.shape[: len(values.shape) - len(windows)])
    starts = (address(operands[0]), address(values), address(at))
    words: list[Any]
    taps = prod(rule[3] if rule[0] == "window" else -(-rule[1] // rule[2]) + 1 for rule in full)
    if all(whole_windows(rule) == (0, rule[2]) for rule in full):
        function, text = f"whole_windows_{kind}", pooling.whole_windows_text
        words = inner_words(starts, planes, full)
        pieces = planes
    else:
        function, text = f"max_pool_{kind}", pooling.max_pool_text
        words = pooling.PoolingWords(*starts, planes, *whole_windows(full[-1])).listed()
        for rule in full:
            words += window_words(rule)
        pieces = planes * full[0][2]
    launch = Launch(
        function=function,
        text=lambda name: text(name, kind),
        words=words,
        reads=(whole(operands[0].buffer),),
        writes=(whole(values.buffer), whole(at.buffer)),
        pieces=pieces,
        cost=2 * prod(values.shape) * taps,
        label="max_pool",
    )
    return [launch]


def inner_words(
    starts: tuple[Address, Address, Address], planes: int, rules: list[Rule]
) -> list[Any]:
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
    if dim == len(out.shape) - 1 and (runs := copied_runs(rule, transposed)) is not None:
        return [_copy_runs(source, out, runs, f"resample {rule[0]}")]
    rows = table(rule, transposed)
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row))
    outer, inner = prod(out.shape[:dim]), prod(out.shape[dim + 1 :])
    across = inner == 1
    copied = not across and all(len(row) == 1 and row[0][1] == 1.0 for row in rows)
    pieces = -(-outer // lines.LANES) if across else outer * out.shape[dim]
    pairs = [word for row in rows for i, weight in row for word in (i, double_bits(weight))]
    words = lines.ResampleWords(
        source=address(source), target=address(out), outer=outer, inner=inner,
        source_size=source.shape[dim], size=out.shape[dim], pieces=pieces,
    )  # fmt: skip
    launch = Launch(
        function=f"resample_{kind}_{int(across)}_{int(copied)}",
        text=lambda name: lines.resample_text(name, kind, across, copied),
        words=[*words.listed(), *starts, *pairs],
        reads=(whole(source.buffer),),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=2 * outer * inner * starts[-1],
        label=f"resample {rule[0]}",
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


def _copy_runs(source: Place, out: Place, runs: list[tuple[int, ...]], label: str) -> Launch:
    kind = FLOATS[out.buffer.dtype.name]
    pieces = prod(out.shape[:-1])
    words = lines.CopyWords(
        source=address(source), target=address(out), source_size=source.shape[-1],
        size=out.shape[-1], runs=len(runs), pieces=pieces,
    )  # fmt: skip
    return Launch(
        function=f"resample_copy_{kind}",
        text=lambda name: lines.copy_text(name, kind),
        words=[*words.listed(), *[word for run in runs for word in run]],
        reads=(whole(source.buffer),),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=prod(out.shape),
        label=label,
    )


TEMPLATES = {
    "max_pool": Template(accepts_max, first_packed, max_steps),
    "scatter": Template(accepts_scatter, scatter_packed, scatter_steps, zeros=frozenset({0})),
    "scatter_reduce": Template(accepts_scatter, scatter_packed, scatter_steps),
    "resample": Template(accepts_resample, first_packed, resample_steps),
}
