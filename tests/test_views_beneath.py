"""Views of ordinary tensors inside a transform: windows, on the tape, errors as outside of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import func

VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.view(6, 4),
    "transpose": lambda x: x.transpose(0, 2),
    "expand": lambda x: x[:, :1].expand(2, 5, 4),
    "slice": lambda x: x[:, 1:, ::2],
    "select": lambda x: x[1],
    "diagonal": lambda x: x.diagonal(0, 0, 1),
    "strided": lambda x: x.as_strided((2, 3), (1, 4), 2),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "parts": lambda x: x.split(2, dim=2)[1],
    "words": lambda x: x.detach().view(ad.int32),
    "chain": lambda x: x.permute(2, 0, 1)[1].flatten(),
}


def inside(view: Callable[[Any], Any], x: Any, transform: str) -> Any:
    """What a function gives of a tensor that a transform knows nothing of."""
    kept: list[Any] = []

    def work(a: Any) -> Any:
        kept.append(view(x))
        return (a * kept[0].double().sum()).sum()

    a = ad.ones(3, dtype=ad.float64)
    func.vmap(work)(a) if transform == "vmap" else func.grad(work)(a)
    return kept[0]


@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("transform", ["vmap", "grad"])
@pytest.mark.parametrize("name", VIEWS)
def test_they_are_as_outside(name: str, transform: str, followed: bool) -> None:
    view = VIEWS[name]
    x, y = (ad.arange(24.0).reshape(2, 3, 4).clone().requires_grad_(followed) for _ in range(2))
    got, want = inside(view, x, transform), view(y)
    assert got.tolist() == want.tolist()
    assert (got.stride(), got.storage_offset()) == (want.stride(), want.storage_offset())
    assert got.data_ptr() - x.data_ptr() == want.data_ptr() - y.data_ptr()
    assert (got._base is x) == (want._base is y)
    assert (got.requires_grad, got.is_leaf) == (want.requires_grad, want.is_leaf)
    if want.requires_grad:
        for seen in (got, want):
            (seen * seen).sum().backward()
        assert x.grad.tolist() == y.grad.tolist()
    with ad.no_grad():  # a write to the tensor is seen through its view
        x[...] = 7.0
        y[...] = 7.0
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("transform", ["vmap", "grad"])
def test_they_refuse_as_outside(transform: str) -> None:
    x = ad.zeros(2, 3)
    for bad in (lambda t: t.view(5), lambda t: t.expand(4, 3), lambda t: t.transpose(0, 2)):
        with pytest.raises((RuntimeError, IndexError)) as outside:
            bad(x)
        with pytest.raises(type(outside.value)) as within:
            inside(bad, x, transform)
        assert str(within.value) == str(outside.value)
