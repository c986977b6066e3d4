"""Values that are refused are refused under autocast and in inference mode, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.nn import functional as F

CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "normal": (lambda: ad.normal(ad.zeros(3), -ad.ones(3)), RuntimeError, "std >= 0"),
    "istft": (
        lambda: ad.istft(ad.zeros(5, 4, dtype=ad.complex64), 8, window=ad.zeros(8)),
        RuntimeError, "window overlap add",
    ),
    "ctc_loss": (
        lambda: F.ctc_loss(
            ad.randn(4, 1, 3), ad.tensor([[1, 2]]), ad.tensor([9]), ad.tensor([2])
        ),
        RuntimeError, "input_lengths to be at most 4",
    ),
    "ctc_loss, targets": (
        lambda: F.ctc_loss(
            ad.randn(4, 1, 3), ad.tensor([[1, 2]]), ad.tensor([4]), ad.tensor([3])
        ),
        RuntimeError, "expected targets of shape",
    ),
    "gaussian_nll_loss": (
        lambda: F.gaussian_nll_loss(ad.zeros(3), ad.zeros(3), -ad.ones(3)),
        ValueError, "negative",
    ),
    "binary_cross_entropy": (
        lambda: F.binary_cross_entropy(ad.ones(3) * 2, ad.zeros(3)), RuntimeError, "between 0 and 1"
    ),
}  # fmt: skip
REGIONS: dict[str, Callable[[], Any]] = {
    "none": ad.enable_grad,
    "autocast": lambda: ad.autocast("cpu"),
    "inference mode": ad.inference_mode,
}


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, region: str) -> None:
    call, kind, says = CASES[name]
    with REGIONS[region](), pytest.raises(kind, match=says):
        call()
