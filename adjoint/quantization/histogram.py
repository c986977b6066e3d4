"""The observer that keeps a histogram, and cuts off what costs least."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.quantization.observer import MinMaxObserver

FINER = 16  # bins that a bin is divided into before it is put among others
PART = 1e-5  # of all numbers that a step of the search leaves out

Floats = NDArray[np.float64]


class HistogramObserver(MinMaxObserver):
    """How often numbers of each size were seen; the range with the least square error is chosen.

    The search narrows the range from the side on which fewer numbers are lost, as long as what is
    cut off costs less than the smaller steps gain.

    Args:
        bins: of the histogram.

    Example:
        >>> observer = HistogramObserver()
        >>> x = ad.cat([ad.linspace(0, 1, 100000), ad.tensor([2.0])])
        >>> _ = observer(x)
        >>> bool(observer.calculate_qparams()[0] < 1.01 / 255)  # the one far number is cut off
        True
    """

    histogram: Tensor
    reduces_symmetric = True

    def __init__(self, bins: int = 2048, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.bins = bins
        self.register_buffer("histogram", ad.zeros(bins))

    @ad.no_grad()
    def forward(self, x_orig: Tensor) -> Tensor:
        x = x_orig.detach().to(ad.float32)
        finite = x.isfinite()
        if not bool(finite.all()):
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            x = x[finite]
        if not x.numel():
            return x_orig
        low, high = float(x.amin()), float(x.amax())
        old_low, old_high = float(self.min_val), float(self.max_val)
        if old_low <= old_high:
            low, high = min(low, old_low), max(high, old_high)
        counted = ad.histc(x, self.bins, low, high)
        if old_low <= old_high:
            before = self.histogram.numpy().astype(np.float64)
            moved = _moved(before, (old_low, old_high), (low, high))
            counted = counted + ad.tensor(moved.astype(np.float32))
        self.histogram.copy_(counted)
        self.min_val.fill_(low)
        self.max_val.fill_(high)
        return x_orig

    def seen(self) -> tuple[Tensor, Tensor]:
        low, width = float(self.min_val), (float(self.max_val) - float(self.min_val)) / self.bins
        steps = 1 << (8 * self.steps.dtype.itemsize)  # as PyTorch counts them: all of the dtype's
        first, last = search(self.histogram.numpy().astype(np.float64), width, steps)
        return ad.tensor(low + width * first), ad.tensor(low + width * (last + 1))

    def reset_min_max_vals(self) -> None:
        super().reset_min_max_vals()
        self.histogram.zero_()


def _moved(counts: Floats, old: tuple[float, float], new: tuple[float, float]) -> Floats:
    """A histogram in the bins of a wider range."""
    bins = len(counts)
    if old == new:
        return counts
    if old[0] == old[1]:
        places, finer = np.array([old[0]]), np.array([counts.sum()])
    else:
        width = (old[1] - old[0]) / (bins * FINER)
        places = old[0] + width * (np.arange(bins * FINER) + 0.5)
        finer = np.repeat(counts, FINER) / FINER
    span = new[1] - new[0]
    at = np.clip(((places - new[0]) / span * bins).astype(np.int64), 0, bins - 1)
    return np.bincount(at, weights=finer, minlength=bins).astype(np.float64)


def search(counts: Floats, width: float, steps: int) -> tuple[int, int]:
    """The first and the last bin of the range with the least error."""
    total, below = counts.sum(), np.cumsum(counts)
    first, last = 0, len(counts) - 1
    alpha, beta, least = 0.0, 1.0, np.inf
    while alpha < beta:
        next_alpha, next_beta = alpha + PART, beta - PART
        left = max(first, int(np.searchsorted(below, next_alpha * total)))
        right = min(last, int(np.searchsorted(below, next_beta * total, side="right")) - 1)
        left, right = min(left, last), max(right, first)
        if left - first > last - right:
            tried, alpha = (left, last), next_alpha
        else:
            tried, beta = (first, right), next_beta
        if tried == (first, last):
            continue
        error = square_error(counts, width, tried, steps)
        if error > least:
            break
        least, (first, last) = error, tried
    return first, last


def square_error(counts: Floats, width: float, bins: tuple[int, int], steps: int) -> float:
    """The square error of rounding to the middles of equal steps, numbers even within bins."""
    step = width * (bins[1] - bins[0] + 1) / steps
    if step == 0:
        return 0.0
    begin = (np.arange(len(counts)) - bins[0]) * width
    end = begin + width
    density = counts / width
    from_step = np.clip(np.floor(begin / step), 0, steps - 1)
    to_step = np.clip(np.floor(end / step), 0, steps - 1)

    def between(low: Any, high: Any) -> Any:
        return density * (high**3 - low**3) / 3

    error = between(begin - (from_step + 0.5) * step, step / 2)
    error = error + (to_step - from_step - 1) * between(-step / 2, step / 2)
    error = error + between(-step / 2, end - (to_step + 0.5) * step)
    return float(error.sum())


default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
