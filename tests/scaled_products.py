"""Products of float8 of every form, against float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import adjoint as ad

EIGHTS = (ad.float8_e4m3fn, ad.float8_e5m2)
SIZES = [(16, 32, 16), (1, 7, 3), (70, 130, 33), (0, 4, 2), (3, 0, 4)]
ROUGH = {ad.float32: 1e-6, ad.float16: 6e-4, ad.bfloat16: 5e-3}


def operand(random: np.random.Generator, rows: int, depth: int, dtype: Any) -> Any:
    """A matrix whose numbers are of all sizes, some of them too small to be normal."""
    numbers = random.standard_normal((rows, depth)) * np.exp2(
        random.integers(-12, 6, (rows, depth))
    )
    return ad.tensor(numbers.astype(np.float32)).to(dtype)


def check(device: str, modes: Any, sizes: Any = SIZES, rough: float = 1.0, **how: Any) -> int:
    """Compare all of them, eagerly or compiled; how many."""
    random = np.random.default_rng(0)
    done = 0
    for first, second, (rows, depth, columns) in product(EIGHTS, EIGHTS, sizes):
        x, y = operand(random, rows, depth, first), operand(random, columns, depth, second)
        for dtype, each in product(ROUGH, (False, True)):
            shapes = ((rows, 1), (1, columns)) if each else ((), ())
            scales = [ad.tensor(random.uniform(0.1, 2, s).astype(np.float32)) for s in shapes]
            bias = ad.randn(columns) if done % 2 else None
            wide, other = (t.to(ad.float64).numpy() for t in (x, y))
            factor = np.asarray(scales[0].double()) * np.asarray(scales[1].double())
            want = wide @ other.T * factor + (0 if bias is None else bias.double().numpy())
            size = np.abs(wide) @ np.abs(other).T * factor + 3
            # Columns may lie one after another, as weights do, or not.
            right = y.to(device).t() if done % 3 else y.t().contiguous().to(device)
            given = [x.to(device), right, *(s.to(device) for s in scales)]

            def run(x: Any, y: Any, a: Any, b: Any, bias: Any, dtype: Any = dtype) -> Any:
                return ad._scaled_mm(x, y, a, b, bias=bias, out_dtype=dtype)

            for mode in modes:
                call = ad.compile(run, **how) if mode == "compiled" else run
                got = call(*given, None if bias is None else bias.to(device))
                assert got.dtype is dtype
                assert got.shape == (rows, columns)
                error = np.abs(got.cpu().double().numpy() - want) / size
                about = (first, second, rows, depth, columns, dtype, each, mode)
                assert (error <= rough * ROUGH[dtype]).all(), (about, error.max())
            done += 1
    return done
