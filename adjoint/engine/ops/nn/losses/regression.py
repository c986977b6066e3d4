"""Losses of numbers: squared and absolute errors, likelihoods of Gaussian and Poisson laws."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.operations.families import composite, fit
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.checks import require
from adjoint.engine.ops.elementwise.condition import WHERE
from adjoint.engine.ops.nn.common import FUNCTIONAL, in_float32
from adjoint.engine.ops.nn.losses.loss_dtypes import (
    refuse_bool,
    require_floating_pair,
    require_result_in,
)
from adjoint.engine.ops.nn.losses.loss_reduction import broadcast_pair, reduced, reduction_of

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def loss_record(name: str, compose: Any, *vjps: Any) -> Record:
    """A loss per element of two tensors, in float32 where they are halves."""
    rules = tuple(in_float32(v) for v in vjps)
    return composite(
        name,
        in_float32(compose),
        *rules,
        operands=("x", "y"),
        fragment="composed",
        keeps_layout=True,
    )


def _huber(x: Tensor, y: Tensor, delta: float) -> Tensor:
    z = (x - y).abs()
    return WHERE(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))


def _huber_slope(x: Tensor, y: Tensor, delta: float) -> Tensor:
    d = x - y  # no clamp, whose own slope at its bounds is 1
    return WHERE(d.abs() >= delta, d.sign() * delta, d)


def _smooth(x: Tensor, y: Tensor, beta: float) -> Tensor:
    z = (x - y).abs()
    return z if beta == 0 else WHERE(z < beta, 0.5 * z * z / beta, z - 0.5 * beta)


def _smooth_slope(x: Tensor, y: Tensor, beta: float) -> Tensor:
    d = x - y
    return d.sign() if beta == 0 else WHERE(d.abs() >= beta, d.sign(), d / beta)


MSE_LOSS = loss_record(
    "mse_loss",
    lambda x, y: (x - y) * (x - y),
    lambda g, x, y: g * (x - y) * 2,
    lambda g, x, y: g * (y - x) * 2,
)
L1_LOSS = loss_record(
    "l1_loss",
    lambda x, y: (x - y).abs(),
    lambda g, x, y: g * (x - y).sgn(),
    lambda g, x, y: g * (y - x).sgn(),
)
HUBER_LOSS = loss_record(
    "huber_loss",
    _huber,
    lambda g, x, y, delta: g * _huber_slope(x, y, delta),
    lambda g, x, y, delta: g * _huber_slope(y, x, delta),
)
SMOOTH_L1_LOSS = loss_record(
    "smooth_l1_loss",
    _smooth,
    lambda g, x, y, beta: g * _smooth_slope(x, y, beta),
    lambda g, x, y, beta: g * _smooth_slope(y, x, beta),
)


def _weighted(name: str, loss: Tensor, weight: Tensor | None) -> Tensor:
    """The loss times a weight of its shape."""
    if weight is None:
        return loss
    if weight.shape != loss.shape:
        raise ShapeValueError(
            f"{name}: Inputs and weight must have the same size, received {list(loss.shape)} and "
            f"{list(weight.shape)}"
        )
    return loss * weight


def _weighted_mean(name: str, loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """The loss times a weight of its shape, and a mean over the weights' sum."""
    loss = _weighted(name, loss, weight)
    if weight is not None and reduction == "mean":
        return loss.sum() / weight.sum()
    return reduced(loss, reduction)


def _pair(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Input and target in one shape and one dtype, that of both as tensors of this shape."""
    x, y = broadcast_pair(name, input, target)
    if x.dtype is not y.dtype:
        common = common_dtype((x, y))
        x, y = x.to(common), y.to(common)
    return x, y


@public(namespaces=FUNCTIONAL)
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Squared differences: $(x - y)^2$.

    >>> import adjoint as ad
    >>> ad.nn.functional.mse_loss(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 4.0]))
    tensor(2.)
    """
    how = reduction_of("mse_loss", reduction, size_average, reduce)
    require_floating_pair("mse_loss", input, target)
    return _weighted_mean("mse_loss", MSE_LOSS(*_pair("mse_loss", input, target)), weight, how)


@public(namespaces=FUNCTIONAL)
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Absolute differences: $|x - y|$.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.l1_loss(ad.tensor([1.0, 3.0]), ad.zeros(2))
        tensor(2.)
    """
    how = reduction_of("l1_loss", reduction, size_average, reduce)
    refuse_bool("l1_loss", input, target)
    return _weighted_mean("l1_loss", L1_LOSS(*_pair("l1_loss", input, target)), weight, how)


@public(namespaces=FUNCTIONAL)
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    r"""Squared below `beta`, absolute above: $(x - y)^2 / 2\beta$ or $|x - y| - \beta / 2$.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.smooth_l1_loss(ad.tensor([0.0, 2.0]), ad.zeros(2))
        tensor(0.7500)
    """
    how = reduction_of("smooth_l1_loss", reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError(
            f"smooth_l1_loss: does not support negative values for beta, received {beta}"
        )
    require_floating_pair("smooth_l1_loss", input, target)
    x, y = _pair("smooth_l1_loss", input, target)
    return reduced(SMOOTH_L1_LOSS(x, y, beta=float(beta)), how)


@public(namespaces=FUNCTIONAL)
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    r"""Squared below `delta`, linear above: $(x - y)^2 / 2$ or $\delta (|x - y| - \delta / 2)$.

    With `weight` each is multiplied by its own; the mean is over how many there are, as in PyTorch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.huber_loss(ad.tensor([0.0, 2.0]), ad.zeros(2))
        tensor(0.7500)
    """
    how = reduction_of("huber_loss", reduction)
    if delta <= 0:
        raise RuntimeError(
            f"huber_loss: does not support non-positive values for delta, received {delta}"
        )
    require_result_in("huber_loss", input.dtype, input, target)
    require_floating_pair("huber_loss", input, target)
    x, y = _pair("huber_loss", input, target)
    loss = HUBER_LOSS(x, y, delta=float(delta))
    return reduced(_weighted("huber_loss", loss.to(input.dtype), weight), how)


# -- likelihoods --------------------------------------------------------------------------------


def _poisson(x: Tensor, y: Tensor, log_input: bool, full: bool, eps: float) -> Tensor:
    loss = x.exp() - y * x if log_input else x - y * (x + eps).log()
    if full:  # Stirling's approximation of log y!
        small = y <= 1
        safe = y.masked_fill(small, 2)
        stirling = safe * safe.log() - safe + 0.5 * (2 * math.pi * safe).log()
        loss = loss + stirling.masked_fill(small, 0)
    return loss


@in_float32
def _by_rate(g: Tensor, x: Tensor, y: Tensor, log_input: bool, eps: float) -> Tensor:
    """The cotangent of x; near the best x numbers cancel, which every mode is to round alike."""
    slope = x.exp() - y if log_input else 1 - y / (x + eps)
    return g * (slope.conj() if slope.dtype.is_complex else slope)


@in_float32
def _by_count(g: Tensor, x: Tensor, y: Tensor, log_input: bool, full: bool, eps: float) -> Tensor:
    slope = -x if log_input else -(x + eps).log()
    if full:
        small = y <= 1
        safe = y.masked_fill(small, 2)
        slope = slope + (safe.log() + 0.5 / safe).masked_fill(small, 0)
    return g * (slope.conj() if slope.dtype.is_complex else slope)


# Operands are of any shapes and dtypes that broadcast, unlike those of the losses above.
POISSON_NLL_LOSS = composite(
    "poisson_nll_loss",
    in_float32(_poisson),
    lambda g, x, y, x_spec, log_input, eps: fit(_by_rate(g, x, y, log_input, eps), x_spec),
    lambda g, x, y, y_spec, log_input, full, eps: fit(
        _by_count(g, x, y, log_input, full, eps), y_spec
    ),
    operands=("x", "y"),
    fragment="composed",
    keeps_layout=True,
)


@public(namespaces=FUNCTIONAL)
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Negative log likelihood of counts of a Poisson law: $e^x - y x$, or $x - y \log x$.

    Args:
        log_input: whether `input` is the logarithm of the rate.
        full: add Stirling's approximation of $\log y!$.
    """
    how = reduction_of("poisson_nll_loss", reduction, size_average, reduce)
    return reduced(POISSON_NLL_LOSS(input, target, log_input=log_input, full=full, eps=eps), how)


@public(name="poisson_nll_loss")
def poisson_nll_loss_function(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """Negative log likelihood of counts (see `nn.functional.poisson_nll_loss`)."""
    how = reduction_of("poisson_nll_loss", reduction)
    return poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=how)


NEGATIVE = "gaussian_nll_loss: var has negative entry/entries"


def _variance(input: Tensor, var: Any) -> Tensor:
    """The variance as a tensor that broadcasts to the input's shape."""
    if not is_tensor(var):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss: var has negative entry/entries: {var}")
        return input.new_full(tuple(input.shape), var)
    if CONTEXT.plain and bool((var < 0).any()):
        raise ValueError(NEGATIVE)
    if var.shape == input.shape:
        return var
    if tuple(input.shape[:-1]) == tuple(var.shape):
        return var.unsqueeze(-1)
    if input.ndim == var.ndim:  # one dimension of size 1, and no more
        differ = [b for a, b in zip(input.shape, var.shape, strict=True) if a != b]
        if differ == [1]:
            return var
    raise ShapeValueError(
        f"gaussian_nll_loss: var is of incorrect size: received {list(var.shape)} for an input "
        f"of {list(input.shape)}"
    )


@public(namespaces=FUNCTIONAL)
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    r"""Negative log likelihood of a normal law: $\frac12 (\log \sigma^2 + (x - y)^2 / \sigma^2)$.

    Args:
        var: the variance, raised to at least `eps` (a change its gradient does not see).
        full: add the constant $\frac12 \log 2\pi$.
    """
    how = reduction_of("gaussian_nll_loss", reduction)
    spread = _variance(input, var)
    raised = (eps - spread).masked_fill(spread >= eps, 0).detach()  # also of infinity
    if not CONTEXT.plain:  # checked where it decides nothing of how the result lies; NaN passes
        raised = require(raised, (spread < 0).logical_not(), NEGATIVE, ValueError)
    safe = spread + raised
    loss = 0.5 * (safe.log() + (input - target) ** 2 / safe)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, how)
