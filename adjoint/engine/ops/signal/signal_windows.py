"""The window functions of `signal.windows`: symmetric unless asked otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from math import pi, sqrt
from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeValueError
from adjoint.engine.core.operations.public import public
from adjoint.engine.ops.signal.windows import (
    BLACKMAN,
    NUTTALL,
    Formula,
    bartlett_formula,
    cosines_formula,
    fill_window,
    kaiser_formula,
)

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

SPACE = ("signal.windows",)


def _signal(
    name: str, formula: Formula, M: int, sym: bool, options: dict[str, Any], *, single: bool = True
) -> Tensor:
    layout = options.pop("layout", None)
    if not hasattr(M, "__index__"):
        raise TypeError(f"{name}: argument 'M' must be int, not {type(M).__name__}")
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and "strided" not in str(layout):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    dtype = options["dtype"] or dt.get_default_dtype()
    if dtype not in (dt.float32, dt.float64):
        raise DTypeValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return fill_window(formula, int(M), not sym, options, single=single)


def _options(dtype: Any, layout: Any, device: Any, requires_grad: bool) -> dict[str, Any]:
    return {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}


@public(namespaces=SPACE)
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|k - center| / tau)."""
    if tau <= 0:
        raise ValueError(f"exponential: tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("exponential: center must be None for symmetric windows")

    def formula(k: Any, last: float) -> Any:
        middle = last / 2 if center is None else center
        return (-(k - middle).abs() * (1 / tau)).exp()

    options = _options(dtype, layout, device, requires_grad)
    return _signal("exponential", formula, M, sym, options, single=False)


@public(namespaces=SPACE)
def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a period of a sine."""
    options = _options(dtype, layout, device, requires_grad)
    return _signal("cosine", lambda k, last: ((k + 0.5) * (pi / (last + 1))).sin(), M, sym, options)


@public(namespaces=SPACE)
def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A normal density of standard deviation `std`, 1 at its middle."""
    if std <= 0:
        raise ValueError(f"gaussian: standard deviation must be positive, got: {std} instead.")

    def formula(k: Any, last: float) -> Any:
        t = (k - last / 2) * (1 / (std * sqrt(2)))
        return (-t * t).exp()

    return _signal("gaussian", formula, M, sym, _options(dtype, layout, device, requires_grad))


@public(namespaces=SPACE)
def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Kaiser window of shape `beta`."""
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta} instead.")
    options = _options(dtype, layout, device, requires_grad)
    return _signal("kaiser", kaiser_formula(beta), M, sym, options)


@public(namespaces=SPACE)
def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Bartlett window, a triangle."""
    options = _options(dtype, layout, device, requires_grad)
    return _signal("bartlett", bartlett_formula, M, sym, options)


@public(namespaces=SPACE)
def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines with coefficients `a` of alternating sign."""
    options = _options(dtype, layout, device, requires_grad)
    if M > 1 and not isinstance(a, Iterable):
        raise TypeError(f"general_cosine: coefficients must be a list/tuple, received {a!r}")
    coefficients = tuple(a)
    if M > 1 and not coefficients:
        raise ValueError("general_cosine: coefficients cannot be empty")
    return _signal("general_cosine", cosines_formula(coefficients), M, sym, options)


@public(namespaces=SPACE)
def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi k / N)."""
    options = _options(dtype, layout, device, requires_grad)
    return _signal("general_hamming", cosines_formula((alpha, 1 - alpha)), M, sym, options)


@public(namespaces=SPACE)
def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Hamming window."""
    options = _options(dtype, layout, device, requires_grad)
    return _signal("hamming", cosines_formula((0.54, 0.46)), M, sym, options)


@public(namespaces=SPACE)
def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Hann window.

    >>> import adjoint as ad
    >>> ad.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    options = _options(dtype, layout, device, requires_grad)
    return _signal("hann", cosines_formula((0.5, 0.5)), M, sym, options)


@public(namespaces=SPACE)
def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Blackman window."""
    options = _options(dtype, layout, device, requires_grad)
    return _signal("blackman", cosines_formula(BLACKMAN), M, sym, options)


@public(namespaces=SPACE)
def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Nuttall window, a sum of four cosines."""
    options = _options(dtype, layout, device, requires_grad)
    return _signal("nuttall", cosines_formula(NUTTALL), M, sym, options)
