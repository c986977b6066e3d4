"""Random numbers in vector code: the same bits as eager execution draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adjoint.engine.backends.array.kernels.random import philox as reference
from adjoint.engine.backends.array.kernels.random import random as eager
from adjoint.engine.backends.registers import distributions, philox
from adjoint.engine.backends.registers.elementwise import stored_kind, to_memory
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.device import CPU
from adjoint.engine.core.dtype import DType
from adjoint.engine.ops.random.random import word_bits
from tests.native_code import native

SEED, OFFSET = 0x1234_5678_9ABC_DEF1, (1 << 32) - 7  # the counter's upper word changes on the way


def drawn(bits: int, lanes: int, fn: Any, result: str, scattered: bool = False) -> Any:
    """fn of the words of the stream, in lanes; takes an array of places (0, 1, 2, ...)."""

    def body(index: V) -> V:
        code = index.code
        seed, offset = code.const(SEED, "u64"), code.const(OFFSET, "u64")
        if scattered:
            return fn(philox.words_at(bits, seed, offset, index))
        return fn(philox.random_words(bits, seed, offset, code.value("%i", "u64", 1), lanes))

    return native(body, ("u64",), result, lanes)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("lanes", [1, 2, 4, 16, 32])
def test_words(bits: int, lanes: int) -> None:
    places = np.arange(256, dtype=np.uint64)
    want = np.concatenate([w for _, w in reference.random_words(np, SEED, OFFSET, 256, bits)])
    np.testing.assert_array_equal(drawn(bits, lanes, lambda w: w, f"u{bits}")(places), want)
    some = np.random.default_rng(0).permutation(places)
    at = drawn(bits, lanes, lambda w: w, f"u{bits}", scattered=True)
    np.testing.assert_array_equal(at(some), want[some])


def test_offset_wraps() -> None:
    def body(index: V) -> V:
        code = index.code
        first = code.value("%i", "u64", 1)
        return philox.random_words(
            64, code.const(3, "u64"), code.const((1 << 64) - 2, "u64"), first, index.lanes
        )

    got = native(body, ("u64",), "u64", 4)(np.arange(8, dtype=np.uint64))
    want = np.concatenate([w for _, w in reference.random_words(np, 3, (1 << 64) - 2, 8, 64)])
    np.testing.assert_array_equal(got, want)


FLOATS = (dt.float32, dt.float64, dt.float16, dt.bfloat16)
CASES: list[tuple[str, tuple[Any, ...], tuple[DType, ...]]] = [
    ("uniform", (0.0, 1.0), FLOATS),
    ("uniform", (-3.0, 0.7), FLOATS),
    ("normal", (0.0, 1.0), FLOATS),
    ("normal", (2.5, 0.3), FLOATS),
    ("log_normal", (0.1, 2.0), FLOATS),
    ("exponential", (1.0,), FLOATS),
    ("exponential", (0.3,), FLOATS),
    ("cauchy", (0.5, 2.0), FLOATS),
    ("geometric", (0.03,), (*FLOATS, dt.int64)),
    ("geometric", (1,), FLOATS),
    ("bernoulli", (0.3,), (*FLOATS, dt.bool_, dt.int64, dt.uint8)),
    ("bernoulli", (1.0,), FLOATS),
    ("integers", (0, 10), (dt.int64, dt.int32, dt.uint8, dt.float32, dt.float16)),
    ("integers", (-5, 1 << 40), (dt.int64, dt.float64)),
    ("integers", (-(1 << 63), 1 << 63), (dt.int64,)),
    ("bits", (), (dt.int64,)),
    ("fraction", (), (dt.float64,)),
]


@pytest.mark.parametrize(
    ("law", "args", "dtype"),
    [(law, args, d) for law, args, dtypes in CASES for d in dtypes],
    ids=lambda v: str(getattr(v, "name", v)),
)
def test_laws_bit_for_bit(law: str, args: tuple[Any, ...], dtype: DType) -> None:
    count = 20_000
    want = eager.random(
        np, SEED, OFFSET, law=law, args=args, shape=(count,), dtype=dtype, device=CPU
    )
    assert distributions.supports(law, args, dtype)

    def fn(words: V) -> V:
        return to_memory(distributions.sample(words, law, args, dtype), dtype)

    kernel = drawn(word_bits(law, dtype), 16, fn, stored_kind(dtype))
    got = kernel(np.arange(count, dtype=np.uint64))
    np.testing.assert_array_equal(got, want.view(got.dtype))


def test_far_tail_of_the_normal() -> None:
    words = np.array([0, 1, 2, 5, 1 << 20, (1 << 63) - 1, 1 << 63, (1 << 64) - 1], np.uint64)
    words = np.concatenate([words, words ^ np.uint64(1 << 63)])
    from adjoint.engine.backends.array.kernels.random.distributions import standard_normal

    want = standard_normal(np, words.copy())
    got = native(distributions.standard_normal, ("u64",), "f64", 4)(words)
    np.testing.assert_array_equal(got, want)
    assert np.abs(want).max() > 8
