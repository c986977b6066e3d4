"""Rows times weights in groups, of every form that kernels have, against float64."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.compiler.schedule.steps import EagerCall, label_text
from adjoint.engine.ops.quantized.products import grouped_linear
from adjoint.quantization.weights import pack

# bits, features, group, the dtype of zero points (None: there are none)
WEIGHTS: list[tuple[int, int, int, Any]] = [
    (4, 160, 32, np.uint8),
    (4, 320, 64, None),
    (4, 256, 128, np.uint8),
    (4, 250, 250, np.uint8),  # one group; rows of an odd number of bytes
    (4, 60, 4, np.float32),  # words of two groups
    (4, 18, 2, np.uint8),
    (8, 96, 32, np.int8),
    (8, 77, 77, None),
    (8, 77, 11, np.int8),
    (8, 384, 128, np.float32),
]
ROWS = [(1,), (2,), (4,), (5,), (2, 9), (70,), (2, 0)]
OUTPUTS = (1, 33, 70)
ROUGH = {ad.float32: 2e-6, ad.float16: 1e-3, ad.bfloat16: 6e-3}


def weight_of(random: np.random.Generator, case: tuple[int, int, int, Any], outputs: int) -> Any:
    """Operands, and the real weight in float64."""
    bits, features, group, zero = case
    low, high = (0, 16) if bits == 4 else (-128, 128)
    numbers = random.integers(low, high, (outputs, features))
    points = random.integers(low, high, (outputs, features // group)) + 0.0
    if zero is np.float32:
        points += 0.25
    scale = random.uniform(0.01, 0.1, points.shape).astype(np.float32)
    taken = 0 if zero is None else np.repeat(points, group, 1)
    real = (numbers - taken) * np.repeat(scale, group, 1).astype(float)
    whole = ad.tensor(numbers.astype(np.uint8 if bits == 4 else np.int8))
    given = pack(whole) if bits == 4 else whole
    return given, ad.tensor(scale), None if zero is None else ad.tensor(points.astype(zero)), real


def seen(x: Any, how: str) -> Any:
    """Rows that lie otherwise: with gaps, or turned, or not at a multiple of anything."""
    match how:
        case "gaps":
            wide = ad.zeros(*x.shape[:-1], x.shape[-1] + 3, dtype=x.dtype, device=x.device)
            wide[..., 1:-2] = x
            return wide[..., 1:-2]
        case "turned":
            return x.mT.contiguous().mT if x.ndim > 1 else x
    return x


def check(
    device: str,
    dtypes: Any,
    modes: Any,
    rows: Any = ROWS,
    many: Any = OUTPUTS,
    weights: Any = WEIGHTS,
    **how: Any,
) -> int:
    """Compare all of them, eagerly or compiled; how many."""
    random = np.random.default_rng(0)
    done = 0
    for case, (shape, outputs) in product(weights, product(rows, many)):
        weight, scale, zero, real = weight_of(random, case, outputs)
        bits, features, group, _ = case
        for dtype in dtypes:
            x = ad.tensor(random.standard_normal((*shape, features)).astype(np.float32)).to(dtype)
            bias = ad.randn(outputs) if done % 2 else None
            wide = x.double().numpy()
            want = wide @ real.T + (0 if bias is None else bias.double().numpy())
            size = np.abs(wide) @ np.abs(real).T + 1
            given = [
                None if t is None else t.to(device)
                for t in (
                    seen(x.to(device), ("", "gaps", "turned")[done % 3]),
                    weight,
                    scale,
                    zero,
                    bias,
                )
            ]

            def run(
                x: Any, w: Any, s: Any, z: Any, b: Any, bits: int = bits, group: int = group
            ) -> Any:
                return grouped_linear(x, w, s, z, b, bits, group)

            for mode in modes:
                compiled = mode == "compiled" and ad.compile(run, **how)
                with ad.no_grad():
                    got = (compiled or run)(*given)
                assert got.dtype is dtype
                assert got.shape == (*shape, outputs)
                about = (case, shape, outputs, dtype, mode)
                error = np.abs(got.cpu().double().numpy() - want) / size
                assert (error <= ROUGH[dtype]).all(), (about, error.max())
                if compiled and prod(shape) in range(1, 129):
                    steps = compiled.latest.executable.plan.steps
                    assert not any(isinstance(step, EagerCall) for step in steps), about
                    labels = [label_text(step.label, str) for step in steps]
                    assert any("grouped_linear" in label for label in labels), (about, labels)
            done += 1
    return done
