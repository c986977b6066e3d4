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
def philox_words(seed, counter):
    """The four words of blocks of a stream, in their order there."""
    k0, k1 = seed.to(tl.uint32), (seed >> 32).to(tl.uint32)
    c0, c1 = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    c2 = c0 * 0
    c3 = c0 * 0
    for _ in tl.static_range(10):
        # One instruction each, where the halves of a product would be one each.
        p = c0.to(tl.uint64) * 0xD2511F53
        q = c2.to(tl.uint64) * 0xCD9E8D57
        c0 = (q >> 32).to(tl.uint32) ^ c1 ^ k0
        c2 = (p >> 32).to(tl.uint32) ^ c3 ^ k1
        c1 = q.to(tl.uint32)
        c3 = p.to(tl.uint32)
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    return c1, c0, c3, c2


@triton.jit
def words_in_tiles(seed, counter):
    """The words of a tile of blocks, (rows, 4 blocks), in the order in which threads have columns
    of a product: two by two those of a block, eight columns apart; none goes to another thread."""
    a, b, c, d = philox_words(seed, counter)
    block = tl.join(tl.join(a, b), tl.join(c, d))
    block = block.reshape(counter.shape[0], counter.shape[1] // 4, 4, 2, 2)
    return tl.permute(block, (0, 1, 4, 2, 3)).reshape(counter.shape[0], counter.shape[1] * 4)
