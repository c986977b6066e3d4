"""Functions that generated kernels call; loaded with Triton, on first use."""

# mypy: disallow-untyped-defs=False
# No annotations: Triton reads these functions' source.
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def nan_max(a, b):
    """The larger, NaN beside a NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def nan_min(a, b):
    """The smaller, NaN beside a NaN."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def int_max(a, b):
    """The larger of two integers."""
    return tl.where(a > b, a, b)


@triton.jit
def int_min(a, b):
    """The smaller of two integers."""
    return tl.where(a < b, a, b)


@triton.jit
def plus(a, b):
    """A sum."""
    return a + b


@triton.jit
def plus_both(a, b, c, d):
    """Two sums."""
    return a + c, b + d


@triton.jit
def times(a, b):
    """A product."""
    return a * b


@triton.jit
def rough_tanh(x, one_plus):
    """The hyperbolic tangent from 1 + tanh(x), with its precision also where x is small."""
    square = x * x
    small = x * (1.0 - square * (0.33333334 - square * 0.13333334))
    return tl.where(tl.abs(x) < 0.1, small, one_plus - 1.0)


@triton.jit
def log_plus_exp(a, b):
    """The logarithm of the sum of two exponentials."""
    high = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    low = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    # Of equal infinities a difference would be NaN.
    more = libdevice.log1p(libdevice.exp(tl.where(low == high, 0.0, low - high).to(a.dtype)))
    return tl.where((low == high) & (tl.abs(high) == float("inf")), high, high + more)


@triton.jit
def then_step(a, b, c, d):
    """Two steps y -> a y + b of a recurrence as one."""
    return a * c, b * c + d


@triton.jit
def later_highest(a, i, b, j):
    """The larger of two and where it is; of equals, and of NaN, the later."""
    later = (b >= a) | (b != b)
    return tl.where(later, b, a), tl.where(later, j, i)


@triton.jit
def later_lowest(a, i, b, j):
    """The smaller of two and where it is; of equals, and of NaN, the later."""
    later = (b <= a) | (b != b)
    return tl.where(later, b, a), tl.where(later, j, i)


@triton.jit
def four_words(seed, counter):
    """The words of blocks of a stream, those of a block beside each other."""
    low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    zeros = low * 0
    a, b, c, d = tl.philox(seed, low, high, zeros, zeros)
    return tl.interleave(tl.interleave(b, d), tl.interleave(a, c))


@triton.jit
def one_word(seed, counter, place):
    """One word of each block of a stream, by its place there."""
    low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    zeros = low * 0
    a, b, c, d = tl.philox(seed, low, high, zeros, zeros)
    return tl.where(place < 2, tl.where(place == 0, b, a), tl.where(place == 2, d, c))
