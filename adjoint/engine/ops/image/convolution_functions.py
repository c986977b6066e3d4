"""The functions conv1d to conv_transpose3d."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.image.biased_convolution import ADD_TO_CHANNELS, BIASED, with_bias
from adjoint.engine.ops.image.convolution import (
    CONVOLUTION,
    CONVOLUTION_TRANSPOSE,
    exact_padding,
    is_even,
)

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Shape = tuple[int, ...]
SPACES = ("nn.functional", "")


def expanded(name: str, what: str, value: Any, rank: int) -> Shape:
    """One integer for all dimensions, or one for each."""
    try:
        values = (index(value),) if hasattr(value, "__index__") else tuple(map(index, value))
    except TypeError:
        raise TypeError(
            f"{name}(): argument '{what}' must be an int or a tuple of ints, received {value!r}"
        ) from None
    if len(values) == 1:
        values *= rank
    if len(values) != rank:
        raise ShapeError(
            f"{name}: expected {what} to be a single integer value or a list of {rank} values to "
            f"match the convolution dimensions, but got {what}={list(values)}"
        )
    return values


def _tensors(name: str, input: Any, weight: Any, bias: Any, rank: int) -> None:
    for what, x in (("input", input), ("weight", weight), ("bias", bias)):
        if not is_tensor(x) and not (what == "bias" and x is None):
            raise TypeError(f"{name}(): argument '{what}' must be Tensor, not {type(x).__name__}")
    if weight.ndim != rank + 2:
        raise ShapeError(
            f"{name}: expected a weight of {rank + 2} dimensions, but got weight of size "
            f"{list(weight.shape)}"
        )
    if input.ndim not in (rank + 1, rank + 2):
        raise ShapeError(
            f"{name}: expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, "
            f"but got input of size: {list(input.shape)}"
        )


def _geometry(name: str, rank: int, stride: Any, dilation: Any) -> tuple[Any, ...]:
    strides = expanded(name, "stride", stride, rank)
    dilations = expanded(name, "dilation", dilation, rank)
    if min(strides) <= 0:
        raise RuntimeError(f"{name}: non-positive stride is not supported, received {stride}")
    if min(dilations) <= 0:
        raise RuntimeError(f"{name}: dilation should be greater than zero, received {dilation}")
    return strides, dilations


def _paddings(
    name: str, rank: int, padding: Any, kernel: Sequence[int], stride: Shape, dilation: Shape
) -> tuple[Shape, Shape]:
    """What to add before and after each dimension."""
    if isinstance(padding, str):
        if padding == "valid":
            return (0,) * rank, (0,) * rank
        if padding != "same":
            raise RuntimeError(f"{name}: invalid padding string: {padding!r}; give valid or same")
        if any(s != 1 for s in stride):
            raise RuntimeError(
                f"{name}: padding='same' is not supported for strided convolutions; "
                f"received stride={stride}"
            )
        total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    pads = expanded(name, "padding", padding, rank)
    if min(pads) < 0:
        raise RuntimeError(f"{name}: negative padding is not supported, received {padding}")
    return pads, pads


def _check_weight(name: str, weight: Tensor, bias: Tensor | None, groups: int, out: int) -> None:
    size = list(weight.shape)
    if groups <= 0:
        raise RuntimeError(f"{name}: non-positive groups is not supported, received {groups}")
    if weight.shape[0] < groups or weight.shape[0] % groups:
        raise ShapeError(
            f"{name}: given groups={groups}, expected weight to be divisible by {groups} at "
            f"dimension 0, but got weight of size {size} instead"
        )
    if 0 in weight.shape[2:]:
        raise ShapeError(f"{name}: expected a kernel of non-zero size, received weight {size}")
    if bias is not None and tuple(bias.shape) != (out,):
        raise ShapeError(
            f"{name}: given weight of size {size}, expected bias to be 1-dimensional with {out} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )
    if bias is not None and bias.dtype is not weight.dtype:
        raise DTypeError(
            f"{name}: input type ({weight.dtype.name}) and bias type ({bias.dtype.name}) should be "
            "the same"
        )


def _add_bias(out: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None:
        return out
    if bias.dtype is not out.dtype:  # the product was autocast
        bias = bias.to(out.dtype)
    at_once = CONTEXT.settled and out._array.__class__ in DEVICE_LAYOUTS
    return (ADD_TO_CHANNELS if at_once else with_bias)(out, bias)


def _biased(
    record: Record, x: Tensor, weight: Tensor, bias: Tensor | None, plan: dict[str, Any]
) -> Tensor:
    """The record, and a bias after it: as one node where both are a GPU's own."""
    if (
        bias is not None
        and CONTEXT.plain
        and x._array.__class__ in DEVICE_LAYOUTS
        and x.dtype.is_floating_point
        and x.dtype is weight.dtype is bias.dtype
    ):
        both: Tensor = BIASED[record.name](x, weight, bias, **plan)
        return both
    return _add_bias(record(x, weight, **plan), bias)


def convolve(
    name: str,
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    """A convolution of any rank."""
    _tensors(name, input, weight, bias, rank)
    _check_weight(name, weight, bias, groups, weight.shape[0])
    x = input if input.ndim == rank + 2 else input.unsqueeze(0)
    given = fixed(stride), fixed(padding), fixed(dilation)
    plan = _plan(name, rank, tuple(x.shape[2:]), tuple(weight.shape[2:]), *given, groups)
    out = _convolved(x, weight, bias, plan)
    return out if x is input else out.squeeze(0)


def _convolved(x: Tensor, weight: Tensor, bias: Tensor | None, plan: dict[str, Any]) -> Tensor:
    """The record, or on a GPU what is quicker there."""
    if x.device.type == "cuda" and _fit(x, weight, plan["groups"]):
        if folds(x, weight, plan):
            return _add_bias(folded(x, weight, plan), bias)
        if not all(map(is_even, plan["padding"], plan["stride"])):  # libraries pad evenly
            x, plan = padded_first(x, plan)
        return _biased(CONVOLUTION, x, weight, bias, plan)
    return _add_bias(CONVOLUTION(x, weight, **plan), bias)


def padded_first(x: Tensor, plan: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """Images that are padded, or cut, before a convolution, and what is left of its parameters."""
    padded = x.constant_pad([(0, 0), (0, 0), *plan["padding"]], 0)
    return padded, {**plan, "padding": ((0, 0),) * len(plan["padding"])}


def _fit(x: Tensor, weight: Tensor, groups: int) -> bool:
    """Whether the record will not refuse them."""
    return x.dtype is weight.dtype and x.shape[1] == weight.shape[1] * groups


# -- the first layer of a network for images, on a GPU -------------------------------------------

FEW, WIDE, LARGE = 4, 5, 1 << 20  # channels, taps along a dimension, elements of a batch


def folds(x: Tensor, weight: Tensor, plan: dict[str, Any]) -> bool:
    """Whether a convolution is better done on folded images.

    Tensor cores multiply along channels, eight or sixteen at a time: with three of them and a
    stride of two, a convolution takes as long as one of ten times the work.
    """
    return (
        x.dtype.is_half
        and plan["stride"] == (2, 2)
        and plan["dilation"] == (1, 1)
        and plan["groups"] == 1
        and x.shape[1] <= FEW
        and min(weight.shape[2:]) >= WIDE
        and x.numel() >= LARGE
        and not x.requires_grad
    )


def folded(x: Tensor, weight: Tensor, plan: dict[str, Any]) -> Tensor:
    """A convolution of stride 2 as one of stride 1 between images and weights half as high and
    wide, the four elements of a square side by side in channels."""
    kernel = [k + k % 2 for k in weight.shape[2:]]
    more = (0, FEW - x.shape[1])
    pads = []
    for n, k, size, (low, high) in zip(
        x.shape[2:], weight.shape[2:], kernel, plan["padding"], strict=True
    ):
        windows = (n + low + high - k) // 2 + 1
        pads.append((low, 2 * (windows - 1) + size - n - low))
    taps = [(0, size - k) for size, k in zip(kernel, weight.shape[2:], strict=True)]
    return CONVOLUTION(
        fold(x.constant_pad([(0, 0), more, *pads], 0)),
        fold(weight.constant_pad([(0, 0), more, *taps], 0)),
        stride=(1, 1),
        padding=((0, 0), (0, 0)),
        dilation=(1, 1),
        groups=1,
    )


def fold(x: Tensor) -> Tensor:
    """(N, C, 2H, 2W) as (N, 4C, H, W), whose channels lie innermost."""
    n, c, h, w = x.shape
    squares = x.reshape((n, c, h // 2, 2, w // 2, 2)).permute((0, 2, 4, 1, 3, 5))
    return squares.reshape((n, h // 2, w // 2, 4 * c)).permute((0, 3, 1, 2))


def fixed(value: Any) -> Any:
    """An argument as a key to remember by."""
    return tuple(value) if isinstance(value, list) else value


@lru_cache(maxsize=1024, typed=True)
def _plan(
    name: str,
    rank: int,
    sizes: Shape,
    kernel: Shape,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> dict[str, Any]:
    """The parameters of CONVOLUTION, from checked arguments."""
    strides, dilations = _geometry(name, rank, stride, dilation)
    lo, hi = _paddings(name, rank, padding, kernel, strides, dilations)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    room = [n + a + b for n, a, b in zip(sizes, lo, hi, strict=True)]
    if any(r < k for r, k in zip(room, reach, strict=True)):
        raise ShapeError(
            f"{name}: calculated padded input size per channel: ({_times(room)}). Kernel size: "
            f"({_times(reach)}). Kernel size can't be greater than actual input size"
        )
    pairs = exact_padding(sizes, kernel, strides, lo, hi, dilations)
    return {"stride": strides, "padding": pairs, "dilation": dilations, "groups": groups}


def _times(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def convolve_transpose(
    name: str,
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    """A transposed convolution of any rank."""
    _tensors(name, input, weight, bias, rank)
    strides, dilations = _geometry(name, rank, stride, dilation)
    _check_weight(name, weight, bias, groups, weight.shape[1] * groups)
    pads = expanded(name, "padding", padding, rank)
    extra = expanded(name, "output_padding", output_padding, rank)
    if min(pads) < 0 or min(extra) < 0:
        raise RuntimeError(f"{name}: negative padding is not supported")
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise RuntimeError(
            f"{name}: output padding must be smaller than either stride or dilation, but got "
            f"output_padding={list(extra)} stride={list(strides)} dilation={list(dilations)}"
        )
    x = input if input.ndim == rank + 2 else input.unsqueeze(0)
    sizes = [
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(
            x.shape[2:], strides, pads, dilations, weight.shape[2:], extra, strict=True
        )
    ]
    if any(n <= 0 for n in sizes) or 0 in x.shape[2:]:
        raise ShapeError(
            f"{name}: given input size per channel: ({_times(x.shape[2:])}), calculated output "
            f"size per channel: ({_times(sizes)}). Output size is too small"
        )
    padding = tuple((p, p - e) for p, e in zip(pads, extra, strict=True))
    plan = {"stride": strides, "padding": padding, "dilation": dilations, "groups": groups}
    if x.shape[1] == weight.shape[0]:
        out = _biased(CONVOLUTION_TRANSPOSE, x, weight, bias, plan)
    else:  # which the record refuses
        out = CONVOLUTION_TRANSPOSE(x, weight, **plan)
    return out if x is input else out.squeeze(0)


@public(namespaces=SPACES)
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """A convolution over the last dimension, as `conv2d` over two.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.conv1d(ad.randn(20, 16, 50), ad.randn(33, 16, 3), padding=1).shape
        adjoint.Size([20, 33, 50])
    """
    return convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@public(namespaces=SPACES)
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    r"""A convolution (cross-correlation) over the last two dimensions.

    $out_{n,o} = b_o + \sum_c w_{o,c} \star x_{n,c}$

    Args:
        input: (N, C, H, W) or (C, H, W).
        weight: (O, C / groups, kH, kW).
        bias: (O,).
        stride, dilation: an int or one per dimension.
        padding: zeros added on both sides: an int, one per dimension, "valid" or "same".
        groups: input and output channels are divided into this many separate convolutions.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.conv2d(ad.ones(1, 2, 5, 5), ad.ones(4, 2, 3, 3), padding=1).shape
        adjoint.Size([1, 4, 5, 5])
    """
    return convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@public(namespaces=SPACES)
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """A convolution over the last three dimensions, as `conv2d` over two.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.conv3d(ad.randn(2, 4, 6, 6, 6), ad.randn(5, 4, 3, 3, 3)).shape
        adjoint.Size([2, 5, 4, 4, 4])
    """
    return convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@public(namespaces=SPACES)
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose of `conv1d`, as `conv_transpose2d` of `conv2d`."""
    return convolve_transpose(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups,
        dilation,
    )  # fmt: skip


@public(namespaces=SPACES)
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose of `conv2d` with the same arguments: each input spreads over a window.

    `weight` is (C, O / groups, kH, kW); `output_padding` is added to the size of the result on
    one side, to choose among the sizes a strided convolution maps to one.

    Example:
        >>> import adjoint as ad
        >>> y = ad.nn.functional.conv_transpose2d(
        ...     ad.ones(1, 2, 3, 3), ad.ones(2, 4, 2, 2), stride=2
        ... )
        >>> y.shape
        adjoint.Size([1, 4, 6, 6])
    """
    return convolve_transpose(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups,
        dilation,
    )  # fmt: skip


@public(namespaces=SPACES)
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose of `conv3d`, as `conv_transpose2d` of `conv2d`."""
    return convolve_transpose(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups,
        dilation,
    )  # fmt: skip


@public(namespaces=("nn.functional", ""))
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over time: (T, N, C) by a weight (K, C, O) -> (T', N, O)."""
    if input.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        raise ShapeError(
            "conv_tbc: expected input and weight of 3 dimensions and bias of 1, received "
            f"{list(input.shape)}, {list(weight.shape)} and {list(bias.shape)}"
        )
    x, w = input.permute(1, 2, 0), weight.permute(2, 1, 0)
    out = convolve("conv_tbc", 1, x, w, bias, 1, pad, 1, 1)
    return out.permute(2, 0, 1)


@public()
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """A convolution, or with `transposed` its transpose, of the rank of the weight."""
    name, rank = "convolution", weight.ndim - 2
    if transposed:
        return convolve_transpose(
            name, rank, input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return convolve(name, rank, input, weight, bias, stride, padding, dilation, groups)
