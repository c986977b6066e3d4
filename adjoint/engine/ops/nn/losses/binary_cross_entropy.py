"""Losses of events that happen or not: binary cross entropy, of probabilities and of logits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import DTypeError, ShapeValueError
from adjoint.engine.core.operations.families import composite, fit
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import require_within
from adjoint.engine.ops.common.checks import are_between, require
from adjoint.engine.ops.nn.activations import LOG_SIGMOID
from adjoint.engine.ops.nn.common import FUNCTIONAL, in_float32, require_floating, widen
from adjoint.engine.ops.nn.losses.loss_dtypes import require_result_in
from adjoint.engine.ops.nn.losses.loss_reduction import reduced, reduction_of

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

LOWEST = math.exp(-100)  # logarithms are cut off at -100, as in PyTorch, and have no slope there


def _log(x: Tensor) -> Tensor:
    cut = x < LOWEST
    return x.masked_fill(cut, 1).log().masked_fill(cut, -100)


def _log_rest(x: Tensor) -> Tensor:
    cut = x >= 1
    return (-x.masked_fill(cut, 0)).log1p().masked_fill(cut, -100)


def _bce(x: Tensor, y: Tensor) -> Tensor:
    return (y - 1) * _log_rest(x) - y * _log(x)


BINARY_CROSS_ENTROPY = composite(
    "binary_cross_entropy",
    in_float32(_bce),
    in_float32(lambda g, x, y: g * (x - y) / ((1 - x) * x).clamp_min(1e-12)),
    in_float32(lambda g, x: g * (_log_rest(x) - _log(x))),
    operands=("x", "y"),
    fragment="composed",
)
OUTSIDE = "binary_cross_entropy: all elements of {} should be between 0 and 1"
NO_PROBABILITY = (
    OUTSIDE.format("input") + ". Apply sigmoid first, or use binary_cross_entropy_with_logits.",
    OUTSIDE.format("target"),
)


def _checked(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both operands, if they are between 0 and 1."""
    if are_between(x, 0, 1) and are_between(y, 0, 1):
        return x, y
    first, second = (
        require(z, (z >= 0) & (z <= 1), message)
        for z, message in zip((x, y), NO_PROBABILITY, strict=True)
    )
    return first, second


# The same with its checks, which on a GPU are one kernel with it.
CHECKED_CROSS_ENTROPY = composite(
    "checked_binary_cross_entropy",
    in_float32(lambda x, y: _bce(*_checked(x, y))),
    in_float32(lambda g, x, y: g * (x - y) / ((1 - x) * x).clamp_min(1e-12)),
    in_float32(lambda g, x: g * (_log_rest(x) - _log(x))),
    operands=("x", "y"),
    fails="values",
    fragment="device",
)


@public(namespaces=FUNCTIONAL)
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Cross entropy of events given their probabilities: $-y \log x - (1 - y) \log(1 - x)$.

    Logarithms are cut off at -100.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.binary_cross_entropy(ad.tensor([0.5]), ad.tensor([1.0]))
        tensor(0.6931)
    """
    how = reduction_of("binary_cross_entropy", reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ShapeValueError(
            f"binary_cross_entropy: Using a target size ({target.shape}) that is different to the "
            f"input size ({input.shape}) is deprecated. Please ensure they have the same size."
        )
    if input.dtype is not target.dtype:
        raise DTypeError(
            f"binary_cross_entropy: Found dtype {target.dtype.name} but expected "
            f"{input.dtype.name}. Convert the target to the input's dtype."
        )
    require_floating("binary_cross_entropy", input)
    there = input._array.__class__ in DEVICE_LAYOUTS and input.device == target.device
    if there and CONTEXT.settled:
        loss = CHECKED_CROSS_ENTROPY(input, target)
    else:
        loss = BINARY_CROSS_ENTROPY(*_checked(input, target))
    return reduced(_weighted("binary_cross_entropy", loss, weight), how)


def _weighted(name: str, loss: Tensor, weight: Tensor | None) -> Tensor:
    """Losses times their factors, in the losses' shape and dtype."""
    if weight is None:
        return loss
    require_within(name, "weight", weight, loss.shape)
    require_result_in(name, loss.dtype, loss, weight)
    return (loss * weight).to(loss.dtype)


def _with_logits(x: Tensor, y: Tensor, *pos_weight: Any) -> Tensor:
    log_p = LOG_SIGMOID(x)
    scale = ((pos_weight[0] - 1) * y + 1) if pos_weight else 1
    return x * (1 - y) - log_p * scale  # x first: it decides how the result lies


def _slope(g: Tensor, x: Tensor, y: Tensor, pos_weight: Any, spec: Any) -> Any:
    g, x, y = widen(g), widen(x), widen(y)
    if not pos_weight:
        return fit(g * (x.sigmoid() - y), spec)
    happened = widen(pos_weight[0]) * y
    return fit(g * ((happened + 1 - y) * x.sigmoid() - happened), spec)


def _target_slope(g: Tensor, x: Tensor, pos_weight: Any, spec: Any) -> Any:
    g, x = widen(g), widen(x)
    if not pos_weight:
        return fit(-(g * x), spec)
    return fit(g * ((1 - widen(pos_weight[0])) * LOG_SIGMOID(x) - x), spec)


def _pos_weight_slope(g: Tensor, x: Tensor, y: Tensor, spec: Any) -> Any:
    return fit(-(widen(g) * widen(y)) * LOG_SIGMOID(widen(x)), spec)


BCE_WITH_LOGITS = composite(
    "binary_cross_entropy_with_logits",
    in_float32(_with_logits),
    _slope,
    _target_slope,
    _pos_weight_slope,
    operands=("x", "y", "*pos_weight"),
    fragment="composed",
    keeps_layout=True,
)


@public(namespaces=FUNCTIONAL)
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    r"""Cross entropy of events given their logits, without overflow.

    $-p y \log \sigma(x) - (1 - y) \log(1 - \sigma(x))$

    Args:
        weight: a factor of each loss.
        pos_weight: $p$, a factor of the loss of events that happened.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.binary_cross_entropy_with_logits(ad.zeros(2), ad.ones(2))
        tensor(0.6931)
    """
    how = reduction_of("binary_cross_entropy_with_logits", reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ShapeValueError(
            f"binary_cross_entropy_with_logits: Target size ({target.shape}) must be the same as "
            f"input size ({input.shape})"
        )
    require_floating("binary_cross_entropy_with_logits", input)
    require_result_in("binary_cross_entropy_with_logits", target.dtype, input, target)
    more: tuple[Tensor, ...] = ()
    if pos_weight is not None:
        require_within("binary_cross_entropy_with_logits", "pos_weight", pos_weight, input.shape)
        require_result_in("binary_cross_entropy_with_logits", target.dtype, pos_weight, target)
        more = (pos_weight,)
    loss = BCE_WITH_LOGITS(input, target, *more).to(target.dtype)
    return reduced(_weighted("binary_cross_entropy_with_logits", loss, weight), how)


@public(name="binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits_function(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """Cross entropy of events given their logits (see nn.functional)."""
    how = reduction_of("binary_cross_entropy_with_logits", reduction)
    return binary_cross_entropy_with_logits(
        input, target, weight, reduction=how, pos_weight=pos_weight
    )
