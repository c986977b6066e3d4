"""Operators that make tensors: constants, ranges, random draws, casts."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

import adjoint as ad
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.operators.shapes import bounded
from adjoint.onnx.reading import OnnxError
from adjoint.onnx.table import operator
from adjoint.onnx.types import (
    TENSORS,
    Value,
    array_of,
    element,
    integers,
    kind_of,
    number,
    value_of,
)


@operator("Constant")
def constant(
    *,
    value: Value = None,
    value_float: float | None = None,
    value_floats: list[float] | None = None,
    value_int: int | None = None,
    value_ints: list[int] | None = None,
    value_string: str | None = None,
    value_strings: list[str] | None = None,
) -> Value:
    """A value that the file states."""
    if value is not None:
        return value
    for given, kind in (
        (value_float, np.float32), (value_floats, np.float32), (value_int, np.int64),
        (value_ints, np.int64), (value_string, object), (value_strings, object),
    ):  # fmt: skip
        if given is not None:
            return value_of(np.array(given, dtype=kind))
    raise OnnxError("onnx: Constant states no value.")


@operator("ConstantOfShape")
def constant_of_shape(shape: Value, *, value: Value = None) -> Value:
    """One value in a given shape."""
    sizes = bounded(integers(shape), "ConstantOfShape")
    if value is None:
        return ad.zeros(sizes, dtype=ad.float32)
    if any(map(is_extent, sizes)) and isinstance(value, Tensor):
        return ad.full(sizes, number(value), dtype=value.dtype)
    return value_of(np.broadcast_to(np.asarray(array_of(value)).reshape(-1)[0], sizes).copy())


@operator("Range")
def range_(start: Value, limit: Value, delta: Value) -> Tensor:
    """Numbers from start to before limit, delta apart."""
    first, last, step = number(start), number(limit), number(delta)
    if any(map(is_extent, (first, last, step))):
        return ad.arange(first, last, step)
    count = max(math.ceil((last - first) / step), 0)
    bounded([count], "Range")
    return (
        first + ad.arange(count).to(start.dtype) * start.new_tensor(step)
        if start.is_floating_point()
        else (ad.arange(count, dtype=ad.int64) * step + first).to(start.dtype)
    )


@operator("EyeLike")
def eye_like(x: Value, *, k: int = 0, dtype: int | None = None) -> Value:
    """Ones on a diagonal."""
    kind = kind_of(x) if dtype is None else element(dtype, "EyeLike")
    return value_of(np.eye(int(x.shape[0]), int(x.shape[1]), k).astype(kind))


@operator("OneHot")
def one_hot(indices: Tensor, depth: Value, values: Value, *, axis: int = -1) -> Value:
    """Rows that have one value at an index, another elsewhere; none out of range."""
    size = number(depth)
    size = size if is_extent(size) else int(size)
    bounded([size, *indices.shape], "OneHot")
    index = indices.long()
    index = ad.where(index < 0, index + size, index)
    hit = (index.unsqueeze(-1) == ad.arange(size)).movedim(-1, axis)
    return ad.where(hit, values[1], values[0])


# The largest number of each format of eight bits.
_FINITE = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
_EXACT = {*_FINITE, "float8_e8m0fnu"}


def cast_to(x: Value, kind: np.dtype[Any], saturate: bool = True, round_mode: str = "up") -> Value:
    """A value in another element type, as ONNX rounds and saturates."""
    source = kind_of(x)
    if isinstance(x, Tensor) and kind in TENSORS:
        return x.to(TENSORS[kind]) if not x.is_complex() else ad.real(x).to(TENSORS[kind])
    array = np.asarray(array_of(x))
    if source.hasobject:
        return value_of(_from_strings(array, kind))
    if kind.hasobject:
        return _to_strings(array)
    if kind.name == "float8_e8m0fnu":
        return _to_e8m0(array.astype(np.float32), saturate, round_mode)
    with np.errstate(all="ignore"):
        if kind.name in _EXACT:
            return _to_float8(array, kind, saturate)
        if (
            source.name in _EXACT
            or "int4" in source.name
            or "int2" in source.name
            or "float4" in source.name
        ):
            array = array.astype(np.float32 if "float" in source.name else np.int32)
        if kind.name in ("int4", "uint4", "int2", "uint2"):
            return _to_narrow_integer(array, kind)
        if kind.name == "float4_e2m1fn":
            return array.astype(np.float32).astype(kind)
        return value_of(array.astype(kind))


def _to_float8(array: Any, kind: np.dtype[Any], saturate: bool) -> Any:
    wide = array.astype(np.float32)
    largest = np.float32(_FINITE[kind.name])
    return (np.clip(wide, -largest, largest) if saturate else wide).astype(kind)


def _to_e8m0(wide: Any, saturate: bool, round_mode: str) -> Any:
    """Powers of two: rounded up, down, or to the nearest."""
    mantissa, exponent = np.frexp(np.abs(wide))  # in [0.5, 1)
    lower = exponent - 1
    exact = mantissa == 0.5
    power = {
        "down": lower,
        "up": np.where(exact, lower, lower + 1),
        "nearest": np.where(mantissa >= 0.75, lower + 1, lower),
    }[round_mode]
    power = np.where(wide == 0, -127, power)
    beyond = (power > 127) | np.isinf(wide)
    bits = np.clip(power, -127, 127) + 127
    bits = np.where(
        np.isnan(wide) | (beyond & (not saturate)), 255, np.where(np.isinf(wide), 254, bits)
    )
    return bits.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


def _to_narrow_integer(array: Any, kind: np.dtype[Any]) -> Any:
    width = 4 if "4" in kind.name else 2
    whole = array.astype(np.int64)
    low = whole & ((1 << width) - 1)
    if not kind.name.startswith("u"):
        low = np.where(low >= 1 << (width - 1), low - (1 << width), low)
    return low.astype(np.int8).astype(kind)


def _from_strings(array: Any, kind: np.dtype[Any]) -> Any:
    if kind.hasobject:
        return array
    read = float if kind.kind in "fV" or "float" in kind.name else lambda s: int(float(s))
    items = [read(s.decode() if isinstance(s, bytes) else s) for s in array.ravel()]
    return (
        np.array(items, dtype=np.float64 if read is float else np.int64)
        .astype(kind)
        .reshape(array.shape)
    )


def _to_strings(array: Any) -> Any:
    floats = array.dtype.kind in "fV" or "float" in array.dtype.name
    texts = [
        np.format_float_positional(v, trim="-") if floats and np.isfinite(v) else str(v)
        for v in array.ravel().astype(
            np.float32 if floats and array.dtype.itemsize < 4 else array.dtype
        )
    ]
    texts = [t.replace("nan", "NaN").replace("inf", "INF") for t in texts]
    return np.array(texts, dtype=object).reshape(array.shape)


@operator("Cast")
def cast(x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Another element type."""
    return cast_to(x, element(to, "Cast"), bool(saturate), round_mode)


@operator("CastLike")
def cast_like(x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    """The element type of another tensor."""
    return cast_to(x, kind_of(like), bool(saturate), round_mode)


@operator("BitCast")
def bit_cast(x: Value, *, to: int) -> Value:
    """The same bits read as another type of the same width."""
    array = np.ascontiguousarray(array_of(x)).reshape(x.shape)
    return value_of(array.view(element(to, "BitCast")))


def _seeded(seed: float | None) -> Any:
    return (
        None if seed is None else ad.Generator().manual_seed(int(np.float32(seed).view(np.uint32)))
    )


def _drawn(kind: int | None, x: Tensor | None) -> Any:
    if kind is not None:
        return TENSORS[element(kind, "random")]
    return x.dtype if x is not None and x.is_floating_point() else ad.float32


@operator("RandomUniform", draws=True)
def random_uniform(
    *,
    shape: list[int],
    low: float = 0.0,
    high: float = 1.0,
    seed: float | None = None,
    dtype: int = 1,
) -> Tensor:
    """Uniform draws."""
    sizes = bounded(shape, "RandomUniform")
    return low + (high - low) * ad.rand(sizes, dtype=_drawn(dtype, None), generator=_seeded(seed))


@operator("RandomNormal", draws=True)
def random_normal(
    *,
    shape: list[int],
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    dtype: int = 1,
) -> Tensor:
    """Normal draws."""
    sizes = bounded(shape, "RandomNormal")
    return mean + scale * ad.randn(sizes, dtype=_drawn(dtype, None), generator=_seeded(seed))


@operator("RandomUniformLike", draws=True)
def random_uniform_like(
    x: Tensor,
    *,
    low: float = 0.0,
    high: float = 1.0,
    seed: float | None = None,
    dtype: int | None = None,
) -> Tensor:
    """Uniform draws in a tensor's shape."""
    return low + (high - low) * ad.rand(x.shape, dtype=_drawn(dtype, x), generator=_seeded(seed))


@operator("RandomNormalLike", draws=True)
def random_normal_like(
    x: Tensor,
    *,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    dtype: int | None = None,
) -> Tensor:
    """Normal draws in a tensor's shape."""
    return mean + scale * ad.randn(x.shape, dtype=_drawn(dtype, x), generator=_seeded(seed))


@operator("Bernoulli", draws=True)
def bernoulli(x: Tensor, *, seed: float | None = None, dtype: int | None = None) -> Value:
    """One with the probability that an element states, else zero."""
    drawn = ad.rand(x.shape, dtype=x.dtype, generator=_seeded(seed)) < x
    return cast_to(drawn, kind_of(x) if dtype is None else element(dtype, "Bernoulli"))


@operator("Multinomial", draws=True)
def multinomial(
    x: Tensor, *, sample_size: int = 1, seed: float | None = None, dtype: int = 6
) -> Value:
    """Classes drawn by the logarithms of their probabilities."""
    drawn = ad.multinomial(
        ad.softmax(x, -1), sample_size, replacement=True, generator=_seeded(seed)
    )
    return cast_to(drawn, element(dtype, "Multinomial"))
