"""The dtype of a loss where its operands have different ones, and what a loss refuses."""

from __future__ import annotations

import warnings
from itertools import product

import pytest

import adjoint as ad
import adjoint.nn.functional as F

DTYPES = (ad.float16, ad.bfloat16, ad.float32, ad.float64)
SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3,), (3,)),
    ((), ()),
    ((), (3,)),
    ((3,), ()),
)


@pytest.mark.filterwarnings("ignore:.*Using a target size")
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss"])
def test_losses_that_bring_both_to_one_shape(name: str) -> None:
    """A tensor of no dimensions counts as one of the other's shape."""
    loss = getattr(F, name)
    for a, b in product(DTYPES, DTYPES):
        for p, q in SHAPES:
            x = ad.full(p, 0.5, dtype=a, requires_grad=True)
            out = loss(x, ad.full(q, 0.25, dtype=b))
            assert out.dtype is ad.promote_types(a, b), (a, b, p, q)
            out.backward()
            assert x.grad is not None
            assert x.grad.dtype is a


@pytest.mark.filterwarnings("ignore:.*reduction")
@pytest.mark.parametrize("name", ["kl_div", "poisson_nll_loss"])
def test_losses_by_arithmetic(name: str) -> None:
    """They are what products of the operands are."""
    loss = getattr(F, name)
    for a, b in product(DTYPES, DTYPES):
        for p, q in SHAPES:
            x = ad.full(p, 0.5, dtype=a, requires_grad=True)
            y = ad.full(q, 0.25, dtype=b, requires_grad=True)
            out = loss(x, y, reduction="sum")
            assert out.dtype is ad.result_type(x, y), (a, b, p, q)
            out.backward()
            assert x.grad is not None
            assert y.grad is not None
            assert (x.grad.dtype, y.grad.dtype) == (a, b)


def test_targets_that_are_compared_only() -> None:
    for a, b in product(DTYPES, DTYPES):
        x, signs = ad.full((2, 3), 0.5, dtype=a), ad.ones(2, 3, dtype=b)
        assert F.hinge_embedding_loss(x, signs).dtype is a
        assert F.cosine_embedding_loss(x, x, signs[:, 0]).dtype is a


def test_a_sum_of_a_float_and_a_half_has_the_floats_precision() -> None:
    """Large enough to be infinite in float16."""
    x = ad.tensor([300.0, 400.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert F.mse_loss(x.half(), ad.tensor(0.0), reduction="sum").item() == 250000
    y = ad.tensor([300.0, 400.0], dtype=ad.float16)
    assert F.poisson_nll_loss(x, y, log_input=False, reduction="none").dtype is ad.float32


@pytest.mark.parametrize("backend", ["native", "interpret"])
def test_negative_variances_are_a_value_error(backend: str) -> None:
    compiled = ad.compile(F.gaussian_nll_loss, backend=backend)
    for loss in (F.gaussian_nll_loss, compiled):
        with pytest.raises(ValueError, match="var has negative"):
            loss(ad.ones(3), ad.ones(3), ad.tensor([1.0, -1.0, 2.0]))
