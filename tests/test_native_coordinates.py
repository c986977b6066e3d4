"""Coordinates in native code: in 32 bits where they are only compared and fit, else in 64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.compiler.loops.ir import INDEX, LOAD, POINT, AffineReference, LoopKernel, Op
from adjoint.engine.compiler.loops.narrowing import narrowed
from adjoint.engine.core.dtype import int64

HUGE = 2**40


def masks(x: Any, lib: Any) -> list[Any]:
    """Elements of a matrix by where they are, for NumPy too."""
    rows, columns = x.shape
    i, j = lib.arange(rows)[:, None], lib.arange(columns)[None, :]
    far = lib.arange(HUGE, HUGE + columns)[None, :]
    conditions = [
        i >= j,
        i - j < 3,
        (j - i >= 1) & (j != 4),
        -j == i - 2,
        far - i > HUGE,
        far - HUGE <= i,
        i + HUGE > far,
        lib.arange(columns, 0, -1)[None, :] > i,
        i == HUGE,
    ]
    found = [lib.where(condition, x, x * 2 - 1) for condition in conditions]
    found += [lib.triu(x, 1), lib.tril(x, -1), lib.triu(x, -3), lib.tril(x, 2)]
    found += [lib.where(i > j, i - j, j), x * (i + j)]  # used besides
    return found


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (16, 16), (7, 37), (40, 33)])
def test_masks_of_coordinates(shape: tuple[int, int]) -> None:
    given = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    compiled: Any = ad.compile(lambda x: masks(x, ad), backend="native")
    for mine, right in zip(compiled(ad.from_numpy(given)), masks(given, np), strict=True):
        np.testing.assert_allclose(mine.numpy(), right.astype(mine.numpy().dtype), rtol=1e-6)


@pytest.mark.usefixtures("anew")
def test_masked_rows() -> None:
    def masked(x: Any) -> Any:
        hidden = ad.ones(x.shape[-2:], dtype=ad.bool).triu(1)
        return x.masked_fill(hidden, float("-inf")).softmax(-1)

    causal: Any = ad.compile(masked, backend="native", dynamic=False)
    for size in (3, 16, 29):
        x = np.random.default_rng(size).standard_normal((4, size, size))
        exact = np.exp(x) * np.tril(np.ones((size, size)))
        exact /= exact.sum(-1, keepdims=True)
        got = causal(ad.from_numpy(x.astype(np.float32))).numpy()
        np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-7)
    (step,) = causal.latest.executable.plan.steps
    assert {op.dtype for op in step.form.ops if op.kind == INDEX} == {"int32"}


class Dimension:
    def __init__(self, size: Any) -> None:
        self.size = size


def kernel(size: Any, tail: list[Op], stores: tuple[int, ...] = ()) -> LoopKernel:
    """A coordinate along a dimension of a size, and operations on it."""
    atom = Dimension(size)
    ref = AffineReference(None, int64, 0, {atom: 1})
    index = Op(INDEX, "index", (("r", 0),), None, "int64", "int64", False, 0)
    stored = [(k, AffineReference(None, int64, 0, {})) for k in stores]
    return LoopKernel([atom], set(), (index, *tail), [ref], stored, (), (), {}, ())


def point(name: str, *args: Any, dtype: str = "int64", params: Any = ()) -> Op:
    tagged = tuple(("v", int(x[1:])) if isinstance(x, str) else ("c", x) for x in args)
    return Op(POINT, name, tagged, params, "int64", dtype, False, 0)


CASES: list[tuple[str, Any, list[Op], tuple[int, ...], list[str]]] = [
    ("compared", 64, [point("ge", "v0", 3, dtype="bool")], (1,), ["int32", "int32"]),
    ("large", 2**31, [point("ge", "v0", 3, dtype="bool")], (1,), ["int64", "int64"]),
    ("undecided", "n", [point("ge", "v0", 3, dtype="bool")], (1,), ["int64", "int64"]),
    ("huge", 64, [point("ge", "v0", HUGE, dtype="bool")], (1,), ["int64", "int64"]),
    ("kept", 64, [point("ge", "v0", 3, dtype="bool")], (0, 1), ["int64", "int64"]),
    (
        "chain",
        64,
        [point("sub", "v0", 5), point("neg", "v1"), point("lt", "v2", "v0", dtype="bool")],
        (3,),
        ["int32"] * 4,
    ),
    (
        "a product on the way",
        64,
        [point("mul", "v0", 5), point("lt", "v1", "v0", dtype="bool")],
        (2,),
        ["int64"] * 3,
    ),
    (
        "used besides",
        64,
        [point("sub", "v0", 5), point("lt", "v1", 3, dtype="bool"), point("mul", "v1", "v1")],
        (2, 3),
        ["int64"] * 4,
    ),
    (
        "far",
        64,
        [point("add", "v0", 2**30), point("lt", "v1", 3, dtype="bool")],
        (2,),
        ["int64"] * 3,
    ),
    (
        "triangle",
        64,
        [point("triu", 1.0, "v0", "v0", dtype="float32", params=(("diagonal", 1),))],
        (1,),
        ["int32", "int64"],
    ),
    (
        "far triangle",
        64,
        [point("triu", 1.0, "v0", "v0", dtype="float32", params=(("diagonal", HUGE),))],
        (1,),
        ["int64", "int64"],
    ),
    (
        "drawn at it",
        64,
        [point("random", "v0", dtype="int64", params=("whole numbers", 9))],
        (1,),
        ["int64", "int64"],
    ),
    (
        "picked by it",
        64,
        [Op(LOAD, "float32", (("r", 0), ("v", 0)), None, "float32", "float32", False, 0)],
        (1,),
        ["int64", "float32"],
    ),
]


@pytest.mark.parametrize(
    ("size", "tail", "stores", "wanted"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_which_coordinates_are_narrow(
    size: Any, tail: list[Op], stores: tuple[int, ...], wanted: list[str]
) -> None:
    assert [op.compute for op in narrowed(kernel(size, tail, stores))] == wanted


@pytest.mark.parametrize("lower", [True, False])
def test_places_of_triangles(lower: bool) -> None:
    rng = np.random.default_rng(8)
    sizes = [(0, 3, 0), (3, 0, 0), (4, 4, 9), (4, 4, -9), *rng.integers((0, 0, -9), 9, (60, 3))]
    for row, col, offset in [tuple(map(int, size)) for size in sizes]:
        across = np.arange(col)[None] - np.arange(row)[:, None]
        want = np.stack(np.nonzero(across <= offset if lower else across >= offset))
        for dtype in (ad.int64, ad.int32):
            got = (ad.tril_indices if lower else ad.triu_indices)(row, col, offset, dtype=dtype)
            assert got.dtype is dtype
            np.testing.assert_array_equal(got.numpy(), want)
