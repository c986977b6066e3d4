"""Numbers of Python's that a dtype, or 64 bits, do not hold are refused, compiled as eager."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

from .number_ranges import DTYPES, NUMBERS, OPERATIONS, operand, outcome

BEYOND = [-(2**63) - 1, 2**64, 10**30]
ASSIGNING = ["x[0] =", "x[:] =", "x[mask] =", "x[picked] ="]


@pytest.mark.parametrize("operation", sorted(OPERATIONS.keys() - {*ASSIGNING, "tensor"}))
def test_whole_numbers_beyond_64_bits_are_refused(operation: str) -> None:
    for dtype in DTYPES:
        for number in BEYOND:
            found = outcome(ad, operation, dtype, number)
            refused = isinstance(found, (OverflowError, NotImplementedError))
            bools = dtype == "bool" and "sub" in operation
            assert refused or (bools and isinstance(found, RuntimeError)), (dtype, number, found)


@pytest.mark.parametrize("operation", ASSIGNING)
def test_numbers_beyond_int64_are_not_assigned(operation: str) -> None:
    for dtype in DTYPES:
        for number in (2**63, *BEYOND):
            assert isinstance(outcome(ad, operation, dtype, number), ValueError), (dtype, number)


@pytest.mark.parametrize(
    "operation", ["add", "mul", "eq", "n add x", "n or_ x", "clamp", "where x n"]
)
def test_numbers_beyond_int64_are_refused_beside_booleans(operation: str) -> None:
    for number in (2**63, 2**64 - 1):
        assert isinstance(outcome(ad, operation, "bool", number), RuntimeError)


# What PyTorch gives, of which some look odd: beside an integer tensor numbers wrap around.
@pytest.mark.parametrize(
    ("operation", "dtype", "number", "wanted"),
    [
        ("add", "int64", 2**63, ("int64", "[-9223372036854775807, -9223372036854775808, -9223372036854775807]")),
        ("add", "uint8", 300, ("uint8", "[45, 44, 45]")),
        ("mul", "float32", 2**63, ("float32", "[9.223372036854775808e+18, 0.0, 9.223372036854775808e+18]")),
        ("clamp", "float32", 1e39, RuntimeError),
        ("clamp", "float16", 1e10, RuntimeError),
        ("where x n", "float32", 1e39, RuntimeError),
        ("where x n", "float16", 1e39, ("float16", "[1.0, inf, 1.0]")),
        ("pow", "bfloat16", 1e39, RuntimeError),
        ("pow", "bool", 2**63, RuntimeError),
        ("searchsorted", "uint8", 1.5, ("int64", "3")),
        ("searchsorted", "int64", 0.5, ("int64", "1")),
        ("tensor", "int64", 2**63, ValueError),
        ("tensor", "int8", 200, RuntimeError),
        ("tensor", "bfloat16", 10**30, ("bfloat16", "[1.002e+30]")),
    ],
)  # fmt: skip
def test_what_numbers_become(operation: str, dtype: str, number: Any, wanted: Any) -> None:
    found = outcome(ad, operation, dtype, number)
    if isinstance(wanted, tuple):
        assert found[0] == wanted[0]
        assert ad.tensor(eval(found[1], {"inf": float("inf")})).allclose(
            ad.tensor(eval(wanted[1], {"inf": float("inf")})), rtol=1e-2
        )
    else:
        assert isinstance(found, wanted)


def test_factors_and_paddings_beyond_the_dtype_are_refused() -> None:
    x = ad.ones(3)
    with pytest.raises(RuntimeError, match="without overflow"):
        ad.add(x, x, alpha=1e39)
    with pytest.raises(RuntimeError, match="without overflow"):
        ad.lerp(x, x, 1e39)
    with pytest.raises(RuntimeError, match="without overflow"):
        ad.nn.functional.pad(x.to(ad.uint8), (1, 1), value=-1)
    with pytest.raises(RuntimeError, match="without overflow"):
        ad.arange(2**63 - 1, 2**63 + 1)


@pytest.mark.parametrize("count", [40, pytest.param(2000, marks=pytest.mark.slow)])
def test_compiled_functions_refuse_the_same_numbers(count: int) -> None:
    draw = random.Random(count)
    for _ in range(count):
        name, dtype = draw.choice(sorted(OPERATIONS)), draw.choice(DTYPES)
        number = draw.choice(NUMBERS)
        wanted = outcome(ad, name, dtype, number)
        step = ad.compile(lambda x, fn=OPERATIONS[name], n=number: fn(ad, x, n))
        try:
            made = step(operand(ad, dtype))
            found: Any = (str(made.dtype).rpartition(".")[2], repr(made.tolist()))
        except Exception as error:
            found = error
        if isinstance(wanted, Exception):
            assert type(found) is type(wanted), (name, dtype, number, found, wanted)
        else:
            assert found == wanted, (name, dtype, number, found, wanted)


MASK, FLOATS = ad.tensor([True, False]), ad.tensor([1.5, -2.0])
# Numbers of NumPy's, numbers on both sides, and truths that are multiplied.
MIXED: dict[str, tuple[Callable[[], ad.Tensor], str, list[Any]]] = {
    "where of a large number and a float": (lambda: ad.where(MASK, 2**63, 1.0), "float32", [2.0**63, 1.0]),
    "where of a float and a large number": (lambda: ad.where(MASK, 1.0, 2**63), "float32", [1.0, 2.0**63]),
    "rsub from NumPy's": (lambda: ad.rsub(FLOATS, np.int64(1), alpha=2), "float32", [-2.0, 5.0]),
    "rsub of NumPy's factor": (lambda: ad.rsub(FLOATS, 1, alpha=np.float32(2)), "float32", [-2.0, 5.0]),
    "add of NumPy's and a factor": (lambda: ad.add(FLOATS, np.int64(3), alpha=0.5), "float32", [3.0, -0.5]),
    "float_power of NumPy's float": (lambda: FLOATS.float_power(np.float32(2)), "float64", [2.25, 4.0]),
    "float_power of NumPy's integer": (lambda: ad.float_power(FLOATS, np.int64(2)), "float64", [2.25, 4.0]),
    "float_power in place": (lambda: FLOATS.double().float_power_(np.int64(2)), "float64", [2.25, 4.0]),
    "a truth added to a mask": (lambda: ad.add(MASK, True, alpha=True), "bool", [True, True]),
    "no truth added to a mask": (lambda: ad.add(MASK, False, alpha=True), "bool", [True, False]),
    "a truth times a number": (lambda: ad.add(MASK, True, alpha=2), "bool", [True, True]),
    "a truth times nothing": (lambda: ad.add(MASK, True, alpha=0), "bool", [True, False]),
    "a truth added in place": (lambda: MASK.clone().add_(True, alpha=2), "bool", [True, True]),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_numbers_of_several_kinds(name: str) -> None:
    fn, dtype, wanted = MIXED[name]
    for _ in range(3):
        got = fn()
        assert str(got.dtype) == f"adjoint.{dtype}"
        assert got.tolist() == wanted
