"""Numbers that neither grow nor fall with a dynamic size: remainders, differences of quotients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.graph.sizes.extents import Extent, SizeScope

# Two sizes at which such a number is the same say nothing about a third, so that what an operation
# does with it cannot be found out by recording at other sizes.
NUMBERS: dict[str, Callable[[int], int]] = {
    "remainder": lambda n: n % 2 + 1,
    "complement": lambda n: 3 - n % 3,
    "quotients": lambda n: n // 3 - n // 5 + 1,
    "half of a remainder": lambda n: n % 8 // 4 + 1,
}
USES: dict[str, Callable[[Any, int], Any]] = {
    "dimension": lambda x, k: x.sum(dim=k % 2),
    "transpose": lambda x, k: x.transpose(0, k % 2),
    "softmax": lambda x, k: x.softmax(k % 2),
    "row": lambda x, k: x[k % 3],
    "slice": lambda x, k: x[:, :k],
    "shift": lambda x, k: x.roll(k, 1),
    "power": lambda x, k: x**k,
    "factor": lambda x, k: x * k,
    "step": lambda x, k: ad.arange(0, 10, k),
    "length": lambda x, k: ad.zeros(k),
    "interpolate": lambda x, k: F.interpolate(x[None], size=k + 3),
    "pool": lambda x, k: F.avg_pool1d(x[None], k % 4 + 1),
    "pad": lambda x, k: F.pad(x, (0, k)),
    "pad, reflected": lambda x, k: F.pad(x[None], (0, k % 3), mode="reflect"),
    "list": lambda x, k: ad.tensor([k, 2]),
    "quotient": lambda x, k: F.leaky_relu(x - 5, k / 7),
}


@pytest.mark.filterwarnings("ignore:.*is recorded for each size by itself")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_remainder_of_a_dynamic_size_is_that_of_the_call(number: str, use: str) -> None:
    def fn(x: Any, s: Any) -> Any:
        return USES[use](x, NUMBERS[number](s.shape[0]))

    f = ad.compile(fn, dynamic=True, backend="interpret")
    x = ad.arange(12.0).view(3, 4)
    for n in (2, 3, 4, 5, 12, 14):
        np.testing.assert_array_equal(f(x, ad.ones(n)).numpy(), fn(x, ad.ones(n)).numpy())


def test_a_plan_for_many_sizes_has_no_number_of_one_of_them() -> None:
    def fn(x: Any, s: Any) -> Any:
        return F.interpolate(x, size=s.shape[0] % 2 + 4)

    f = ad.compile(fn, dynamic=True)
    x = ad.arange(12.0).view(1, 1, 12)
    for n in (2, 3, 4, 5):
        np.testing.assert_array_equal(f(x, ad.ones(n)).numpy(), fn(x, ad.ones(n)).numpy())


def test_padding_to_a_multiple_is_recorded_once_for_many_sizes() -> None:
    def fn(x: Any) -> Any:
        return F.pad(x, (0, -len(x) % 4)).view(-1, 4).sum(0)

    f = ad.compile(fn, dynamic=True, backend="interpret")
    for n in (10, 11, 13, 14, 15, 17, 30, 91):
        x = ad.arange(float(n))
        np.testing.assert_array_equal(f(x).numpy(), fn(x).numpy())
    assert f.traces == 1


@pytest.mark.parametrize(
    ("fn", "direction"),
    [
        (lambda n: n // 4 + n, 1),
        (lambda n: 3 - n * n, -1),
        (lambda n: n + -n % 4, 1),
        (lambda n: n - n % 4, 1),
        (lambda n: n % 4, None),
        (lambda n: n // 2 - n // 3, None),
        (lambda n: n * (n // 2), None),
    ],
)
def test_which_way_a_number_goes_with_the_size(
    fn: Callable[[int], int], direction: int | None
) -> None:
    scope = SizeScope()
    extent: Any = fn(Extent.symbol("n", 8, scope))
    assert scope.direction(extent.poly) == direction
    if direction is not None:
        ways = [np.sign(fn(n + 1) - fn(n)) for n in range(2, 40)]
        assert set(ways) <= {0, direction}
