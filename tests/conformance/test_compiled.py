"""Every sample compiled to native code: values and gradients equal the eager ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import compile
from adjoint.engine.backends.llvm.program import running
from adjoint.engine.compiler.package import image_maker
from tests.conformance.cases import Case, make, places, rows

ROWS = [row for row in rows() if row.capture]
# Relative to the largest element; kernels sum in another order than NumPy.
TOLERANCE = {"float64": 1e-10, "float32": 2e-4, "bfloat16": 0.05, "float16": 0.01}


def compare(got: Any, want: Any, what: str) -> None:
    assert got.shape == want.shape, what
    assert got.dtype is want.dtype, what
    a, b = got.detach().numpy(), want.detach().numpy()
    if not want.dtype.is_inexact:
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    wide = np.complex128 if want.dtype.is_complex else np.float64
    a, b = a.astype(wide), b.astype(wide)
    limit = TOLERANCE[want.dtype.to_real().name]
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    np.testing.assert_allclose(a, b, rtol=limit, atol=limit * max(scale, 1e-3), err_msg=what)


def step(case: Case) -> Any:
    """The function with its gradients, weighted by fixed cotangents."""

    def run(*tensors: Any) -> Any:
        wanted = [tensors[i].detach().requires_grad_() for i in case.wanted]
        given = list(tensors)
        for i, t in zip(case.wanted, wanted, strict=True):
            given[i] = t
        outs = case.fn(*given)
        floats = [o for o in outs if o.dtype.is_inexact and o.requires_grad]
        if not floats or not wanted:
            return outs, []
        weights = [
            ad.linspace(0.5, 1.5, o.numel(), dtype=ad.float64).reshape(o.shape) for o in floats
        ]
        grads = ad.autograd.grad(
            floats, wanted, [w.to(o.dtype) for w, o in zip(weights, floats, strict=True)],
            allow_unused=True,
        )  # fmt: skip
        return outs, [g for g in grads if g is not None]

    return run


def is_quick(row: Any, place: int, dtype: str) -> bool:
    """Of a function's first row both dtypes, of the others one by turns; the rest are slow.

    The first row of what is differentiable is compiled in float64 by test_compiled_backward.py.
    """
    if place == 0:
        return dtype == "float32" or not (row.grad and not row.random)
    return dtype == ("float64", "float32")[place % 2]


def cases() -> list[Any]:
    """Every row in both dtypes."""
    return [
        pytest.param(
            row,
            dtype,
            id=f"{row}-{dtype}",
            marks=() if is_quick(row, place, dtype) else pytest.mark.slow,
        )
        for row, place in zip(ROWS, places(ROWS), strict=True)
        for dtype in ("float64", "float32")
    ]


@pytest.mark.parametrize(("row", "dtype"), cases())
def test_compiled_equals_eager(
    row: Any, dtype: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one thread, and in float32 with everything divided among three."""
    if dtype == "float32":
        monkeypatch.setattr(image_maker, "ALONE", 0.0)
        monkeypatch.setattr(image_maker, "SERIAL", 0.0)
        request.getfixturevalue("anew")  # programs on disk are divided otherwise
    monkeypatch.setattr(running, "get_num_threads", lambda: 3 if dtype == "float32" else 1)
    case = make(row, getattr(ad, dtype))
    run = step(case)
    ad.manual_seed(0)
    try:
        want, want_grads = run(*case.tensors)
    except (NotImplementedError, RuntimeError):
        pytest.skip(f"not defined in {dtype}")
    ad.manual_seed(0)
    got, got_grads = compile(run, backend="native")(*case.tensors)
    assert (len(got), len(got_grads)) == (len(want), len(want_grads))
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        compare(a, b, f"result {k}")
    for k, (a, b) in enumerate(zip(got_grads, want_grads, strict=True)):
        compare(a, b, f"gradient {k}")
