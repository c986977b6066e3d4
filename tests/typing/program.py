"""A program as people write it: its types are asserted, and what is wrong in it is flagged.

Checked by mypy and pyright (tests/test_typing.py); `# wrong: NAME` marks lines that must be errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

import adjoint as ad
from adjoint import Tensor, nn
from adjoint.nn import functional as F

x = ad.randn(3, 4)
assert_type(x, Tensor)
assert_type(x + 1, Tensor)
assert_type(1 - x, Tensor)
assert_type(x @ x.T, Tensor)
assert_type(x * x / 2.0, Tensor)
assert_type(-x, Tensor)
assert_type(x > 0, Tensor)
assert_type(x[0], Tensor)
assert_type(x.sum(), Tensor)
assert_type(x.exp().mean(dim=0), Tensor)
values, indices = x.max(dim=0)
assert_type(values, Tensor)
assert_type(indices, Tensor)
assert_type(F.cross_entropy(x, ad.tensor([1, 2, 3])), Tensor)
assert_type(F.mse_loss(x, x), Tensor)
assert_type(F.relu(x), Tensor)


@ad.compile
def double(x: Tensor, times: int = 2) -> Tensor:
    return x * times


@ad.compile(dynamic=True)
def triple(x: Tensor) -> Tensor:
    return x * 3


@ad.no_grad()
def evaluate(x: Tensor) -> float:
    return float(x.sum())


assert_type(double(x), Tensor)
assert_type(triple(x), Tensor)
assert_type(evaluate(x), float)
assert_type(double.explain(), str)
assert_type(ad.compile(nn.Linear(4, 2)), nn.Linear)

if TYPE_CHECKING:
    double("no")  # wrong: a string
    double(x, 2, 3)  # wrong: too many
    ad.no_such_function(x)  # wrong: no such name
    evaluate(3)  # wrong: not a tensor
    x.no_such_method()  # wrong: no such method
