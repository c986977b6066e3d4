"""Weighted sums of a few elements along one dimension: one linear primitive, many names.

    out[o] = sum over (i, w) in table(rule)[o] of w x[i]

Windows (average pooling, local response), nearest, linear and cubic interpolation, reflected,
replicated and circular padding are tables; a rule is the table's short description, so that it
prints, hashes and stays in a graph. The transpose is the same operation by the transposed table.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from math import floor, prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.annotations import complete
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import composite, linear
from adjoint.engine.core.operations.large import COMPUTED
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec, is_known, pinned
from adjoint.engine.ops.common.channels import (
    channels_last,
    channels_second,
    goes_by_channels,
)
from adjoint.engine.ops.reduce.scan import shift_dim
from adjoint.engine.ops.shape.convert import lying_as_images
from adjoint.engine.ops.shape.join import CAT

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

complete(globals())

Rule = tuple[Any, ...]  # (kind, source size, result size, ...)
Rules = tuple[tuple[int, Rule], ...]  # of dimensions, in the order in which they are resampled
Row = list[tuple[int, float]]


def adaptive_bounds(source: int, size: int) -> list[tuple[int, int]]:
    """The windows of adaptive pooling: they cover the source, and may overlap by one."""
    return [(o * source // size, -(-(o + 1) * source // size)) for o in range(size)]


def _sum(source: int, size: int, extent: int, step: int, offset: int) -> list[Row]:
    """Windows of `extent` from o step + offset on, clipped to the source."""
    starts = [o * step + offset for o in range(size)]
    return [[(i, 1.0) for i in range(max(s, 0), min(s + extent, source))] for s in starts]


def _mean(source: int, size: int, extent: int, step: int, offset: int, limit: int) -> list[Row]:
    """The same, divided by how much of the window lies within `limit` of the source's ends."""
    rows = []
    for o, row in enumerate(_sum(source, size, extent, step, offset)):
        start = o * step + offset
        count = min(start + extent, source + limit) - max(start, -limit)
        rows.append([(i, 1 / count) for i, _ in row])
    return rows


def _adaptive_mean(source: int, size: int) -> list[Row]:
    return [[(i, 1 / (b - a)) for i in range(a, b)] for a, b in adaptive_bounds(source, size)]


def _reflect(source: int, size: int, before: int) -> list[Row]:
    """Beyond an end, back from it, the end itself not repeated."""
    period = max(2 * (source - 1), 1)
    places = [(o - before) % period for o in range(size)]
    return [[(min(p, period - p) if source > 1 else 0, 1.0)] for p in places]


def _replicate(source: int, size: int, before: int) -> list[Row]:
    return [[(min(max(o - before, 0), source - 1), 1.0)] for o in range(size)]


def _circular(source: int, size: int, before: int) -> list[Row]:
    """Round and round; what negative padding cuts off takes no part."""
    cut = max(-before, 0)
    period = source - cut - max(source + before - size, 0)
    return [[((o - max(before, 0)) % period + cut, 1.0)] for o in range(size)]


def single(x: float) -> float:
    """Rounded to float32, in which PyTorch finds the nearest pixel."""
    return float(struct.unpack("f", struct.pack("f", x))[0])


def _nearest(source: int, size: int, scale: float, shift: float) -> list[Row]:
    scale = single(scale)
    return [[(min(floor(single(single(o + shift) * scale)), source - 1), 1.0)] for o in range(size)]


def _linear(source: int, size: int, scale: float, align: bool) -> list[Row]:
    """Where the size stays, elements do, whatever the scale, as in PyTorch."""
    if source == size:
        return [[(i, 1.0)] for i in range(size)]
    rows = []
    for o in range(size):
        at = o * scale if align else max((o + 0.5) * scale - 0.5, 0.0)
        i = min(int(at), source - 1)
        t = min(max(at - i, 0.0), 1.0)
        rows.append([(i, 1.0 - t), (min(i + 1, source - 1), t)])
    return rows


def keys_cubic(x: float, a: float) -> float:
    """Keys' cubic convolution kernel."""
    x = abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def _cubic(source: int, size: int, scale: float, align: bool) -> list[Row]:
    rows = []
    for o in range(size):
        at = o * scale if align else (o + 0.5) * scale - 0.5
        i = floor(at)
        t = at - i
        rows.append(
            [(min(max(i + k, 0), source - 1), keys_cubic(t - k, -0.75)) for k in range(-1, 3)]
        )
    return rows


def _smooth(
    source: int, size: int, scale: float, radius: float, kernel: Callable[[float], float]
) -> list[Row]:
    """Antialiasing: the kernel widened by the scale when shrinking, its weights normalised.

    Where the size stays, so do elements.
    """
    if source == size:
        return [[(i, 1.0)] for i in range(size)]
    stretch = max(scale, 1.0)
    rows = []
    for o in range(size):
        centre = scale * (o + 0.5)
        first = max(int(centre - radius * stretch + 0.5), 0)
        last = min(int(centre + radius * stretch + 0.5), source)
        weights = [kernel((i - centre + 0.5) / stretch) for i in range(first, last)]
        total = sum(weights) or 1.0
        rows.append([(first + k, w / total) for k, w in enumerate(weights)])
    return rows


def _smooth_linear(source: int, size: int, scale: float) -> list[Row]:
    return _smooth(source, size, scale, 1.0, lambda x: max(1.0 - abs(x), 0.0))


def _smooth_cubic(source: int, size: int, scale: float) -> list[Row]:
    return _smooth(source, size, scale, 2.0, lambda x: keys_cubic(x, -0.5))


def inside(rule: Rule) -> bool:
    """Whether every window has a tap inside the source."""
    if rule[0] == "adaptive":
        return rule[1] > 0
    _, source, size, extent, step, offset, dilation = rule
    firsts = range(min(size, extent))
    return all(
        any(0 <= o * step + offset + t * dilation < source for t in range(extent))
        for o in (*firsts, *[size - 1 - k for k in firsts])
    )


def _fixed_point(source: int, size: int, rule: Rule) -> list[Row]:
    """Another rule's weights rounded to the 16 bits in which PyTorch resizes bytes."""
    if source == size:  # elements stay
        return [[(i, 1.0)] for i in range(size)]
    rows = [_merged(row) for row in TABLES[rule[0]](*rule[1:])]
    largest = max((w for row in rows for _, w in row), default=1.0)
    bits = 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    unit = 1 << bits
    return [[(i, int(w * unit + (0.5 if w >= 0 else -0.5)) / unit) for i, w in row] for row in rows]


def _merged(row: Row) -> Row:
    """A row with each place once."""
    total: dict[int, float] = {}
    for i, w in row:
        total[i] = total.get(i, 0.0) + w
    return list(total.items())


TABLES: dict[str, Callable[..., list[Row]]] = {
    "sum": _sum,
    "mean": _mean,
    "adaptive_mean": _adaptive_mean,
    "reflect": _reflect,
    "replicate": _replicate,
    "circular": _circular,
    "nearest": _nearest,
    "linear": _linear,
    "cubic": _cubic,
    "smooth_linear": _smooth_linear,
    "smooth_cubic": _smooth_cubic,
    "fixed_point": _fixed_point,
}


@lru_cache(maxsize=512)
def table(rule: Rule, transposed: bool) -> list[Row]:
    """For each place in the result, the places it is made of and their weights."""
    rows = TABLES[rule[0]](*rule[1:])
    if not transposed:
        return rows
    turned: list[Row] = [[] for _ in range(rule[1])]
    for o, row in enumerate(rows):
        for i, w in row:
            turned[i].append((o, w))
    return turned


def _infer(x: Spec, dim: int, rule: Rule, transposed: bool) -> Spec:
    source, size = (rule[2], rule[1]) if transposed else (rule[1], rule[2])
    if x.shape[dim] != source:
        raise ShapeError(
            f"resample: the rule {rule} wants {source} elements along dimension {dim}, received "
            f"{x.shape[dim]}"
        )
    return Spec((*x.shape[:dim], size, *x.shape[dim + 1 :]), x.dtype, x.device)


RESAMPLE: Record = linear(
    "resample",
    _infer,
    lambda g, dim, rule, transposed: RESAMPLE(g, dim=dim, rule=rule, transposed=not transposed),
    batched_params=shift_dim,
    keeps_layout="images",
    in_steps=True,
    fragment="computed",
)


# -- whole windows -------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def whole_windows(rule: Rule) -> tuple[bool, int, float] | None:
    """Whether windows lie side by side: (sums of them or repeats, their extent, the weight of all).

    Such resampling is a sum over a dimension of a view, or an expanded one copied.
    """
    if not is_known(rule[1]) or not is_known(rule[2]):  # not those of symbols
        return None
    rule = (rule[0], *map(pinned, rule[1:]))
    source, size = rule[1], rule[2]
    if not (source and size):
        return None
    shrinks = source > size
    large, small = max(source, size), min(source, size)
    extent = large // small
    rows = table(rule, False)
    weight = rows[0][0][1] if rows[0] else 0.0
    if large % small or not weight:
        return None
    for o, row in enumerate(rows):
        places = range(o * extent, (o + 1) * extent) if shrinks else (o // extent,)
        if row != [(i, weight) for i in places]:
            return None
    return shrinks, extent, weight


def _by_views(x: Tensor, rules: Rules, transposed: bool) -> Tensor:
    """Resampling by whole windows, in all dimensions at once."""
    shape: list[int] = []
    summed: list[int] = []
    spread: list[int] = []
    sizes = list(x.shape)
    weight = 1.0
    extents = {}
    for dim, rule in rules:
        shrinks, extent, factor = whole_windows(rule)  # type: ignore[misc]
        extents[dim] = extent if shrinks is not transposed else -extent
        weight *= factor
    for dim, n in enumerate(x.shape):
        extent = extents.get(dim, 1)
        if extent > 1:
            summed.append(len(shape) + 1)
            shape += [n // extent, extent]
            spread += [n // extent]
            sizes[dim] = n // extent
        elif extent < -1:
            shape += [n, 1]
            spread += [n, -extent]
            sizes[dim] = n * -extent
        else:
            shape.append(n)
            spread.append(n)
    x = x.reshape(shape)
    if summed:
        x = x.sum(summed)
    if len(spread) > len(sizes):
        x = x.expand(spread)
    x = x.reshape(sizes)
    return x if weight == 1.0 else x * weight


def _is_by_views(x: Tensor, rules: Rules) -> bool:
    """On a GPU, where such programs are one kernel and there is no other one."""
    return x.device.type == "cuda" and _are_whole(rules)


def _are_whole(rules: Rules) -> bool:
    """Whether all windows lie side by side."""
    return all(whole_windows(rule) is not None for _, rule in rules)


def _repeats_rows(rules: Rules, divisor: float | None, transposed: bool) -> bool:
    """Whether rows of channels are just repeated: copied once, to where they all belong."""
    if transposed or divisor is not None or any(rule[0] != "nearest" for _, rule in rules):
        return False
    return _are_whole(rules) and any(rule[2] > rule[1] for _, rule in rules)


# -- edges ---------------------------------------------------------------------------------------

EDGES = ("reflect", "replicate", "circular")


def _is_by_parts(x: Tensor, rules: Rules) -> bool:
    """On the CPU, where elements that stay beside each other are copied row by row."""
    return x.device.type == "cpu" and all(_only_adds(rule) for _, rule in rules)


def _only_adds(rule: Rule) -> bool:
    """Whether a rule is of padding that cuts nothing off, and goes beyond an end once at most."""
    if rule[0] not in EDGES or not all(map(is_known, rule[1:])):
        return False
    kind, source, size, before = rule[0], *map(pinned, rule[1:])
    after = size - source - before
    most = {"reflect": source - 1, "circular": source}.get(kind, size)
    return source > 0 and min(before, after) >= 0 and max(before, after) <= most


def _with_edges(x: Tensor, dim: int, rule: Rule) -> Tensor:
    """Padding as parts of a tensor joined."""
    kind, n, size, before = rule[0], *map(pinned, rule[1:])
    after = size - n - before

    def part(start: int, count: int) -> Tensor:
        return x.narrow(dim, start, count)

    def repeated(start: int, count: int) -> Tensor:
        return part(start, 1).expand([count if d == dim else m for d, m in enumerate(x.shape)])

    match kind:
        case "reflect":
            first, last = part(1, before).flip(dim), part(n - 1 - after, after).flip(dim)
        case "circular":
            first, last = part(n - before, before), part(0, after)
        case _:
            first, last = repeated(0, before), repeated(n - 1, after)
    parts = [first] * (before > 0) + [x] + [last] * (after > 0)
    joined: Tensor = CAT(*parts, dim=dim)
    return joined


def _resample_all(x: Tensor, rules: Rules, divisor: float | None, transposed: bool) -> Tensor:
    if goes_by_channels(x) and all(dim > 1 for dim, _ in rules):
        moved = tuple([(dim - 1, rule) for dim, rule in rules])
        if _repeats_rows(rules, divisor, transposed):
            return channels_second(_by_views(channels_last(x), moved, False))
        return channels_second(_resample_all(channels_last(x), moved, divisor, transposed))
    if not transposed and divisor is None and _is_by_parts(x, rules):
        whole = x
        for dim, rule in rules:
            whole = _with_edges(whole, dim, rule)
        return lying_as_images(whole, x)
    dtype = x.dtype
    if dtype.is_half and not (x.device.type == "cpu" and is_copied(rules, divisor, transposed)):
        x = x.float()  # rounded once, at the end
    if transposed and divisor is not None:
        x = x / divisor
    if _is_by_views(x, rules):
        x = _by_views(x, rules, transposed)
    else:
        for dim, rule in reversed(rules) if transposed else rules:
            x = RESAMPLE(x, dim=dim, rule=rule, transposed=transposed)
    if not transposed and divisor is not None:
        x = x / divisor
    return x.to(dtype)


COPIES = ("nearest", "reflect", "replicate", "circular")  # one element each, as it is


def is_copied(rules: Rules, divisor: float | None, transposed: bool) -> bool:
    """Whether nothing is computed with elements, whose dtype then does not matter."""
    return divisor is None and not transposed and all(rule[0] in COPIES for _, rule in rules)


def _transposed(g: Tensor, rules: Rules, divisor: float | None, transposed: bool) -> Tensor:
    return RESAMPLE_ALL(g, rules=rules, divisor=divisor, transposed=not transposed)


def _much(shapes: list[tuple[int, ...]], params: dict[str, Any]) -> bool:
    """Whether the result has many elements, though the operand has few."""
    sizes = list(shapes[0])
    for dim, rule in params["rules"]:
        sizes[dim] = rule[1] if params["transposed"] else rule[2]
    return prod(sizes) >= COMPUTED


RESAMPLE_ALL = composite(
    "resample_all",
    _resample_all,
    _transposed,
    keeps_layout="images",
    by_channels=_resample_all,
    fragment="computed",
    much=_much,
)


def resampled(x: Tensor, rules: dict[int, Rule], divisor: float | None = None) -> Tensor:
    """x resampled along several dimensions and divided; halves are rounded once, at the end."""
    listed = tuple(rules.items())
    whole = _is_by_views(x, listed) or _is_by_parts(x, listed)
    if len(rules) == 1 and divisor is None and not whole:
        ((dim, rule),) = rules.items()
        if x.dtype.is_half and x.device.type == "cpu" and rule[0] in COPIES:
            return RESAMPLE_ALL(x, rules=((dim, rule),), divisor=None, transposed=False)
        return RESAMPLE(x, dim=dim, rule=rule, transposed=False)
    return RESAMPLE_ALL(x, rules=_in_order(*rules.items()), divisor=divisor, transposed=False)


@lru_cache(maxsize=512)
def _in_order(*rules: tuple[int, Rule]) -> Rules:
    """First the dimensions in which most elements go.

    Of equal ones, rows are summed before their elements are, which are fewer then; and elements are
    repeated before the rows they are in, which are copied whole.
    """

    def place(item: tuple[int, Rule]) -> tuple[float, int]:
        dim, rule = item
        grows = rule[2] / max(rule[1], 1)
        return grows, -dim if grows > 1 else dim

    return tuple(sorted(rules, key=place))
