"""Every operation inside a compiled function gives what it gives eagerly, and differentiates so from
outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.conformance.cases import Case, make, places, rows

ROWS = [row for row in rows() if row.grad and row.capture and not row.random]


def gradients(case: Case, fn: Any, *, second: bool) -> list[Any]:
    """The results that can carry a gradient, and the gradients."""
    tensors = [
        t.clone().requires_grad_() if i in case.wanted else t for i, t in enumerate(case.tensors)
    ]
    leaves = [tensors[i] for i in case.wanted]
    results = fn(tensors)
    outs = [t for t in results if t.requires_grad]
    if not outs:
        return list(results)
    seeds = [ad.full_like(o, 0.5) for o in outs]
    first = ad.autograd.grad(outs, leaves, seeds, create_graph=second, allow_unused=True)
    if not second:
        return [*results, *first]
    again = [g for g in first if g is not None and g.requires_grad]
    if not again:
        return [*results, *first]
    seeds = [ad.ones_like(g) for g in again]
    second_order = ad.autograd.grad(again, leaves, seeds, allow_unused=True)
    return [*results, *first, *second_order]


def check(row: Any, orders: tuple[bool, ...]) -> None:
    case = make(row)
    compiled = ad.compile(case.floats)
    for second in orders:
        want = gradients(case, case.floats, second=second)
        got = gradients(case, compiled, second=second)
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert (g is None) == (w is None)  # zeros are told from nothing at all
            if g is None or w is None:
                continue
            a, b = g.detach().numpy(), w.detach().numpy()
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert compiled.traces == 1


def cases() -> list[Any]:
    """The first row of each function, some of them differentiated twice; the others are slow."""
    return [
        pytest.param(
            row,
            place,
            number % 3 == 0,
            id=f"{row!r}-{place}",
            marks=pytest.mark.slow if place else (),
        )
        for number, (row, place) in enumerate(zip(ROWS, places(ROWS), strict=True))
    ]


@pytest.mark.parametrize(("row", "place", "twice"), cases())
def test_backward_equals_eager(row: Any, place: int, twice: bool) -> None:
    """First derivatives of every row; second ones of some that are a function's first."""
    check(row, (False, True) if place == 0 and twice else (False,))


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_second_derivatives_equal_eager(row: Any) -> None:
    check(row, (True,))
