"""Values in registers: arithmetic, comparison and conversion as NumPy has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from adjoint.engine.backends.registers import half_bits
from adjoint.engine.backends.registers import vector as vec
from adjoint.engine.backends.registers.vector import Features, V
from tests.native_code import native

FLOATS = {"f32": np.float32, "f64": np.float64}
INTS = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32,
}  # fmt: skip
ALL = {**FLOATS, **INTS, "i1": np.bool_}
LANES = (1, 4, 16)


def values(kind: str, count: int = 400) -> Any:
    rng = np.random.default_rng(7)
    dtype: Any = np.dtype(ALL[kind])
    if kind == "i1":
        return rng.random(count) < 0.5
    if kind in FLOATS:
        limits = np.finfo(dtype)
        special = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan,
                   limits.tiny, -limits.tiny, limits.tiny / 4, limits.max, limits.min]  # fmt: skip
        spread = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)
        return np.concatenate([np.array(special, dtype), spread.astype(dtype)])
    info = np.iinfo(dtype)
    edges = np.array([info.min, info.max, 0, 1, info.max - 1], dtype)
    return np.concatenate([edges, rng.integers(info.min, info.max, count, dtype)])


def pairs(kind: str) -> tuple[Any, Any]:
    x = values(kind)
    return x, np.random.default_rng(3).permutation(x)


def same(got: Any, want: Any) -> None:
    want = np.asarray(want)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        ok = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[ok]), np.signbit(want[ok]))


BINARY: dict[str, tuple[Callable[[V, V], V], Callable[..., Any]]] = {
    "add": (lambda x, y: x + y, np.add),
    "sub": (lambda x, y: x - y, np.subtract),
    "mul": (lambda x, y: x * y, np.multiply),
    "lt": (lambda x, y: x < y, np.less),
    "le": (lambda x, y: x <= y, np.less_equal),
    "gt": (lambda x, y: x > y, np.greater),
    "ge": (lambda x, y: x >= y, np.greater_equal),
    "eq": (lambda x, y: x.eq(y), np.equal),
    "ne": (lambda x, y: x.ne(y), np.not_equal),
    "nan_max": (vec.nan_max, np.maximum),
    "nan_min": (vec.nan_min, np.minimum),
    "num_max": (vec.num_max, np.fmax),
    "num_min": (vec.num_min, np.fmin),
}


@pytest.mark.parametrize("kind", ["f32", "f64", "i8", "u8", "i64"])
@pytest.mark.parametrize("name", BINARY)
@np.errstate(all="ignore")
def test_binary(name: str, kind: str) -> None:
    fn, oracle = BINARY[name]
    x, y = pairs(kind)
    want = oracle(x, y)
    result = "i1" if want.dtype == bool else kind
    for lanes in LANES:
        got = native(fn, (kind, kind), result, lanes)(x, y)
        if name.startswith("num") and kind in FLOATS:  # which of two zeros is left open
            np.testing.assert_array_equal(got, want)
        else:
            same(got, want)


@pytest.mark.parametrize("kind", INTS)
def test_bits(kind: str) -> None:
    x, y = pairs(kind)
    same(native(lambda x, y: (x & y) | ~x, (kind, kind), kind)(x, y), (x & y) | ~x)
    same(native(lambda x, y: x ^ y, (kind, kind), kind)(x, y), x ^ y)
    same(native(lambda x: x << 3, (kind,), kind)(x), x << 3)
    same(native(lambda x: x >> 3, (kind,), kind)(x), x >> 3)
    same(native(lambda x: -x, (kind,), kind)(x), -x)
    same(native(abs, (kind,), kind)(x), np.abs(x))


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("lanes", LANES)
@np.errstate(all="ignore")
def test_unary(kind: str, lanes: int) -> None:
    x, y = pairs(kind)
    for fn, oracle in (
        (lambda x: -x, np.negative),
        (abs, np.abs),
        (lambda x: x.sqrt(), np.sqrt),
        (lambda x: x.floor(), np.floor),
        (lambda x: x.ceil(), np.ceil),
        (lambda x: x.trunc(), np.trunc),
        (lambda x: x.rint(), np.rint),
    ):
        same(native(fn, (kind,), kind, lanes)(x), oracle(x))
    same(native(lambda x, y: x.copysign(y), (kind, kind), kind, lanes)(x, y), np.copysign(x, y))
    same(native(lambda x: x.isnan(), (kind,), "i1", lanes)(x), np.isnan(x))
    chosen = native(lambda x, y: vec.select(x > y, x, 2), (kind, kind), kind, lanes)
    same(chosen(x, y), np.where(x > y, x, FLOATS[kind](2)))
    doubled = native(lambda x: vec.mad(x, 2, 1), (kind,), kind, lanes)
    same(doubled(x), x * 2 + 1)


@pytest.mark.parametrize("to", ALL)
@pytest.mark.parametrize("kind", ALL)
@np.errstate(all="ignore")
def test_convert(kind: str, to: str) -> None:
    x = values(kind)
    if kind in FLOATS and to in INTS:  # beyond the range of int64 it is undefined
        x = x[np.isfinite(x) & (abs(x) < 2.0**31)]
        want = x.astype(np.int64).astype(INTS[to])
    else:
        want = x.astype(ALL[to])
    for lanes in LANES:
        same(native(lambda x: x.convert(to), (kind,), to, lanes)(x), want)


@np.errstate(all="ignore")
def test_large_integers_round_once() -> None:
    x = (np.int64(1) << np.arange(24, 62)) + (np.int64(1) << np.arange(38))
    x = np.concatenate([x + d for d in (-1, 0, 1)] + [-x + d for d in (-1, 0, 1)])
    for lanes in LANES:
        same(native(lambda x: x.convert("f32"), ("i64",), "f32", lanes)(x), x.astype(np.float32))


def floats32() -> Any:
    steps = np.arange(0, 1 << 32, 6151, dtype=np.uint64).astype(np.uint32)
    edges = np.arange(1 << 16, dtype=np.uint32) << 16
    near = np.concatenate([edges + d for d in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFF, 0x1000)])
    ties = (np.arange(1 << 16, dtype=np.uint32) << 13) + np.uint32(0x33000000)
    return np.concatenate([steps, near, ties, ties + 1, ties - 1]).view(np.float32)


@pytest.mark.parametrize("hardware", [True, False])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@np.errstate(all="ignore")
def test_halves(name: str, hardware: bool) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else np.float16)
    to = getattr(half_bits, f"{name}_bits")
    back = getattr(half_bits, f"from_{name}_bits")
    features = Features(halves=hardware)
    words = np.arange(1 << 16, dtype=np.uint16)
    np.testing.assert_array_equal(
        native(back, ("u16",), "f32", features=features)(words),
        words.view(dtype).astype(np.float32),
    )
    x = floats32()
    got = native(to, ("f32",), "u16", features=features)(x).view(dtype).astype(np.float32)
    want = x.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))


def test_constants() -> None:
    assert vec.literal(1e300, "f32") == "0x7FF0000000000000"
    assert vec.literal(-1, "u8") == "255"
    assert vec.literal(255, "i8") == "-1"
    x = np.zeros(8, np.int32)
    same(
        native(lambda x: x + x.code.iota("i32", 4), ("i32",), "i32", 4)(x),
        np.int32([0, 1, 2, 3] * 2),
    )
    with pytest.raises(TypeError, match="operands differ"):
        native(lambda x: x + x.convert("f64"), ("f32",), "f32")
