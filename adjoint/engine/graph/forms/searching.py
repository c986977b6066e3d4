"""Places in sorted sequences, membership, histograms, choices, most frequent elements, joins."""

from __future__ import annotations

from adjoint.engine.core.dtype import float64, int64
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.graph.forms.table import form_of
from adjoint.engine.graph.ir import Node
from adjoint.engine.ops.common.checks import require
from adjoint.engine.ops.order.search import SEARCHSORTED
from adjoint.engine.ops.order.sort import ARGSORT, TOPK
from adjoint.engine.ops.random.tensor_parameters import NO_DISTRIBUTION, NO_WEIGHTS, room_of
from adjoint.engine.ops.shape.join import cat as join
from adjoint.engine.tensor.tensor import Tensor

# In lines more than so many times as long as what is taken, `TOPK` leaves equal elements in their
# order on the CPU, as a stable sort does; in others they are in PyTorch's.
FEW = 64
LOW = 0xFFFFFFFF  # the lower half of a word


def _needs_another_dtype(node: Node) -> bool:
    """Whether a search has native code in another dtype only, or nothing to search in."""
    sequence, values = (x.spec for x in node.inputs)
    known = sequence.dtype is values.dtype and (
        sequence.dtype.is_floating_point or sequence.dtype.is_signed
    )
    return not known or sequence.shape[-1] == 0


@form_of("searchsorted", when=_needs_another_dtype)
def searchsorted(sequence: Tensor, values: Tensor, right: bool) -> Tensor:
    """In a dtype that holds both."""
    if int(sequence.shape[-1]) == 0:
        return values.new_zeros(values.shape, dtype=int64)
    common = common_dtype((sequence, values))
    common = common if common.is_floating_point else int64
    return SEARCHSORTED(sequence.to(common), values.to(common), right=right)


def _has_nothing(node: Node) -> bool:
    """Whether a part of what is joined, but not all of it, has no elements."""
    return 0 not in node.outputs[0].spec.shape and any(0 in x.spec.shape for x in node.inputs)


@form_of("cat", when=_has_nothing)
def cat(*parts: Tensor, dim: int) -> Tensor:
    """Without the parts that have no elements."""
    filled = [part for part in parts if 0 not in part.shape]
    return join(filled, dim) if len(filled) > 1 else filled[0].clone()


@form_of("isin")
def isin(x: Tensor, y: Tensor) -> Tensor:
    """Compared with each."""
    return (x.unsqueeze(-1) == y.reshape(-1)).any(-1)


def _counted(at: Tensor, inside: Tensor, bins: int, weights: Tensor) -> Tensor:
    """Sums of weights by bin; what is outside goes to one more, which is dropped."""
    places = at.where(inside, bins)
    return weights.new_zeros(bins + 1).scatter_add(0, places, weights)[:bins]


@form_of("histc")
def histc(x: Tensor, low: Tensor, high: Tensor, bins: int) -> Tensor:
    """Each step in the dtype of x: this is what decides between two bins."""
    low = require(low, low.isfinite() & high.isfinite(), "histc: the range is not finite")
    inside = (x >= low) & (x <= high)
    share = (x - low) * bins / (high - low)
    at = share.where(inside, 0).to(int64).clamp(max=bins - 1)
    return _counted(at, inside, bins, at.new_ones(at.shape)).to(x.dtype)


@form_of("histogramdd")
def histogramdd(points: Tensor, *rest: Tensor, weighted: bool) -> Tensor:
    """A bin to each dimension, and of them all one number."""
    edges = rest[weighted:]
    shape = [int(e.shape[0]) - 1 for e in edges]
    inside, flat = None, None
    for i, (e, count) in enumerate(zip(edges, shape, strict=True)):
        low, high, x = e[0], e[-1], points[:, i]
        finite = low.isfinite() & high.isfinite()
        low = require(low, finite, "histogram: the range is not finite")
        at = searchsorted(e, x, True) - 1
        at = at.where(x != high, count - 1)  # the last bin holds its upper edge
        within = (x >= low) & (x <= high)
        inside = within if inside is None else inside & within
        flat = at if flat is None else flat * count + at
    assert inside is not None
    assert flat is not None
    total = 1
    for count in shape:
        total *= count
    weights = rest[0].to(float64) if weighted else flat.new_ones(flat.shape)
    return _counted(flat, inside, total, weights).reshape(shape).to(points.dtype)


@form_of("multinomial")
def multinomial(weights: Tensor, noise: Tensor, count: int, replacement: bool) -> Tensor:
    """The same numbers that choose in Python choose here."""
    weights = weights.to(float64)
    fit = weights.isfinite() & (weights >= 0)
    weights = require(weights, fit, NO_WEIGHTS)
    largest = weights.amax(-1, keepdim=True)
    largest = require(largest, largest > 0, NO_DISTRIBUTION)
    if not replacement:
        times = noise / (weights / largest)
        if count == 1:  # NaN, of noise that is 0, is never the smallest
            return times.where(weights > 0, float("inf")).argmin(-1, keepdim=True)
        if weights.device.type == "cpu" and count * FEW < int(weights.shape[-1]):
            return TOPK(times, dim=times.ndim - 1, k=count, largest=False, in_order=True)
        return times.argsort(-1, stable=True)[..., :count]
    room = room_of(int(weights.shape[-1]))
    edges = (weights / largest * 2.0**room).floor().to(int64).cumsum(-1)
    rows = edges.reshape(-1, edges.shape[-1])
    chosen = _below(noise.reshape(-1, count), rows[:, -1:])
    return searchsorted(rows, chosen, True).reshape(*weights.shape[:-1], count)


@form_of("argmode")
def argmode(x: Tensor, dim: int) -> Tensor:
    """Of elements in order, the end of the first of the longest runs of equal ones."""
    order = ARGSORT(x, dim=dim, descending=False, stable=False).movedim(dim, -1)
    values = x.movedim(dim, -1).gather(-1, order)
    steps = order.new_arange(int(x.shape[dim]))
    starts = values[..., 1:] != values[..., :-1]
    first = starts.new_ones((*starts.shape[:-1], 1))
    begun = steps.expand(order.shape).where(join([first, starts], -1), 0)
    into = steps - begun.cummax(-1).values
    end = into.argmax(-1, keepdim=True)
    return order.gather(-1, end).movedim(-1, dim)


def _below(words: Tensor, bound: Tensor) -> Tensor:
    """floor(word * bound / 2**64) of words without a sign, by halves of 32 bits."""
    a, b = (words >> 32) & LOW, words & LOW
    c, d = bound >> 32, bound & LOW
    middle = a * d + ((b * d >> 32) & LOW)
    carry = b * c + (middle & LOW)
    return a * c + ((middle >> 32) & LOW) + (carry >> 32)
