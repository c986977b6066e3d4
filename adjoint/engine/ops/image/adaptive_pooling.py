"""Pooling to a wanted size: the windows are laid so that they cover the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.public import public
from adjoint.engine.ops.image.convolution_functions import expanded
from adjoint.engine.ops.image.pooling import (
    FUNCTIONAL,
    MAX_POOL,
    as_pooled,
    avg_pool,
)
from adjoint.engine.ops.image.resample import Rule, resampled
from adjoint.engine.ops.shape.convert import lying_as_images

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]


def _sizes(name: str, rank: int, input: Tensor, output_size: Any, first: int = 1) -> Shape:
    """The wanted sizes; None keeps the input's. No dimension from `first` on may be empty."""
    if input.ndim not in (rank + 1, rank + 2):
        several = (
            isinstance(output_size, (tuple, list)) and rank > 1
        )  # then sizes are matched first
        raise (ValueError if several and input.ndim <= rank else RuntimeError)(
            f"{name}: expected {rank + 1}D or {rank + 2}D tensor, but got {list(input.shape)}"
        )
    if 0 in input.shape[first:]:
        raise ShapeError(
            f"{name}: expected input to have non-zero size for non-batch dimensions, but input "
            f"has sizes {list(input.shape)}"
        )
    if isinstance(output_size, (tuple, list)) and None in output_size:
        spatial = input.shape[-len(output_size) :]
        output_size = [n if o is None else o for o, n in zip(output_size, spatial, strict=True)]
    elif output_size is None:
        output_size = input.shape[-rank:]
    if isinstance(output_size, (tuple, list)) and len(output_size) != rank:
        raise ShapeError(f"{name}: output_size must be {rank} numbers, received {len(output_size)}")
    sizes = expanded(name, "output_size", output_size, rank)
    if min(sizes) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0, but received "
            f"{list(sizes)}"
        )
    return sizes


def _is_one(output_size: Any, rank: int) -> bool:
    if isinstance(output_size, (tuple, list)):
        return len(output_size) == rank and all(n == 1 for n in output_size)
    return bool(output_size == 1)


def adaptive_avg_pool(rank: int, input: Tensor, output_size: Any) -> Tensor:
    """Means over windows that cover the input, of any rank."""
    name = f"adaptive_avg_pool{rank}d"
    if _is_one(output_size, rank) and (rank > 1 or input.ndim in (2, 3)):  # of any dimensions
        return lying_as_images(input.mean(tuple(range(-rank, 0)), keepdim=True), input)
    sizes = _sizes(name, rank, input, output_size, 1 if rank == 3 else -rank)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"{name}: not implemented for {input.dtype.name}")
    source = tuple(input.shape[-rank:])
    if all(o and n % o == 0 for n, o in zip(source, sizes, strict=True)):
        extent = tuple(n // o for n, o in zip(source, sizes, strict=True))
        return avg_pool(rank, input, extent, extent, 0, False, True)
    lead = input.ndim - rank
    rules: dict[int, Rule] = {
        lead + d: ("adaptive_mean", n, o)
        for d, (n, o) in enumerate(zip(source, sizes, strict=True))
    }
    return resampled(as_pooled(rank, input, kept=False), rules)


def adaptive_max_pool(rank: int, input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """(largest, where) over windows that cover the input, of any rank."""
    sizes = _sizes(f"adaptive_max_pool{rank}d", rank, input, output_size)
    windows: list[Rule] = []
    for n, o in zip(input.shape[-rank:], sizes, strict=True):
        if o and n % o == 0:
            windows.append(("window", n, o, n // o, n // o, 0, 1))
        else:
            windows.append(("adaptive", n, o))
    values, at = MAX_POOL(as_pooled(rank, input, kept=False), windows=tuple(windows))
    return values, at


@public(namespaces=("nn.functional", ""))
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows along the last dimension, as many as `output_size`."""
    return adaptive_avg_pool(1, input, output_size)


@public(namespaces=FUNCTIONAL)
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows of the last two dimensions, as many as `output_size` in each.

    A size of None keeps the input's.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.adaptive_avg_pool2d(ad.arange(9.0).reshape(1, 3, 3), 2)
        tensor([[[2., 3.],
                 [5., 6.]]])
    """
    return adaptive_avg_pool(2, input, output_size)


@public(namespaces=FUNCTIONAL)
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows of the last three dimensions, as many as `output_size` in each."""
    return adaptive_avg_pool(3, input, output_size)


@public(namespaces=FUNCTIONAL)
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest of windows along the last dimension, as many as `output_size`."""
    values, at = adaptive_max_pool(1, input, output_size)
    return (values, at) if return_indices else values


@public(namespaces=("",), name="adaptive_max_pool1d")
def adaptive_max_pool1d_with_places(input: Tensor, output_size: Any) -> Any:
    """The largest of windows along the last dimension, and their places."""
    return adaptive_max_pool(1, input, output_size)


@public(namespaces=FUNCTIONAL)
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest of windows of the last two dimensions, as many as `output_size` in each.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.adaptive_max_pool2d(ad.arange(9.0).reshape(1, 3, 3), 2)
        tensor([[[4., 5.],
                 [7., 8.]]])
    """
    values, at = adaptive_max_pool(2, input, output_size)
    return (values, at) if return_indices else values


@public(namespaces=FUNCTIONAL)
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest of windows of the last three dimensions, as many as `output_size` in each."""
    values, at = adaptive_max_pool(3, input, output_size)
    return (values, at) if return_indices else values


def _with_indices(rank: int) -> Any:
    def pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        """The largest of adaptive windows, and their places."""
        return adaptive_max_pool(rank, input, output_size)

    return public(namespaces=FUNCTIONAL, name=f"adaptive_max_pool{rank}d_with_indices")(pool)


for _rank in (1, 2, 3):
    _with_indices(_rank)
