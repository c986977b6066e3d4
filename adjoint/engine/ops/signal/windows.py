"""Window functions: `hann_window` and its like; `signal_windows` has those of `signal.windows`.

A window of M points is a formula in k = 0 ... M - 1. A symmetric one ends where it begins; a
periodic one is the symmetric window of M + 1 points without its last, as a transform wants it.
All are computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi
from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.placement import chosen
from adjoint.engine.ops.create.creation import ARANGE

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

Formula = Callable[[Any, float], Any]  # (k, the last k of the symmetric window) -> window
BLACKMAN = (0.42, 0.5, 0.08)  # coefficients of sums of cosines
NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


# -- formulas -----------------------------------------------------------------------------------


def cosines_formula(coefficients: Sequence[float]) -> Formula:
    """The sum of (-1)^i a_i cos(2 pi i k / last)."""

    def formula(k: Any, last: float) -> Any:
        phase = k * (2 * pi / last)
        total = phase * 0 + coefficients[0]
        for i, a in enumerate(coefficients[1:], 1):
            total = total + (phase * i).cos() * (a if i % 2 == 0 else -a)
        return total

    return formula


def bartlett_formula(k: Any, last: float) -> Any:
    """A triangle."""
    return 1 - (k * (2 / last) - 1).abs()


def kaiser_formula(beta: float) -> Formula:
    """i0(beta sqrt(1 - t^2)) / i0(beta), with t from -1 to 1."""

    def formula(k: Any, last: float) -> Any:
        t = k * 2 / last - 1
        return ((1 - t * t).sqrt() * beta).i0() / (k[:1] * 0 + beta).i0()

    return formula


def fill_window(
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
    return fill_window(formula, int(length), periodic, options)


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
    formula = cosines_formula((0.5, 0.5))
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
    formula = cosines_formula((alpha, beta))
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
    return _top(name, bartlett_formula, window_length, periodic, dtype, device, requires_grad)


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
    formula = cosines_formula(BLACKMAN)
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
    formula = kaiser_formula(beta)
    return _top("kaiser_window", formula, window_length, periodic, dtype, device, requires_grad)
