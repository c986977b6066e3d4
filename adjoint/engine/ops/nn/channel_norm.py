"""Normalisation of channels, over the batch or of each sample, with running statistics."""

from __future__ import annotations

from itertools import count as counter
from math import prod
from typing import TYPE_CHECKING, Any

from numpy import may_share_memory, ndarray

from adjoint.engine.core.errors import ShapeError, ShapeValueError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS, UPDATED
from adjoint.engine.core.operations.met_calls import write_part
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.operations.small_calls import SmallCalls
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.ops.common.channels import (
    goes_by_channels,
    images_of_rows,
    rows_of_channels,
)
from adjoint.engine.ops.nn.common import FUNCTIONAL, in_rows, require_floating, widen
from adjoint.engine.ops.nn.normalization import (
    MOMENTS,
    Dims,
    affine_map,
    check_affine,
    check_dtypes,
    given,
    narrow,
    parameter_gradient,
    per_channel,
    pull_back,
    weighted,
)
from adjoint.engine.ops.reduce.reduction import SUM, count
from adjoint.engine.ops.shape.convert import lying_as

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _channel_dims(x: Any, batch: bool) -> Dims:
    return ((0,) if batch else ()) + tuple(range(2, x.ndim))


def _channel_norm(
    x: Tensor, *affine: Any, batch: bool, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The normalised input, and the mean and biased variance of each channel."""
    if batch and goes_by_channels(x):
        out, *statistics = _channel_norm(rows_of_channels(x), *affine, batch=True, eps=eps)
        mean, variance = [s.reshape(per_channel(x)) for s in statistics]
        return images_of_rows(out, x), mean, variance
    mean, variance = MOMENTS(widen(x), dims=_channel_dims(x, batch))
    standard = (widen(x) - mean) * (variance + eps).rsqrt()
    out = affine_map(standard, affine, per_channel(x))
    return lying_as(x, out.to(x.dtype)), mean, variance


def _gradient_sums(
    g: Tensor, x: Tensor, statistics: Any, dims: Dims, eps: float
) -> tuple[Tensor, Tensor]:
    """What all gradients are made of: sums of g, and of g times the normalised input.

    A channel has one weight, so it scales sums as well as what is summed.
    """
    mean, variance = statistics
    wide = widen(g)
    standard = (widen(x) - mean) * (variance + eps).rsqrt()
    # In this order both sums are one kernel's: g meets the result before either is reduced.
    along = SUM(wide * standard, dims=dims, keepdim=True)
    return SUM(wide, dims=dims, keepdim=True), along


def _sums_are_shared(x: Tensor) -> bool:
    """Whether gradients are made of the sums of `_gradient_sums`.

    On the CPU a sum of what a program is given is a pass of its own, which takes longer than to
    scale each element; where channels lie innermost, rows are read in one pass anyway.
    """
    return x.ndim == 2 or x.device.type != "cpu"


def _channel_norm_input(
    gs: Any, x: Tensor, affine: Any, later_outs: Any, batch: bool, eps: float
) -> Tensor | None:
    if batch and goes_by_channels(x):
        rows = rows_of_channels(x)
        g = None if gs[0] is None else rows_of_channels(gs[0])
        rest = [None if s is None else s.reshape(per_channel(rows)) for s in (*gs[1:], *later_outs)]
        out = _channel_norm_input((g, *rest[:2]), rows, affine, rest[2:], batch, eps)
        return None if out is None else images_of_rows(out, x)
    g, wide, dims = gs[0], widen(x), _channel_dims(x, batch)
    if not _sums_are_shared(x):
        gs = (weighted(g, affine, per_channel(x)), *gs[1:])
        return narrow(pull_back(gs, wide, later_outs, dims, eps), x)
    out = pull_back((None, *gs[1:]), wide, later_outs, dims, eps)
    if g is not None:  # g less its part along the mean and along the result
        n = max(count(x.shape, dims), 1)
        level, along = _gradient_sums(g, x, later_outs, dims, eps)
        scale = inverse = (later_outs[1] + eps).rsqrt()
        if affine:
            scale = inverse * widen(affine[0]).reshape(per_channel(x))
        standard = (wide - later_outs[0]) * inverse
        part = (widen(g) - level / n - standard * (along / n)) * scale
        out = part if out is None else out + part
    return narrow(out, x)


def _channel_norm_affine(
    gs: Any, x: Tensor, later_outs: Any, position: int, spec: Spec, batch: bool, eps: float
) -> Tensor | None:
    g = gs[0]
    if g is None:
        return None
    if batch and goes_by_channels(x):
        x, g = rows_of_channels(x), rows_of_channels(g)
        later_outs = [s.reshape(per_channel(x)) for s in later_outs]
    if not _sums_are_shared(x):
        return parameter_gradient(g, x, later_outs, position, per_channel(x), spec, eps)
    sums = _gradient_sums(g, x, later_outs, _channel_dims(x, batch), eps)
    out = sums[1 if position == 1 else 0]
    return out.sum_to_size(per_channel(x)).reshape(spec.shape).to(spec.dtype)


BATCH_NORM, INSTANCE_NORM = (
    composite(
        name,
        _channel_norm,
        _channel_norm_input,
        _channel_norm_affine,
        operands=("x", "*affine"),
        outputs=3,
        keeps_layout=True,
        by_channels=_channel_norm,
        fragment="composed",
    )
    for name in ("batch_norm", "instance_norm")
)


def _with_statistics(x: Tensor, mean: Tensor, variance: Tensor, *affine: Any, eps: float) -> Tensor:
    shape = per_channel(x)
    scale = _scale(variance, affine, eps)
    shift = -widen(mean) * scale
    if len(affine) > 1:
        shift = shift + widen(affine[1])
    return (widen(x) * scale.reshape(shape) + shift.reshape(shape)).to(x.dtype)


def _scale(variance: Tensor, affine: Any, eps: float) -> Tensor:
    inverse = (widen(variance) + eps).rsqrt()
    return inverse * widen(affine[0]) if affine else inverse


def _summed(g: Tensor) -> Tensor:
    """The sum of each channel."""
    return g.sum(_channel_dims(g, batch=True))


def _statistics_input(g: Tensor, x: Tensor, variance: Tensor, affine: Any, eps: float) -> Tensor:
    scale = _scale(variance, affine, eps)
    return (widen(g) * scale.reshape(per_channel(x))).to(x.dtype)


def _statistics_mean(g: Tensor, mean: Tensor, variance: Tensor, affine: Any, eps: float) -> Tensor:
    return (-_summed(widen(g)) * _scale(variance, affine, eps)).to(mean.dtype)


def _statistics_variance(
    g: Tensor, x: Tensor, mean: Tensor, variance: Tensor, affine: Any, eps: float
) -> Tensor:
    apart = widen(x) - widen(mean).reshape(per_channel(x))
    slope = _scale(variance, affine, eps) / (widen(variance) + eps) * -0.5
    return (_summed(widen(g) * apart) * slope).to(variance.dtype)


def _statistics_affine(
    g: Tensor, x: Tensor, mean: Tensor, variance: Tensor, affine: Any, position: int, eps: float
) -> Tensor:
    if position == 4:
        return _summed(widen(g)).to(affine[1].dtype)
    apart = widen(x) - widen(mean).reshape(per_channel(x))
    return (_summed(widen(g) * apart) * _scale(variance, (), eps)).to(affine[0].dtype)


BATCH_NORM_INFERENCE = composite(
    "batch_norm_inference",
    _with_statistics,
    _statistics_input,
    _statistics_mean,
    _statistics_variance,
    _statistics_affine,
    operands=("x", "mean", "variance", "*affine"),
    keeps_layout=True,
    fragment="composed",
)


def _moved(running: Tensor, new: Tensor, momentum: Any, scale: Any) -> Tensor:
    new = new.detach().reshape(running.shape)
    new = new if scale is None else new * scale
    return (widen(running) * (1 - momentum) + new * momentum).to(running.dtype)


MOVED_STATISTIC = composite(
    "moved_statistic", _moved, operands=("running", "new", "momentum", "scale")
)


def _moved_both(
    mean: Tensor, variance: Tensor, new_mean: Tensor, new_variance: Tensor,
    kept: Any, momentum: Any, scale: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    pairs = (mean, new_mean), (variance, new_variance * scale)
    moved_mean, moved_variance = [
        (widen(old) * kept + new.reshape(old.shape) * momentum).to(old.dtype) for old, new in pairs
    ]
    return moved_mean, moved_variance


# Both statistics as one program that writes to them, on a GPU. What a new one leaves of the old is
# given too: 1 - momentum is rounded as a float of Python's.
MOVED_STATISTICS = composite(
    "moved_statistics",
    _moved_both,
    operands=("mean", "variance", "new_mean", "new_variance", "kept", "momentum", "scale"),
    outputs=2,
    fragment="composed",
    given_floats=True,
)


def blend(running: Tensor | None, new: Tensor, momentum: float, scale: float | None = None) -> None:
    """Move a running statistic towards a new value, by then scaled, in place."""
    if running is not None:
        with CONTEXT.having(grad_enabled=False):
            running.copy_(MOVED_STATISTIC(running, new, momentum, scale))


def blend_both(
    running: tuple[Tensor | None, Tensor | None], new: tuple[Tensor, Tensor], momentum: Any, n: int
) -> None:
    """Move the running mean and variance towards those of `n` elements, at best by one program.

    It gives the same numbers, and on the CPU is made where they are moved often.
    """
    mean, variance = running
    unbiased = n / max(n - 1, 1)

    def move(tensors: Any, numbers: Any) -> None:
        mean, variance, *new = tensors
        with CONTEXT.having(grad_enabled=False):
            if mean is not None:
                mean.copy_(MOVED_STATISTIC(mean, new[0], numbers[0], None))
            if variance is not None:
                variance.copy_(MOVED_STATISTIC(variance, new[1], *numbers))

    tensors = (mean, variance, *new)
    at_once = (
        CONTEXT.settled
        and CONTEXT.before_write is None
        and type(momentum) is float
        and mean is not None
        and variance is not None
        and lies_in_a_row(mean)
        and lies_in_a_row(variance)
    )
    if at_once and is_few(tensors):
        move_few(mean, new[0], momentum, None)  # type: ignore[arg-type]
        move_few(variance, new[1], momentum, unbiased)  # type: ignore[arg-type]
        return
    if not (
        at_once
        and is_worth_a_program(mean._array)  # type: ignore[union-attr]
        and are_apart(mean._array, variance._array)  # type: ignore[union-attr]
    ):
        move(tensors, (momentum, unbiased))
    elif mean._array.__class__ is not ndarray:  # type: ignore[union-attr]
        move_on_device(*tensors, momentum, unbiased)  # type: ignore[arg-type]
    elif (
        not new[0]._array.flags.c_contiguous
        or not new[1]._array.flags.c_contiguous
        or not HOOKS.updates.run(MOVED, tensors, (momentum, unbiased), {}, move)
    ):
        move(tensors, (momentum, unbiased))


_MOVES = SmallCalls("moved_statistic", into=True)
_MOVES.unfollowed = True  # what is moved to is looked at off the tape


def move_few(running: Tensor, new: Tensor, momentum: float, scale: float | None) -> None:
    """Move a statistic of few channels, which lies in a row: by a program where it has one."""
    storage = running._storage
    try:
        if not (CONTEXT.plain and write_part(_MOVES, _moved, (running, new, momentum, scale))):
            HOOKS.array.move_towards(running._array, new._array, momentum, scale)
    finally:
        storage.version += 1  # also where an interrupt came: it may be written


def is_few(tensors: Any) -> bool:
    """Whether statistics are so few that a call of a program takes longer than to move them."""
    if LISTENERS:
        return False
    first = tensors[0]._array
    if first.__class__ is not ndarray or first.size > FEW or first.dtype.char not in "fd":
        return False
    for x in tensors[1:]:
        array = x._array
        if array.__class__ is not ndarray or array.dtype != first.dtype:
            return False
    return True


def move_on_device(
    mean: Tensor, variance: Tensor, new_mean: Tensor, new_variance: Tensor,
    momentum: float, unbiased: float,
) -> None:  # fmt: skip
    """The same of statistics on a GPU, which lie in rows."""
    statistics = mean, variance, new_mean, new_variance
    operands = *statistics, 1 - momentum, momentum, unbiased
    if not HOOKS.put_into(MOVED_STATISTICS, operands, {}, mean, variance):
        with CONTEXT.having(grad_enabled=False):
            moved = MOVED_STATISTICS(*operands)
            mean.copy_(moved[0])
            variance.copy_(moved[1])


MOVED = ("running statistics",)
FEW = 1 << 12
OFTEN = 512  # times that statistics are moved on the CPU before a program, some ms, is made for it
_times_moved = counter()


def lies_in_a_row(x: Tensor) -> bool:
    """Whether a tensor is no view, writeable, one number after the other."""
    array = x._array
    here = array.__class__ is ndarray and array.flags.writeable
    return (
        (here or array.__class__ in DEVICE_LAYOUTS)
        and array.flags.c_contiguous
        and x._base is None
        and x._storage.version >= 0
    )


def are_apart(x: Any, y: Any) -> bool:
    """Whether dense arrays of one kind of memory share none."""
    if x.__class__ is ndarray or y.__class__ is ndarray:
        return x.__class__ is y.__class__ and not may_share_memory(x, y)
    one, other = x.data.ptr, y.data.ptr
    return bool(one + x.nbytes <= other or other + y.nbytes <= one)


def is_worth_a_program(array: Any) -> bool:
    """Whether statistics are on a GPU, or have been moved often."""
    return array.__class__ is not ndarray or (UPDATED > 0 and next(_times_moved) >= OFTEN)


@public(namespaces=FUNCTIONAL)
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    r"""Zero mean and unit variance of each channel over the batch.

    In training the batch's own statistics are used, and the running ones, where given, move
    towards them by `momentum` (the variance unbiased); otherwise the running ones are used.

    Args:
        input: (N, C, ...).
        running_mean, running_var, weight, bias: (C,).

    Example:
        >>> import adjoint as ad
        >>> x = ad.randn(20, 3)
        >>> ad.nn.functional.batch_norm(x, None, None, training=True).shape
        adjoint.Size([20, 3])
    """
    rank = input.ndim
    if rank == 1 and not input.numel():
        return input.clone()
    if rank < 2:
        raise ShapeError(
            "batch_norm: expected an input of shape (N, C, ...), at least 2 dimensions, received "
            f"{list(input.shape)}"
        )
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"batch_norm: not implemented for {input.dtype.name}")
    channels = input._array.shape[1]
    size = (channels,)
    for which, p in (("running_mean", running_mean), ("running_var", running_var),
                     ("weight", weight), ("bias", bias)):  # fmt: skip
        if p is not None and p._array.shape != size:
            raise ShapeError(
                f"batch_norm: {which} should contain {channels} elements, not {list(p.shape)}, "
                f"for an input of shape {list(input.shape)}"
            )
    check_dtypes("batch_norm", input, running_mean, running_var, weight, bias)
    affine = given(weight, bias)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "batch_norm: expected running_mean and running_var to be defined when "
                "training=False"
            )
        return BATCH_NORM_INFERENCE(
            in_rows(input, True), running_mean, running_var, *affine, eps=eps
        )
    elements = input.numel()
    values = elements // max(channels, 1)
    if values == 1 and elements:
        raise ShapeValueError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}. "
            "Use larger batches, a loader with drop_last=True, or eval() to test."
        )
    out, mean, variance = BATCH_NORM(in_rows(input, True), *affine, batch=True, eps=eps)
    if not elements:  # an empty batch says nothing
        return out
    blend_both((running_mean, running_var), (mean, variance), momentum, values)
    return out


@public(name="batch_norm")
def batch_norm_function(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Zero mean and unit variance over the batch (see `nn.functional.batch_norm`)."""
    return batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


# -- over the positions of each channel of each sample ------------------------------------------


@public(namespaces=FUNCTIONAL)
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Zero mean and unit variance of each channel of each sample over its positions.

    Args:
        input: (N, C, L...).
        running_mean, running_var, weight, bias: (C,).
    """
    if input.ndim < 3:
        raise ShapeError(
            "instance_norm: expected an input of shape (N, C, L...), at least 3 dimensions, "
            f"received {list(input.shape)}"
        )
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = prod(input.shape[2:])
    if count == 1:
        raise ShapeValueError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}"
        )
    check_affine(
        "instance_norm",
        (input.shape[1],),
        weight=weight,
        bias=bias,
        running_mean=running_mean,
        running_var=running_var,
    )
    require_floating("instance_norm", input)
    check_dtypes("instance_norm", input, weight, bias, running_mean, running_var)
    affine = given(weight, bias)
    out, mean, variance = INSTANCE_NORM(in_rows(input), *affine, batch=False, eps=eps)
    if running_mean is not None:
        blend(running_mean, mean.mean(0), momentum)
    if running_var is not None:
        blend(running_var, variance.mean(0), momentum, count / max(count - 1, 1))
    return out


@public(name="instance_norm")
def instance_norm_function(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Zero mean and unit variance of each channel (see `nn.functional.instance_norm`)."""
    return instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )
