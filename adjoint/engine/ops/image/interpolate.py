"""Resizing images and volumes."""

from __future__ import annotations

from math import floor, isfinite
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import ShapeError, ShapeValueError
from adjoint.engine.core.operations.public import public
from adjoint.engine.ops.image.adaptive_pooling import adaptive_avg_pool
from adjoint.engine.ops.image.resample import Rule, resampled

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

NEAREST = ("nearest", "nearest-exact")
RANK_OF = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
SPACES = ("nn.functional",)


def _many(value: Any) -> bool:
    return isinstance(value, (tuple, list))


def _sizes(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[list[int], list[float | None]]:
    """The result's sizes, and the scales that place its pixels (None: the ratio of sizes)."""
    rank = input.ndim - 2
    for what, value in (("size", size), ("scale_factor", scale_factor)):
        if _many(value) and len(value) != rank:
            raise ShapeValueError(
                f"interpolate: input and {what} must have the same number of spatial dimensions, "
                f"but got input with spatial dimensions of {list(input.shape[2:])} and {what} of "
                f"{value}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and {what} "
                "in (s1, s2, ...,sK) format."
            )
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: only one of size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError(
                "interpolate: recompute_scale_factor is not meaningful with an explicit size."
            )
        wanted = list(size) if _many(size) else [size] * rank
        return [s if isinstance(s, int) else int(s) for s in wanted], [None] * rank
    if scale_factor is None:
        raise ValueError("interpolate: either size or scale_factor should be defined")
    factors = [float(f) for f in (scale_factor if _many(scale_factor) else [scale_factor] * rank)]
    sizes = [_times(n, f) for n, f in zip(input.shape[2:], factors, strict=True)]
    return sizes, [None] * rank if recompute else list(factors)


def _times(size: int, factor: float) -> int:
    """A size times a factor, rounded down; by whole numbers, as open sizes want, where they do."""
    above, below = factor.as_integer_ratio() if isfinite(factor) else (0, 0)
    return size * above // below if 0 < below <= 1 << 16 else floor(size * factor)


def _scale(source: int, size: int, factor: float | None, align: bool) -> float:
    """Pixels of the source per pixel of the result."""
    if align:
        return (source - 1) / (size - 1) if size > 1 else 0.0
    return 1 / factor if factor is not None and factor > 0 else source / size


def _check(input: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    rank = input.ndim - 2
    if mode not in (*NEAREST, "area", *RANK_OF):
        raise NotImplementedError(
            f"interpolate: unknown mode {mode!r}; input of {input.ndim} dimensions takes nearest, "
            "nearest-exact, area and one of linear (3D), bilinear, bicubic (4D), trilinear (5D)"
        )
    if mode in (*NEAREST, "area"):
        if align_corners is not None:
            raise ValueError(
                "interpolate: align_corners option can only be set with the interpolating modes: "
                "linear | bilinear | bicubic | trilinear"
            )
    elif rank != RANK_OF[mode]:
        raise NotImplementedError(
            f"interpolate: got {input.ndim}D input, but {mode} mode needs {RANK_OF[mode] + 2}D "
            "input"
        )
    if rank not in (1, 2, 3):
        raise NotImplementedError(
            f"interpolate: input error: only 3D, 4D and 5D input tensors supported (got "
            f"{input.ndim}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | "
            f"area | nearest-exact (got {mode})"
        )
    if antialias and (mode not in ("bilinear", "bicubic")):
        raise ValueError(
            "interpolate: anti-alias option is restricted to bilinear and bicubic modes and "
            "requires a 4-D tensor as input"
        )


def _rule(
    mode: str, source: int, size: int, factor: float | None, align: bool, antialias: bool
) -> Rule:
    scale = _scale(source, size, factor, align)
    if mode in NEAREST:
        return ("nearest", source, size, scale, 0.5 if mode == "nearest-exact" else 0.0)
    kind = "cubic" if mode == "bicubic" else "linear"
    if antialias:
        return (f"smooth_{kind}", source, size, scale)
    return (kind, source, size, scale, align)


@public(namespaces=SPACES)
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """`input` (N, C, ...) resized to `size`, or by `scale_factor`.

    Args:
        input: 3 to 5 dimensions.
        size, scale_factor: one of them, a number or one for each spatial dimension.
        mode: nearest, nearest-exact, linear (3D), bilinear, bicubic (4D), trilinear (5D), area.
        align_corners: whether the corner pixels' centres, not their edges, stay in place.
        recompute_scale_factor: place pixels by the ratio of sizes instead of by the factor.
        antialias: average over the pixels that shrinking drops (bilinear, bicubic).

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.interpolate(ad.tensor([[[0.0, 1.0]]]), scale_factor=2, mode="linear")
        tensor([[[0.0000, 0.2500, 0.7500, 1.0000]]])
    """
    _check(input, mode, align_corners, antialias)
    sizes, factors = _sizes(input, size, scale_factor, recompute_scale_factor)
    source = list(input.shape[2:])
    if min(sizes) < 1 or 0 in input.shape[1:]:
        raise ShapeError(
            f"interpolate: input and output sizes should be greater than 0, but got input "
            f"{list(input.shape)} and output {sizes}"
        )
    if mode == "area":
        return adaptive_avg_pool(len(sizes), input, sizes)
    if not input.dtype.is_floating_point and input.dtype.name != "uint8":
        raise NotImplementedError(f"interpolate: not implemented for {input.dtype.name}")
    align = bool(align_corners)
    rules = {
        2 + d: _rule(mode, n, o, f, align, antialias)
        for d, (n, o, f) in enumerate(zip(source, sizes, factors, strict=True))
    }
    if mode in NEAREST or input.dtype.is_floating_point:
        return resampled(input, rules)
    x = input.double()
    for dim in reversed(rules):  # each pass of PyTorch's gives bytes
        rule = ("fixed_point", *rules[dim][1:3], rules[dim])
        x = (resampled(x, {dim: rule}) + 0.5).floor().clamp(0, 255)
    return x.to(input.dtype)


@public(namespaces=SPACES)
def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate` under its older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


@public(namespaces=SPACES)
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` to the nearest pixel."""
    return interpolate(input, size, scale_factor, mode="nearest")


@public(namespaces=SPACES)
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` bilinearly, the corner pixels staying in place."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
