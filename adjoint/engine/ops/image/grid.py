"""Sampling an image (or volume) at the points of a grid.

The sampler is a composition: points to pixel coordinates, coordinates folded or clipped by the
padding mode, then a weighted sum of gathered neighbours. Its gradients are the composition's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.errors import DeviceError, DTypeError, ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import is_large
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.determinism import are_deterministic_algorithms_enabled
from adjoint.engine.ops.elementwise.records import where
from adjoint.engine.ops.index.index import INDEX
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


def _pixels(g: Tensor, size: int, align: bool) -> Tensor:
    """From [-1, 1] to pixel coordinates; with `align` the ends are pixel centres, else edges.

    Product and difference are rounded once, as PyTorch's machine code does: of points that are
    pixels, more are then found there, and the gradient is that of the same neighbour.
    """
    if align:
        return (g + 1) * ((size - 1) / 2)
    if g.dtype is dt.float32 and g.device.type == "cpu":  # exact in twice as many bits
        return (((g + 1).to(dt.float64) * size - 1) / 2).to(dt.float32)
    return ((g + 1) * size - 1) / 2


def _clip(x: Tensor, size: int) -> Tensor:
    """Into the image; unlike clamp's, the gradient is zero on the border itself."""
    inside = (x > 0).logical_and(x < size - 1)
    return where(inside, x, x.detach().clamp(0, size - 1))


def _reflect(x: Tensor, size: int, align: bool) -> Tensor:
    """Folded back at the ends: at the border pixels' centres with `align`, else their edges."""
    low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
    if span == 0:
        return x * 0
    x = (x - low).abs()
    odd = (x.detach() / span).floor().remainder(2) == 1
    folded = x.fmod(span)
    return where(odd, span - folded, folded) + low


def _pad(x: Tensor, size: int, padding: int, align: bool) -> Tensor:
    """Coordinates after the padding mode has had its say."""
    if padding == BORDER:
        return _clip(x, size)
    if padding == REFLECTION:
        return _clip(_reflect(x, size, align), size)
    return x


class Pixels:
    """The image laid out for gathering: rows of channels, found by coordinates.

    Where coordinates may lie outside the image, one more row of zeros stands for all of outside.
    """

    def __init__(self, input: Tensor, *, bounded: bool) -> None:
        self.sizes = tuple(input.shape[2:])
        batch, channels = input.shape[:2]
        self.count = prod(self.sizes)
        rows = input.reshape((batch, channels, self.count)).permute(0, 2, 1)  # (N, HW, C)
        self.bounded = bounded
        self.table = (
            rows.contiguous() if bounded else cat([rows, rows.new_zeros((batch, 1, channels))], 1)
        )
        self.lanes = input.new_arange(batch).reshape((batch, 1))

    def at(self, coordinates: Sequence[Tensor]) -> Tensor:
        """The pixels at whole coordinates (slowest first), zero outside the image. (N, K, C)"""
        flat: Any = 0
        inside: Any = None
        for x, size in zip(coordinates, self.sizes, strict=True):
            x = x.masked_fill(x.isnan(), 0)
            if not self.bounded:
                within = (x >= 0).logical_and(x <= size - 1)
                inside = within if inside is None else inside.logical_and(within)
            flat = flat * size + x.clamp(0, size - 1).to(dt.int64)
        if not self.bounded:
            flat = flat.masked_fill(inside.logical_not(), self.count)
        return INDEX(self.table, self.lanes, flat, dims=(0, 1))


def _nearest(pixels: Pixels, points: Sequence[Tensor], _: Callable[..., Any]) -> Tensor:
    return pixels.at([p.detach().round() for p in points])


def _linear(pixels: Pixels, points: Sequence[Tensor], _: Callable[..., Any]) -> Tensor:
    """Weights 1 - t and t on either side, in each dimension."""
    below = [p.detach().floor() for p in points]
    fractions = [p - b for p, b in zip(points, below, strict=True)]
    total: Any = None
    for corner in product((0, 1), repeat=len(points)):
        value = pixels.at([b + c for b, c in zip(below, corner, strict=True)])
        weight: Any = 1
        for t, c in zip(fractions, corner, strict=True):
            weight = weight * (t if c else 1 - t)
        term = value * weight.unsqueeze(-1)
        total = term if total is None else total + term
    return total


def _cubic_weights(t: Tensor) -> list[Tensor]:
    """Keys' cubic convolution with a = -3/4, for the pixels at -1, 0, 1 and 2."""
    a = -0.75

    def near(s: Any) -> Any:
        return ((a + 2) * s - (a + 3)) * s * s + 1

    def far(s: Any) -> Any:
        return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _cubic(pixels: Pixels, points: Sequence[Tensor], pad: Callable[..., Any]) -> Tensor:
    """Sixteen neighbours, each padded on its own."""
    below = [p.detach().floor() for p in points]
    weights = [_cubic_weights(p - b) for p, b in zip(points, below, strict=True)]
    sizes = pixels.sizes
    taps = [
        [pad(b + (i - 1), size) for i in range(4)] for b, size in zip(below, sizes, strict=True)
    ]
    total: Any = None
    for i, j in product(range(4), repeat=2):
        value = pixels.at([taps[0][i], taps[1][j]])
        term = value * (weights[0][i] * weights[1][j]).unsqueeze(-1)
        total = term if total is None else total + term
    return total


INTERPOLATE = (_linear, _nearest, _cubic)


def _sample(x: Tensor, y: Tensor, interpolation: int, padding: int, align: bool) -> Tensor:
    pixels = Pixels(x, bounded=padding != ZEROS)
    batch, *out = y.shape[:-1]
    grid = y.reshape((batch, prod(out), len(out)))

    def pad(p: Tensor, size: int) -> Tensor:
        return _pad(p, size, padding, align)

    points = []
    for d, size in enumerate(pixels.sizes):  # the grid names the fastest dimension first
        point = _pixels(grid[:, :, len(out) - 1 - d], size, align)
        points.append(point if interpolation == BICUBIC else pad(point, size))
    sampled = INTERPOLATE[interpolation](pixels, points, pad)  # (N, K, C)
    return sampled.permute(0, 2, 1).contiguous().reshape((batch, x.shape[1], *out))


def _pulled(
    g: Tensor, x: Tensor, y: Tensor, wanted: tuple[bool, bool], **how: Any
) -> tuple[Tensor, ...]:
    """The composition's gradients by the operands that are wanted, all of it taken once more."""
    if all(wanted):
        return HOOKS.vjp(lambda x, y: _sample(x, y, **how), x, y)[1](g)
    fn = (lambda x: _sample(x, y, **how)) if wanted[0] else (lambda y: _sample(x, y, **how))
    return HOOKS.vjp(fn, x if wanted[0] else y)[1](g)


def _pull(
    g: Tensor, x: Tensor, y: Tensor, needed: Sequence[bool], params: dict[str, Any]
) -> tuple[Tensor | None, Tensor | None]:
    wanted = (bool(needed[0]), bool(needed[1]))
    here = x.device.type == "cpu" and not CONTEXT.levels  # also where it is recorded
    pulled = GRID_SAMPLER_GRADIENT if CONTEXT.plain or here else _pulled
    gradients = iter(pulled(g, x, y, wanted=wanted, **params))
    return next(gradients) if wanted[0] else None, next(gradients) if wanted[1] else None


GRID_SAMPLER = composite("grid_sampler", _sample, fragment="looped")
# In eager mode on a GPU, which has kernels of both, and of some hundred elements on the CPU, which
# has templates.
GRID_SAMPLER_WHOLE = composite(
    "grid_sampler_whole", _sample, joint=_pull, operands=("x", "y"), fragment="host_looped",
    lies_in_rows=True,
)  # fmt: skip
GRID_SAMPLER_GRADIENT = composite(
    "grid_sampler_gradient", _pulled, operands=("g", "x", "y"), outputs=0, fragment="host_looped",
    lies_in_rows=True,
)  # fmt: skip


def _sampled(input: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> Tensor:
    whole = CONTEXT.plain and not input.dtype.is_half
    if input.device.type == "cuda":  # pixels get their sums in any order
        whole = whole and not are_deterministic_algorithms_enabled()
    else:
        limit = GRID_SAMPLER_WHOLE.large
        whole = whole and (is_large(input._array, limit) or is_large(grid._array, limit))
    record = GRID_SAMPLER_WHOLE if whole else GRID_SAMPLER
    sampled = record(input, grid, interpolation=mode, padding=padding, align=bool(align))
    if mode == NEAREST and grid.requires_grad and not whole:
        # Small moves change nothing: a gradient of zeros, which the composition has no path for.
        return sampled - grid.masked_fill(grid.new_ones((), dtype=dt.bool_), 0).sum()
    return sampled


def _check(name: str, input: Tensor, grid: Tensor, rank: int, mode: int, padding: int) -> None:
    sizes = f"received input {tuple(input.shape)} and grid {tuple(grid.shape)}"
    if input.ndim != rank + 2 or grid.ndim != rank + 2:
        raise ShapeError(f"{name}: expected input and grid of {rank + 2} dimensions, {sizes}")
    if grid.shape[-1] != rank:
        raise ShapeError(f"{name}: expected grid to have size {rank} in last dimension, {sizes}")
    if grid.shape[0] != input.shape[0]:
        raise ShapeError(f"{name}: expected grid and input to have same batch size, {sizes}")
    if 0 in input.shape[2:]:
        raise ShapeError(f"{name}: expected input to have non-empty spatial dimensions, {sizes}")
    if input.dtype is not grid.dtype:
        raise DTypeError(
            f"{name}: expected input and grid to have same dtype, but input has "
            f"{input.dtype.name} and grid has {grid.dtype.name}"
        )
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"{name}: not implemented for {input.dtype.name!r}")
    if input.device != grid.device:
        raise DeviceError(
            f"{name}: expected input and grid to be on same device, but input is on "
            f"{input.device} and grid is on {grid.device}"
        )
    if mode == BICUBIC and rank != 2:
        raise ShapeError(f"{name}: bicubic interpolation only supports 4D input, {sizes}")
    if mode not in (BILINEAR, NEAREST, BICUBIC) or padding not in (ZEROS, BORDER, REFLECTION):
        raise RuntimeError(
            f"{name}: expected interpolation_mode and padding_mode of 0, 1 or 2, received {mode} "
            f"and {padding}"
        )


@public()
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`input` (N, C, H, W) at the points of `grid` (N, H', W', 2), x first, in [-1, 1].

    Interpolation: 0 bilinear, 1 nearest, 2 bicubic. Padding: 0 zeros, 1 border, 2 reflection.
    """
    _check("grid_sampler_2d", input, grid, 2, interpolation_mode, padding_mode)
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


@public()
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`input` (N, C, D, H, W) at the points of `grid` (N, D', H', W', 3), x first, in [-1, 1]."""
    _check("grid_sampler_3d", input, grid, 3, interpolation_mode, padding_mode)
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


@public()
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler_2d` or `grid_sampler_3d`, by the number of dimensions."""
    sampler = grid_sampler_3d if input.ndim == 5 else grid_sampler_2d
    return sampler(input, grid, interpolation_mode, padding_mode, align_corners)
