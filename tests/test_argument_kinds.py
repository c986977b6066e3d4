"""Arguments of the wrong kind are refused by PyTorch's exceptions, and results lie as its do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

X = ad.arange(12.0).reshape(3, 4)
# What is asked, the exception, what it says.
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: X.sum(True), TypeError, "sum: a dimension must be int, not bool"),
    (lambda: X.mean(True), TypeError, "must be int, not bool"),
    (lambda: X.amax(False), TypeError, "must be int, not bool"),
    (lambda: X.any(True), TypeError, "must be int, not bool"),
    (lambda: X.cumsum(True), TypeError, "must be int, not bool"),
    (lambda: X.transpose(True, False), TypeError, "must be int, not bool"),
    (lambda: X.softmax(0, True), TypeError, "softmax: dtype must be a dtype"),  # type: ignore[arg-type]
    (lambda: X.unique(0), TypeError, "unique: sorted must be bool"),  # type: ignore[arg-type]
    (lambda: ad.zeros(3, 0).unique(dim=0), RuntimeError, "0 sized dimensions"),
    (lambda: X.bool().trace(), NotImplementedError, "trace: not implemented for bool"),
    (lambda: ad.ldexp(X, X > 3), NotImplementedError, "ldexp: not implemented"),
]


@pytest.mark.parametrize("k", range(len(REFUSED)))
@pytest.mark.parametrize("compiled", [False, True])
def test_refused(k: int, compiled: bool) -> None:
    ask, kind, says = REFUSED[k]
    with pytest.raises(kind, match=says):
        (ad.compile(ask) if compiled else ask)()


@pytest.mark.parametrize("compiled", [False, True])
def test_replacements_beyond_a_dtype_are_infinite(compiled: bool) -> None:
    def replaced(x: Any) -> Any:
        return x.nan_to_num(nan=-1e9, posinf=1e9, neginf=-70000)

    x = ad.tensor([math.nan, math.inf, -math.inf, 2.0], dtype=ad.float16)
    out = (ad.compile(replaced) if compiled else replaced)(x)
    assert out.tolist() == [-math.inf, math.inf, -math.inf, 2.0]


def along(x: Any, dim: int) -> dict[str, Any]:
    """Functions whose results lie row after row, whatever their operands do."""
    return {
        "softmax": x.softmax(dim),
        "log_softmax": x.log_softmax(dim),
        "cumsum": x.cumsum(dim),
        "cumprod": x.cumprod(dim),
        "logcumsumexp": x.logcumsumexp(dim),
        "cummax": x.cummax(dim).values,
        "cummax's places": x.cummax(dim).indices,
        "cummin's places": x.cummin(dim).indices,
    }


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("compiled", [False, True])
def test_results_lie_row_after_row(dim: int, compiled: bool) -> None:
    numbers = np.random.default_rng(dim).normal(size=(2, 3, 4))
    expected = along(ad.from_numpy(numbers.transpose(2, 0, 1).copy()), dim)
    x = ad.from_numpy(numbers).permute(2, 0, 1)
    for name, out in (ad.compile(along) if compiled else along)(x, dim).items():
        assert out.is_contiguous(), name
        np.testing.assert_allclose(out.numpy(), expected[name].numpy(), rtol=1e-12)
