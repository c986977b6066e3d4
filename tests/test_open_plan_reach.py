"""How far off plans for many sizes are checked, and what products of many sizes hold."""

from __future__ import annotations

import ctypes
import gc
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from adjoint.engine.backends.triton.program.filling import ProgramForm
from adjoint.engine.backends.triton.program.open_plans import FARTHEST, KINDS, farthest
from adjoint.engine.backends.triton.runtime import cublaslt
from adjoint.engine.backends.triton.templates.product import MatrixProduct


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_is_checked_as_far_off_as_it_holds(seed: int) -> None:
    """Against a walk through all sizes: of a kind, up to a limit, one a multiple of another."""
    rng = Random(seed)
    n, times, kind = rng.randint(3, 300), rng.randint(1, 70), rng.choice((1, 2, 3, 4, 8, KINDS))
    is_up = rng.random() < 0.5
    far = rng.randint(n, 10 * n) if is_up else rng.randint(1, n)
    fixed = rng.randint(2, 9)

    def allowed(sizes: tuple[int, ...]) -> bool:
        m, more, same = sizes
        within = m <= far if is_up else m >= far
        return within and m % kind == n % kind and more == times * m and same == fixed

    past = n - 1 if is_up else n + 1  # where it was right before
    before = past, times * past, fixed
    found = farthest((n, times * n, fixed), before, before, allowed)
    steps = range(n, FARTHEST * n + 1) if is_up else range(n, max(1, n // FARTHEST - 1), -1)
    wanted = [(m, times * m, fixed) for m in steps if allowed((m, times * m, fixed))]
    assert found == wanted[-1]


class Library:
    """Counts what cuBLASLt would hold."""

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.made = 0

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> int:
            if name.endswith("Create"):
                self.made += 1
                given[0]._obj.value = self.made
                self.held.add(self.made)
            elif name.endswith("Destroy"):
                self.held.remove(given[0].value)
            elif name.endswith("GetHeuristic"):
                given[-1]._obj.value = 1
            return 0

        return call


@pytest.mark.parametrize("biased", [False, True])
def test_plans_of_products_go_with_whoever_runs_them(
    biased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library()
    monkeypatch.setattr(cublaslt, "library", lambda: library)
    for cached in (cublaslt.described_once, cublaslt.preference):
        cached.cache_clear()
    products = cublaslt.CublasProducts(0)
    monkeypatch.setattr(products, "ready", lambda: ctypes.c_void_p(1))

    def product(m: int) -> MatrixProduct:
        sizes = (m, 8, 6, (False, True), (6, 6, 8))
        return MatrixProduct("float32", "float32", *sizes, biased=biased)

    kept = products.plan(product(3))
    assert products.plan(product(3)) is kept
    held = set(library.held)
    for m in range(4, 30):
        assert products.plan(product(m)).product.m == m
    gc.collect()
    assert library.held == held
    assert len(products.plans) == 1
    del kept
    gc.collect()
    assert not products.plans
    for cached in (cublaslt.described_once, cublaslt.preference):
        cached.cache_clear()


def test_a_first_program_that_native_code_no_longer_launches_is_not_copied() -> None:
    """It may be made anew for other products, after the form was."""
    form: Any = object.__new__(ProgramForm)
    form.draft, form.first = None, SimpleNamespace(joined=None, tf32=cublaslt.uses_tf32())
    assert form.program(()) is None
