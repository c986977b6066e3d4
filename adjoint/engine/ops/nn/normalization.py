"""Normalisation to zero mean and unit variance, over features, groups, channels or the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import float32, float64
from adjoint.engine.core.errors import DTypeError, ShapeError, ShapeValueError
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.common.arguments import ints
from adjoint.engine.ops.common.channels import channels_last, goes_by_channels, images_of_rows
from adjoint.engine.ops.nn.common import FUNCTIONAL, in_rows, require_floating, widen
from adjoint.engine.ops.reduce.reduction import SUM, count
from adjoint.engine.ops.shape.convert import lying_as_images

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Dims = tuple[int, ...]


def moments(x: Tensor, dims: Dims) -> tuple[Tensor, Tensor, Tensor]:
    """x less its mean over `dims`, that mean, and the (biased) variance."""
    n = max(count(x.shape, dims), 1)
    mean = SUM(x, dims=dims, keepdim=True) / n
    centred = x - mean
    return centred, mean, SUM(centred * centred, dims=dims, keepdim=True) / n


def _mean_and_variance(x: Tensor, dims: Dims) -> tuple[Tensor, Tensor]:
    """Both, as exact as their dtype has them, however far from 0 the mean is.

    A sum's rounding is much beside a small spread. What it left of the mean in the distances is
    found with the variance, in one pass: without it gradients were off by three times as much.
    """
    centred, mean, variance = moments(x, dims)
    left = SUM(centred, dims=dims, keepdim=True) / max(count(x.shape, dims), 1)
    left = left.masked_fill(variance.isinf(), 0)  # squares that are too large to be summed
    return mean + left, (variance - left * left).clamp(min=0)


# The mean and the variance: a node of its own, so that a target can find both in one pass over x.
MOMENTS = composite("moments", _mean_and_variance, operands=("x",), outputs=2, fragment="device")


def pull_back(gs: Any, x: Tensor, later_outs: Any, dims: Dims, eps: float) -> Tensor | None:
    """The gradient of x from those of (x - mean) / sqrt(variance + eps), mean and variance."""
    g, g_mean, g_variance = gs
    mean, variance = later_outs
    n = max(count(x.shape, dims), 1)
    out = None
    if g is not None:  # g less its part along the mean and along the result
        inverse = (variance + eps).rsqrt()
        standard = (x - mean) * inverse
        # In this order both sums are one kernel's: g meets the result before either is reduced.
        along = SUM(g * standard, dims=dims, keepdim=True) / n
        level = SUM(g, dims=dims, keepdim=True) / n
        out = (g - level - standard * along) * inverse
    if g_mean is not None:
        part = (g_mean / n).expand(x.shape)
        out = part if out is None else out + part
    if g_variance is not None:
        part = (x - mean) * (g_variance * (2 / n))
        out = part if out is None else out + part
    return out


def affine_map(y: Tensor, affine: Any, shape: Dims) -> Tensor:
    """y times a weight plus a bias, where given, each seen in `shape`."""
    for i, parameter in enumerate(affine):
        p = widen(parameter).reshape(shape)
        y = y + p if i else y * p
    return y


def weighted(g: Tensor | None, affine: Any, shape: Dims) -> Tensor | None:
    """A gradient before the weight was applied."""
    if g is None:
        return None
    return widen(g) * widen(affine[0]).reshape(shape) if affine else widen(g)


def narrow(g: Tensor | None, x: Tensor) -> Tensor | None:
    """A gradient in the dtype of its operand."""
    return None if g is None else g.to(x.dtype)


def parameter_gradient(
    g: Tensor | None, x: Tensor, later_outs: Any, position: int, shape: Dims, spec: Spec, eps: float
) -> Tensor | None:
    """Of the weight (position 1) or the bias."""
    if g is None:
        return None
    terms = widen(g)
    if position == 1:
        terms = terms * ((widen(x) - later_outs[0]) * (later_outs[1] + eps).rsqrt())
    return terms.sum_to_size(shape).reshape(spec.shape).to(spec.dtype)


def check_affine(name: str, size: Any, **parameters: Any) -> None:
    """Refuse a weight or bias of another shape."""
    for which, p in parameters.items():
        if p is not None and tuple(p.shape) != tuple(size):
            raise ShapeError(
                f"{name}: expected {which} to be of shape {list(size)}, but got {which} of shape "
                f"{list(p.shape)}"
            )


def check_dtypes(name: str, input: Tensor, *parameters: Tensor | None) -> None:
    """Refuse parameters of another dtype; those of halves may be in float32."""
    dtype = input.dtype
    other = float32 if dtype.is_half else dtype
    for p in parameters:
        if p is None:
            continue
        own = p.dtype
        if own is not dtype and own is not other:
            raise DTypeError(
                f"{name}: mixed dtype: expected parameters of the input's dtype "
                f"{dtype.name} (or, for halves, float32), received {p.dtype.name}. Convert "
                "one with .to(...)."
            )


def given(weight: Any, bias: Any) -> tuple[Any, ...]:
    """The affine operands: none, a weight, or a weight (ones, if it is missing) and a bias."""
    if bias is None:
        return () if weight is None else (weight,)
    if weight is None:
        weight = bias.new_ones(bias.shape)
    return (weight, bias)


# -- over the last dimensions -------------------------------------------------------------------


def _trailing(x: Any, rank: int) -> Dims:
    return tuple(range(x.ndim - rank, x.ndim))


def _layer_norm(x: Tensor, *affine: Any, rank: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    centred, mean, variance = moments(widen(x), _trailing(x, rank))
    out = affine_map(centred * (variance + eps).rsqrt(), affine, x.shape[x.ndim - rank :])
    return out.to(x.dtype), mean, variance


def _layer_norm_input(
    gs: Any, x: Tensor, affine: Any, later_outs: Any, rank: int, eps: float
) -> Tensor | None:
    gs = (weighted(gs[0], affine, x.shape[x.ndim - rank :]), *gs[1:])
    return narrow(pull_back(gs, widen(x), later_outs, _trailing(x, rank), eps), x)


def _layer_norm_affine(
    gs: Any, x: Tensor, later_outs: Any, position: int, spec: Spec, eps: float
) -> Tensor | None:
    return parameter_gradient(gs[0], x, later_outs, position, tuple(spec.shape), spec, eps)


# LAYER_NORM(x, *affine) -> (out, mean, variance), and so for the others below: the statistics are
# kept for the derivative.
LAYER_NORM = composite(
    "layer_norm",
    _layer_norm,
    _layer_norm_input,
    _layer_norm_affine,
    operands=("x", "*affine"),
    keeps_layout=True,
    outputs=3,
    infer_specs=lambda x, *affine, rank, eps: _layer_norm_specs(x, rank),
    fragment="composed",
)


def _layer_norm_specs(x: Spec, rank: int) -> tuple[Spec, Spec, Spec] | None:
    if 0 in x.shape or x.dtype not in (float32, float64):
        return None
    statistic = x._replace(shape=(*x.shape[: len(x.shape) - rank], *(1,) * rank))
    return x, statistic, statistic


def _check_shape(name: str, input: Tensor, normalized_shape: Any) -> Dims:
    given = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
    shape = ints(name, tuple(given))
    if not shape:
        raise ShapeError(
            f"{name}: expected normalized_shape to be at least 1-dimensional, i.e., containing at "
            "least one element, but got normalized_shape = []"
        )
    if tuple(input.shape[input.ndim - len(shape) :]) != shape or input.ndim < len(shape):
        wanted = "".join(f", {n}" for n in shape)
        raise ShapeError(
            f"{name}: given normalized_shape={list(shape)}, expected input with shape "
            f"[*{wanted}], but got input of size {list(input.shape)}"
        )
    return shape


@public(namespaces=FUNCTIONAL)
def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    r"""Zero mean and unit variance over the last dimensions.

    $y = \frac{x - E[x]}{\sqrt{Var[x] + \epsilon}} \gamma + \beta$

    Args:
        normalized_shape: the sizes of the dimensions normalised over.
        weight, bias: of that shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.layer_norm(ad.tensor([[1.0, 3.0]]), (2,))
        tensor([[-1.0000,  1.0000]])
    """
    if _is_usual(input, normalized_shape, weight, bias):
        return LAYER_NORM(in_rows(input), weight, bias, rank=1, eps=eps)[0]
    shape = _check_shape("layer_norm", input, normalized_shape)
    check_affine("layer_norm", shape, weight=weight, bias=bias)
    check_dtypes("layer_norm", input, weight, bias)
    require_floating("layer_norm", input)
    return LAYER_NORM(in_rows(input), *given(weight, bias), rank=len(shape), eps=eps)[0]


def _is_usual(input: Tensor, shape: Any, weight: Tensor | None, bias: Tensor | None) -> bool:
    """Whether it is over the last dimension, all in float32: what the checks would find right."""
    if weight is None or bias is None or shape.__class__ is not tuple or len(shape) != 1:
        return False
    x, w, b = input._array, weight._array, bias._array
    return bool(
        x.shape[-1:] == w.shape == b.shape == shape
        and input.dtype is weight.dtype is bias.dtype is float32
    )


@public(name="layer_norm")
def layer_norm_function(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Zero mean and unit variance over the last dimensions (see `nn.functional.layer_norm`)."""
    return layer_norm(input, normalized_shape, weight, bias, eps)


def _root_mean_square(x: Tensor, dims: Dims, eps: float) -> tuple[Tensor, Tensor]:
    mean = SUM(x * x, dims=dims, keepdim=True) / max(count(x.shape, dims), 1)
    inverse = (mean + eps).rsqrt()
    return x * inverse, inverse


def _rms_norm(x: Tensor, *affine: Any, rank: int, eps: float) -> Tensor:
    scaled, _ = _root_mean_square(widen(x), _trailing(x, rank), eps)
    return affine_map(scaled, affine, x.shape[x.ndim - rank :]).to(x.dtype)


def _rms_norm_input(g: Tensor, x: Tensor, affine: Any, rank: int, eps: float) -> Tensor:
    dims = _trailing(x, rank)
    scaled, inverse = _root_mean_square(widen(x), dims, eps)
    shape = x.shape[x.ndim - rank :]
    g = widen(g) * widen(affine[0]).reshape(shape) if affine else widen(g)
    along = SUM(g * scaled, dims=dims, keepdim=True) / max(count(g.shape, dims), 1)
    return ((g - scaled * along) * inverse).to(x.dtype)


def _rms_norm_weight(g: Tensor, x: Tensor, spec: Spec, rank: int, eps: float) -> Tensor:
    scaled, _ = _root_mean_square(widen(x), _trailing(x, rank), eps)
    return (widen(g) * scaled).sum_to_size(spec.shape).to(spec.dtype)


RMS_NORM = composite(
    "rms_norm",
    _rms_norm,
    _rms_norm_input,
    _rms_norm_weight,
    operands=("x", "*affine"),
    keeps_layout=True,
    fragment="composed",
)


@public(namespaces=("", "nn.functional"))
def rms_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    r"""Division by the root of the mean square over the last dimensions.

    $y = \frac{x}{\sqrt{E[x^2] + \epsilon}} \gamma$

    Args:
        normalized_shape: the sizes of the dimensions normalised over.
        weight: of that shape.
        eps: by default the smallest step from 1 in the input's dtype.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.rms_norm(ad.full((4,), 2.0), (4,))
        tensor([1., 1., 1., 1.])
    """
    if input.dtype.is_complex:
        return _complex_rms_norm(input, normalized_shape, weight, eps)
    least = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    if input.ndim < least:
        raise ShapeValueError(
            f"rms_norm: Input tensor must have at least {least} dimensions, but got {input.ndim}"
        )
    shape = _check_shape("rms_norm", input, normalized_shape)
    check_affine("rms_norm", shape, weight=weight)
    require_floating("rms_norm", input)
    value = finfo(widen(input).dtype).eps if eps is None else eps
    return RMS_NORM(in_rows(input, True), *given(weight, None), rank=len(shape), eps=float(value))


def _complex_rms_norm(input: Tensor, normalized_shape: Any, weight: Any, eps: Any) -> Tensor:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    dims = _trailing(input, len(shape))
    mean = (input * input).mean(dims, keepdim=True)
    out = input * (mean + (finfo(input.dtype.to_real()).eps if eps is None else eps)).rsqrt()
    return out if weight is None else out * weight


# -- over groups of channels --------------------------------------------------------------------


def _grouped(x: Tensor, groups: int) -> Tensor:
    """(N, groups, channels of a group, ...): a view, however x lies."""
    batch, channels, *rest = x.shape
    return x.reshape((batch, groups, channels // max(groups, 1), *rest))


def _of_group(x: Any) -> Dims:
    """The dimensions of what is grouped that make up a group."""
    return tuple(range(2, x.ndim + 1))


def per_channel(x: Any) -> Dims:
    """The shape in which a vector of C broadcasts against (N, C, ...)."""
    return (1, x.shape[1], *(1,) * (x.ndim - 2))


def _group_standard(x: Tensor, statistics: Any, groups: int, eps: float) -> Tensor:
    """x with zero mean and unit variance."""
    mean, variance = statistics
    return ((_grouped(widen(x), groups) - mean) * (variance + eps).rsqrt()).reshape(x.shape)


def _samples(x: Tensor) -> Tensor:
    """(N, C, ...) as (N, positions, C): what lies row by row where channels lie innermost."""
    return channels_last(x).reshape((x.shape[0], -1, x.shape[1]))


def _by_channels(statistic: Tensor, x: Tensor, groups: int) -> Tensor:
    """What is said of each group, said of each of its channels: (N, 1, C)."""
    batch, channels = x.shape[:2]
    each = statistic.reshape((batch, groups, 1)).expand((batch, groups, channels // groups))
    return each.reshape((batch, 1, channels))


def _group_sums(x: Tensor, groups: int) -> Tensor:
    """Sums over the channels of each group, of what is said of these: (N, 1, C) to (N, G, 1)."""
    each = x.reshape((x.shape[0], groups, x.shape[2] // groups))
    return SUM(each, dims=(2,), keepdim=True)


def _standard_samples(x: Tensor, statistics: Any, groups: int, eps: float) -> Tensor:
    """`_group_standard` of images whose channels lie innermost, as samples."""
    mean, variance = statistics
    inverse = _by_channels((variance + eps).rsqrt(), x, groups)
    return (widen(_samples(x)) - _by_channels(mean, x, groups)) * inverse


def _group_norm_by_channels(
    x: Tensor, *affine: Any, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor] | None:
    """The same along memory: the moments of groups follow from those of channels."""
    if not goes_by_channels(x):
        return None
    means, variances = MOMENTS(widen(_samples(x)), dims=(1,))
    each = x.shape[1] // groups
    mean = _group_sums(means, groups) / each
    apart = means - _by_channels(mean, x, groups)
    variance = _group_sums(variances + apart * apart, groups) / each
    standard = _standard_samples(x, (mean, variance), groups, eps)
    out = images_of_rows(affine_map(standard, affine, (1, 1, -1)).to(x.dtype), x)
    kept = (x.shape[0], groups, *(1,) * (x.ndim - 1))
    return out, mean.reshape(kept), variance.reshape(kept)


def _group_norm(x: Tensor, *affine: Any, groups: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    statistics = MOMENTS(widen(_grouped(x, groups)), dims=_of_group(x))
    standard = _group_standard(x, statistics, groups, eps)
    out = affine_map(standard, affine, per_channel(x)).to(x.dtype)
    return lying_as_images(out, x), *statistics


def _channel_sums(
    g: Tensor, x: Tensor, statistics: Any, groups: int, eps: float
) -> tuple[Tensor, Tensor]:
    """What all gradients are made of, in one pass: sums of g, and of g times the result, over the
    positions of each channel of each sample."""
    if goes_by_channels(x):
        wide = widen(_samples(g))
        along = wide * _standard_samples(x, statistics, groups, eps)
        kept = (*x.shape[:2], *(1,) * (x.ndim - 2))
        sums = [SUM(part, dims=(1,), keepdim=True).reshape(kept) for part in (wide, along)]
        return sums[0], sums[1]
    wide = widen(g)
    along = wide * _group_standard(x, statistics, groups, eps)
    dims = tuple(range(2, x.ndim))
    if not dims:
        return wide, along
    return SUM(wide, dims=dims, keepdim=True), SUM(along, dims=dims, keepdim=True)


def _group_norm_input(
    gs: Any, x: Tensor, affine: Any, later_outs: Any, groups: int, eps: float
) -> Tensor | None:
    g, dims = gs[0], _of_group(x)
    if g is not None and gs[1] is None and gs[2] is None and goes_by_channels(x):
        return _group_norm_samples(g, x, affine, later_outs, groups, eps)
    wide = _grouped(widen(x), groups)
    out = pull_back((None, *gs[1:]), wide, later_outs, dims, eps)
    if g is not None:  # as in `pull_back`, by way of channels
        n = max(count(wide.shape, dims), 1)
        weight = widen(affine[0]).reshape(per_channel(x)) if affine else 1.0
        level, along = (
            SUM(_grouped(part * weight, groups), dims=dims, keepdim=True) / n
            for part in _channel_sums(g, x, later_outs, groups, eps)
        )
        inverse = (later_outs[1] + eps).rsqrt()
        standard = (wide - later_outs[0]) * inverse
        part = (_grouped(widen(g) * weight, groups) - level - standard * along) * inverse
        out = part if out is None else part + out
    return None if out is None else out.reshape(x.shape).to(x.dtype)


def _group_norm_samples(
    g: Tensor, x: Tensor, affine: Any, statistics: Any, groups: int, eps: float
) -> Tensor:
    """The gradient by the input of images whose channels lie innermost, along memory."""
    channels = x.shape[1]
    weight = widen(affine[0]).reshape((1, 1, channels)) if affine else 1.0
    samples = widen(_samples(g))
    n = samples.shape[1] * (channels // groups)
    level, along = (
        _by_channels(_group_sums(part.reshape((-1, 1, channels)) * weight, groups) / n, x, groups)
        for part in _channel_sums(g, x, statistics, groups, eps)
    )
    inverse = _by_channels((statistics[1] + eps).rsqrt(), x, groups)
    standard = _standard_samples(x, statistics, groups, eps)
    out = (samples * weight - level - standard * along) * inverse
    return images_of_rows(out.to(x.dtype), x)


def _group_norm_affine(
    gs: Any, x: Tensor, later_outs: Any, position: int, spec: Spec, groups: int, eps: float
) -> Tensor | None:
    if gs[0] is None:
        return None
    level, along = _channel_sums(gs[0], x, later_outs, groups, eps)
    total = SUM(along if position == 1 else level, dims=(0,), keepdim=False)
    return total.reshape(spec.shape).to(spec.dtype)


GROUP_NORM = composite(
    "group_norm",
    _group_norm,
    _group_norm_input,
    _group_norm_affine,
    operands=("x", "*affine"),
    keeps_layout="images",
    by_channels=_group_norm_by_channels,
    outputs=3,
    fragment="composed",
)


@public(namespaces=FUNCTIONAL)
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    r"""Zero mean and unit variance over each group of channels of each sample.

    Args:
        input: (N, C, ...), C divisible by `num_groups`.
        weight, bias: (C,).

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.group_norm(ad.randn(2, 6, 4), num_groups=3).shape
        adjoint.Size([2, 6, 4])
    """
    if input.ndim < 2:
        raise ShapeError(
            f"group_norm: expected at least 2 dimensions for input tensor but received {input.ndim}"
        )
    channels = input.shape[1]
    if num_groups <= 0 or channels % num_groups:
        raise ShapeError(
            "group_norm: expected number of channels in input to be divisible by num_groups, but "
            f"got input of shape {list(input.shape)} and num_groups={num_groups}"
        )
    check_affine("group_norm", (channels,), weight=weight, bias=bias)
    check_dtypes("group_norm", input, weight, bias)
    require_floating("group_norm", input)
    return GROUP_NORM(in_rows(input, True), *given(weight, bias), groups=num_groups, eps=eps)[0]


@public(name="group_norm")
def group_norm_function(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Zero mean and unit variance over groups of channels (see `nn.functional.group_norm`)."""
    return group_norm(input, num_groups, weight, bias, eps)
