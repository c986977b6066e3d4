"""Sums of columns in native code: strips, blocks of rows, ends of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.ir.machine import CodeMachine, this_machine, writing_for
from adjoint.engine.backends.llvm.loops.column_sums import (
    STRIP,
    TOGETHER,
    TURNS,
    sums_columns,
)
from adjoint.engine.backends.llvm.loops.kernels import emit


@pytest.mark.parametrize(
    "shape", [(1, 17), (63, 5), (64, 64), (65, 100), (200, 130), (70, 515), (544, 33)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_columns(shape: tuple[int, int], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    scale = rng.standard_normal(shape[1]).astype(dtype)

    @ad.compile(backend="native")
    def sums(x: ad.Tensor, y: ad.Tensor, scale: ad.Tensor) -> tuple[ad.Tensor, ...]:
        product = x * y
        return product, product.sum(0), (x * scale).sum(0) ** 2, (x - y).sum(0) + scale

    given = [ad.from_numpy(a) for a in (x, y, scale)]
    got = [t.numpy() for t in sums(*given)]
    X, Y, S = (a.astype(np.float64) for a in (x, y, scale))
    wanted = [X * Y, (X * Y).sum(0), (X * S).sum(0) ** 2, (X - Y).sum(0) + S]
    tolerance = 1e-4 if dtype is np.float32 else 1e-11
    for mine, exact in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, exact, rtol=tolerance, atol=tolerance)
    workers = ad.get_num_threads()
    try:
        for count in (1, 2, 3):
            ad.set_num_threads(count)
            again = [t.numpy() for t in sums(*given)]
            assert all(np.array_equal(a, b) for a, b in zip(got, again, strict=True))
    finally:
        ad.set_num_threads(workers)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_columns_are_added_in_the_same_order(dtype: Any) -> None:
    """Some rows by twos, then row after row, in blocks; of less than a vector's columns too."""
    rng = np.random.default_rng(2)
    for columns in (1, 2, 3, 5, 6, 7, 11, 15):
        total = ad.compile(lambda x: x.sum(0), backend="native")
        x = rng.standard_normal((149, columns)).astype(dtype)
        want = np.zeros(columns, dtype)
        for first in range(0, len(x), TURNS * TOGETHER):
            part, block = np.zeros(columns, dtype), x[first : first + TURNS * TOGETHER]
            whole = len(block) // TOGETHER * TOGETHER
            for turn in block[:whole].reshape(-1, TOGETHER, columns):
                part = part + by_twos(turn)
            for row in block[whole:]:
                part = part + row
            want = want + part
        if columns > 1:  # one alone is a row
            np.testing.assert_array_equal(total(ad.from_numpy(x)).numpy(), want)
        apart = ad.from_numpy(np.repeat(x, 2, 1))[:, ::2]
        np.testing.assert_allclose(total(apart).numpy(), want, rtol=1e-4, atol=1e-4)


def by_twos(rows: Any) -> Any:
    while len(rows) > 1:
        rows = rows[::2] + rows[1::2]
    return rows[0]


@pytest.mark.parametrize("shape", [(64, 300), (200, 40), (70000, 8)])
@pytest.mark.parametrize("name", ["sum", "sum of a function"])
def test_sums_of_columns_keep_their_digits(shape: tuple[int, int], name: str) -> None:
    """To twice the error that blocks of 16, of 16 of those and so on leave, about as PyTorch's."""
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32) + np.float32(1)
    function = (lambda x: x) if name == "sum" else lambda x: ((x - 1) * 2 + 2).relu() * 0.5 + x
    exact = function(ad.from_numpy(x).double()).sum(0).numpy()
    blocks = function(ad.from_numpy(x)).numpy()
    while len(blocks) > 1:
        padded = np.zeros((-(-len(blocks) // 16), 16, shape[1]), np.float32)
        padded.reshape(-1, shape[1])[: len(blocks)] = blocks
        blocks = padded[:, 0]
        for k in range(1, 16):
            blocks = blocks + padded[:, k]
    limit = 2 * np.abs(blocks[0] - exact).mean()
    for total in (lambda x: function(x).sum(0), ad.compile(lambda x: function(x).sum(0))):
        assert np.abs(total(ad.from_numpy(x)).numpy() - exact).mean() < limit


@pytest.mark.usefixtures("anew")
def test_they_go_by_strips() -> None:
    total = ad.compile(lambda x: x.sum(0), backend="native", dynamic=False)
    total(ad.ones(320, 640))
    (step,) = total.latest.executable.plan.steps
    assert sums_columns(step.form)
    assert step.pieces == -(-640 // (STRIP // 4))  # no blocks of rows beside them
    # Of few and long ones parts are summed first, or few workers would have anything to do.
    total(ad.ones(2080, 96))
    first, second = total.latest.executable.plan.steps
    assert sums_columns(first.form)
    assert first.pieces >= 32 > second.pieces


@pytest.mark.usefixtures("anew")
def test_lines_are_asked_for_beside_what_is_written() -> None:
    """Note [lines ahead]: of each array one, where a register is as wide as a line."""
    wide = CodeMachine(this_machine().features, 512, 32, by_lane=False, masks=True)
    narrow = CodeMachine(this_machine().features, 128, 32, by_lane=True)
    written = ad.compile(lambda x, y: (z := x * y, z.sum(0)), backend="native", dynamic=False)
    alone = ad.compile(lambda x, y: (x * y).sum(0), backend="native", dynamic=False)
    cases: list[tuple[Any, CodeMachine, int]] = [
        (written, wide, 3), (written, narrow, 0), (alone, wide, 0),
    ]  # fmt: skip
    for run, machine, asked in cases:
        run(ad.ones(320, 640), ad.ones(320, 640))
        (step,) = run.latest.executable.plan.steps
        assert sums_columns(step.form)
        with writing_for(machine):
            text, declared = emit(step.form, "sums")
        assert text.count("call void @llvm.prefetch") == asked
        assert bool(asked) == any("llvm.prefetch" in line for line in declared)


@pytest.mark.parametrize(("shape", "steps"), [((128, 64), 2), ((8, 4), 1)])
@pytest.mark.usefixtures("anew")
def test_sums_of_what_is_scattered(shape: tuple[int, int], steps: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32)
    picks = rng.integers(0, shape[1], (shape[0], 1))

    def of_both(x: ad.Tensor, picks: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        put = (x * 2).scatter(1, picks, -1.0)
        return put, put.sum(0)

    scattered: Any = ad.compile(of_both, backend="native")
    put, total = scattered(ad.from_numpy(x), ad.from_numpy(picks))
    wanted = x * 2
    np.put_along_axis(wanted, picks, -1.0, 1)
    np.testing.assert_array_equal(put.numpy(), wanted)
    np.testing.assert_allclose(total.numpy(), wanted.astype(np.float64).sum(0), atol=1e-4)
    assert len(scattered.latest.executable.plan.steps) == steps  # a large sum by itself


@pytest.mark.usefixtures("anew")
def test_strips_are_whole_rows_beside_blocks_of_rows() -> None:
    x = np.random.default_rng(4).standard_normal((20, 37, 2 * STRIP + 21)).astype(np.float32)
    both = ad.compile(lambda x: (x.sum(1), (x * x).sum(1)), backend="native", dynamic=False)
    for got, of in zip(both(ad.from_numpy(x)), (x, x * x), strict=True):
        np.testing.assert_allclose(got.numpy(), of.astype(np.float64).sum(1), rtol=1e-4, atol=1e-4)
    assert {step.pieces for step in both.latest.executable.plan.steps} == {20 * 3}


@pytest.mark.parametrize(
    ("shape", "row"),
    [
        ((64, 8, 28, 28), 784),
        ((64, 32, 3, 3), 288),
        ((40, 16, 3, 300), 300),
        ((9, 9, 400, 3), 1200),
    ],
)
@pytest.mark.usefixtures("anew")
def test_sums_of_everything_begin_with_long_rows(shape: tuple[int, ...], row: int) -> None:
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    total: Any = ad.compile(lambda x: x.sum(), backend="native", dynamic=False)
    np.testing.assert_allclose(
        total(ad.from_numpy(x)).numpy(), x.astype(np.float64).sum(), rtol=1e-5, atol=1e-3
    )
    (kernel,) = total.latest.executable.plan.steps[0].kernels
    assert np.prod(kernel.inner) == row
