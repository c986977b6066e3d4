"""Results of compiled functions lie in memory as eager ones do, however their operands lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.graph import capture
from tests.conformance.cases import make, rows
from tests.samples import S

Layout = Callable[[Any], Any]


def permuted(x: Any, order: list[int]) -> Any:
    """The same elements, in memory as if the dimensions were in this order."""
    inverse = sorted(range(x.ndim), key=order.__getitem__)
    return x.permute(*order).contiguous().permute(*inverse)


def flipped(x: Any) -> Any:
    return permuted(x, [*range(x.ndim)][::-1])


def rolled(x: Any) -> Any:
    return permuted(x, [*range(1, x.ndim), 0])


def stepped(x: Any) -> Any:
    wide = ad.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def expanded(x: Any) -> Any:
    return x[:1].expand(x.shape) if x.shape[0] else x


LAYOUTS: dict[str, Layout] = {f.__name__: f for f in (flipped, rolled, stepped, expanded)}
# Which operands lie so: all, the first alone, all others.
CHOICES: dict[str, Callable[[int], bool]] = {
    "all": lambda k: True,
    "first": lambda k: k == 0,
    "others": lambda k: k > 0,
}
COMPARED = frozenset(
    "addcmul addcdiv complex polar special.chebyshev_polynomial_t _standard_gamma_grad add where "
    "softmax sum amax cumsum nn.functional.gelu nn.functional.layer_norm matmul".split()
)
ROWS = [row for row in rows() if row.capture and not row.random]


def strides(out: Any) -> list[Any]:
    """The steps of results along dimensions that have any."""
    if isinstance(out, (tuple, list)):
        return [found for part in out for found in strides(part)]
    if not isinstance(out, ad.Tensor):
        return []
    steps = zip(out.shape, out.stride(), strict=True)
    return [[step for size, step in steps if size != 1] if out.numel() else []]


def check(row: S, layout: Layout, chosen: Callable[[int], bool]) -> None:
    def given() -> list[Any]:
        case = make(row, ad.float64)
        return [
            layout(x.detach()) if chosen(k) and x.ndim > 1 and x.numel() else x.detach().clone()
            for k, x in enumerate(case.tensors)
        ]

    case = make(row, ad.float64)
    try:
        want = strides(case.fn(*given()))
        got = strides(capture(case.fn)(*given()))
    except (RuntimeError, NotImplementedError, ValueError) as error:
        pytest.skip(f"not taken so: {error}")
    assert got == want


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("row", [row for row in ROWS if row.path in COMPARED], ids=repr)
def test_strides_as_without_compile(row: S, choice: str) -> None:
    check(row, flipped, CHOICES[choice])


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_strides_of_every_sample(row: S, layout: str, choice: str) -> None:
    check(row, LAYOUTS[layout], CHOICES[choice])
