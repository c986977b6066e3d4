"""Products of float8 on the CPU, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad

from .scaled_products import check


def test_products_are_those_of_float64() -> None:
    assert check("cpu", ("eager",)) == 120


def test_compiled_programs_have_the_same_products() -> None:
    x, scale = ad.randn(5, 7).to(ad.float8_e5m2), ad.tensor(0.5)
    run = lambda x, scale: ad._scaled_mm(x, x.t(), scale, scale, out_dtype=ad.bfloat16)
    assert ad.equal(ad.compile(run)(x, scale), run(x, scale))


def test_a_result_of_float8_is_cut_off_at_its_range() -> None:
    x = ad.tensor([[448.0, 1.0], [-448.0, 0.5]]).to(ad.float8_e4m3fn)
    one = ad.tensor(1.0)
    got = ad._scaled_mm(x, x.t(), one, one)
    assert got.dtype is ad.float8_e4m3fn
    assert got.to(ad.float32).tolist() == [[448, -448], [-448, 448]]
    wide = ad._scaled_mm(x, x.t(), one, one, out_dtype=ad.float8_e5m2)
    assert wide.to(ad.float32).tolist() == [[57344, -57344], [-57344, 57344]]


def call(**changed: Any) -> Any:
    given = {
        "input": ad.ones(4, 8).to(ad.float8_e4m3fn),
        "mat2": ad.ones(8, 6).to(ad.float8_e4m3fn),
        "scale_a": ad.tensor(1.0),
        "scale_b": ad.tensor(1.0),
    }
    return ad._scaled_mm(**{**given, **changed})


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"input": ad.ones(4, 8)}, ValueError, "should be of float8"),
        ({"scale_a": ad.ones(4, 1)}, ValueError, r"\(4, 1\) and \(1, 6\)"),
        ({"scale_a": ad.ones(4), "scale_b": ad.ones(6)}, ValueError, "Received"),
        ({"scale_b": ad.ones(1, dtype=ad.float64)}, ValueError, "float64"),
        ({"mat2": ad.ones(7, 6).to(ad.float8_e4m3fn)}, RuntimeError, "4x8 and 7x6"),
        ({"mat2": ad.ones(1, 8, 6).to(ad.float8_e4m3fn)}, RuntimeError, "2"),
        ({"bias": ad.ones(5), "out_dtype": ad.float32}, RuntimeError, "Bias must be size 6"),
        ({"out_dtype": ad.int8}, RuntimeError, "int8"),
        ({"scale_result": ad.tensor(2.0)}, NotImplementedError, "multiply by it"),
    ],
)
def test_what_does_not_fit_is_refused(
    changed: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        call(**changed)
