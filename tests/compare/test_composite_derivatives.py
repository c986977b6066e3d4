"""Derivatives of composites at their edges, first and second, as PyTorch's; differences listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")
from tests.composite_points import ROWS, Array, Point, Row, make_modules, tolerance  # noqa: E402

pytestmark = [pytest.mark.compare, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

make_modules(ad)
make_modules(torch)

# PyTorch's result is NaN or infinite (a difference of infinities, a quotient of zeros) where the
# function, or the subgradient that it takes itself in the first derivative, has a number.
FINITE_HERE = {
    "gelu": "x * x overflows",
    "mish": "the exponential overflows",
    "softsign": "inf / inf; the slope there is 0",
    "hardswish": "-inf * 0; the value there is 0",
    "mse_loss": "a constant times inf - inf",
    "smooth_l1_loss": "0 times the value at NaN",
    "poisson_nll_loss full": "0 log 0 of a target of 0, which takes no part",
    "binary_cross_entropy": "the logarithm is cut off at -100 in the value, not in its slope",
    "binary_cross_entropy_with_logits": "0 * inf; the slope at -inf is -y",
    "soft_margin_loss": "the exponential overflows",
    "p_norm 2.0": "the second derivative of the norm at 0, where the first is taken as 0",
    "p_norm 3.0": "likewise, and a norm cubed that underflows",
    "p_norm 0.5": "likewise, of each element that is 0",
    "p_norm 1.5": "likewise, of each element that is 0",
    "cosine_similarity": "the second derivative at a vector of zeros",
}
# At NaN itself PyTorch takes one branch's slope; we say NaN, or take another's.
AT_NAN = {"elu", "selu", "celu", "hardswish", "smooth_l1_loss", "mse_loss"}
# Numbers differ, for the reason given, where the condition on the operands holds.
Condition = Callable[..., Any]
ELSEWHERE: dict[tuple[str, str], tuple[str, Condition]] = {}


def differs(row: str, whats: str, reason: str, where: Condition) -> None:
    ELSEWHERE.update({(row, what): (reason, where) for what in whats.split(", ")})


BRANCH = "at the threshold, the slope of the branch that the value is taken from"
differs("softplus", "second, second forward", BRANCH, lambda x: x == 20)
differs("softplus sharp", "second, second forward", BRANCH, lambda x: x == 1.5)
differs(
    "binary_cross_entropy",
    "first, forward",
    "the slope by the target is that of the value, cut off",
    lambda x, y: (x < 1e-43) | (x == 1),
)
differs(
    "binary_cross_entropy",
    "second, second forward",
    "PyTorch adds 1e-12 to the denominator, twice",
    lambda x, y: x >= 0,
)
differs(
    "embedding",
    "forward",
    "the padding has no derivative in any mode",
    lambda w, i: i[:, None] == 0,
)
ROUNDING = "zero but for the rounding of 1e200"
differs("p_norm 0.5", "second forward", ROUNDING, lambda x: np.abs(x) == 1e-200)
differs("p_norm 1.5", "second forward", ROUNDING, lambda x: np.abs(x) == 1e-200)
SLOPE = "at 0 every mode has the weight for slope; PyTorch's has 1 but in its first gradient"
differs("prelu", "forward, second, second forward", SLOPE, lambda x, w: x == 0)
FORWARD = "forward and reverse mode agree: PyTorch's tangent is NaN where its gradient is shared"
differs("max of all", "forward", FORWARD, lambda x: np.isnan(x).any())
differs("min of all", "forward", FORWARD, lambda x: np.isnan(x).any())


def modes(lib: Any, point: Point) -> Iterator[tuple[str, Callable[[], list[Array]]]]:
    """Derivatives by name, as arrays."""
    xs, which, func = point.xs, point.which, lib.func
    ones = tuple(lib.ones_like(x) for x in xs)

    def arrays(found: Any) -> list[Array]:
        return [(t + 0 * lib.zeros_like(t)).detach().numpy() for t in found]

    def first(*xs: Any) -> Any:
        return func.grad(point.total, which)(*xs)

    yield "value", lambda: arrays([point.outs(*xs)])
    yield "first", lambda: arrays(first(*xs))
    yield "forward", lambda: arrays([func.jvp(point.outs, xs, ones)[1]])
    yield "second", lambda: arrays(func.grad(point.slopes, which)(*xs))
    yield "second forward", lambda: arrays(func.jvp(first, xs, ones)[1])


def excused(row: Row, what: str, arrays: tuple[Array, ...], got: Array, want: Array) -> Array:
    """Elements that may differ."""
    allowed = np.zeros(got.shape, bool)
    if (row.name, what) in ELSEWHERE:
        allowed |= ELSEWHERE[row.name, what][1](*arrays)
    if row.name in FINITE_HERE:
        allowed |= np.isnan(want) & ~np.isnan(got) | np.isinf(want) & np.isfinite(got)
    if row.name in AT_NAN and arrays[0].shape == got.shape:
        allowed |= np.isnan(arrays[0])
    return allowed


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_derivatives_at_edges_as_in_pytorch(row: Row) -> None:
    for arrays in row.points:
        here, there = Point(ad, row, arrays), Point(torch, row, arrays)
        for (what, ours), (_, theirs) in zip(modes(ad, here), modes(torch, there), strict=True):
            found = ours()
            try:
                wanted = theirs()
            except (RuntimeError, NotImplementedError):  # no such derivative there
                continue
            for k, (got, want) in enumerate(zip(found, wanted, strict=True)):
                near = np.isclose(
                    got, want, rtol=1e-7, atol=tolerance(row, arrays, want), equal_nan=True
                )
                wrong = ~(near | excused(row, what, arrays, got, want))
                assert not wrong.any(), (
                    f"{what}, operand {k} of {arrays}: {got[wrong]} != {want[wrong]}"
                )
