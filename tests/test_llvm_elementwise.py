"""The elementwise lowerings against eager execution, for every dtype they claim."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import adjoint as ad
from adjoint.engine import assembly
from adjoint.engine.backends.registers.elementwise import (
    LOWER,
    cast,
    from_memory,
    kind_of,
    stored_kind,
    supports,
    to_memory,
)
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.core.dtype import DTYPES, DType
from adjoint.engine.core.operations.record import REGISTRY, Record
from tests.native_code import native

assembly.load_lazy()
CASES = [
    (name, dtype)
    for name in sorted(LOWER)
    for dtype in DTYPES
    if name != "polygamma"
    and supports(name, dtype)
    and not (REGISTRY[name].promotion == "float" and dtype.category < 2)
]
NUMPY: dict[str, Any] = {d.name: np.dtype(d.name) for d in DTYPES if d.name != "bfloat16"}
NUMPY["bfloat16"] = np.dtype(ml_dtypes.bfloat16)
# In units of the last place of the dtype computed in, where eager execution rounds elsewhere.
EXACT_IN_FLOATS = {
    "add", "sub", "mul", "div", "neg", "abs", "sqrt", "rsqrt", "addcmul", "addcdiv", "lerp", "eq",
    "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not",
    "isnan", "isinf", "isfinite", "signbit", "maximum", "minimum", "clamp", "clamp_min",
    "clamp_max", "fmax", "fmin", "relu", "where", "sign", "copysign", "heaviside", "floor", "ceil",
    "trunc", "round", "frac", "nextafter", "angle", "fmod", "remainder", "floor_divide",
    "trunc_divide", "ldexp", "normal", "bernoulli",
}  # fmt: skip

# SciPy's squares of large arguments lose digits that ours keep (tests/test_llvm_math.py).
ROUGH_IN_SCIPY = {"erfc", "erfcx", "ndtr", "log_ndtr", "lgamma"}


def values(dtype: DType, seed: int, count: int = 300) -> Any:
    rng = np.random.default_rng(seed)
    kind = NUMPY[dtype.name]
    if dtype.name == "bool":
        return rng.random(count) < 0.5
    if dtype.is_floating_point:
        special = np.array([0.0, -0.0, 1, -1, 0.5, 2.5, np.inf, -np.inf, np.nan, 3, 1e-30, -7])
        x = rng.standard_normal(count) * 10.0 ** rng.integers(-2, 3, count)
        mixed = np.concatenate([x, np.repeat(special, 12), rng.permutation(np.repeat(special, 12))])
        return rng.permutation(mixed).astype(kind)
    info = np.iinfo(kind)
    edges = np.array([info.min, info.max, 0, 1, -1 if dtype.is_signed else 3, 2, 7], kind)
    small = rng.integers(0 if not dtype.is_signed else -9, 70, count).astype(kind)
    return rng.permutation(
        np.concatenate([np.tile(edges, 20), small, rng.integers(info.min, info.max, count, kind)])
    )


def operands(record: Record, dtype: DType) -> list[Any]:
    xs = [values(dtype, seed) for seed in range(len(record.operands))]
    if record.name in ("floor_divide", "trunc_divide", "remainder", "fmod") and dtype.category < 2:
        xs[1] = np.where(xs[1] == 0, np.ones((), xs[1].dtype), xs[1])
    if record.name == "where":
        xs[0] = values(ad.bool, 5, xs[1].size)[: xs[1].size]
    if record.name == "ldexp":  # what integer a NaN becomes depends on the processor
        xs[1] = np.where(np.isnan(xs[1]), np.ones((), xs[1].dtype), xs[1])
    if record.name == "bernoulli":
        xs[1] = np.random.default_rng(2).random(xs[1].size).astype(xs[1].dtype)
    return xs


def lowered(record: Record, dtype: DType, result: DType) -> Any:
    """The lowering between memory of the right dtypes."""
    first = record.promotes_from if record.name == "where" else 0

    def fn(*words: V) -> V:
        given = [from_memory(w, ad.bool if i < first else dtype) for i, w in enumerate(words)]
        out = LOWER[record.name](*given)
        return to_memory(out.convert(kind_of(result)), result)

    kinds = tuple(stored_kind(ad.bool if i < first else dtype) for i in range(len(record.operands)))
    return native(fn, kinds, stored_kind(result))


def ulps(got: Any, want: Any, dtype: DType, sizes: list[Any]) -> Any:
    """Differences in units of the last place of the dtype, of the result or of what it sums."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    bits = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype.name]
    size = np.maximum(np.abs(want), 2.0**-126)
    with np.errstate(all="ignore"):
        for x in sizes:
            size = np.fmax(size, np.abs(x.astype(np.float64)))
        both = (np.isnan(got) & np.isnan(want)) | (got == want)
        return np.where(both, 0, np.abs(got - want) / (size * 2.0**-bits))


def cases() -> list[Any]:
    """Each operation in float32 and in half of its other dtypes, by turns; the rest are slow."""
    turns = {name: turn for turn, name in enumerate(sorted(LOWER))}
    return [
        pytest.param(
            name, dtype, id=f"{name}-{dtype.name}", marks=() if quick else pytest.mark.slow
        )
        for name, dtype in CASES
        for quick in (dtype is ad.float32 or (turns[name] + DTYPES.index(dtype)) % 2 == 0,)
    ]


@pytest.mark.parametrize(("name", "dtype"), cases())
def test_agrees_with_eager(name: str, dtype: DType) -> None:
    record = REGISTRY[name]
    xs = operands(record, dtype)
    tensors = [
        ad.from_numpy(x)
        if x.dtype != NUMPY["bfloat16"]
        else ad.tensor(x.astype(np.float32)).to(dtype)
        for x in xs
    ]
    eager = record(*tensors)
    want = eager.numpy() if eager.dtype is not ad.bfloat16 else eager.float().numpy()
    raw = [x.view(np.uint16) if dtype.is_half and x.dtype.itemsize == 2 else x for x in xs]
    raw = [x.view(np.uint8) if x.dtype == bool else x for x in raw]
    got = lowered(record, dtype, eager.dtype)(*raw)
    if eager.dtype.is_half:
        got = got.view(NUMPY[eager.dtype.name]).astype(np.float32)
        want = want.astype(np.float32)
    elif eager.dtype is ad.bool:
        got = got.astype(bool)
    assert got.dtype == want.dtype
    if name in EXACT_IN_FLOATS or not dtype.is_floating_point:
        np.testing.assert_array_equal(got, want)
    else:
        # A sum of opposite signs is as accurate as its terms.
        worst = ulps(got, want, dtype, xs if name.startswith("logadd") else [])
        at = int(np.argmax(worst))
        most = 1000 if dtype is ad.float64 and name in ROUGH_IN_SCIPY else 4
        assert worst[at] <= most, (worst[at], [x[at] for x in xs], got[at], want[at])


@pytest.mark.parametrize("new", [d for d in DTYPES if d.category < 3], ids=lambda d: d.name)
@pytest.mark.parametrize("old", [d for d in DTYPES if d.category < 3], ids=lambda d: d.name)
def test_cast_agrees_with_eager(old: DType, new: DType) -> None:
    x = values(old, 1)
    if old.is_floating_point and not new.is_floating_point:
        x = x[np.isfinite(x)]
        x = x[np.abs(x.astype(np.float64)) < 2.0**31]
    t = (
        ad.from_numpy(x.copy())
        if old is not ad.bfloat16
        else ad.tensor(x.astype(np.float32)).to(old)
    )
    eager = t.to(new)
    want = eager.float().numpy() if new.is_half else eager.numpy()
    fn = native(
        lambda w: to_memory(cast(from_memory(w, old), old, new), new),
        (stored_kind(old),),
        stored_kind(new),
    )
    raw = x.view(np.uint16) if old.is_half else x.view(np.uint8) if old is ad.bool else x
    got = fn(raw)
    got = got.view(NUMPY[new.name]).astype(np.float32) if new.is_half else got
    np.testing.assert_array_equal(got.astype(want.dtype), want)


def test_every_name_is_a_record() -> None:
    assert all(REGISTRY[name].family == "elementwise" for name in LOWER)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64], ids=["float32", "float64"])
def test_polygamma(n: int, dtype: DType) -> None:
    record = REGISTRY["polygamma"]
    assert supports("polygamma", dtype, {"n": n})
    assert not supports("polygamma", dtype, {"n": 2})
    x = values(dtype, 3)
    x = x[(np.abs(x) > 1e-3) & (np.abs(x) < 1e3)]
    want = record(ad.from_numpy(x), n=n).numpy()
    kind = kind_of(dtype)
    got = native(lambda v: LOWER["polygamma"](v, n=n), (kind,), kind)(x)
    limit = 1e-6 if dtype is ad.float32 else 1e-13
    np.testing.assert_allclose(got, want, rtol=limit, atol=limit)
