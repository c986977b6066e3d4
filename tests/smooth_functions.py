"""Smooth functions of floats for random programs: bounded slopes, no kinks, no limits of domains.

A kink would turn the last bits, in which compiled code may differ, into another derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
import adjoint.nn.functional as F


def is_float(t: Any) -> bool:
    return bool(t.dtype.is_floating_point)


def floating(t: Any) -> Any:
    return t if is_float(t) else t.to(ad.float32)


def positive(t: Any) -> Any:
    """Something like abs(t), at least a half."""
    return (t * t + 0.25).sqrt()


def squashed(t: Any) -> Any:
    """Something like tanh(t), between -0.9 and 0.9."""
    return 0.9 * t / (t * t + 1).sqrt()


Function = Callable[[Any], Any]
# Everything goes through functions that are quick to compute again: nothing but the function named
# is worth keeping for a later loop nest.
FUNCTIONS: dict[str, Function] = {
    "exp": lambda t: (-positive(t)).exp(),
    "exp2": lambda t: (-positive(t)).exp2(),
    "expm1": lambda t: squashed(t).expm1(),
    "log": lambda t: positive(t).log(),
    "log2": lambda t: positive(t).log2(),
    "log10": lambda t: positive(t).log10(),
    "log1p": lambda t: squashed(t).log1p(),
    "sqrt": lambda t: positive(t).sqrt(),
    "rsqrt": lambda t: positive(t).rsqrt(),
    "square": lambda t: squashed(t).square(),
    "reciprocal": lambda t: positive(t).reciprocal(),
    "pow": lambda t: positive(t) ** 0.7,
    "power": lambda t: 1.5 ** squashed(t),
    "sin": lambda t: t.sin(),
    "cos": lambda t: t.cos(),
    "tan": lambda t: squashed(t).tan(),
    "asin": lambda t: squashed(t).asin(),
    "acos": lambda t: squashed(t).acos(),
    "atan": lambda t: t.atan(),
    "sinh": lambda t: squashed(t).sinh(),
    "cosh": lambda t: squashed(t).cosh(),
    "tanh": lambda t: t.tanh(),
    "asinh": lambda t: t.asinh(),
    "acosh": lambda t: (positive(t) + 1).acosh(),
    "atanh": lambda t: squashed(t).atanh(),
    "sigmoid": lambda t: t.sigmoid(),
    "logit": lambda t: (squashed(t) * 0.5 + 0.5).logit(),
    "sinc": lambda t: t.sinc(),
    "erf": lambda t: t.erf(),
    "erfc": lambda t: t.erfc(),
    "erfinv": lambda t: squashed(t).erfinv(),
    "erfcx": lambda t: ad.special.erfcx(positive(t)),
    "lgamma": lambda t: positive(t).lgamma(),
    "digamma": lambda t: positive(t).digamma(),
    "ndtr": lambda t: ad.special.ndtr(t),
    "ndtri": lambda t: ad.special.ndtri(squashed(t) * 0.5 + 0.5),
    "log_ndtr": lambda t: ad.special.log_ndtr(squashed(t)),
    "entr": lambda t: ad.special.entr(positive(t)),
    "spherical_bessel_j0": lambda t: ad.special.spherical_bessel_j0(positive(t)),
    "gelu": lambda t: F.gelu(t),
    "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"),
    "silu": lambda t: F.silu(t),
    "elu": lambda t: F.elu(t),
    "selu": lambda t: F.selu(t),
    "mish": lambda t: F.mish(t),
    "softplus": lambda t: F.softplus(squashed(t)),
    "softsign": lambda t: t / (positive(t) + 1),
    "logsigmoid": lambda t: F.logsigmoid(t),
    "tanhshrink": lambda t: F.tanhshrink(t),
}
SMOOTH: dict[str, Function] = {
    name: (lambda t, fn=fn: fn(floating(t))) for name, fn in FUNCTIONS.items()  # type: ignore[misc]
}  # fmt: skip
SMOOTH_PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "atan2": lambda x, y: ad.atan2(x, positive(y)),
    "hypot": lambda x, y: ad.hypot(positive(x), y),
    "logaddexp": lambda x, y: ad.logaddexp(x, y),
    "logaddexp2": lambda x, y: ad.logaddexp2(x, y),
    "xlogy": lambda x, y: ad.xlogy(x, positive(y)),
    "xlog1py": lambda x, y: ad.special.xlog1py(x, squashed(y)),
    "lerp": lambda x, y: ad.lerp(x, y, 0.3),
    "addcmul": lambda x, y: ad.addcmul(x, squashed(x), squashed(y), value=0.5),
    "addcdiv": lambda x, y: ad.addcdiv(x, y, positive(x), value=0.5),
}
