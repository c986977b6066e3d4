"""Native running extremes of lines of every length, beside a plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.operations.record import REGISTRY

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64")
KINDS = ("of all sizes", "rising", "falling", "alike", "no numbers")


def numbers(kind: str, dtype: str, shape: tuple[int, int]) -> ad.Tensor:
    rng = np.random.default_rng(shape[1])
    values = rng.standard_normal(shape) * 50
    match kind:
        case "rising":
            values = np.sort(values, -1)
        case "falling":
            values = -np.sort(values, -1)
        case "alike":
            values = np.round(values / 40)
        case "no numbers":
            values[rng.random(shape) < 0.03] = np.nan
            values[0, 0], values[-1, -1] = -np.inf, np.inf
    if "float" not in dtype:
        values = np.nan_to_num(abs(values) if dtype == "uint8" else values, posinf=0, neginf=0)
    return ad.from_numpy(values).to(getattr(ad, dtype))


def running(rows: Any, largest: bool) -> tuple[Any, Any]:
    """Of each row the extremes so far and where they are: the last of equal ones, or a NaN."""
    values, at = rows.copy(), np.zeros(rows.shape, np.int64)
    best, place = rows[:, 0], at[:, 0]
    for i, x in enumerate(rows.T):
        taken = np.isnan(x) | (x >= best if largest else x <= best)
        best, place = np.where(taken, x, best), np.where(taken, i, place)
        values[:, i], at[:, i] = best, place
    return values, at


@pytest.fixture(autouse=True)
def natively(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY["running_extreme"], "large", 1)
    monkeypatch.setattr(REGISTRY["cumextreme"], "large", 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_running_extremes(dtype: str, kind: str) -> None:
    for shape in ((3, 1), (5, 15), (4, 16), (3, 17), (2, 33), (3, 509), (40, 64)):
        x = numbers(kind, dtype, shape)
        rows = x.double().numpy()
        for name in ("cummax", "cummin"):
            for dim, lines in ((-1, rows), (0, rows.T)):
                values, at = getattr(x, name)(dim)
                want, places = running(lines, name == "cummax")
                got = values.double().numpy(), at.numpy()
                got = got if dim else (got[0].T, got[1].T)
                np.testing.assert_array_equal(got[0], want)
                np.testing.assert_array_equal(got[1], places)
