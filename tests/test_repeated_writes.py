"""Writes into tensors that show elements more than once: what PyTorch allows, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

Write = Callable[[Any], Any]
ON = ad.tensor([[True, False, False, False], [False] * 4, [False, False, True, True]])

# What becomes of rows that show one element each, 0, 1 and 2.
ALLOWED: dict[str, tuple[Write, list[float]]] = {
    "fill": (lambda x: x.fill_(7), [7, 7, 7]),
    "zero": (lambda x: x.zero_(), [0, 0, 0]),
    "a mask": (lambda x: x.__setitem__(ON, 7), [7, 1, 7]),
    "a mask of rows": (lambda x: x.__setitem__(ad.tensor([False, True, False]), 7), [0, 7, 2]),
    "a mask, values": (lambda x: x.__setitem__(ON, ad.tensor([7.0, 8, 9])), [7, 1, 9]),
    "positions": (lambda x: x.__setitem__([0, 2], 7), [7, 1, 7]),
    "the last stays": (lambda x: x.__setitem__([2, 2], ad.arange(8.0).reshape(2, 4)), [0, 1, 7]),
    "behind a slice": (lambda x: x.__setitem__((slice(1, None), [3, 0]), ad.arange(2.0)), [0, 1, 1]),
    "index_put": (lambda x: x.index_put_((ad.tensor([1]),), ad.tensor(7.0)), [0, 7, 2]),
    "added": (
        lambda x: x.index_put_((ad.tensor([1]),), ad.tensor(7.0), accumulate=True), [0, 29, 2]
    ),
    "masked_fill": (lambda x: x.masked_fill_(ON, 7), [7, 1, 7]),
    "masked_fill by a tensor": (lambda x: x.masked_fill_(ON[:, :1], ad.tensor(7.0)), [7, 1, 2]),
    "index_fill": (lambda x: x.index_fill_(0, ad.tensor([2]), 7), [0, 1, 7]),
    "index_fill of columns": (lambda x: x.index_fill_(1, ad.tensor([2]), 7), [7, 7, 7]),
    "index_fill from behind": (lambda x: x.index_fill_(-2, ad.tensor([-1, -3]), 7), [7, 1, 7]),
    "fill_diagonal": (lambda x: x.fill_diagonal_(7), [7, 7, 7]),
}  # fmt: skip
REFUSED: dict[str, Write] = {
    "fill by a tensor": lambda x: x.fill_(ad.tensor(7.0)),
    "add": lambda x: x.add_(1),
    "copy": lambda x: x.copy_(ad.ones(3, 4)),
    "a row": lambda x: x.__setitem__(0, ad.ones(4)),
    "masked_scatter": lambda x: x.masked_scatter_(ON, ad.ones(12)),
    "scatter": lambda x: x.scatter_(0, ad.zeros(3, 4, dtype=ad.int64), 1.0),
    "scatter_add": lambda x: x.scatter_add_(0, ad.zeros(3, 4, dtype=ad.int64), ad.ones(3, 4)),
    "index_add": lambda x: x.index_add_(0, ad.tensor([0]), ad.ones(1, 4)),
    "index_copy": lambda x: x.index_copy_(0, ad.tensor([0]), ad.ones(1, 4)),
    "clamp": lambda x: x.clamp_(0, 1),
    "out": lambda x: ad.add(ad.ones(3, 4), 1, out=x),
}


def rows() -> Any:
    return ad.arange(3.0).reshape(3, 1).expand(3, 4)


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str) -> None:
    write, want = ALLOWED[name]
    x = rows()
    version = x._version
    write(x)
    assert x.tolist() == [[element] * 4 for element in want]
    assert x._version == version + 1


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    x = rows()
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers"):
        REFUSED[name](x)
    assert x.tolist() == rows().tolist()


def test_wrong_positions_are_named() -> None:
    with pytest.raises(IndexError, match="out of (range|bounds)"):
        rows().index_fill_(1, ad.tensor([4]), 7)
    with pytest.raises(RuntimeError, match="shape"):
        rows().index_put_((ad.tensor([0, 1]),), ad.ones(3, 4))
