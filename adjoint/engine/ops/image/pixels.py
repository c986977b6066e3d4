"""Rearranging channels and pixels, and sampling by affine maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adjoint.engine.core.dtype import float32
from adjoint.engine.core.errors import DTypeValueError, ShapeError, ShapeValueError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.ops.create.ranges import linspace
from adjoint.engine.ops.image.grid import (
    BICUBIC,
    BILINEAR,
    BORDER,
    NEAREST,
    REFLECTION,
    ZEROS,
    grid_sampler,
)
from adjoint.engine.ops.image.resample import single
from adjoint.engine.ops.nn.common import widen
from adjoint.engine.ops.shape.convert import lying_as_images
from adjoint.engine.ops.shape.join import stack

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]
SPACES = ("nn.functional", "")


def _copied(out: Tensor, source: Tensor) -> Tensor:
    """A result that never shares memory with its source, and lies as that does."""
    return lying_as_images(out.clone() if out._storage is source._storage else out, source)


def _shuffled(x: Tensor, factor: int) -> Tensor:
    *lead, channels, height, width = x.shape
    r, n = factor, len(lead)
    out = x.reshape((*lead, channels // (r * r), r, r, height, width))
    out = out.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return _copied(out.reshape((*lead, channels // (r * r), height * r, width * r)), x)


def _unshuffled(x: Tensor, factor: int) -> Tensor:
    *lead, channels, height, width = x.shape
    r, n = factor, len(lead)
    out = x.reshape((*lead, channels, height // r, r, width // r, r))
    out = out.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return _copied(out.reshape((*lead, channels * r * r, height // r, width // r)), x)


def _dealt(x: Tensor, groups: int) -> Tensor:
    batch, channels, *rest = x.shape
    out = x.reshape((batch, groups, channels // groups, *rest))
    return _copied(out.transpose(1, 2).reshape(x.shape), x)


# Each is one node of the tape, and its inverse takes a cotangent back.
PIXEL_SHUFFLE: Record = composite(
    "pixel_shuffle",
    _shuffled,
    lambda g, factor: PIXEL_UNSHUFFLE(g, factor=factor),
    linear=True,
    keeps_layout="images",
    fragment="plain",
)
PIXEL_UNSHUFFLE: Record = composite(
    "pixel_unshuffle",
    _unshuffled,
    lambda g, factor: PIXEL_SHUFFLE(g, factor=factor),
    linear=True,
    keeps_layout="images",
    fragment="plain",
)
CHANNEL_SHUFFLE: Record = composite(
    "channel_shuffle",
    _dealt,
    lambda g, groups: CHANNEL_SHUFFLE(g, groups=g.shape[1] // groups),
    linear=True,
    keeps_layout="images",
    fragment="plain",
)


@public(namespaces=SPACES)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels laid out as pixels: (*, C r^2, H, W) -> (*, C, H r, W r).

    Example:
        >>> import adjoint as ad
        >>> ad.pixel_shuffle(ad.arange(4.0).reshape(4, 1, 1), 2)
        tensor([[[0., 1.],
                 [2., 3.]]])
    """
    r = upscale_factor
    if input.ndim < 3:
        raise ShapeError(
            "pixel_shuffle: expects input to have at least 3 dimensions, but got input with "
            f"{input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle: expects a positive upscale_factor, but got {r}")
    channels = input.shape[-3]
    if channels % (r * r):
        raise ShapeError(
            "pixel_shuffle: expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    return PIXEL_SHUFFLE(input, factor=r)


@public(namespaces=SPACES)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """The inverse of `pixel_shuffle`: (*, C, H r, W r) -> (*, C r^2, H, W).

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.pixel_unshuffle(ad.ones(1, 1, 12, 12), 3).shape
        adjoint.Size([1, 9, 4, 4])
    """
    r = downscale_factor
    if input.ndim < 3:
        raise ShapeError(
            "pixel_unshuffle: expects input to have at least 3 dimensions, but got input with "
            f"{input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle: expects a positive downscale_factor, but got {r}")
    for what, extent in (("height", input.shape[-2]), ("width", input.shape[-1])):
        if extent % r:
            raise ShapeError(
                f"pixel_unshuffle: expects {what} to be divisible by downscale_factor, but "
                f"{extent} is not divisible by {r}"
            )
    return PIXEL_UNSHUFFLE(input, factor=r)


@public(namespaces=("nn.functional", ""), aliases=("native_channel_shuffle",))
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels (N, C, ...) dealt out so that each group gets some of every other."""
    if input.ndim < 3:
        raise ShapeError(
            f"channel_shuffle: expects input with > 2 dims, but got input with sizes "
            f"{list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"channel_shuffle: number of groups to divide channels in must be positive. Value of "
            f"groups: {groups}"
        )
    channels = input.shape[1]
    if channels % groups:
        raise ShapeError(
            f"channel_shuffle: number of channels must be divisible by groups. Got {channels} "
            f"channels and {groups} groups."
        )
    return CHANNEL_SHUFFLE(input, groups=groups)


MODES = {"bilinear": BILINEAR, "nearest": NEAREST, "bicubic": BICUBIC}
PADDINGS = {"zeros": ZEROS, "border": BORDER, "reflection": REFLECTION}


@public(namespaces=("nn.functional",))
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """`input` (N, C, H, W) at the points of `grid` (N, H', W', 2), x first, in [-1, 1].

    Example:
        >>> import adjoint as ad
        >>> image = ad.arange(4.0).reshape(1, 1, 2, 2)
        >>> ad.nn.functional.grid_sample(image, ad.zeros(1, 1, 1, 2), align_corners=False)
        tensor([[[[1.5000]]]])
    """
    if mode not in MODES:
        raise ValueError(
            f"grid_sample: expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
            f"{mode!r}"
        )
    if padding_mode not in PADDINGS:
        raise ValueError(
            f"grid_sample: expected padding_mode to be 'zeros', 'border', or 'reflection', but "
            f"got: {padding_mode!r}"
        )
    return grid_sampler(input, grid, MODES[mode], PADDINGS[padding_mode], bool(align_corners))


def _axis(theta: Tensor, n: int, align: bool) -> Tensor:
    """n points across [-1, 1]: pixel centres, or with `align` from end to end."""
    if n == 1:
        return theta.new_zeros((1,))
    steps = _between_ends(theta, n)
    return steps if align else steps * (n - 1) / n


def _between_ends(theta: Tensor, n: int) -> Tensor:
    """linspace(-1, 1, n), of float32 in operations that loops know, with the same bits."""
    if theta.dtype is not float32:
        return linspace(-1, 1, n, dtype=theta.dtype, device=theta.device)
    step = single(2.0 / (n - 1))
    index = theta.new_arange(n)
    up = (index.double() * step - 1).float()
    down = (1 - (n - 1 - index).double() * step).float()
    return up.where(index < n // 2, down)


def _axes(theta: Tensor, spatial: Shape, align: bool) -> list[Tensor]:
    """Points along each dimension, x first, as they broadcast against (N, *spatial, rank)."""
    axes = []
    for d in reversed(range(len(spatial))):
        shape = [1] * (len(spatial) + 2)
        shape[d + 1] = spatial[d]
        axes.append(widen(_axis(theta, spatial[d], align)).reshape(shape))
    return axes


def _affine(theta: Tensor, spatial: Shape, align: bool) -> Tensor:
    """Each point's sum of the columns of a map, times its coordinates; the last one as it is."""
    lead = (theta.shape[0], *(1,) * len(spatial), len(spatial))
    *columns, shift = (column.reshape(lead) for column in widen(theta).unbind(2))
    terms = [
        axis * column for axis, column in zip(_axes(theta, spatial, align), columns, strict=True)
    ]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return (total + shift).to(theta.dtype).contiguous()  # however the maps lie


def _affine_vjp(g: Tensor, theta: Tensor, spatial: Shape, align: bool) -> Tensor:
    dims, wide = tuple(range(1, len(spatial) + 1)), widen(g)
    sums = [(wide * axis).sum(dims) for axis in _axes(theta, spatial, align)]
    return stack([*sums, wide.sum(dims)], 2).to(theta.dtype)


# AFFINE_GRID(theta, spatial, align): the points (N, *spatial, rank) of maps (N, rank, rank + 1).
AFFINE_GRID = composite(
    "affine_grid", _affine, _affine_vjp, operands=("theta",), fragment="computed"
)


@public(namespaces=("nn.functional",))
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid, for `grid_sample`, of a batch of affine maps `theta` (N, 2, 3) or (N, 3, 4).

    `size` is the size (N, C, H, W) or (N, C, D, H, W) of the image to be made.

    Example:
        >>> import adjoint as ad
        >>> identity = ad.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> ad.nn.functional.affine_grid(identity, (1, 1, 1, 2), align_corners=False)
        tensor([[[[-0.5000,  0.0000],
                  [ 0.5000,  0.0000]]]])
    """
    if not theta.dtype.is_floating_point:
        raise DTypeValueError(
            f"affine_grid: expected theta to have floating point type, but got {theta.dtype}"
        )
    rank = len(size) - 2
    if rank not in (2, 3):
        raise NotImplementedError(
            "affine_grid: only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {tuple(size)}"
        )
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (rank, rank + 1):
        raise ShapeValueError(
            f"affine_grid: expected a batch of {rank}D affine matrices of shape Nx{rank}x"
            f"{rank + 1} for size {tuple(size)}. Got {tuple(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"affine_grid: expected non-zero, positive output size. Got {size}")
    maps = theta if theta.shape[0] == size[0] else theta.expand((size[0], rank, rank + 1))
    return AFFINE_GRID(maps, spatial=tuple(size[2:]), align=bool(align_corners))
