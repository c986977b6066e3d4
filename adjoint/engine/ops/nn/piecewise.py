"""Piecewise linear activations, random slopes among them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.rng import generator_for
from adjoint.engine.ops.elementwise.bounds import CLAMP, RELU, hardshrink, prelu
from adjoint.engine.ops.elementwise.condition import WHERE, filled
from adjoint.engine.ops.nn.activations import activation
from adjoint.engine.ops.nn.common import BOTH, FUNCTIONAL, apply, require_floating
from adjoint.engine.ops.random.random import RANDOM, blocks, draw, word_bits

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

public(namespaces=FUNCTIONAL, out=True)(hardshrink)
public(namespaces=FUNCTIONAL)(prelu)

LEAKY_RELU = activation(
    "leaky_relu",
    lambda x, slope: WHERE(x > 0, x, x * slope),
    lambda g, x, slope: WHERE(x > 0, g, g * slope),
    kinked=True,
)


def _hardtanh_of(x: Tensor, low: Any, high: Any) -> Tensor:
    if x.dtype.is_floating_point:
        return CLAMP(x, low, high)
    return filled(filled(x, x <= low, low), x >= high, high)  # bounds that fit into its dtype


# Unlike clamp, no gradient at the bounds themselves; nor at NaN, as in PyTorch's vectors.
HARDTANH = activation(
    "hardtanh",
    _hardtanh_of,
    lambda g, x, low, high: WHERE((x > low) & (x < high), g, 0),
    kinked=True,
)
HARDSIGMOID = activation(
    "hardsigmoid",
    lambda x: filled(filled((x + 3) / 6, x <= -3, 0), x >= 3, 1),  # exact near -3
    lambda g, x: WHERE((x > -3) & (x < 3), g / 6, 0),
)


def _hardswish_vjp(g: Tensor, x: Tensor) -> Tensor:
    within = filled(x, x.abs() >= 3, 0)  # finite where another branch is taken
    return WHERE(x >= 3, g, filled(g * (within / 3 + 0.5), x <= -3, 0))


HARDSWISH = activation(
    "hardswish",
    # From 3 on x itself: six times it may overflow. At -inf it is -inf times 0, as in PyTorch.
    lambda x: WHERE(x >= 3, x, x * (x + 3).clamp_min(0) / 6),
    _hardswish_vjp,
)
SOFTSHRINK = activation(
    "softshrink",
    lambda x, lambd: filled(x - x.sign() * lambd, (x >= -lambd) & (x <= lambd), 0),
    lambda g, x, lambd: WHERE((x < -lambd) | (x > lambd), g, 0),
    kinked=True,
)


@public(namespaces=FUNCTIONAL)
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Negative elements replaced by zero: max(0, x).

    >>> import adjoint as ad
    >>> ad.nn.functional.relu(ad.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return apply("relu_", RELU, input, inplace)


@public(namespaces=FUNCTIONAL, name="relu_")
def relu_(input: Tensor) -> Tensor:
    """In-place form of `relu`."""
    return relu(input, inplace=True)


def _leaky(input: Tensor, slope: float) -> Tensor:
    return LEAKY_RELU(input, slope=slope)


@public(namespaces=FUNCTIONAL)
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Negative elements scaled by `negative_slope`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.leaky_relu(ad.tensor([-1.0, 2.0]), 0.1)
        tensor([-0.1000,  2.0000])
    """
    require_floating("leaky_relu", input)
    return apply("leaky_relu_", _leaky, input, inplace, negative_slope)


@public(namespaces=FUNCTIONAL, name="leaky_relu_")
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """In-place form of `leaky_relu`."""
    return leaky_relu(input, negative_slope, inplace=True)


def _hardtanh(input: Tensor, low: Any, high: Any) -> Tensor:
    return HARDTANH(input, low=low, high=high)


@public(namespaces=FUNCTIONAL, numbers="values")
def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Elements limited to [min_val, max_val]; no gradient at or beyond the bounds.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.hardtanh(ad.tensor([-3.0, 0.5, 3.0]))
        tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError(
            f"hardtanh: min_val cannot be greater than max_val, received {min_val} > {max_val}"
        )
    if input.dtype.name == "bool":
        raise DTypeError("hardtanh: boolean inputs are not supported. Convert the input first.")
    if input.dtype.is_complex:
        require_floating("hardtanh", input)
    if not input.dtype.is_signed and (min_val < 0 or max_val < 0):
        raise DTypeError(
            f"hardtanh: cannot do hardtanh on an unsigned type with negative limits {min_val}, "
            f"{max_val}"
        )
    if not input.dtype.is_inexact:
        min_val, max_val = int(min_val), int(max_val)
    return apply("hardtanh_", _hardtanh, input, inplace, min_val, max_val)


@public(namespaces=FUNCTIONAL, name="hardtanh_", numbers="values")
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """In-place form of `hardtanh`."""
    return hardtanh(input, min_val, max_val, inplace=True)


@public(namespaces=FUNCTIONAL)
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Elements limited to [0, 6]."""
    if input.dtype.name == "bool":
        raise DTypeError("relu6: boolean inputs are not supported. Convert the input first.")
    return hardtanh(input, 0, 6, inplace)


@public(namespaces=FUNCTIONAL)
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2, limited to [0, 1]."""
    require_floating("hardsigmoid", input)
    return apply("hardsigmoid_", HARDSIGMOID, input, inplace)


@public(namespaces=FUNCTIONAL)
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x times hardsigmoid(x).

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.hardswish(ad.tensor([-3.0, 1.0, 3.0]))
        tensor([-0.0000, 0.6667, 3.0000])
    """
    require_floating("hardswish", input)
    return apply("hardswish_", HARDSWISH, input, inplace)


@public(namespaces=FUNCTIONAL, out=True)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Elements moved towards zero by `lambd`, those within `lambd` of it to zero."""
    require_floating("softshrink", input)
    if not lambd >= 0:
        raise RuntimeError(
            f"softshrink: lambda must be greater or equal to 0, but found to be {lambd}"
        )
    return SOFTSHRINK(input, lambd=lambd)


THRESHOLD = activation(
    "threshold",
    lambda x, limit, value: filled(x, x <= limit, value),
    lambda g, x, limit, value: filled(g, x <= limit, 0),
    kinked=True,
)


def _threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    return THRESHOLD(input, limit=threshold, value=value)


@public(namespaces=FUNCTIONAL, numbers="values")
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Elements not above `threshold` replaced by `value`."""
    if input.dtype.name == "bool" or input.dtype.is_complex:
        require_floating("threshold", input)
    return apply("threshold_", _threshold, input, inplace, threshold, value)


@public(namespaces=BOTH, name="threshold_", numbers="values")
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """In-place form of `threshold`."""
    return _in_place(input, threshold, value)


def _in_place(input: Tensor, limit: float, value: float) -> Tensor:
    return threshold(input, limit, value, inplace=True)


@public(name="threshold")
def threshold_function(input: Tensor, threshold: float, value: float) -> Tensor:
    """Elements not above `threshold` replaced by `value`."""
    return _threshold(input, threshold, value)


def _sloped_by_place(
    x: Tensor, y: Tensor, seed: Any, offset: Any, args: tuple[float, float]
) -> Tensor:
    slopes = RANDOM(
        seed, offset, law="uniform", args=args, shape=tuple(x.shape), dtype=x.dtype,
        device=x.device,
    )  # fmt: skip
    return WHERE(y > 0, x, x * slopes)


# SLOPED(x, y, seed, offset of the draw): x, times slopes where y is negative; on a GPU one kernel,
# which draws again for the gradient.
SLOPED: Record = composite(
    "sloped",
    _sloped_by_place,
    lambda g, y, seed, offset, args: SLOPED(g, y, seed, offset, args=args),
    None,
    None,
    None,
    operands=("x", "y", "seed", "offset"),
    fragment="device",
    given_a_draw=True,
    keeps_layout="first",
)


def _random_slopes(input: Tensor, lower: float, upper: float) -> Tensor:
    args, shape = (float(lower), float(upper)), tuple(input.shape)
    if input._array.__class__ in DEVICE_LAYOUTS and CONTEXT.settled:
        count = blocks(prod(shape), word_bits("uniform", input.dtype))
        place = generator_for("rrelu", None, input.device).draw(count)
        return SLOPED(input, input.detach(), *place, args=args)
    slopes = draw("rrelu", "uniform", args, shape, input.dtype, input.device, None)
    return WHERE(input > 0, input, input * slopes)


@public(namespaces=FUNCTIONAL)
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Negative elements scaled by slopes drawn from [lower, upper), or by their mean."""
    require_floating("rrelu", input)
    if lower > upper:
        raise RuntimeError(
            f"rrelu: Lower bound should be less than or equal to the upper bound, received {lower} "
            f"and {upper}"
        )
    if training and lower != upper:
        return apply("rrelu_", _random_slopes, input, inplace, lower, upper)
    if not inplace:
        input = input.contiguous()  # PyTorch's lies row by row
    return leaky_relu(input, (lower + upper) / 2, inplace)


@public(namespaces=BOTH, name="rrelu_")
def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """In-place form of `rrelu`."""
    return rrelu(input, lower, upper, training, inplace=True)


@public(name="rrelu")
def rrelu_function(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """Negative elements scaled by slopes drawn from [lower, upper), or by their mean."""
    return rrelu(input, lower, upper, training)
