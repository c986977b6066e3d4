"""Initialisers: fill a tensor in place with values drawn from a named distribution."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import ceil, erf, prod, sqrt
from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.rng import Generator
from adjoint.engine.ops.create import ranges
from adjoint.engine.ops.random.random import randperm
from adjoint.engine.tensor.tensor import Tensor

_GAINS = {"sigmoid": 1, "tanh": 5.0 / 3, "relu": sqrt(2.0), "selu": 3.0 / 4}
_LINEAR = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
)


def calculate_gain(nonlinearity: str, param: int | float | None = None) -> float:
    """The factor that keeps the variance of activations through a nonlinearity.

    Args:
        nonlinearity: the function's name in `nn.functional`.
        param: the negative slope of a leaky relu (0.01 by default).

    Example:
        >>> import adjoint as ad
        >>> ad.nn.init.calculate_gain("leaky_relu", 1.0)
        1.0
    """
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    if param is None:
        slope = 0.01
    elif isinstance(param, (int, float)) and not isinstance(param, bool):
        slope = param
    else:
        raise ValueError(f"negative_slope {param} not a valid number")
    return sqrt(2.0 / (1 + slope**2))


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs reach an output of a layer with this weight, and the other way round."""
    if tensor.dim() < 2:
        raise ShapeValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    outputs, inputs, *kernel = tensor.shape
    field = prod(kernel)
    return inputs * field, outputs * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill from the uniform distribution on [a, b).

    Example:
        >>> import adjoint as ad
        >>> bool((ad.nn.init.uniform_(ad.empty(5), 1, 2) >= 1).all())
        True
    """
    if not CONTEXT.initialise:
        return tensor
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill from the normal distribution."""
    if not CONTEXT.initialise:
        return tensor
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill from the normal distribution, redrawn until within [a, b].

    Uniform values between the bounds' probabilities, through the inverse of the distribution.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    if not CONTEXT.initialise:
        return tensor
    low, high = (erf((bound - mean) / std / sqrt(2.0)) for bound in (a, b))
    with no_grad():
        tensor.uniform_(low, high, generator=generator)
        tensor.erfinv_().mul_(std * sqrt(2.0)).add_(mean)
        return tensor.clamp_(min=a, max=b)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix the identity."""
    if tensor.ndimension() != 2:
        raise ShapeValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        return tensor.copy_(ranges.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Make a convolution's weight pass its input channels through, as many as there are."""
    if tensor.ndimension() not in (3, 4, 5):
        raise ShapeValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.size(0) // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.size(1))):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    r"""Fill uniformly within $\text{gain} \sqrt{6/(\text{fan\_in} + \text{fan\_out})}$ of zero."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = gain * sqrt(6.0 / float(fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    r"""Fill normally with deviation $\text{gain} \sqrt{2 / (\text{fan\_in} + \text{fan\_out})}$."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * sqrt(2.0 / float(fan_in + fan_out)), generator)


def _kaiming_deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    """The deviation He et al. give; None, with a warning, for an empty tensor."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill uniformly within $\text{gain} \sqrt{3 / \text{fan}}$ of zero.

    Args:
        a: the negative slope of the leaky relu that follows.
        mode: "fan_in" keeps the variance forwards, "fan_out" backwards.
        nonlinearity: what follows the layer.
    """
    deviation = _kaiming_deviation(tensor, a, mode, nonlinearity)
    if deviation is None:
        return tensor
    bound = sqrt(3.0) * deviation
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill normally with deviation $\text{gain} / \sqrt{\text{fan}}$; see `kaiming_uniform_`."""
    deviation = _kaiming_deviation(tensor, a, mode, nonlinearity)
    return tensor if deviation is None else normal_(tensor, 0.0, deviation, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Make rows (or columns, if there are fewer) orthonormal, drawn uniformly, times `gain`."""
    if tensor.ndimension() < 2:
        raise ShapeValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    with no_grad():
        flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = (flat.t() if rows < columns else flat).qr()
        q = q * r.diagonal().sign()  # without the signs q is not uniform
        tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape))
        return tensor.mul_(gain)


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Fill a matrix normally, then set a fraction of each column to zero."""
    if tensor.ndimension() != 2:
        raise ShapeValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows)[:zeros], column] = 0
    return tensor


def _deprecated(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    new, old = fn.__name__, fn.__name__[:-1]

    def renamed(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
            stacklevel=2,
        )
        return fn(*args, **kwargs)

    renamed.__name__ = old
    renamed.__doc__ = f"The old name of `{new}`."
    return renamed


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)

dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)

# PyTorch's names of what these are made of; libraries that scale weights call them.
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_
