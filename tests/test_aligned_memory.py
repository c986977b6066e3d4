"""Memory that begins where lines of the cache do: of results, beside NumPy's other uses of it."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy._core import multiarray

import adjoint as ad
from adjoint.engine.backends.llvm.ir.machine import this_machine
from adjoint.engine.backends.llvm.runtime import aligned_memory

WIDE = this_machine().bits > 128 and sys.platform.startswith("linux")


@pytest.fixture
def aligned() -> None:
    """A program has run, and nothing counts memory."""
    (ad.ones(4096) + 1).exp()
    if not WIDE or multiarray.get_handler_name() != aligned_memory.NAME.decode():
        pytest.skip("memory comes from elsewhere here")


@pytest.mark.usefixtures("aligned")
def test_results_begin_at_lines() -> None:
    for count in (2048, 2049, 12345, 1 << 20, (1 << 20) + 3):
        results = [ad.compile(lambda x: x * 2)(ad.ones(count)) for _ in range(2)]
        results += [ad.ones(count) + k for k in range(3)]
        assert all(x.data_ptr() % aligned_memory.LINE == 0 for x in results), count


@pytest.mark.usefixtures("aligned")
def test_arrays_grow_shrink_and_are_zeros() -> None:
    rng = np.random.default_rng(0)
    for before, after in ((10, 100_000), (100_000, 10), (3000, 3_000_000), (2_000_000, 5000)):
        x = np.empty(before)
        x[:] = rng.standard_normal(before)
        want = x.copy()
        x.resize(after, refcheck=False)
        kept = min(before, after)
        assert (x[:kept] == want[:kept]).all()
        assert not x[kept:].any()
    assert not np.zeros(1_000_000).any()
    assert np.empty(0).size == 0


def test_another_handler_stays() -> None:
    ad.cpu.memory_allocated()
    assert not aligned_memory.align_arrays()
    assert multiarray.get_handler_name() == "adjoint_counting"
    assert (ad.ones(100_000) + 1).sum().item() == 200_000
