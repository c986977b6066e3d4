"""Memory of the CPU's tensors is counted, and refused beyond a limit."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import adjoint as ad

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def no_limit() -> Iterator[None]:
    """None in the end; and what others left is freed before, not while we count."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    ad.cpu.set_memory_limit(None)


def test_what_tensors_take_is_counted() -> None:
    before = ad.cpu.memory_allocated()
    ad.cpu.reset_peak_memory_stats()
    x = ad.ones(MEGABYTE // 4)
    one = ad.cpu.memory_allocated() - before
    assert MEGABYTE <= one < MEGABYTE + 8192
    y = (x + 1) * 2
    assert ad.cpu.memory_allocated() - before >= 2 * MEGABYTE
    assert ad.cpu.max_memory_allocated() - before >= 3 * MEGABYTE
    view = y[::2]
    assert ad.cpu.memory_allocated() - before < 2 * MEGABYTE + 16384
    del x, y, view
    assert ad.cpu.memory_allocated() - before < MEGABYTE
    stats = ad.cpu.memory_stats()
    assert stats["allocation.all.allocated"] >= 3
    assert stats["allocated_bytes.all.peak"] >= 3 * MEGABYTE


def test_arrays_that_grow_and_zeros_are_counted() -> None:
    before = ad.cpu.memory_allocated()
    zeros = np.zeros(MEGABYTE, np.uint8)
    grown = np.empty(16, np.uint8)
    grown.resize(2 * MEGABYTE, refcheck=False)
    assert 3 * MEGABYTE <= ad.cpu.memory_allocated() - before < 3 * MEGABYTE + 16384
    grown.resize(16, refcheck=False)
    del zeros
    assert ad.cpu.memory_allocated() - before < MEGABYTE


def test_beyond_the_limit_is_refused_in_words() -> None:
    held = ad.ones(MEGABYTE)
    ad.cpu.set_memory_limit(ad.cpu.memory_allocated() + 2 * MEGABYTE)
    refused = ad.cpu.memory_stats()["num_ooms"]
    with pytest.raises(ad.OutOfMemoryError) as error:
        ad.ones(MEGABYTE)
    said = str(error.value)
    for part in ("full", "(1048576,)", "The limit for arrays of the CPU", "float32[1048576]"):
        assert part in said
    for make in (lambda: held + 1, lambda: held.clone(), lambda: held.exp(), held.softmax):
        with pytest.raises(ad.OutOfMemoryError):
            make(0) if make == held.softmax else make()
    with pytest.raises(ad.OutOfMemoryError, match="needs .* for temporary values|Unable"):
        ad.compile(lambda x: x.sort()[0].cumsum(0).flip(0))(held)
    assert ad.cpu.memory_stats()["num_ooms"] > refused
    assert ad.ones(1000).sum().item() == 1000  # what fits goes on
    ad.cpu.set_memory_limit(None)
    assert (held + 1).sum().item() == 2 * MEGABYTE
    assert ad.cpu.get_memory_limit() is None


@pytest.mark.parametrize("bad", [0, 1 << 63, -1, 1.5, "1G", True])
def test_limits_are_numbers_of_bytes(bad: object) -> None:
    with pytest.raises(ValueError, match="set_memory_limit: expected a number of bytes"):
        ad.cpu.set_memory_limit(bad)  # type: ignore[arg-type]


def test_arrays_outlive_what_counts_them() -> None:
    """At the end of a process arrays are freed last, and by the handler that made them."""
    program = (
        "import builtins, adjoint as ad; ad.cpu.memory_allocated(); "
        "builtins.kept = ad.ones(100000); builtins.more = [ad.ones(9) for _ in range(99)]"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
