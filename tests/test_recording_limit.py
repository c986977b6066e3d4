"""Recordings of a compiled function are bounded, and what is dropped is let go of."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.runtime import library


@pytest.fixture
def limit() -> Iterator[int]:
    """A small limit for a while."""
    ad.compiler.set_recording_limit(4)
    yield 4
    ad.compiler.set_recording_limit(64)


def programs(f: Any) -> list[Any]:
    return [p for held in f.programs.values() for p in held]


@pytest.mark.filterwarnings("ignore:compile. .* was recorded")
def test_the_one_not_used_for_longest_goes(limit: int) -> None:
    f = ad.compile(lambda x: x * 2 + 1, dynamic=False)
    f(ad.ones(1))
    for n in range(2, 12):
        f(ad.ones(n))
        f(ad.ones(1))  # by the quick way, which must count as use
        assert len(programs(f)) <= limit
    assert f.traces == 11
    f(ad.ones(11))
    f(ad.ones(10))
    assert f.traces == 11
    f(ad.ones(3))
    assert f.traces == 12


@pytest.mark.filterwarnings("ignore:compile. .* was recorded")
def test_what_is_dropped_is_let_go_of(limit: int) -> None:
    w = ad.nn.Linear(3, 2)
    f = ad.compile(lambda x: w(x).square().mean(), dynamic=False)
    seen: list[weakref.ref[Any]] = []
    for n in range(1, 13):
        f(ad.ones(n, 3)).backward()
        executable: Any = f.latest.executable
        seen += [weakref.ref(executable), weakref.ref(executable.arena)]
    del executable
    gc.collect()
    assert sum(ref() is not None for ref in seen) <= 2 * limit
    assert len(f.retraces.reason_of) <= limit


@pytest.mark.filterwarnings("ignore:compile. .* was recorded")
def test_kernels_that_no_program_calls_are_unloaded(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_latest", deque(maxlen=2))
    f = ad.compile(lambda x, n: (x.clamp(max=n * 1.0) + n).sin())  # numbers in the kernels
    before = len(library._loaded)
    for n in range(2, 22):
        f(ad.ones(5), n)
    gc.collect()
    assert len(library._loaded) - before <= limit + 2
    for n in range(2, 22):  # loaded again
        ad.testing.assert_close(f(ad.ones(5), n), (ad.ones(5).clamp(max=n * 1.0) + n).sin())


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.filterwarnings("ignore:compile. .* was recorded")
def test_memory_of_many_shapes_stays(limit: int) -> None:
    def resident() -> float:
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096 / 2**20

    f = ad.compile(lambda x: (x * 2 + 1).sin().sum(), dynamic=False)
    for n in range(1, 101):
        f(ad.ones(n, 7))
    before = resident()
    for n in range(101, 601):
        f(ad.ones(n, 7))
    assert resident() - before < 8


@pytest.mark.parametrize("count", [0, -1, 2.5, True, None])
def test_a_limit_that_is_none_is_refused(count: Any) -> None:
    with pytest.raises(ValueError, match="set_recording_limit"):
        ad.compiler.set_recording_limit(count)


class Cache:
    """Keys of a decoder, longer after each step."""

    def __init__(self) -> None:
        self.keys = ad.zeros(1, 2)
        self.steps = 0


def grow(cache: Cache, x: Any) -> Any:
    cache.keys = ad.cat([cache.keys, x])
    cache.steps += 1
    return cache.keys.sum() + cache.steps


@pytest.mark.filterwarnings("ignore:compile. .* was recorded")
def test_places_of_objects_that_came_and_went_are_let_go_of(limit: int) -> None:
    f = ad.compile(grow)
    seen: list[weakref.ref[Any]] = []
    lasting = Cache()
    for count in range(1, 15):
        cache = Cache()
        seen.append(weakref.ref(cache))
        for step in range(1, 3):
            assert float(f(cache, ad.ones(1, 2))) == 3 * step
            assert (cache.keys.shape[0], cache.steps) == (step + 1, step)
        assert float(f(lasting, ad.ones(1, 2))) == 3 * count
        assert len(f.moving) <= 2 * (limit + 2)
    del cache
    gc.collect()
    assert sum(ref() is not None for ref in seen) <= limit + 2
    assert len(f.retraces.reason_of) <= limit
    assert len(set(f.moving.values())) == len(f.moving)
