"""Results overwritten in place, and small rules in which PyTorch's programs trust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.errors import BoundsError

OVERWRITES: dict[str, Callable[[ad.Tensor], Any]] = {
    "zero_": lambda b: b.zero_(),
    "fill_": lambda b: b.fill_(3.0),
    "copy_": lambda b: b.copy_(ad.arange(3.0)),
    "normal_": lambda b: b.normal_(),
    "uniform_": lambda b: b.uniform_(),
    "bernoulli_": lambda b: b.bernoulli_(0.5),
    "exponential_": lambda b: b.exponential_(),
    "setitem": lambda b: b.__setitem__(..., 2.0),
}


@pytest.mark.parametrize("name", OVERWRITES)
def test_what_was_overwritten_has_a_gradient_of_zero(name: str) -> None:
    """It was used, so it has a gradient, of zero; what is added afterwards counts."""

    def used(a: ad.Tensor) -> ad.Tensor:
        b = a * 2
        OVERWRITES[name](b)
        return b.sum()

    for fn in (used, ad.compile(used)):
        a = ad.ones(3, requires_grad=True)
        fn(a).backward()
        assert a.grad is not None
        assert a.grad.tolist() == [0, 0, 0]
    a = ad.ones(3, requires_grad=True)
    b = a * 2
    OVERWRITES[name](b)
    (g,) = ad.autograd.grad((b + 5 * a).sum(), a, create_graph=True)
    assert g.tolist() == [5, 5, 5]


def test_overwritten_in_transforms() -> None:
    """The same through levels, where a product of both is left."""

    def product(x: ad.Tensor) -> ad.Tensor:
        y = x * 2
        y.zero_()
        return (y * x + x).sum()

    x = ad.arange(6.0).reshape(2, 3)
    assert ad.func.grad(product)(x).tolist() == ad.ones(2, 3).tolist()
    assert ad.func.vmap(ad.func.grad(product))(x).tolist() == ad.ones(2, 3).tolist()
    assert ad.func.jvp(product, (x,), (ad.ones(2, 3),))[1].item() == 6


@pytest.mark.parametrize(
    "call",
    [
        lambda: ad.zeros(3).index_add(0, ad.tensor([5]), ad.ones(1)),
        lambda: ad.zeros(3, 2).index_add(0, ad.tensor([-1]), ad.ones(1, 2)),
        lambda: ad.zeros(3).index_select(0, ad.tensor([5])),
        lambda: F.embedding(ad.tensor([9]), ad.ones(3, 2)),
        lambda: F.embedding_bag(ad.tensor([[0, 9]]), ad.ones(3, 2)),
        lambda: F.embedding_bag(ad.tensor([0, -1]), ad.ones(3, 2), ad.tensor([0]), mode="max"),
    ],
)
def test_an_index_that_names_no_row(call: Callable[[], Any]) -> None:
    """IndexError and RuntimeError: which one PyTorch raises depends on the shapes."""
    with pytest.raises(BoundsError, match="out of bounds") as met:
        call()
    assert isinstance(met.value, IndexError)
    assert isinstance(met.value, RuntimeError)
    with pytest.raises(BoundsError, match="out of bounds"):
        ad.compile(call)()


def test_whole_multipliers_of_masks() -> None:
    """A mask's multiplier is any whole number; only whether it is zero counts."""
    a, b = ad.tensor([True, False, False]), ad.tensor([True, True, False])
    for alpha, wanted in [(2, [1, 1, 0]), (0, [1, 0, 0]), (-1, [1, 1, 0]), (True, [1, 1, 0])]:
        assert a.add(b, alpha=alpha).tolist() == wanted
        assert ad.compile(lambda x, y, n=alpha: x.add(y, alpha=n))(a, b).tolist() == wanted
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        a.add(b, alpha=1.5)


def test_masked_fill_of_transposed_tensors_is_contiguous() -> None:
    """So that `view` works on it."""
    x = ad.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)
    for fn in (ad.masked_fill, ad.compile(ad.masked_fill)):
        out = fn(x, x > 7, 0)
        assert out.stride() == (6, 3, 1)
        assert out.view(4, 6).sum().item() == 28
    kept = x.masked_fill_(x > 7, 0)
    assert kept is x
    assert x.stride() == (1, 12, 4)


def test_cosine_similarity_counts_the_dtype_of_0d_tensors() -> None:
    """Both tensors are converted to one dtype, of whatever rank they are."""
    assert F.cosine_similarity(ad.tensor(2.0), ad.ones(2).bfloat16(), dim=-1).dtype == ad.float32


@pytest.mark.parametrize("size", [4, 1000])
@pytest.mark.parametrize(
    "name",
    "elu softplus mish selu celu hardtanh hardswish hardsigmoid softshrink hardshrink relu6".split(),
)
def test_activations_keep_the_layout(name: str, size: int) -> None:
    """Those that fill masks on their way too, eagerly as compiled."""
    x = ad.randn(2, 3, size).permute(2, 0, 1)
    fn = getattr(F, name)
    assert fn(x).stride() == ad.compile(fn)(x).stride() == x.stride()
