"""Window functions: `hann_window` and its like, and those of `signal.windows`.

A window of M points is a formula in k = 0 ... M - 1. A symmetric one ends where it begins; a
periodic one is the symmetric window of M + 1 points without its last, as a transform wants it.
All are computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import pi, sqrt
from typing import TYPE_CHECKING, Any

from adjoint.core import dtype as dt
from adjoint.core.dtype import DType
from adjoint.core.placement import chosen
from adjoint.core.public import public
from adjoint.core.record import is_tensor
from adjoint.ops.creation import ARANGE

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor

Formula = Callable[[Any, float], Any]  # (k, the last k of the symmetric window) -> window


# -- formulas -----------------------------------------------------------------------------------


def _cosines(coefficients: Sequence[float]) -> Formula:
    """The sum of (-1)^i a_i cos(2 pi i k / last)."""

    def formula(k: Any, last: float) -> Any:
        phase = k * (2 * pi / last)
        total = phase * 0 + coefficients[0]
        for i, a in enumerate(coefficients[1:], 1):
            total = total + (phase * i).cos() * (a if i % 2 == 0 else -a)
        return total

    return formula


def _bartlett(k: Any, last: float) -> Any:
    return 1 - (k * (2 / last) - 1).abs()


def _kaiser(beta: float) -> Formula:
    def formula(k: Any, last: float) -> Any:
        t = k * 2 / last - 1
        return ((1 - t * t).sqrt() * beta).i0() / (k[:1] * 0 + beta).i0()

    return formula


def _fill(
    formula: Formula,
    length: int,
    periodic: bool,
    options: dict[str, Any],
    *,
    single: bool = True,
) -> Tensor:
    """The window; `single` says that a window of one point is 1 whatever the formula."""
    device = options["device"]
    dtype = options["dtype"] or dt.get_default_dtype()
    k = ARANGE(
        start=0,
        step=1,
        length=length,
        dtype=dt.float64,
        device=chosen(device),
    )
    if length == 1 and single:
        window = k + 1
    elif length == 0:
        window = k
    else:
        window = formula(k, length if periodic and length > 1 else length - 1)
    return window.to(dtype).requires_grad_(options["requires_grad"])


# -- top level ----------------------------------------------------------------------------------


def _check_length(name: str, length: Any, dtype: DType | None) -> None:
    if isinstance(length, bool) or not hasattr(length, "__index__") or is_tensor(length):
        raise TypeError(
            f"{name}: argument 'window_length' must be int, not {type(length).__name__}"
        )
    if length < 0:
        raise RuntimeError(
            f"{name}: requires non-negative window_length, got window_length={length}"
        )
    if dtype is not None and not dtype.is_floating_point:
        kind = NotImplementedError if dtype.is_complex else RuntimeError
        raise kind(f"{name}: expects floating point dtypes, got: {dtype.name}")


def _top(
    name: str, formula: Formula, length: int, periodic: bool, dtype: Any, device: Any, grad: bool
) -> Tensor:
    _check_length(name, length, dtype)
    options = {"dtype": dtype, "device": device, "requires_grad": grad}
    return _fill(formula, int(length), periodic, options)


@public()
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The Hann window, a raised cosine.

    >>> import adjoint as ad
    >>> ad.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    formula = _cosines((0.5, 0.5))
    return _top("hann_window", formula, window_length, periodic, dtype, device, requires_grad)


@public()
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The Hamming window, alpha - beta cos(2 pi k / N)."""
    formula = _cosines((alpha, beta))
    return _top("hamming_window", formula, window_length, periodic, dtype, device, requires_grad)


@public()
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The Bartlett window, a triangle."""
    name = "bartlett_window"
    return _top(name, _bartlett, window_length, periodic, dtype, device, requires_grad)


@public()
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The Blackman window, a sum of three cosines."""
    formula = _cosines(BLACKMAN)
    return _top("blackman_window", formula, window_length, periodic, dtype, device, requires_grad)


@public()
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The Kaiser window of shape `beta`."""
    formula = _kaiser(beta)
    return _top("kaiser_window", formula, window_length, periodic, dtype, device, requires_grad)


# -- signal.windows -----------------------------------------------------------------------------

BLACKMAN = (0.42, 0.5, 0.08)
NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
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
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return _fill(formula, int(M), not sym, options, single=single)


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
    return _signal("kaiser", _kaiser(beta), M, sym, options)


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
    return _signal("bartlett", _bartlett, M, sym, options)


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
    return _signal("general_cosine", _cosines(coefficients), M, sym, options)


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
    return _signal("general_hamming", _cosines((alpha, 1 - alpha)), M, sym, options)


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
    return _signal("hamming", _cosines((0.54, 0.46)), M, sym, options)


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
    return _signal("hann", _cosines((0.5, 0.5)), M, sym, options)


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
    return _signal("blackman", _cosines(BLACKMAN), M, sym, options)


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
    return _signal("nuttall", _cosines(NUTTALL), M, sym, options)
