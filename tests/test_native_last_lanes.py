"""The last elements of rows, which are lanes of one vector where the processor has masks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.ir.machine import this_machine, writing_for
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.loops.pieces import last_lanes
from adjoint.engine.backends.llvm.runtime import jit
from adjoint.engine.backends.registers.operations import combine
from adjoint.engine.backends.registers.vector import Code, Features, select
from adjoint.engine.compiler.loops.ir import LOAD, POINT, Form, Op
from tests.compiling_anew import compiled_anew

SHAPES = [(1, 1), (7, 5), (64, 16), (300, 13), (128, 37), (257, 509), (3, 5000)]
DTYPES = [np.float32, np.float64, np.int64, np.int8, np.bool_, np.float16]
EXACT: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "reversed rows": (lambda x: x.flip(-1), lambda a: a[:, ::-1]),
    "all reversed": (lambda x: x.flip(0, 1), lambda a: a[::-1, ::-1]),
    "reversed beside": (lambda x: ad.cat([x.flip(-1), x], -1), lambda a: np.hstack([a[:, ::-1], a])),
    "greatest of rows": (lambda x: x.amax(-1), lambda a: a.max(-1)),
    "least of columns": (lambda x: x.amin(0), lambda a: a.min(0)),
    "how many": (lambda x: (x > 0).sum(-1), lambda a: (a > 0).sum(-1)),
    "chosen": (lambda x: ad.where(x > 0, x, x.flip(-1)), lambda a: np.where(a > 0, a, a[:, ::-1])),
}  # fmt: skip
CLOSE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "softmax": (lambda x: x.softmax(-1), lambda a: np.exp(a - _log_total(a))),
    "log of sums": (lambda x: x.logsumexp(-1, keepdim=True), lambda a: _log_total(a)),
    "sums and product": (lambda x: x.tanh().sum(-1), lambda a: np.tanh(a).sum(-1)),
    "variance": (lambda x: x.var(-1, correction=0), lambda a: a.var(-1)),
}


def _log_total(a: Any) -> Any:
    return np.log(np.exp(a).sum(-1, keepdims=True))


def _numbers(shape: tuple[int, ...], dtype: Any) -> Any:
    return (np.random.default_rng(7).standard_normal(shape) * 5).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
def test_moved_and_chosen_elements_are_numpys(dtype: Any) -> None:
    together = ad.compile(lambda x: [of(x) for of, _ in EXACT.values()])
    for shape in SHAPES:
        a = _numbers(shape, dtype)
        for name, y, (_, want) in zip(EXACT, together(ad.tensor(a)), EXACT.values(), strict=True):
            assert np.array_equal(y.numpy(), want(a)), (name, shape)


@pytest.mark.parametrize("reads_backwards", [False, True])
def test_rows_are_read_or_written_backwards(reads_backwards: bool) -> None:
    machine = replace(this_machine(), reads_backwards=reads_backwards)
    with writing_for(machine), compiled_anew():
        flips = ad.compile(lambda x: (x.flip(-1), x.flip(0, 1)), dynamic=False)
        for shape in SHAPES:
            a = _numbers(shape, np.float32)
            rows, both = flips(ad.tensor(a))
            assert np.array_equal(rows.numpy(), a[:, ::-1]), shape
            assert np.array_equal(both.numpy(), a[::-1, ::-1]), shape


@pytest.mark.parametrize(("dtype", "near"), [(np.float32, 2e-5), (np.float64, 1e-12)])
def test_functions_and_sums_are_near_numpys(dtype: Any, near: float) -> None:
    together = ad.compile(lambda x: [of(x) for of, _ in CLOSE.values()])
    for shape in SHAPES:
        a = _numbers(shape, dtype)
        for name, y, (_, want) in zip(CLOSE, together(ad.tensor(a)), CLOSE.values(), strict=True):
            wide = want(a.astype(np.float64))
            assert np.allclose(y.numpy(), wide, rtol=near, atol=near), (name, shape)


@pytest.mark.parametrize("place", [0, 3, 15, 16, 31, 32, 40])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_extremes_of_what_is_no_number(place: int, value: float) -> None:
    both = ad.compile(lambda x: (x.amax(-1), x.amin(-1)))
    a = _numbers((3, 41), np.float32)
    a[1, place] = value
    most, least = both(ad.tensor(a))
    assert np.array_equal(most.numpy(), a.max(-1), equal_nan=True)
    assert np.array_equal(least.numpy(), a.min(-1), equal_nan=True)


def test_extremes_without_bounds_that_keep_nan_take_three_instructions() -> None:
    code = Code(features=Features(nan_bounds=False))
    combine("amax", code.value("%a", "f32", 16), code.value("%b", "f32", 16))
    assert not any("maximum" in line for line in code.lines)
    assert len(code.lines) == 4  # two comparisons and two choices, of which two are one on x86


@pytest.mark.parametrize("count", [0, 1, 5, 8, 9, 1 << 31, (1 << 31) + 3, (1 << 32) + 3])
def test_lanes_of_any_count(count: int) -> None:
    """Rows may be longer than 32 bits can say, from either end."""
    w = CodeWriter()
    number, out = w.words(2)
    for k, n in enumerate((number, -number)):
        held = select(w.lanes_below(n, 8), w.code.const(1, "i64", 8), 0)
        w.store(held, w.pointer(out), w.whole(8 * k))
    function, declared = w.finish("lanes")
    linked = jit.link(jit.assemble("\n".join([*sorted(declared), function])))
    found = np.full(16, -1, np.int64)
    words = np.array([count, found.ctypes.data], np.int64)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    call(linked.address("lanes"))(words.ctypes.data, 0, 1)
    assert found.tolist() == [int(lane < count) for lane in range(8)] + [0] * 8


def test_what_may_fail_or_steps_through_memory_has_no_missing_lanes() -> None:
    load = Op(LOAD, "int64", (("r", 0),), None, "int64", "int64", full=False, stage=0)
    quotient = Op(
        POINT, "floor_divide", (("v", 0), ("v", 0)), (), "int64", "int64", full=False, stage=0
    )

    def form(op: Op, step: int) -> Form:
        refs = (("int64", (step,)), ("int64", (1,)))
        return Form(False, 1, 0, (load, op), refs, ((1, 1),), ())

    assert last_lanes(form(quotient, 1)) == 0
    assert last_lanes(form(load, 2)) == 0
