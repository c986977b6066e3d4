"""Functions that generated kernels call; loaded with Triton, on first use."""

# mypy: disallow-untyped-defs=False
# No annotations: Triton reads these functions' source.
import triton
import triton.language as tl


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
def times(a, b):
    """A product."""
    return a * b


@triton.jit
def rough_tanh(x):
    """The hyperbolic tangent within 2^-20, by the GPU's own exponential."""
    square = x * x
    small = x * (1.0 - square * (0.33333334 - square * 0.13333334))
    return tl.where(tl.abs(x) < 0.1, small, 1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0))


@triton.jit
def rough_sigmoid(x):
    """1 / (1 + exp(-x)), by the GPU's own exponential."""
    return 1.0 / (1.0 + tl.exp(-x))
