"""Images resized and sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.onnx.operators.shapes import bounded
from adjoint.onnx.table import NodeCall, operator
from adjoint.onnx.types import Value, integers, numbers

Array = np.ndarray[Any, Any]


def _coordinates(mode: str, size: int, scale: float, out: int, roi: tuple[float, float]) -> Array:
    """Where each output element lies in the input."""
    x = np.arange(out, dtype=np.float64)
    width = scale * size
    match mode:
        case "align_corners":
            return x * (size - 1) / (width - 1) if width != 1 else 0 * x
        case "asymmetric":
            return x / scale
        case "tf_crop_and_resize":
            start, end = roi
            step = (end - start) * (size - 1)
            return start * (size - 1) + (x * step / (width - 1) if width != 1 else 0 * x + step / 2)
        case "pytorch_half_pixel":
            return (x + 0.5) / scale - 0.5 if width != 1 else 0 * x - 0.5
        case "half_pixel":
            return (x + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            return size / 2 * (1 - out / width) + (x + 0.5) / scale - 0.5
        case _:
            raise ValueError(f"onnx: Resize: coordinate_transformation_mode {mode!r} is not known.")


def _cubic(a: float) -> Callable[[Array], Array]:
    def weigh(x: Array) -> Array:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return weigh


def _weights(
    at: Array, size: int, scale: float, mode: str, a: float, antialias: bool, exclude: bool
) -> Array:
    """A matrix (outputs, inputs) that interpolates along an axis."""
    kernel, reach = (
        (_cubic(a), 2) if mode == "cubic" else (lambda x: np.clip(1 - np.abs(x), 0, 1), 1)
    )
    shrink = min(scale, 1.0) if antialias else 1.0
    first = math.floor(-reach / shrink) + 1
    base = np.floor(at).astype(int)
    taps = np.arange(first, 2 - first)
    places = base[:, None] + taps[None, :]
    weights = kernel((places - at[:, None]) * shrink)
    if exclude:
        weights = np.where((places < 0) | (places >= size), 0.0, weights)
    if exclude or antialias:
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((len(at), size))
    rows = np.broadcast_to(np.arange(len(at))[:, None], places.shape)
    np.add.at(matrix, (rows, np.clip(places, 0, size - 1)), weights)
    return matrix


_NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _sized(
    shape: list[int], dims: list[int], scales: list[float], sizes: list[int], policy: str
) -> tuple[list[float], list[int]]:
    """The scale and the size of each axis that is resized."""
    lengths = [shape[d] for d in dims]
    if not sizes:
        return scales, [math.floor(n * s) for n, s in zip(lengths, scales, strict=True)]
    ratios = [w / n for w, n in zip(sizes, lengths, strict=True)]
    if policy == "stretch":
        return ratios, sizes
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [scale] * len(dims), [math.floor(scale * n + 0.5) for n in lengths]


def resized(
    x: Tensor,
    dims: list[int],
    scales: list[float],
    outs: list[int],
    roi: list[float],
    mode: str,
    transform: str,
    nearest: str,
    a: float,
    antialias: bool,
    exclude: bool,
    extrapolation: float,
) -> Tensor:
    """A tensor resized along axes, one after another."""
    dtype = x.dtype
    bounded([outs[dims.index(k)] if k in dims else int(n) for k, n in enumerate(x.shape)], "Resize")
    outside: list[tuple[int, Array]] = []
    for k, (dim, scale, out) in enumerate(zip(dims, scales, outs, strict=True)):
        size = int(x.shape[dim])
        part = (roi[k], roi[k + len(dims)]) if roi else (0.0, 1.0)
        at = _coordinates(transform, size, scale, out, part)
        if out == size and np.array_equal(at, np.arange(size)):
            continue
        if transform == "tf_crop_and_resize":
            outside.append((dim, (at < 0) | (at > size - 1)))
        if mode == "nearest":
            index = np.clip(_NEAREST[nearest](at), 0, size - 1).astype(np.int64)
            x = ad.index_select(x, dim, ad.tensor(index))
        else:
            matrix = _weights(at, size, scale, mode, a, antialias, exclude)
            wide = x if x.is_floating_point() else x.to(ad.float32)
            x = ad.tensordot(wide, ad.tensor(matrix).to(wide.dtype), ([dim], [1])).movedim(-1, dim)
    for dim, beyond in outside:
        view = [1] * x.ndim
        view[dim] = len(beyond)
        x = ad.where(ad.tensor(beyond).reshape(view), ad.full((), extrapolation, dtype=x.dtype), x)
    if not dtype.is_floating_point and x.is_floating_point():
        low, high = ad.iinfo(dtype).min, ad.iinfo(dtype).max
        x = ad.clamp(ad.round(x) if antialias else x, low, high)
    return x.to(dtype)


# Mode, coordinates and rounding as `interpolate` calls them, and whether corners are aligned.
_INTERPOLATED: dict[tuple[str, str, str], tuple[str, bool | None]] = {
    ("nearest", "asymmetric", "floor"): ("nearest", None),
    ("nearest", "half_pixel", "round_prefer_ceil"): ("nearest-exact", None),
    ("linear", "half_pixel", ""): ("linear", False),
    ("linear", "pytorch_half_pixel", ""): ("linear", False),
    ("linear", "align_corners", ""): ("linear", True),
    ("cubic", "half_pixel", ""): ("cubic", False),
    ("cubic", "pytorch_half_pixel", ""): ("cubic", False),
    ("cubic", "align_corners", ""): ("cubic", True),
}
_OF_RANK = {
    "linear": {1: "linear", 2: "bilinear", 3: "trilinear"},
    "cubic": {2: "bicubic"},
}


def _resized_openly(
    x: Tensor,
    dims: list[int],
    scales: list[float],
    sizes: list[int],
    mode: str,
    align: bool | None,
) -> Tensor | None:
    """Sizes that are open, by `interpolate`, which has the last dimensions; None: it cannot."""
    rank = x.ndim - 2
    named = _OF_RANK.get(mode, dict.fromkeys((1, 2, 3), mode)).get(rank)
    spatial = list(range(2, x.ndim))
    first = [k for k, d in enumerate(dims) if d < 2]
    unchanged = all(sizes[k] == x.shape[dims[k]] if sizes else scales[k] == 1 for k in first)
    if named is None or not unchanged or [d for d in dims if d >= 2] != spatial:
        return None
    last = [k for k, d in enumerate(dims) if d >= 2]
    how: dict[str, Any] = (
        {"mode": named} if align is None else {"mode": named, "align_corners": align}
    )
    if sizes:
        return F.interpolate(x, size=[sizes[k] for k in last], **how)
    return F.interpolate(x, scale_factor=[scales[k] for k in last], **how)


@operator("Resize")
def resize(
    x: Tensor,
    roi: Value = None,
    scales: Value = None,
    sizes: Value = None,
    *,
    antialias: int = 0,
    axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    call: NodeCall,
) -> Tensor:
    """Resized by scales or to sizes."""
    if call.opset < 11:  # the second input was the scales
        return upsample(x, roi, mode=mode)
    dims = list(range(x.ndim)) if axes is None else [k % x.ndim for k in axes]
    factors = [] if scales is None else numbers(scales)
    wanted = [] if sizes is None else integers(sizes)
    if any(map(is_extent, (*x.shape, *wanted))):
        named = (mode, coordinate_transformation_mode, nearest_mode if mode == "nearest" else "")
        plain = cubic_coeff_a == -0.75 and not exclude_outside
        how = _INTERPOLATED.get(named) if plain and not antialias else None
        openly = None if how is None else _resized_openly(x, dims, factors, wanted, *how)
        if openly is not None:
            return openly
    factors, outs = _sized(
        [int(n) for n in x.shape], dims, factors, wanted, keep_aspect_ratio_policy
    )
    region = (
        numbers(roi)
        if roi is not None and coordinate_transformation_mode == "tf_crop_and_resize"
        else []
    )
    return resized(
        x,
        dims,
        factors,
        outs,
        region,
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(antialias),
        bool(exclude_outside),
        extrapolation_value,
    )


@operator("Upsample")
def upsample(x: Tensor, scales: Value, *, mode: str = "nearest") -> Tensor:
    """Enlarged by scales."""
    factors = numbers(scales)
    outs = [math.floor(int(n) * s) for n, s in zip(x.shape, factors, strict=True)]
    return resized(
        x,
        list(range(x.ndim)),
        factors,
        outs,
        [],
        mode,
        "asymmetric",
        "floor",
        -0.75,
        False,
        False,
        0.0,
    )


@operator("GridSample")
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    """Sampled at the places of a grid."""
    named = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid, named, padding_mode, bool(align_corners))


@operator("AffineGrid")
def affine_grid(theta: Tensor, size: Value, *, align_corners: int = 0) -> Tensor:
    """The grid of an affine map."""
    return F.affine_grid(theta, integers(size), bool(align_corners))
