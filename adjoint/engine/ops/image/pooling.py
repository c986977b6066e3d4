"""Pooling: the largest of each window, or its mean."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import ShapeError, ShapeValueError
from adjoint.engine.core.operations.families import composite, primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.common.channels import channels_last, channels_second
from adjoint.engine.ops.image.convolution_functions import expanded, fixed
from adjoint.engine.ops.image.resample import Rule, resampled
from adjoint.engine.ops.index.gather import GATHER, SCATTER
from adjoint.engine.ops.shape.convert import lying_as_images

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]
# A window along one dimension: ("window", source, size, extent, step, offset, dilation), or
# ("adaptive", source, size). MAX_POOL takes one for each of the last dimensions.
FUNCTIONAL = ("nn.functional",)


def _infer_max(x: Spec, windows: tuple[Rule, ...]) -> tuple[Spec, Spec]:
    if x.dtype.is_complex or x.dtype.name == "bool":
        raise NotImplementedError(f"max_pool{len(windows)}d: not implemented for {x.dtype.name}")
    shape = (*x.shape[: len(x.shape) - len(windows)], *(w[2] for w in windows))
    return Spec(shape, x.dtype, x.device), Spec(shape, int64, x.device)


def flat(x: Tensor, rank: int) -> Tensor:
    """The last `rank` dimensions as one."""
    lead = x.shape[: x.ndim - rank]
    return x.reshape((*lead, prod(x.shape[x.ndim - rank :])))


def _max_vjp(gs: Any, later_outs: Any, x_spec: Spec, windows: tuple[Rule, ...]) -> Tensor | None:
    if gs[0] is None:
        return None
    return MAX_POOL_BACKWARD(gs[0], later_outs[0], windows=windows)


def _with_channels(x: Tensor, windows: tuple[Rule, ...]) -> tuple[Rule, ...] | None:
    """The windows of images (N, ..., C), of one channel each; None where x is no batch of them."""
    channels = x.shape[1]
    apart = ("window", channels, channels, 1, 1, 0, 1)
    return (*windows, apart) if x.ndim == len(windows) + 2 else None


def as_pooled(rank: int, input: Tensor, kept: bool) -> Tensor:
    """What is pooled: of three dimensions, row by row unless channels stay innermost (`kept`).

    A single example has its channels first, wherever they lie.
    """
    return input if rank < 3 or (kept and input.ndim == rank + 2) else input.contiguous()


def _max_by_channels(x: Tensor, windows: tuple[Rule, ...]) -> Any:
    """MAX_POOL of images whose channels lie innermost."""
    if x.ndim != len(windows) + 2:
        return MAX_POOL(x.contiguous(), windows=windows)
    best, at = MAX_POOL_OF_CHANNELS(channels_last(x), windows=windows)
    return channels_second(best), channels_second(at)


def _max_of_channels(x: Tensor, windows: tuple[Rule, ...]) -> Any:
    best, at = MAX_POOL(channels_second(x).contiguous(), windows=windows)
    return channels_last(best), channels_last(at)


# MAX_POOL of images (N, ..., C): a node of its own, so that a target can take all channels of a
# window together, for which places are the same.
MAX_POOL_OF_CHANNELS = composite("max_pool_of_channels", _max_of_channels)


def _max_backward_by_channels(g: Tensor, at: Tensor, windows: tuple[Rule, ...]) -> Tensor:
    whole = _with_channels(g, windows)
    if whole is None:
        return MAX_POOL_BACKWARD(g.contiguous(), at.contiguous(), windows=windows)
    places = channels_last(at) * g.shape[1] + at.new_arange(g.shape[1])
    out: Tensor = MAX_POOL_BACKWARD(channels_last(g), places, windows=whole)
    return channels_second(out)


def _max_backward(g: Tensor, at: Tensor, windows: tuple[Rule, ...]) -> Tensor:
    rank = len(windows)
    lead, sizes = tuple(g.shape[:-rank]), tuple(w[1] for w in windows)
    zeros = g.new_zeros((*lead, prod(sizes)))
    back = SCATTER(zeros, flat(g, rank), flat(at, rank), dim=len(lead), accumulate=True)
    return lying_as_images(back.reshape((*lead, *sizes)), g, at)


# What each window says of its largest element, added up where they are: a node of its own, so that
# a target can look for the windows of an element instead.
MAX_POOL_BACKWARD = composite(
    "max_pool_backward",
    _max_backward,
    operands=("g", "at"),
    keeps_layout="images",
    by_channels=_max_backward_by_channels,
    fragment="looped",
)


def _max_jvp(tx: Tensor, later_outs: Any, windows: tuple[Rule, ...]) -> Any:
    rank = len(windows)
    at = later_outs[0]
    return picked_flat(tx, at, rank), None


def picked_flat(x: Tensor, at: Tensor, rank: int) -> Tensor:
    """x at places counted over its last `rank` dimensions."""
    lead = x.ndim - rank
    return GATHER(flat(x, rank), flat(at, rank), dim=lead).reshape(at.shape)


# (largest, where: counted over the pooled dimensions together). NaN is larger than all.
MAX_POOL: Record = primitive(
    "max_pool",
    _infer_max,
    _max_vjp,
    jvp=_max_jvp,
    kinked=True,
    batched_params=lambda params, size: params,
    keeps_layout="images",
    by_channels=_max_by_channels,
    outputs=2,
    rounding="exact",
    fragment="looped",
    in_steps=True,
)


# -- sizes and checks ----------------------------------------------------------------------------


def pooled_size(
    source: int, extent: int, step: int, pad: int, dilation: int, ceil_mode: bool
) -> int:
    """How many windows there are; with ceil_mode the last must start inside or in front."""
    spare = source + 2 * pad - dilation * (extent - 1) - 1 + (step - 1 if ceil_mode else 0)
    size = spare // step + 1
    if ceil_mode and (size - 1) * step >= source + pad:
        size -= 1
    return size


class PoolingArguments:
    """Checked arguments of a pooling function."""

    def __init__(
        self,
        name: str,
        rank: int,
        shape: Shape,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
    ) -> None:
        self.kernel = expanded(name, "kernel_size", kernel_size, rank)
        given = stride is not None and not (isinstance(stride, tuple) and not stride)
        self.step = expanded(name, "stride", stride, rank) if given else self.kernel
        self.pad = expanded(name, "padding", padding, rank)
        self.dilation = expanded(name, "dilation", dilation, rank)
        check_rank(name, shape, rank)
        if min(self.step) <= 0:
            raise RuntimeError(f"{name}: stride should not be zero, received {stride}")
        if min(self.kernel) <= 0 or min(self.dilation) <= 0:
            raise ShapeError(
                f"{name}: kernel size and dilation should be greater than zero, received "
                f"{kernel_size} and {dilation}"
            )
        self._check_padding(name)
        self.source = shape[-rank:]
        self.size = tuple(
            pooled_size(n, k, s, p, d, bool(ceil_mode))
            for n, k, s, p, d in zip(
                self.source, self.kernel, self.step, self.pad, self.dilation, strict=True
            )
        )
        if any(n < 1 for n in self.size):
            raise ShapeError(
                f"{name}: given input size: {list(shape)}. Calculated output size: "
                f"{list(self.size)}. Output size is too small"
            )
        # the windows as MAX_POOL takes them
        self.rules: tuple[Rule, ...] = tuple(
            ("window", n, o, k, s, -p, d)
            for n, o, k, s, p, d in zip(
                self.source, self.size, self.kernel, self.step, self.pad, self.dilation, strict=True
            )
        )

    def _check_padding(self, name: str) -> None:
        for k, p, d in zip(self.kernel, self.pad, self.dilation, strict=True):
            if p < 0:
                raise RuntimeError(f"{name}: pad must be non-negative, but got pad: {p}")
            if p > (d * (k - 1) + 1) // 2:
                raise ShapeError(
                    f"{name}: pad should be at most half of effective kernel size, but got "
                    f"pad={p}, kernel_size={k} and dilation={d}"
                )


@lru_cache(maxsize=1024, typed=True)
def _windows(*arguments: Any) -> PoolingArguments:
    return PoolingArguments(*arguments)


def windows_of(name: str, rank: int, input: Tensor, *arguments: Any) -> PoolingArguments:
    """The checked windows of a call, remembered."""
    return _windows(name, rank, tuple(input.shape), *map(fixed, arguments))


def check_rank(name: str, shape: Shape, rank: int) -> None:
    """Refuse what is neither one example nor a batch of them."""
    if len(shape) not in (rank + 1, rank + 2):
        # PyTorch's kernel for means of two dimensions reads the sizes before it counts them.
        kind = IndexError if name == "avg_pool2d" and len(shape) < 3 else RuntimeError
        raise kind(
            f"{name}: expected {rank + 1}D or {rank + 2}D (batch mode) tensor, but got input of "
            f"size {list(shape)}"
        )
    if 0 in shape[len(shape) - rank - 1 :]:
        raise ShapeError(
            f"{name}: expected {rank + 1}D or {rank + 2}D tensor with optional 0 dim batch size "
            f"for input, but got: {list(shape)}"
        )


# -- max pooling ---------------------------------------------------------------------------------


def max_pool(
    rank: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    """The largest of each window, of any rank."""
    name = f"max_pool{rank}d"
    windows = windows_of(name, rank, input, kernel_size, stride, padding, dilation, bool(ceil_mode))
    values, at = MAX_POOL(as_pooled(rank, input, kept=True), windows=windows.rules)
    return (values, at) if return_indices else values


@public(namespaces=("nn.functional", ""))
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest of each window along the last dimension, as `max_pool2d` along two.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.max_pool1d(ad.tensor([[1.0, 3.0, 2.0, 5.0]]), 2)
        tensor([[3., 5.]])
    """
    return max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@public(namespaces=("nn.functional", ""))
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest of each window of the last two dimensions.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size, stride, padding, dilation: an int or one per dimension; the stride is the
            kernel's size unless given; padding is never the largest.
        ceil_mode: also take a last window that is partly outside.
        return_indices: also give the places of the largest, counted over H W.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.max_pool2d(ad.arange(16.0).reshape(1, 4, 4), 2)
        tensor([[[ 5.,  7.],
                 [13., 15.]]])
    """
    return max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@public(namespaces=("nn.functional", ""))
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest of each window of the last three dimensions, as `max_pool2d` of two."""
    return max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _with_indices(rank: int) -> Any:
    name = f"max_pool{rank}d_with_indices"

    def pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The largest of each window and their places."""
        return max_pool(rank, input, kernel_size, stride, padding, dilation, ceil_mode, True)

    spaces = ("nn.functional", "") if rank == 1 else FUNCTIONAL
    return public(namespaces=spaces, name=name)(pool)


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = map(
    _with_indices, (1, 2, 3)
)


# -- mean pooling --------------------------------------------------------------------------------


def _require_real(name: str, input: Tensor) -> None:
    if input.dtype.name == "bool" or input.dtype.is_complex:
        raise NotImplementedError(f"{name}: not implemented for {input.dtype.name}")


def avg_pool(
    rank: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window, of any rank."""
    name = f"avg_pool{rank}d"
    _require_real(name, input)
    w = windows_of(name, rank, input, kernel_size, stride, padding, 1, bool(ceil_mode))
    if divisor_override == 0:
        raise RuntimeError(f"{name}: divisor must be not zero")
    if not input.dtype.is_floating_point:
        pooled = avg_pool(
            rank, input.double(), kernel_size, stride, padding, ceil_mode, count_include_pad,
            divisor_override,
        )  # fmt: skip
        return (pooled * (1 + 1e-12)).trunc().to(input.dtype)  # a third three times is one
    lead = input.ndim - rank
    rows = as_pooled(rank, input, kept=False)
    return resampled(rows, *_mean_rules(w, lead, count_include_pad, divisor_override))


@lru_cache(maxsize=1024, typed=True)
def _mean_rules(
    w: PoolingArguments, lead: int, count_include_pad: bool, divisor_override: int | None
) -> tuple[dict[int, Rule], int | None]:
    """How each dimension is resampled, and what the sums are divided by, if all by one number."""
    parts = list(zip(w.source, w.size, w.kernel, w.step, w.pad, strict=True))
    inside = all(
        (o - 1) * s - p + k <= n + (p if count_include_pad else 0) and (count_include_pad or not p)
        for n, o, k, s, p in parts
    )
    if divisor_override is not None or inside:
        sums: dict[int, Rule] = {
            lead + d: ("sum", n, o, k, s, -p) for d, (n, o, k, s, p) in enumerate(parts)
        }
        return sums, prod(w.kernel) if divisor_override is None else divisor_override
    means: dict[int, Rule] = {
        lead + d: ("mean", n, o, k, s, -p, p if count_include_pad else 0)
        for d, (n, o, k, s, p) in enumerate(parts)
    }
    return means, None


@public(namespaces=("nn.functional", ""))
def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window along the last dimension, as `avg_pool2d` along two.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.avg_pool1d(ad.tensor([[1.0, 3.0, 2.0, 6.0]]), 2)
        tensor([[2., 4.]])
    """
    return avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


@public(namespaces=FUNCTIONAL, out=True)
def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of the last two dimensions.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size, stride, padding: an int or one per dimension; the stride is the kernel's size
            unless given.
        ceil_mode: also take a last window that is partly outside.
        count_include_pad: whether the zeros of the padding count.
        divisor_override: divide by this instead of by the number of elements.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.avg_pool2d(ad.arange(16.0).reshape(1, 4, 4), 2)
        tensor([[[ 2.5000,  4.5000],
                 [10.5000, 12.5000]]])
    """
    return avg_pool(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@public(namespaces=FUNCTIONAL, out=True)
def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of the last three dimensions, as `avg_pool2d` of two."""
    return avg_pool(
        3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


# -- powers --------------------------------------------------------------------------------------


def lp_pool(
    rank: int, input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Tensor:
    """(sum of x^p)^(1/p) of each window, of any rank."""
    kernel = expanded(f"lp_pool{rank}d", "kernel_size", kernel_size, rank)
    mean = avg_pool(rank, input.pow(norm_type), kernel, stride, 0, ceil_mode, True)
    return (mean.sign() * mean.abs().relu()).mul(prod(kernel)).pow(1.0 / norm_type)


@public(namespaces=FUNCTIONAL)
def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    r"""$(\sum x^p)^{1/p}$ of each window along the last dimension."""
    return lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@public(namespaces=FUNCTIONAL)
def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    r"""$(\sum x^p)^{1/p}$ of each window of the last two dimensions."""
    return lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


@public(namespaces=FUNCTIONAL)
def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    r"""$(\sum x^p)^{1/p}$ of each window of the last three dimensions."""
    return lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


@public(namespaces=FUNCTIONAL)
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    r"""$x / (k + \alpha \bar{x^2})^\beta$ with the mean over `size` neighbouring channels.

    Channels are dimension 1; those beyond the ends count as zeros.
    """
    if input.ndim < 3:
        raise ShapeValueError(
            "local_response_norm: expected 3D or higher dimensionality input "
            f"(got {input.ndim} dimensions)"
        )
    if input.numel() == 0:
        return input
    channels = input.shape[1]
    rule: Rule = ("sum", channels, channels, size, 1, -(size // 2))
    mean = resampled(input * input, {1: rule}) / size
    return input / (mean * alpha + k).pow(beta)
