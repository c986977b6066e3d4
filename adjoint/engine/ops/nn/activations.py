"""Smooth activations: composites computed in float32 for halves, with stable derivatives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import wrap_dim
from adjoint.engine.ops.elementwise.condition import WHERE, filled
from adjoint.engine.ops.elementwise.exponential import sigmoid
from adjoint.engine.ops.elementwise.trigonometric import tanh
from adjoint.engine.ops.nn.common import BOTH, FUNCTIONAL, apply, in_float32, require_floating
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

SQRT_HALF = math.sqrt(0.5)
INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
CUBIC = 0.044715

public(namespaces=FUNCTIONAL)(sigmoid)
public(namespaces=FUNCTIONAL)(tanh)


def activation(name: str, compose: Any, vjp: Any = None, **options: Any) -> Record:
    """A composite of one operand, computed in float32 where it is a half."""
    rules = () if vjp is None else (in_float32(vjp),)
    return composite(
        name, in_float32(compose), *rules, keeps_layout=True, fragment="composed", **options
    )


# -- gelu ---------------------------------------------------------------------------------------


def _gelu(x: Tensor, approximate: str) -> Tensor:
    if approximate == "tanh":
        inner = SQRT_2_OVER_PI * (x + CUBIC * (x * x * x))
        return 0.5 * x * (1 + inner.tanh())
    return x * 0.5 * (1 + (x * SQRT_HALF).erf())


def _gelu_vjp(g: Tensor, x: Tensor, approximate: str) -> Tensor:
    if approximate == "tanh":
        square = x * x
        t = (SQRT_2_OVER_PI * (x + CUBIC * (square * x))).tanh()
        slope = SQRT_2_OVER_PI * (1 + 3 * CUBIC * square)
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)
    below = 0.5 * (1 + (x * SQRT_HALF).erf())
    return g * (below + x * (INV_SQRT_2PI * (-0.5 * (x * x)).exp()))


GELU = activation(
    "gelu",
    _gelu,
    _gelu_vjp,
    infer_specs=lambda x, approximate: x if x.dtype.is_floating_point else None,
)


@public(namespaces=FUNCTIONAL, out=True)
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    r"""x times the standard normal probability of being below x: $x \Phi(x)$.

    Args:
        approximate: "none", or "tanh" for $0.5 x (1 + \tanh(\sqrt{2/\pi} (x + 0.044715 x^3)))$.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.gelu(ad.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """
    require_floating("gelu", input)
    if approximate not in ("none", "tanh"):
        raise RuntimeError(
            f"gelu: approximate argument must be either none or tanh, received {approximate!r}"
        )
    return GELU(input, approximate=approximate)


# -- silu, mish, softplus, logsigmoid -----------------------------------------------------------


def _silu_vjp(g: Tensor, x: Tensor) -> Tensor:
    s = x.sigmoid()
    return g * s * (1 + x * (1 - s))


def _mish(x: Tensor) -> Tensor:
    return x * _softplus(x, 1.0, 20.0).tanh()


def _mish_vjp(g: Tensor, x: Tensor) -> Tensor:
    t = _softplus(x, 1.0, 20.0).tanh()
    return g * (t + x * x.sigmoid() * (1 - t * t))


def _softplus(x: Tensor, beta: float, threshold: float) -> Tensor:
    scaled = x * beta
    linear = scaled > threshold
    return WHERE(linear, x, filled(scaled, linear, 0).exp().log1p() / beta)


def _softplus_vjp(g: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    scaled = x * beta
    return WHERE(scaled > threshold, g, g * scaled.sigmoid())


SILU = activation("silu", lambda x: x * x.sigmoid(), _silu_vjp)
MISH = activation("mish", _mish, _mish_vjp)
SOFTPLUS = activation("softplus", _softplus, _softplus_vjp)
LOG_SIGMOID = activation(
    "log_sigmoid",
    lambda x: x.clamp_max(0) - (-x.abs()).exp().log1p(),
    lambda g, x: g * (-x).sigmoid(),
)


@public(namespaces=FUNCTIONAL)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    r"""x times its sigmoid: $x \sigma(x)$, also called swish.

    >>> import adjoint as ad
    >>> ad.nn.functional.silu(ad.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7311])
    """
    if not input.dtype.is_inexact:
        require_floating("silu", input)
    return apply("silu_", SILU, input, inplace)


@public(namespaces=FUNCTIONAL)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    r"""$x \tanh(\mathrm{softplus}(x))$.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.mish(ad.tensor([-1.0, 2.0]))
        tensor([-0.3034,  1.9440])
    """
    require_floating("mish", input)
    return apply("mish_", MISH, input, inplace)


@public(namespaces=FUNCTIONAL, out=True, numbers="values")
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    r"""$\log(1 + e^{\beta x}) / \beta$, and x itself where $\beta x$ exceeds `threshold`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.softplus(ad.tensor([-1.0, 2.0]))
        tensor([0.3133, 2.1269])
    """
    require_floating("softplus", input)
    return SOFTPLUS(input, beta=beta, threshold=threshold)


@public(namespaces=FUNCTIONAL, out=True)
def logsigmoid(input: Tensor) -> Tensor:
    r"""$\log \sigma(x)$, without overflow."""
    require_floating("logsigmoid", input)
    return LOG_SIGMOID(input.contiguous())  # PyTorch's lies row by row


# -- elu and its relatives ----------------------------------------------------------------------


def _elu(x: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    # zero where not taken, so that overflow there cannot spoil the derivative
    below = (filled(x, x > 0, 0) * input_scale).expm1() * (alpha * scale)
    return WHERE(x < 0, below, x * scale if scale != 1 else x)


def _elu_vjp(g: Tensor, x: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    below = (filled(x, x >= 0, 0) * input_scale).exp() * (alpha * scale * input_scale)
    return g * filled(below, x > 0, scale)


ELU = activation("elu", _elu, _elu_vjp)
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _elu_of(input: Tensor, alpha: float, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    return ELU(input, alpha=float(alpha), scale=scale, input_scale=input_scale)


@public(namespaces=FUNCTIONAL)
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    r"""x where positive, $\alpha (e^x - 1)$ elsewhere.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.elu(ad.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """
    require_floating("elu", input)
    return apply("elu_", _elu_of, input, inplace, alpha)


@public(namespaces=FUNCTIONAL, name="elu_")
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place form of `elu`."""
    return elu(input, alpha, inplace=True)


@public(namespaces=FUNCTIONAL)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    r"""`elu` scaled to keep mean zero and variance one through layers.

    $s \max(0, x) + s \min(0, \alpha (e^x - 1))$ with s = 1.0507 and $\alpha$ = 1.6733.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.selu(ad.tensor([-1.0, 2.0]))
        tensor([-1.1113,  2.1014])
    """
    require_floating("selu", input)
    return apply("selu_", _elu_of, input, inplace, SELU_ALPHA, SELU_SCALE)


@public(namespaces=BOTH, name="selu_")
def selu_(input: Tensor) -> Tensor:
    """In-place form of `selu`."""
    return selu(input, inplace=True)


@public(name="selu")
def selu_function(input: Tensor) -> Tensor:
    """The scaled exponential linear unit (see `nn.functional.selu`)."""
    return selu(input)


@public(namespaces=FUNCTIONAL)
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    r"""x where positive, $\alpha (e^{x / \alpha} - 1)$ elsewhere."""
    require_floating("celu", input)
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: celu: alpha cannot be 0 for CELU")
    return apply("celu_", _elu_of, input, inplace, alpha, 1.0, 1.0 / alpha)


@public(namespaces=BOTH, name="celu_")
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place form of `celu`."""
    return celu(input, alpha, inplace=True)


@public(name="celu")
def celu_function(input: Tensor, alpha: float = 1.0) -> Tensor:
    """The continuously differentiable exponential linear unit (see `nn.functional.celu`)."""
    return celu(input, alpha)


# -- gates and ratios ---------------------------------------------------------------------------


def _glu(x: Tensor, dim: int) -> Tensor:
    value, gate = x.chunk(2, dim)
    return value * gate.sigmoid()


def _glu_vjp(g: Tensor, x: Tensor, dim: int) -> Tensor:
    value, gate = x.chunk(2, dim)
    opened = gate.sigmoid()
    return cat([g * opened, g * value * opened * (1 - opened)], dim)


GLU = activation("glu", _glu, _glu_vjp)


def _softsign_vjp(g: Tensor, x: Tensor) -> Tensor:
    defined = x - x + 1  # one, but NaN where x / (|x| + 1) itself is inf / inf
    return g / (x.abs() + 1) / (x.abs() + 1) * defined


SOFTSIGN = activation("softsign", lambda x: x / (x.abs() + 1), _softsign_vjp)
TANHSHRINK = activation("tanhshrink", lambda x: x - x.tanh(), lambda g, x: g * x.tanh() * x.tanh())


@public(namespaces=FUNCTIONAL)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    r"""One half of the input along `dim`, gated by the sigmoid of the other: $a \sigma(b)$.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.glu(ad.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """
    require_floating("glu", input)
    if not input.ndim:
        raise ShapeError("glu: does not support 0-dimensional tensors")
    d = wrap_dim("glu", dim, input.ndim)
    if input.shape[d] % 2:
        raise ShapeError(
            f"glu: halving dimension must be even, but dimension {d} is size {input.shape[d]}"
        )
    return GLU(input, dim=d)


@public(namespaces=FUNCTIONAL)
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return SOFTSIGN(input) if input.dtype.is_floating_point else input / (input.abs() + 1)


@public(namespaces=FUNCTIONAL)
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return TANHSHRINK(input) if input.dtype.is_floating_point else input - input.tanh()
