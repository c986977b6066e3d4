"""Arrays of kept pieces by native code, beside those of Python: the same becomes of memory."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from adjoint.engine.backends.array.gpu import device_memory
from adjoint.engine.backends.array.gpu.device_memory import TRACKING, counts_of
from tests.pools_stand_in import INDEX, TOTAL, ArrayInC, Driver, Event, Stream, made_pools

# Kinds of arrays: shape, dtype, steps.
KINDS = (
    ((100,), "f4", None), ((2, 3, 5, 7), "f8", (840, 8, 168, 24)), ((), "i4", None),
    ((40, 10), "f2", None), ((128,), "f4", None), ((3, 0), "f4", None),
)  # fmt: skip


def things_done(natively: bool, seed: int) -> list[Any]:
    """What becomes of memory while arrays are made and let go, on streams, in threads' ways."""
    rng, log, held = np.random.default_rng(seed), [], []  # type: ignore[var-annotated]
    Driver.at = 1 << 32
    with made_pools(natively) as pools:
        pools.serve(TOTAL // 4)  # so that it may grow
        makers = [pools.maker(INDEX, shape, np.dtype(kind), steps) for shape, kind, steps in KINDS]
        assert (pools.natively is not None) == natively
        counts, ours, other = counts_of(INDEX), pools.serve, pools.fresh()
        apart = pools.serving(other)
        most = counts.used.peak
        native = 0
        for _ in range(800):
            what = rng.random()
            if rng.random() < 0.1:
                Stream.ptr = int(rng.choice([0, 5, device_memory.PER_THREAD], p=[0.6, 0.3, 0.1]))
            k = int(rng.integers(len(KINDS)))
            if what < 0.45:
                array = makers[k](Stream.ptr)
                native += not gc.is_tracked(array.data)
                shape, kind, steps = KINDS[k]
                assert (array.shape, array.dtype) == (shape, np.dtype(kind))
                if natively:
                    assert array.strides == (steps or np.empty(shape, kind).strides)
                if array.size:
                    held.append((array.data.ptr, array.data.mem.size, array.nbytes, array))
                del array
            elif what < 0.85 and held:
                held.pop(int(rng.integers(len(held))))
            elif what < 0.86 and held:
                pools.used_by(held[-1][3], SimpleNamespace(ptr=9))
            elif what < 0.90:
                Event.passed = [*Event.passed, *[mark.stream for mark, *_ in pools.others.waiting]]
            elif what < 0.905:
                pools.let_go()
            elif what < 0.915:
                TRACKING.start(history=None if what < 0.91 else 50)
            elif what < 0.95:
                TRACKING.stop()
            elif what < 0.96:
                pools.cupy.cuda.set_allocator(apart)
            else:
                pools.cupy.cuda.set_allocator(ours)
            spans = sorted((at, at + size) for at, size, _, _ in held)
            assert all(end <= start for (_, end), (start, _) in pairwise(spans))
            much = sum(size for _, size, _, _ in held)
            most = max(most, much)
            assert (counts.used.current, counts.used.peak) == (much, most)
            assert counts.blocks.current == len(held) == len(counts.live)
            assert counts.asked() == sum(asked for _, _, asked, _ in held)
            log.append((
                [at for at, *_ in held], counts.blocks.peak, counts.blocks.allocated,
                counts.used.allocated, counts.reserved.current, counts.segments.allocated,
                [where is None for _, _, where in counts.live.values()],
                None if TRACKING.history is None else [e.action for e in TRACKING.history],
            ))  # fmt: skip
        held.clear()
        other.free_all_blocks()
        assert (native > 20) == natively
        assert (counts.live, counts.used.current, counts.blocks.current) == ({}, 0, 0)
    return log


@pytest.mark.parametrize("seed", range(6))
def test_native_pieces_are_as_those_of_python(seed: int) -> None:
    assert things_done(True, seed) == things_done(False, seed)


def test_threads_share_pieces() -> None:
    with made_pools(True) as pools:
        makers = [pools.maker(INDEX, (64 * n,), np.dtype(np.float64)) for n in (1, 2, 1)]
        wrong: list[Any] = []

        def work(k: int) -> None:
            held: list[Any] = []
            for n in range(600):
                held.append(makers[(k + n) % 3](0))
                if n % 7 > 3:
                    held.clear()
                places = [array.data.ptr for array in held]
                if len({*places}) != len(places):
                    wrong.append(places)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts = counts_of(INDEX)
        assert not wrong
        assert (counts.live, counts.blocks.current, counts.used.current) == ({}, 0, 0)
        assert counts.blocks.allocated == 3 * 600
        pools.let_go()
        assert counts.reserved.current == 0


@pytest.mark.parametrize("natively", [False, True])
def test_what_cannot_be_looked_into_is_made_by_python(natively: bool) -> None:
    with made_pools(natively) as pools:
        make = pools.maker(INDEX, (4,), np.dtype(np.float32))
        make(0)
        assert [make(0).shape for _ in range(3)] == [(4,)] * 3
        assert pools.tried
        assert (pools.natively is not None) == (pools.cupy.ndarray is ArrayInC) == natively


def test_native_pieces_are_hidden_from_the_collector_and_let_go_of_kinds() -> None:
    dtype = np.dtype([("own", np.float32)])
    with made_pools(True) as pools:
        make = pools.maker(INDEX, (4, 2), dtype)
        for _ in range(3):
            array = make(0)
        parts = array, array.data, array.data.mem
        assert not any(map(gc.is_tracked, parts))
        before = sys.getrefcount(dtype), sys.getrefcount(None), sys.getrefcount(make)
        for _ in range(2000):
            array = make(0)
        after = sys.getrefcount(dtype), sys.getrefcount(None), sys.getrefcount(make)
        assert all(abs(b - a) < 20 for a, b in zip(before, after, strict=True))
        seen = weakref.ref(array)
        del array, parts
        assert seen() is None


def key_for(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A basic key, some of whose dimensions are numbers, new or left out."""
    key: list[Any] = []
    for size in shape[: int(rng.integers(len(shape) + 1))]:
        what = rng.integers(4)
        low, high = sorted(int(n) for n in rng.integers(0, size + 1, 2))
        key.append(
            int(rng.integers(size)) if size and not what else slice(None) if what == 1
            else slice(low, high, int(rng.integers(1, 4)))
        )  # fmt: skip
        key += [None] * int(rng.random() < 0.2)
    return (*key, ...)


def said(x: Any) -> list[Any]:
    """All that an array says, and whose memory it is."""
    data = x.data.ptr, x.data.device_id, id(x.data.mem)
    return [x.shape, x.strides, x.dtype, x.size, x.flags, x.nbytes, *data, id(x.base)]


@pytest.mark.parametrize("seed", range(4))
def test_native_views_are_as_those_of_python(seed: int) -> None:
    rng, native = np.random.default_rng(seed), 0
    with made_pools(True) as pools:
        for _ in range(150):
            shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
            make = pools.maker(INDEX, shape, np.dtype("f4"))
            first, other = make(0), make(0)
            if rng.random() < 0.5:  # views of views
                outer = key_for(rng, shape)
                first, other = first[outer], other[outer]
            key = key_for(rng, first.shape)

            def show(x: Any, key: Any = key) -> Any:
                return x[key]

            view = pools.viewer(first, show)
            assert (view is show) == (first.size == 0)
            native += view is not show
            for source in (first, other):
                made, want = view(source), show(source)
                assert said(made) == said(want)
                assert gc.is_tracked(made) == gc.is_tracked(made.data) == (view is show)
    assert native > 50


def test_native_views_keep_what_they_show_and_no_more() -> None:
    dtype = np.dtype([("own", np.float32)])
    with made_pools(True) as pools:
        make = pools.maker(INDEX, (4, 6), dtype)
        make(0)
        array = make(0)
        view = pools.viewer(array, lambda x: x[1:3, ::2])
        holders = (dtype, None, array, array.data, array.data.mem, view)
        before = [sys.getrefcount(x) for x in holders]
        for _ in range(2000):
            part = view(array)
        assert part.shape == (2, 3)
        after = [sys.getrefcount(x) for x in holders]
        assert all(abs(b - a) < 20 for a, b in zip(before, after, strict=True))
        seen = weakref.ref(array)
        counts = counts_of(INDEX)
        del array, holders
        assert seen() is not None
        assert counts.blocks.current == 1
        del part
        assert seen() is None
        assert counts.blocks.current == 0


def test_memory_of_others_is_left_to_the_collector_and_other_classes_to_python() -> None:
    with made_pools(True) as pools:
        array = pools.template((4, 6), np.dtype("f4"), None)

        class Own(type(array)):  # type: ignore[misc]
            __slots__ = ()

        view = pools.viewer(array, lambda x: x[1])
        assert gc.is_tracked(view(array))
        assert said(view(array)) == said(array[1])
        own = Own.__new__(Own)
        own._init((4, 6), np.dtype("f4"), array.data)
        assert type(view(own)) is Own
        assert pools.viewer(array, lambda x: x).__name__ == "<lambda>"  # what gives no view
        assert pools.viewer(array, lambda x: pools.template((6,), x.dtype, None)).__name__ != "view"
