"""Operands that do not fit are refused, whatever their number and in compiled functions too.

A secondary operand (a bias, a weight, an index) never enlarges a result or decides its dtype
where PyTorch refuses it. `python -m tests.compare.operands` looks for such cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
import adjoint.nn.functional as F

ones = ad.ones
FEW, MANY = 2, 9000  # by NumPy, and as one program

# What is called, and a part of its error.
REFUSED: dict[str, tuple[Callable[[int], Any], str]] = {
    "a bias longer than one feature": (
        lambda n: F.linear(ones(n, 3), ones(1, 3), ones(3)),
        r"a bias of shape \[3\] does not fit",
    ),
    "a bias of more dimensions": (
        lambda n: F.linear(ones(n, 3), ones(4, 3), ones(2, 1, 4)),
        r"a bias of shape \[2, 1, 4\] does not fit",
    ),
    "a bias of another dtype": (
        lambda n: F.linear(ones(n, 3), ones(4, 3), ones(4, dtype=ad.float64)),
        "input and bias must have the same dtype, but got float32 and float64",
    ),
    "a bias of integers": (
        lambda n: F.linear(ones(n, 3), ones(4, 3), ones(4, dtype=ad.int64)),
        "input and bias must have the same dtype, but got float32 and int64",
    ),
    "a factor of losses with more dimensions": (
        lambda n: F.binary_cross_entropy(ones(n), ones(n), ones(1, n)),
        "weight of shape",
    ),
    "a factor of events with more dimensions": (
        lambda n: F.binary_cross_entropy_with_logits(ones(n), ones(n), pos_weight=ones(1, n)),
        "pos_weight of shape",
    ),
    "complex factors of losses": (
        lambda n: F.binary_cross_entropy(ones(n), ones(n), ones(n, dtype=ad.complex64)),
        "can't be cast",
    ),
    "a bias of one for many features": (
        lambda n: F.bilinear(ones(n, 3), ones(n, 4), ones(5, 3, 4), ones(1)),
        "bias size does not match",
    ),
    "a bias of another dtype for two inputs": (
        lambda n: F.bilinear(ones(n, 3), ones(n, 4), ones(5, 3, 4), ones(5, dtype=ad.float64)),
        "must have the same dtype",
    ),
    "dropout of integers": (
        lambda n: F.dropout(ones(n, dtype=ad.int64)),
        "can't be cast to the desired output type int64",
    ),
    "dropout of channels of a vector": (
        lambda n: F.dropout3d(ones(n)[0]),
        "at least 2 dimensions",
    ),
    "a number reduced into a vector": (
        lambda n: ones(n).index_reduce(0, ad.tensor([0]), ad.tensor(2.0), "amax"),
        "must match self tensor shape",
    ),
    "a number copied into a matrix": (
        lambda n: ones(1, n).index_copy(0, ad.tensor([0]), ad.tensor(2.0)),
        "must match self of shape",
    ),
    "values of more dimensions than are put": (
        lambda n: ones(n, 5).index_put((ad.tensor([1]),), ones(1, 1, 5)),
        "cannot be broadcast to indexing result",
    ),
    "what goes before no differences": (
        lambda n: ones(n, 5).diff(n=0, dim=0, prepend=ones(2, 6)),
        "to match the shape of input",
    ),
    "points of more dimensions than samples": (
        lambda n: ad.trapezoid(ones(n, 5)[0], ones(3, 5)),
        "must match",
    ),
    "pivots of another matrix": (
        lambda n: ad.lu_unpack(ones(3, 3), ones(2, 3, dtype=ad.int32)),
        "wants LU_pivots of shape",
    ),
    "too few reflections": (
        lambda n: ad.ormqr(ones(5, 5), ones(3), ones(5, 5)),
        "tau.shape",
    ),
    "running statistics of more dimensions": (
        lambda n: F.instance_norm(ones(2, 5, n), ones(1, 5), ones(5)),
        "expected running_mean to be of shape",
    ),
    "weights of classes in another dtype": (
        lambda n: F.multi_margin_loss(
            ones(n, 3), ad.zeros(n, dtype=ad.int64), weight=ones(3, dtype=ad.float64)
        ),
        "expected a weight of the input's dtype",
    ),
    "a table of one dimension": (
        lambda n: F.embedding_bag(ad.zeros(n, 2, dtype=ad.int64), ones(5)),
        "weight has to be a 2D Tensor",
    ),
    "weights of points in another shape": (
        lambda n: ad.histogramdd(ones(n, 2), [2, 2], weight=ones(1, n)),
        "if weight tensor is provided",
    ),
}


@pytest.mark.filterwarnings("ignore:.*dropout")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, count: int, compiled: bool) -> None:
    call, message = REFUSED[name]
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError), match=message):
        (ad.compile(call) if compiled else call)(count)


OF_ANOTHER_KIND: dict[str, Callable[[Any], Any]] = {
    "no number of classes": lambda x: F.cross_entropy(x, x.long()[0], ignore_index=1.5),
    "no tensor of factors": lambda x: F.nll_loss(x, x.long()[0], weight=2),
    "a number to scatter": lambda x: x.scatter_add(0, x.long(), 2.0),
    "a text as a factor": lambda x: x.add(1, alpha="a"),
    **{
        f"{given!r} as dtype of {call.__name__}": lambda x, call=call, given=given: call(
            x, 0, dtype=given
        )
        for given in ("cpu", "float32", 5)
        for call in (ad.sum, ad.mean, ad.prod, ad.cumsum, ad.nansum, ad.softmax)
    },
}


@pytest.mark.parametrize("name", OF_ANOTHER_KIND)
def test_arguments_of_another_kind(name: str) -> None:
    with pytest.raises(TypeError):
        OF_ANOTHER_KIND[name](ones(2, 2))


def test_number_types_of_python_are_dtypes() -> None:
    assert ad.finfo(float).max == ad.finfo(ad.float64).max
    assert ad.iinfo(int).max == ad.iinfo(ad.int64).max
    assert ad.promote_types(float, ad.float32) is ad.float64
    assert ad.can_cast(int, ad.float16)
    assert ones(2).sum(dtype=float).dtype is ad.float64
    assert ad.tril_indices(2, 2, dtype=None).dtype is ad.int64


@pytest.mark.parametrize("shape", [(4,), (1,), (), (2, 4), (2, 1)])
def test_a_bias_that_fits(shape: tuple[int, ...]) -> None:
    x, weight, bias = ad.randn(2, 3), ad.randn(4, 3), ad.randn(shape)
    for linear in (F.linear, ad.compile(F.linear)):
        assert ad.allclose(linear(x, weight, bias), x @ weight.T + bias)


def test_losses_keep_their_dtype() -> None:
    half = ad.full((3,), 0.5)
    assert F.binary_cross_entropy(half, half, half.double()).dtype is ad.float32
    probabilities = ad.full((2, 3), 1 / 3, dtype=ad.float64)
    assert F.cross_entropy(ad.zeros(2, 3), probabilities).dtype is ad.float64


def test_numbers_joined_as_columns_count_as_tensors() -> None:
    number, row = ad.tensor(1.0, dtype=ad.float64), ad.ones(1, 1)
    for join in (ad.vstack, ad.dstack, ad.column_stack):
        assert join([number, row]).dtype is ad.float64
    assert ad.hstack([number, row[0]]).dtype is ad.float64
    assert ad.addr(number, ad.ones(2), ad.ones(2)).dtype is ad.float64
