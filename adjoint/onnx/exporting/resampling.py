"""Resampling along a dimension of a dynamic size: places and weights computed with the size.

Where sizes are known they are a table, and the resampling a product with it (`layers.py`).
"""

from __future__ import annotations

from collections.abc import Callable

import adjoint as ad
from adjoint.engine.graph.sizes.extents import Extent
from adjoint.engine.ops.image.resample import Rule
from adjoint.onnx.exporting.rewrites import adaptive_windows, size_tensor
from adjoint.onnx.exporting.writer import REWRITES, NoForm

Tensor = ad.Tensor
Taps = tuple[Tensor, Tensor | None]  # places (size, taps) and their weights, None: one


def _clipped(at: Tensor, source: int) -> Tensor:
    return at.to(ad.int64).clamp(min=0).minimum(size_tensor(source - 1))


def _nearest(source: int, size: int, scale: float, shift: float) -> Taps:
    at = (ad.arange(size, dtype=ad.float32) + shift) * scale
    return _clipped(at.floor(), source).unsqueeze(1), None


def _aligned(places: Tensor, scale: float) -> Tensor:
    """Where places of the result lie, the first at the first: of one alone there is no scale."""
    return ad.where(places == 0, 0.0, places * scale)


def _linear(source: int, size: int, scale: float, align: bool) -> Taps:
    places = ad.arange(size, dtype=ad.float32)
    at = _aligned(places, scale) if align else ((places + 0.5) * scale - 0.5).clamp(min=0)
    first = _clipped(at.floor(), source)
    part = (at - first.to(ad.float32)).clamp(0, 1)
    return ad.stack([first, _clipped(first + 1, source)], 1), ad.stack([1 - part, part], 1)


def _cubic(source: int, size: int, scale: float, align: bool) -> Taps:
    places = ad.arange(size, dtype=ad.float32)
    at = _aligned(places, scale) if align else (places + 0.5) * scale - 0.5
    first, sharp = at.floor(), -0.75
    part = at - first
    weights = []
    for k in range(-1, 3):
        x = (part - k).abs()
        if k in (0, 1):
            weights.append(((sharp + 2) * x - (sharp + 3)) * x * x + 1)
        else:
            weights.append((((x - 5) * x + 8) * x - 4) * sharp)
    taps = ad.stack([_clipped(first + k, source) for k in range(-1, 3)], 1)
    return taps, ad.stack(weights, 1)


def _reflect(source: int, size: int, before: int) -> Taps:
    at = (ad.arange(size) - before).abs()
    last = size_tensor(source - 1)
    return (last - (last - at).abs()).unsqueeze(1), None


def _replicate(source: int, size: int, before: int) -> Taps:
    return _clipped(ad.arange(size) - before, source).unsqueeze(1), None


def _circular(source: int, size: int, before: int) -> Taps:
    if before < 0:
        raise NoForm("a circular padding of a dynamic size that cuts off")
    return ((ad.arange(size) - before) % size_tensor(source)).unsqueeze(1), None


def _sum(source: int, size: int, extent: int, step: int, offset: int) -> Taps:
    at = ad.arange(size).unsqueeze(1) * step + offset + ad.arange(extent)
    inside = (at >= 0) & (at < size_tensor(source))
    return _clipped(at, source), inside.to(ad.float32)


def _mean(source: int, size: int, extent: int, step: int, offset: int, limit: int) -> Taps:
    at, inside = _sum(source, size, extent, step, offset)
    start = ad.arange(size).unsqueeze(1) * step + offset
    end = (start + extent).minimum(size_tensor(source + limit))
    assert inside is not None
    return at, inside / (end - start.clamp(min=-limit)).to(ad.float32)


def _adaptive_mean(source: int, size: int) -> Taps:
    at, inside = adaptive_windows(source, size)
    weights = inside.to(ad.float32)
    return at, weights / weights.sum(1, keepdim=True)


KINDS: dict[str, Callable[..., Taps]] = {
    "nearest": _nearest,
    "linear": _linear,
    "cubic": _cubic,
    "reflect": _reflect,
    "replicate": _replicate,
    "circular": _circular,
    "sum": _sum,
    "mean": _mean,
    "adaptive_mean": _adaptive_mean,
}


def resample(x: Tensor, dim: int, rule: Rule, transposed: bool) -> Tensor:
    """Weighted sums along a dimension whose size is open."""
    kind, *numbers = rule
    if transposed or kind not in KINDS or any(isinstance(n, Extent) for n in numbers[2:]):
        raise NoForm(f"{kind} resampling of a dynamic size")
    places, weights = KINDS[kind](*numbers)
    rows = x.index_select(dim, places.reshape(-1)).unflatten(dim, (numbers[1], places.shape[1]))
    if weights is None:
        return rows.squeeze(dim + 1)
    lasting = weights.reshape((*weights.shape, *(1,) * (x.ndim - dim - 1)))
    return (rows * lasting.to(x.dtype)).sum(dim + 1)


REWRITES["resample"] = resample
