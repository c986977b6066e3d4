"""Max pooling over randomly laid windows, and the inverse of max pooling."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import DTypeError, ShapeError, ShapeValueError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.image.convolution_functions import expanded
from adjoint.engine.ops.image.pooling import FUNCTIONAL, flat
from adjoint.engine.ops.index.gather import GATHER, SCATTER
from adjoint.engine.ops.random.random import rand
from adjoint.engine.ops.shape.convert import lying_as_images

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _starts(u: Tensor, source: int, size: int, extent: int) -> Tensor:
    """Where windows start, from one uniform number per row: (..., 1) -> (..., size)."""
    if size == 1:
        return (u * 0).to(int64) + (source - extent)
    alpha = (source - extent) / (size - 1)
    steps = u.new_arange(size).to(u.dtype)
    starts = ((steps + u) * alpha).to(int64) - (u * alpha).to(int64)
    last = steps == size - 1
    return starts.masked_fill(last, source - extent)


def _fractional_sizes(
    name: str, rank: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes of windows and of the result, which have to fit the input."""
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.ndim not in (rank + 1, rank + 2):
        by_ratio = output_size is None and input.ndim < rank  # a size is asked for first
        raise (IndexError if by_ratio else RuntimeError)(
            f"{name}: expected {rank + 1}D or {rank + 2}D tensor, but got {list(input.shape)}"
        )
    if 0 in input.shape[input.ndim - rank - 1 :]:
        raise ShapeError(
            f"{name}: expected input to have non-zero size for non-batch dimensions, but got "
            f"{list(input.shape)}"
        )
    kernel = expanded(name, "kernel_size", kernel_size, rank)
    source = input.shape[-rank:]
    if output_size is None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
        sizes = tuple(int(n * r) for n, r in zip(source, ratios, strict=True))
    else:
        sizes = expanded(name, "output_size", output_size, rank)
    for n, o, k in zip(source, sizes, kernel, strict=True):
        if o + k - 1 > n or o < 1:
            raise ShapeError(
                f"{name}: pool size ({k}) too large relative to input size ({n}) for an output of "
                f"{o}"
            )
    return kernel, sizes


def _fractional_places(
    samples: Tensor, source: tuple[int, ...], sizes: tuple[int, ...], kernel: tuple[int, ...]
) -> Tensor:
    """Where in its image each element of each window is: (N, C, windows * elements)."""
    rank, (batch, channels) = len(source), samples.shape[:2]
    at: Any = 0
    for d, (n, o, k) in enumerate(zip(source, sizes, kernel, strict=True)):
        which = rank - 1 - d if rank == 2 else d  # PyTorch's 2-d samples are (width, height)
        starts = _starts(samples[:, :, which : which + 1], n, o, k).unsqueeze(-1)  # (N, C, o, 1)
        spots = starts + starts.new_arange(k)  # (N, C, o, k)
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = o, k
        at = at * n + spots.reshape((batch, channels, *shape))
    places: Tensor = at.reshape((batch, channels, prod(sizes) * prod(kernel)))
    return places


def _fractional(
    x: Tensor, samples: Tensor, kernel: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """(largest, where) of windows: (N, C, ...), (N, C, rank)."""
    rank, lead = len(kernel), x.shape[:2]
    at = _fractional_places(samples, tuple(x.shape[2:]), sizes, kernel)
    values = GATHER(flat(x, rank), at, dim=2).reshape((*lead, prod(sizes), prod(kernel)))
    best = values.argmax(-1, keepdim=True)
    picks = at.reshape(values.shape).gather(-1, best)
    return values.gather(-1, best).reshape((*lead, *sizes)), picks.reshape((*lead, *sizes))


def _fractional_vjp(gs: Any, later_outs: Any, x_spec: Spec) -> Tensor | None:
    g, at = gs[0], later_outs[0]
    if g is None:
        return None
    rank = g.ndim - 2
    zeros = g.new_zeros((*x_spec.shape[:2], prod(x_spec.shape[2:])))
    back = SCATTER(zeros, flat(g, rank), flat(at, rank), dim=2, accumulate=True)
    return back.reshape(x_spec.shape)


# The largest of windows and where they are: one node, whose gradient is put there.
FRACTIONAL_MAX_POOL = composite(
    "fractional_max_pool",
    _fractional,
    _fractional_vjp,
    None,
    operands=("x", "samples"),
    outputs=2,
    fragment="composed",
)


def fractional_max_pool(
    rank: int,
    input: Tensor,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
    samples: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """(largest, where) of windows whose places are drawn at random, of any rank."""
    name = f"fractional_max_pool{rank}d"
    kernel, sizes = _fractional_sizes(name, rank, input, kernel_size, output_size, output_ratio)
    x = input if input.ndim == rank + 2 else input.unsqueeze(0)
    batch, channels = x.shape[:2]
    if samples is None:
        samples = rand(batch, channels, rank, dtype=x.dtype, device=x.device)
    else:
        if tuple(samples.shape[1:]) != (channels, rank) or samples.shape[0] < batch:
            raise ShapeError(
                f"{name}: expected _random_samples of shape {(batch, channels, rank)}, received "
                f"{tuple(samples.shape)}"
            )
        samples = samples if samples.shape[0] == batch else samples[:batch]
    out = FRACTIONAL_MAX_POOL(x, samples, kernel=tuple(kernel), sizes=tuple(sizes))
    return out if x is input else (out[0].squeeze(0), out[1].squeeze(0))


@public(namespaces=FUNCTIONAL)
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest of windows laid at random, `output_size` (or a ratio of the input's) of them.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.fractional_max_pool2d(ad.randn(1, 8, 8), 2, output_size=5).shape
        adjoint.Size([1, 5, 5])
    """
    values, at = fractional_max_pool(
        2, input, kernel_size, output_size, output_ratio, _random_samples
    )
    return (values, at) if return_indices else values


@public(namespaces=FUNCTIONAL)
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest of windows of three dimensions laid at random, as `fractional_max_pool2d`."""
    values, at = fractional_max_pool(
        3, input, kernel_size, output_size, output_ratio, _random_samples
    )
    return (values, at) if return_indices else values


def _with_indices(rank: int) -> None:
    def pool(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        """The largest of windows laid at random, and their places."""
        return fractional_max_pool(
            rank, input, kernel_size, output_size, output_ratio, _random_samples
        )

    public(namespaces=FUNCTIONAL, name=f"fractional_max_pool{rank}d_with_indices")(pool)


_with_indices(2)
_with_indices(3)


# -- the inverse ---------------------------------------------------------------------------------


def _unpooled_size(
    name: str, rank: int, input: Tensor, kernel: Any, stride: Any, pad: Any, output_size: Any
) -> tuple[int, ...]:
    default = [
        (n - 1) * s + k - 2 * p
        for n, k, s, p in zip(input.shape[-rank:], kernel, stride, pad, strict=True)
    ]
    if output_size is None:
        return tuple(default)
    wanted = tuple(output_size)
    if len(wanted) == rank + 2:
        wanted = wanted[2:]
    if len(wanted) != rank:
        raise ShapeValueError(
            f"{name}: output_size should be a sequence containing {rank} or {rank + 2} elements, "
            f"but it has a length of '{len(wanted)}'"
        )
    for d, (n, usual, s) in enumerate(zip(wanted, default, stride, strict=True)):
        if not usual - s < n < usual + s:
            raise ValueError(
                f'{name}: invalid output_size "{output_size}" (dim {d} must be between '
                f"{usual - s} and {usual + s})"
            )
    return wanted


def max_unpool(
    rank: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
) -> Tensor:
    """Values put back where max pooling found them, zeros elsewhere, of any rank."""
    name = f"max_unpool{rank}d"
    kernel = expanded(name, "kernel_size", kernel_size, rank)
    steps = kernel if stride is None else expanded(name, "stride", stride, rank)
    pad = expanded(name, "padding", padding, rank)
    if indices.dtype is not int64:
        raise DTypeError(
            f"{name}: elements in indices should be type int64 but got: {indices.dtype.name}"
        )
    if input.ndim not in (rank + 1, rank + 2):
        raise ShapeError(
            f"{name}: input to {name} should be a {rank + 1}d or {rank + 2}d Tensor, but got a "
            f"tensor with {input.ndim} dimensions"
        )
    if indices.shape != input.shape:
        raise ShapeError(
            f"{name}: expected shape of indices to be same as that of the input tensor "
            f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
        )
    if any(s <= 0 for s in steps):
        raise RuntimeError(f"{name}: strides should be greater than zero, but got {list(steps)}")
    sizes = _unpooled_size(name, rank, input, kernel, steps, pad, output_size)
    lead = tuple(input.shape[: input.ndim - rank])
    if 0 in input.shape[input.ndim - rank - 1 :]:
        raise ShapeError(
            f"{name}: expected input to have non-zero size for non-batch dimensions, but got "
            f"{list(input.shape)}"
        )
    zeros = input.new_zeros((*lead, prod(sizes)))
    x, at = flat(input, rank), flat(indices, rank)
    out = SCATTER(zeros, x, at, dim=len(lead), accumulate=False).reshape((*lead, *sizes))
    return lying_as_images(out, input) if rank == 2 else out


@public(namespaces=FUNCTIONAL)
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """The partial inverse of `max_pool1d`: what was not the largest becomes zero."""
    return max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@public(namespaces=FUNCTIONAL)
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """The partial inverse of `max_pool2d`: what was not the largest becomes zero.

    Example:
        >>> import adjoint as ad
        >>> F = ad.nn.functional
        >>> y, at = F.max_pool2d(ad.arange(4.0).reshape(1, 2, 2), 2, return_indices=True)
        >>> F.max_unpool2d(y, at, 2)
        tensor([[[0., 0.],
                 [0., 3.]]])
    """
    return max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@public(namespaces=FUNCTIONAL)
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """The partial inverse of `max_pool3d`: what was not the largest becomes zero."""
    return max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
