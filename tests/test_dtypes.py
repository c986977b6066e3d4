"""Result dtypes: PyTorch's promotion tables, written out, and what operations make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad

NAMES = (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
).split()
CODES = dict(zip("b1 u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cx".split(), NAMES, strict=True))
SCALARS: tuple[Any, ...] = (True, 1, 1.5, 1j)

# Row and column in the order of NAMES: two tensors that both have dimensions (or neither has).
ALIKE = """
b1 u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cx
u1 u1 i2 i2 i4 i8 f2 bf f4 f8 c8 cx
i1 i2 i1 i2 i4 i8 f2 bf f4 f8 c8 cx
i2 i2 i2 i2 i4 i8 f2 bf f4 f8 c8 cx
i4 i4 i4 i4 i4 i8 f2 bf f4 f8 c8 cx
i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 cx
f2 f2 f2 f2 f2 f2 f2 f4 f4 f8 c8 cx
bf bf bf bf bf bf f4 bf f4 f8 c8 cx
f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 c8 cx
f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 cx cx
c8 c8 c8 c8 c8 c8 c8 c8 c8 cx c8 cx
cx cx cx cx cx cx cx cx cx cx cx cx
"""
# Row: a tensor with dimensions; column: a 0-d tensor. (There is no complex half here: complex64.)
WITH_ZERO_DIM = """
b1 u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cx
u1 u1 u1 u1 u1 u1 f2 bf f4 f8 c8 cx
i1 i1 i1 i1 i1 i1 f2 bf f4 f8 c8 cx
i2 i2 i2 i2 i2 i2 f2 bf f4 f8 c8 cx
i4 i4 i4 i4 i4 i4 f2 bf f4 f8 c8 cx
i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 cx
f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 c8 c8
bf bf bf bf bf bf bf bf bf bf c8 c8
f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 c8 c8
f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 cx cx
c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8
cx cx cx cx cx cx cx cx cx cx cx cx
"""
# Row: a tensor of any rank; column: True, 1, 1.5, 1j.
WITH_SCALAR = """
b1 i8 f4 c8
u1 u1 f4 c8
i1 i1 f4 c8
i2 i2 f4 c8
i4 i4 f4 c8
i8 i8 f4 c8
f2 f2 f2 c8
bf bf bf c8
f4 f4 f4 c8
f8 f8 f8 cx
c8 c8 c8 c8
cx cx cx cx
"""
# "--": refused, or not needed. Columns in the order of NAMES; the operand has this dtype ...
UNARY = """
abs         -- u1 i1 i2 i4 i8 f2 bf f4 f8 f4 f8
neg         -- u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cx
exp         f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 cx
sqrt        f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 cx
sin         f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 cx
floor       -- u1 i1 i2 i4 i8 f2 bf f4 f8 -- --
round       -- u1 i1 i2 i4 i8 f2 bf f4 f8 -- --
sign        b1 u1 i1 i2 i4 i8 f2 bf f4 f8 -- --
square      i8 u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cx
reciprocal  f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 cx
sigmoid     f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 cx
angle       f4 f4 f4 f4 f4 f4 f2 bf f4 f8 f4 f8
isnan       b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1
logical_not b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1
bitwise_not b1 u1 i1 i2 i4 i8 -- -- -- -- -- --
conj        b1 u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cx
sum         i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 cx
prod        i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 cx
mean        -- -- -- -- -- -- f2 bf f4 f8 c8 cx
var         -- -- -- -- -- -- f2 bf f4 f8 f4 f8
amax        b1 u1 i1 i2 i4 i8 f2 bf f4 f8 -- --
argmax      -- i8 i8 i8 i8 i8 i8 i8 i8 i8 -- --
any         b1 u1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1
median      -- u1 i1 i2 i4 i8 f2 bf f4 f8 -- --
nansum      i8 i8 i8 i8 i8 i8 f2 bf f4 f8 -- --
"""
# ... both operands have it ...
BINARY = """
add          b1 u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cx
sub          -- u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cx
mul          b1 u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cx
div          f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 cx
floor_divide -- u1 i1 i2 i4 i8 f2 bf f4 f8 -- --
remainder    -- u1 i1 i2 i4 i8 f2 bf f4 f8 -- --
fmod         -- u1 i1 i2 i4 i8 f2 bf f4 f8 -- --
pow          -- u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cx
eq           b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1
lt           b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 -- --
logical_and  b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1
bitwise_and  b1 u1 i1 i2 i4 i8 -- -- -- -- -- --
maximum      b1 u1 i1 i2 i4 i8 f2 bf f4 f8 -- --
atan2        f4 f4 f4 f4 f4 f4 f2 bf f4 f8 -- --
copysign     f4 f4 f4 f4 f4 f4 f2 bf f4 f8 -- --
"""
# ... the second is the number 1.5.
WITH_FLOAT = """
add          f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 cx
mul          f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 cx
div          f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 cx
floor_divide f4 f4 f4 f4 f4 f4 f2 bf f4 f8 -- --
remainder    f4 f4 f4 f4 f4 f4 f2 bf f4 f8 -- --
pow          f4 f4 f4 f4 f4 f4 f2 bf f4 f8 c8 cx
eq           b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1
lt           b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 -- --
"""


def dtype(name: str) -> Any:
    return getattr(ad, name)


def grid(table: str) -> Iterator[tuple[str, int, Any]]:
    """(row's dtype name, column, expected dtype) of a table over NAMES."""
    for name, line in zip(NAMES, table.strip().splitlines(), strict=True):
        for column, code in enumerate(line.split()):
            yield name, column, dtype(CODES[code])


def rows(table: str) -> list[tuple[str, list[str]]]:
    """(function, expected codes) of a table of functions."""
    return [(line.split()[0], line.split()[1:]) for line in table.strip().splitlines()]


def ones(name: str, *shape: int) -> Any:
    return ad.ones(shape, dtype=dtype(name))


def test_promote_types() -> None:
    for name, column, want in grid(ALIKE):
        assert ad.promote_types(dtype(name), dtype(NAMES[column])) is want


@pytest.mark.parametrize("shape", [(2,), ()])
def test_tensors_of_like_rank(shape: tuple[int, ...]) -> None:
    for name, column, want in grid(ALIKE):
        x, y = ones(name, *shape), ones(NAMES[column], *shape)
        assert ad.result_type(x, y) is want
        for fn in (ad.add, ad.mul):
            assert fn(x, y).dtype is want, (fn.__name__, name, NAMES[column])
        assert ad.where(ones("bool", *shape), x, y).dtype is want
    for name, column, want in grid(ALIKE):
        assert ad.cat([ones(name, 2), ones(NAMES[column], 1)]).dtype is want


def test_a_zero_dim_tensor_counts_by_its_category() -> None:
    for name, column, want in grid(WITH_ZERO_DIM):
        x, y = ones(name, 2), ones(NAMES[column])
        assert ad.result_type(x, y) is want
        assert ad.result_type(y, x) is want
        assert (x * y).dtype is want, (name, NAMES[column])
        assert (y + x).dtype is want, (name, NAMES[column])


@pytest.mark.parametrize("shape", [(2,), ()])
def test_a_number_counts_by_its_category(shape: tuple[int, ...]) -> None:
    for name, column, want in grid(WITH_SCALAR):
        x = ones(name, *shape)
        assert ad.result_type(x, SCALARS[column]) is want
        assert (x * SCALARS[column]).dtype is want, (name, SCALARS[column])
        assert (SCALARS[column] + x).dtype is want, (name, SCALARS[column])


def test_three_operands_of_three_kinds() -> None:
    assert ad.result_type(ad.ones(2, dtype=ad.int8), ones("int64")) is ad.int8
    x = ad.where(ones("bool", 2), ones("uint8", 2), 3)
    assert x.dtype is ad.uint8
    assert ad.where(ones("bool", 2), 1, 2.0).dtype is ad.float32
    assert ad.add(ones("int8", 2), ones("int64"), alpha=2).dtype is ad.int8


def apply(name: str, *args: Any) -> Any:
    return getattr(ad, name)(*args)


@pytest.mark.parametrize(("name", "codes"), rows(UNARY))
def test_unary(name: str, codes: list[str]) -> None:
    for operand, code in zip(NAMES, codes, strict=True):
        if code != "--":
            got = apply(name, ones(operand, 3)).dtype
            assert got is dtype(CODES[code]), f"{name}({operand}) is {got}"


@pytest.mark.parametrize(("name", "codes"), rows(BINARY))
def test_binary(name: str, codes: list[str]) -> None:
    for operand, code in zip(NAMES, codes, strict=True):
        if code != "--":
            got = apply(name, ones(operand, 3), ones(operand, 3)).dtype
            assert got is dtype(CODES[code]), f"{name}({operand}, {operand}) is {got}"


@pytest.mark.parametrize(("name", "codes"), rows(WITH_FLOAT))
def test_binary_with_a_float(name: str, codes: list[str]) -> None:
    for operand, code in zip(NAMES, codes, strict=True):
        if code != "--":
            got = apply(name, ones(operand, 3), 1.5).dtype
            assert got is dtype(CODES[code]), f"{name}({operand}, 1.5) is {got}"


REFUSED: list[tuple[str, Callable[[], Any]]] = [
    ("negative of bool", lambda: -ones("bool", 2)),
    ("bool - bool", lambda: ones("bool", 2) - ones("bool", 2)),
    ("mean of integers", lambda: ones("int64", 2).mean()),
    ("variance of integers", lambda: ones("int64", 2).var()),
    ("bits of a float", lambda: ~ones("float32", 2)),
    ("and of floats", lambda: ones("float32", 2) & ones("float32", 2)),
    ("order of complex numbers", lambda: ones("complex64", 2) < ones("complex64", 2)),
    ("maximum of complex numbers", lambda: ad.maximum(ones("complex64", 2), ones("complex64", 2))),
    ("floor of complex numbers", lambda: ad.floor(ones("complex64", 2))),
    ("product of two dtypes", lambda: ones("float32", 2, 2) @ ones("float64", 2, 2)),
    ("float into integers", lambda: ones("int64", 2).add_(1.5)),
    ("complex into floats", lambda: ones("float32", 2).mul_(ones("complex64", 2))),
    ("integers into bool", lambda: ones("bool", 2).add_(ones("int64", 2))),
    ("true division into integers", lambda: ones("int64", 2).div_(2)),
    ("out of a lower category", lambda: ad.exp(ones("float32", 2), out=ones("int64", 2))),
    ("negative integer power", lambda: ones("int64", 2) ** -1),
]


@pytest.mark.parametrize(("what", "call"), REFUSED, ids=[w for w, _ in REFUSED])
def test_refused(what: str, call: Callable[[], Any]) -> None:
    with pytest.raises((RuntimeError, TypeError)):
        call()


def test_in_place_keeps_the_target_s_dtype() -> None:
    for target, other in (("float32", "int64"), ("float16", "float64"), ("int8", "int64")):
        x = ones(target, 3)
        x += ones(other, 3)
        assert x.dtype is dtype(target)
        assert x.tolist() == [2, 2, 2]
    out = ones("float64", 2)
    assert ad.add(ones("float32", 2), 1, out=out) is out
    assert out.tolist() == [2.0, 2.0]


def test_can_cast() -> None:
    for i, a in enumerate(NAMES):
        for j, b in enumerate(NAMES):
            kind = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
            floor = [kind["f" if n == "bfloat16" else n[0]] for n in (a, b)]
            assert ad.can_cast(dtype(a), dtype(b)) is (floor[0] <= floor[1]), (i, j)


def test_default_dtype_decides_for_numbers() -> None:
    assert ad.tensor(1.5).dtype is ad.float32
    assert ad.tensor([1, 2]).dtype is ad.int64
    assert ad.tensor([True]).dtype is ad.bool
    assert ad.tensor([1, 2.5]).dtype is ad.float32
    assert ad.tensor(1j).dtype is ad.complex64
    try:
        ad.set_default_dtype(ad.float64)
        assert ad.get_default_dtype() is ad.float64
        assert ad.tensor(1.5).dtype is ad.float64
        assert ad.tensor(1j).dtype is ad.complex128
        assert (ones("int64", 2) / 2).dtype is ad.float64
        assert (ones("int64", 2) * 1.5).dtype is ad.float64
        assert (ones("bool", 2) * 1j).dtype is ad.complex128
        assert (ones("float32", 2) * 1.5).dtype is ad.float32
        assert ad.zeros(2).dtype is ad.float64
    finally:
        ad.set_default_dtype(ad.float32)
    assert (ones("int64", 2) / 2).dtype is ad.float32


def test_integers_wrap_around() -> None:
    x = ad.tensor([250, 5], dtype=ad.uint8)
    assert (x + 10).tolist() == [4, 15]
    assert (x - 6).tolist() == [244, 255]
    assert (x * ad.tensor(2)).tolist() == [244, 10]
    assert (-ad.tensor([-128, 1], dtype=ad.int8)).tolist() == [-128, -1]
    big = ad.tensor([2**63 - 1])
    assert (big + 1).tolist() == [-(2**63)]
    assert ad.tensor([300, -1]).to(ad.uint8).tolist() == [44, 255]


def test_halves_accumulate_in_float32() -> None:
    for name in ("float16", "bfloat16"):
        x = ad.ones(4096, dtype=dtype(name))
        assert x.sum().item() == 4096
        assert x.mean().item() == 1
        assert (x @ x).item() == 4096
    small = ad.full((1000,), 1e-3, dtype=ad.float16)
    np.testing.assert_allclose(small.sum().item(), 1.0, rtol=2e-3)


@pytest.mark.parametrize("repeated", [False, True])
def test_every_float16_rounds_to_the_nearest_bfloat16(repeated: bool) -> None:
    words = np.arange(1 << 16, dtype=np.uint16)
    numbers = words.view(np.float16)
    with np.errstate(invalid="ignore"):
        bits = numbers.astype(np.float32).view(np.uint32).astype(np.int64)
    nearest = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    x = ad.tensor(numbers)
    x = x.expand(3, -1) if repeated else x
    got = x.to(ad.bfloat16).view(ad.int16).numpy().view(np.uint16)
    got = got[2] if repeated else got
    nan = np.isnan(numbers)
    assert np.array_equal(got[~nan], nearest[~nan])
    assert x.to(ad.bfloat16).isnan().numpy().sum() == nan.sum() * (3 if repeated else 1)


@pytest.mark.parametrize("number", [np.int64(1), np.float32(1), np.bool_(True)])
def test_numbers_of_numpy_count_as_numbers(number: Any) -> None:
    for dtype in (ad.uint8, ad.int32, ad.float16, ad.float64):
        x = ad.ones(1, dtype=dtype)
        assert ad.result_type(x, number) is ad.result_type(number, x)
        assert ad.result_type(x, number) is ad.result_type(x, number.item())
