"""Counting a GPU's memory, with CuPy's pool played by a small one: no GPU is needed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from adjoint.engine.backends.array.buffers import is_alone
from adjoint.engine.backends.array.gpu import device_memory
from adjoint.engine.backends.array.gpu.device_memory import TRACKING, Pools, counts_of
from adjoint.engine.backends.array.libraries.prepared import prepared_by
from adjoint.engine.backends.array.lists.apart import UNKNOWN, owner_of
from adjoint.engine.core.errors import OutOfMemoryError
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from tests.pools_stand_in import (
    INDEX,
    TOTAL,
    UNIT,
    BaseMemory,
    DeviceArray,
    Driver,
    Event,
    MemoryPointer,
    Plan,
    Stream,
    current_device,
    made_pools,
)


@pytest.fixture(params=[False, True], ids=["by Python", "natively"])
def pools(request: pytest.FixtureRequest) -> Iterator[Pools]:
    with made_pools(request.param) as made:
        yield made


def test_blocks_and_segments_are_counted(pools: Pools) -> None:
    counts = counts_of(INDEX)
    a, b = pools.serve(1000), pools.serve(100)
    assert (counts.used.current, counts.blocks.current) == (1024 + 512, 2)
    assert counts.asked() == 1100
    del a
    assert (counts.used.current, counts.used.peak) == (512, 1536)
    assert (counts.reserved.current, counts.segments.current) == (1536, 2)
    again = pools.serve(1024)
    assert counts.segments.allocated == 2  # kept, and given out again
    counts.used.reset_peak()
    del b
    assert (counts.used.peak, counts.used.freed) == (1536, 1024 + 512)
    pools.let_go()
    assert (counts.reserved.current, counts.reserved.peak) == (1024, 1536)
    del again
    assert counts.live == {}
    assert pools.serve(0).ptr == pools.serve(0).ptr or counts.blocks.current == 0


def test_a_limit_is_one(pools: Pools) -> None:
    counts = counts_of(INDEX)
    counts.limit = 10 * UNIT
    kept = [pools.serve(UNIT) for _ in range(8)]
    with pytest.raises(OutOfMemoryError) as caught:
        pools.serve(4 * UNIT)
    text = str(caught.value)
    assert "CUDA out of memory. Tried to allocate 2.00 KiB" in text
    assert "5.00 KiB allowed" in text
    assert "4.00 KiB is in use" in text
    assert "ADJOINT_TRACK_MEMORY" in text
    assert (counts.failures, counts.used.current) == (1, 8 * UNIT)
    kept.clear()
    assert pools.serve(9 * UNIT).mem.size == 9 * UNIT  # what was kept unused is let go
    assert counts.retries > 0


def test_all_of_the_device(pools: Pools) -> None:
    most = pools.serve(TOTAL - UNIT)
    with pytest.raises(OutOfMemoryError, match="1023.50 KiB is in use"):
        pools.serve(2 * UNIT)
    assert isinstance(pools.serve(UNIT).mem, pools.block)
    del most


def test_lines_are_noted(pools: Pools) -> None:
    before = pools.serve(UNIT)
    TRACKING.start(history=3)
    kept = pools.serve(6 * UNIT)
    assert kept.mem.size == 6 * UNIT
    where = [place for _, _, place in counts_of(INDEX).live.values()]
    assert where[0] is None
    assert where[1] is not None
    assert where[1].file == __file__
    assert "kept = pools.serve(6 * UNIT)" in "\n".join(device_memory.holders(INDEX))
    del kept, before
    actions = [each.action for each in TRACKING.history or ()]
    assert actions == ["alloc", "free_completed", "free_completed"]


def test_blocks_wait_for_other_streams(pools: Pools) -> None:
    stream = SimpleNamespace(ptr=5)
    given = pools.serve(UNIT)
    address = given.ptr
    pools.used_by(SimpleNamespace(data=given), stream)
    pools.used_by(SimpleNamespace(data=given), stream)
    del given
    gc.collect()
    assert len(pools.others.waiting) == 1
    assert pools.serve(UNIT).ptr != address  # the stream is not done with it
    Event.passed.append(stream)
    both = [pools.serve(UNIT) for _ in range(2)]
    assert address in {p.ptr for p in both}
    assert not pools.others.waiting
    other = SimpleNamespace(data=SimpleNamespace(mem=BaseMemory()))  # another library's
    pools.used_by(other, stream)


def test_marks_are_made_when_a_capture_is_over(
    pools: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = SimpleNamespace(ptr=5)
    given = pools.serve(UNIT)
    pools.used_by(SimpleNamespace(data=given), stream)
    pools.used_by(SimpleNamespace(data=given), SimpleNamespace(ptr=6), device=INDEX + 1)
    monkeypatch.setattr(STREAM_CAPTURE, "graph", object())
    address = given.ptr
    del given
    Event.passed.append(stream)
    assert pools.serve(UNIT).ptr != address
    assert [mark for mark, *_ in pools.others.waiting] == [None, None]
    monkeypatch.setattr(STREAM_CAPTURE, "graph", None)
    assert pools.serve(UNIT).ptr != address  # one of the two is not done
    ((mark, _, _),) = pools.others.waiting
    assert (mark.device, current_device()) == (INDEX + 1, INDEX)
    Event.passed.append(mark.stream)
    assert address in {each.ptr for each in [pools.serve(UNIT) for _ in range(3)]}


def test_what_is_written_again_waits_for_other_streams(pools: Pools) -> None:
    arrays = [SimpleNamespace(data=pools.serve(UNIT)) for _ in range(2)]
    others = SimpleNamespace(ptr=5), SimpleNamespace(ptr=6)
    for stream in others:
        pools.used_by(arrays[0], stream)
    Stream.waited = []
    pools.written_by([*arrays, None], INDEX)
    assert [event.stream for event in Stream.waited] == [*others]
    pools.written_by(arrays, INDEX)  # once
    assert len(Stream.waited) == 2
    ((_, mine),) = pools.others.uses[arrays[0].data.ptr]
    assert mine.ptr == Stream.ptr  # it was made on yet another, maybe


def test_threads_let_go_of_what_was_looked_at(pools: Pools) -> None:
    """Neither takes the next one for the one that it found done."""

    class Mark:
        def __init__(self, ready: bool) -> None:
            self.ready = ready

        @property
        def done(self) -> bool:
            if self.ready and pools.others.waiting:  # another thread is as far
                pools.others.waiting.popleft()
            return self.ready

    use = INDEX, None
    pools.others.waiting += [(Mark(True), "first", use), (Mark(False), "next", use)]
    pools.others.release()
    assert [memory for _, memory, _ in pools.others.waiting] == ["next"]


def taken() -> tuple[int, int]:
    counts = counts_of(INDEX)
    return counts.segments.allocated, counts.reserved.current // UNIT


def test_pieces_are_kept_by_stream_and_size(pools: Pools) -> None:
    first = pools.serve(700).ptr
    assert pools.serve(1024).ptr == first  # of as many units
    Stream.ptr = 5
    assert pools.serve(1024).ptr == first  # it went back to the pool, which needed memory
    assert taken() == (1, 2)
    others = [pools.serve(UNIT) for _ in range(3)]
    assert taken() == (4, 5)
    held = others[0].ptr
    del others
    pools.serve(3 * UNIT)  # of which there is none: all is the pool's again
    assert not any(map(len, list(pools.kept.values())[:-1]))
    pools.let_go()
    assert taken()[1] == 0
    assert pools.serve(UNIT).ptr != held


def test_pieces_that_went_back_a_short_while_ago_may_stay(
    pools: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step whose sizes do not fit into one another's places takes what it lacks, once."""
    monkeypatch.setattr(device_memory, "SPARE", 64 * UNIT)
    back: list[int] = []
    counts, give_back = counts_of(INDEX), pools.give_back

    def noted() -> None:
        back.append(0)
        give_back()

    monkeypatch.setattr(pools, "give_back", noted)

    def step() -> tuple[int, int]:
        most = pools.serve(100 * UNIT)  # what is used at a time
        del most
        for units in (5, 7, 9):
            pools.serve(units * UNIT)
        return len(back), counts.reserved.current // UNIT

    before = [step() for _ in range(3)]
    assert before == [(1, 121)] * 3  # of the first, and then it has grown
    held = pools.serve(4 * UNIT)
    assert (len(back), counts.reserved.current // UNIT) == (1, 125)
    pools.serve(6 * UNIT)  # more than a quarter more than was ever used
    assert (len(back), counts.reserved.current // UNIT) == (2, 131)
    del held

    counts.used.peak = TOTAL
    counts.blocks.allocated += device_memory.RECENT + 1  # it was long ago
    step()
    pools.serve(11 * UNIT)
    assert len(back) == 3
    counts.limit = counts.reserved.current + 12 * UNIT
    pools.serve(UNIT)
    pools.serve(12 * UNIT)
    assert len(back) == 4
    counts.limit = 0
    left = TOTAL - Driver.taken
    pools.serve(UNIT)
    pools.serve(left - 63 * UNIT)
    assert len(back) == 5


def test_memory_of_other_pools_and_of_every_threads_stream_is_not_kept(pools: Pools) -> None:
    apart = pools.fresh()
    serve = pools.serving(apart)
    serve(UNIT)
    Stream.ptr = device_memory.PER_THREAD
    pools.serve(UNIT)
    assert not any(pools.kept.values())
    assert (len(apart.free), len(pools.default.free)) == (1, 1)


def test_arrays_are_made_of_what_is_kept(pools: Pools) -> None:
    dtype = np.dtype(np.float32)
    make = pools.maker(INDEX, (4, 8), dtype, (4, 16))
    counts = counts_of(INDEX)
    first = make(0)
    assert (first.shape, first.strides, first.data.mem.size) == ((4, 8), (4, 16), UNIT)
    at = first.data.ptr
    del first
    again, other = make(0), make(0)
    assert again.data.ptr == at != other.data.ptr
    assert (type(again), counts.blocks.current, counts.asked()) == (pools.cupy.ndarray, 2, 256)
    del again
    pools.cupy.cuda.set_allocator(pools.serving(pools.fresh()))  # as for graphs
    assert make(0).data.ptr != at
    assert pools.maker(INDEX, (0, 8), dtype)(0).size == 0


@pytest.mark.parametrize("seed", range(3))
def test_no_piece_is_two_blocks_and_nothing_more_is_taken(pools: Pools, seed: int) -> None:
    rng = np.random.default_rng(seed)
    held: list[Any] = []
    counts, most, steps = counts_of(INDEX), 0, 300
    for _ in range(steps):
        Stream.ptr = int(rng.integers(2))
        if held and rng.random() < 0.5:
            held.pop(int(rng.integers(len(held))))
        elif rng.random() < 0.05:
            pools.let_go()
        else:
            held.append(pools.serve(int(rng.integers(1, 4 * UNIT))))
            if rng.random() < 0.1:
                pools.used_by(SimpleNamespace(data=held[-1]), SimpleNamespace(ptr=9))
        spans = sorted((p.ptr, p.ptr + p.mem.size) for p in held)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        much = sum(p.mem.size for p in held)
        most = max(most, much)
        assert (counts.used.current, counts.used.peak) == (much, most)
        assert counts.blocks.current == len(held) == len(counts.live)


@pytest.mark.parametrize("last", [False, True])
def test_prepared_convolutions_take_kept_memory_on_the_current_stream(
    pools: Pools, last: bool
) -> None:
    called: list[Any] = []

    def plan(addresses: Any, workspace: int, stream: int) -> None:
        called.append((addresses, workspace, stream))

    planned = Plan(plan, 700)
    dtype, shape = np.dtype(np.float32), (2, 3, 4, 5)
    x, y = (DeviceArray(shape, dtype) for _ in range(2))
    x.data.device_id = INDEX
    prepared = prepared_by(planned, x, shape, last, (False, False))
    Stream.ptr = 5
    outs = [prepared(x, y) for _ in range(2)]
    usual = None, (240, 80, 20, 4)
    assert outs[0].strides in ([(240, 4, 60, 12)] if last else usual)
    assert [out.shape for out in outs] == [shape, shape]
    for (addresses, workspace, stream), out in zip(called, outs, strict=True):
        assert addresses == (x.data.ptr, y.data.ptr, out.data.ptr)
        assert (stream, workspace != 0) == (5, True)
    assert called[0][1] == called[1][1]  # the room to work in was kept
    counts = device_memory.counts_of(INDEX)
    held = counts.used.current
    counts.used.reset_peak()
    lend = pools.lender(INDEX, 700)
    lent: list[Any] = []

    def work(*told: Any) -> None:
        lent.append(told)

    lend(5, work, "told")
    assert lent[-1] == ("told", called[0][1], 5)
    assert counts.used.current == held  # it is nobody's
    assert counts.used.peak == held + 1024  # and was counted
    with pytest.raises(ValueError, match="no launch"):
        lend(5, lambda *_: int("no launch"), None)
    lend(5, work, "again")
    assert lent[-1] == ("again", called[0][1], 5)  # there as before
    assert len({out.data.ptr for out in outs}) == 2


def test_memory_of_a_pool_is_one_arrays_and_its_views(pools: Pools) -> None:
    first, second = (SimpleNamespace(data=pools.serve(UNIT)) for _ in range(2))
    view = SimpleNamespace(data=MemoryPointer(first.data.mem, 8))
    others = SimpleNamespace(data=SimpleNamespace(mem=BaseMemory()))
    assert owner_of(first) == owner_of(view) != owner_of(second)
    assert UNKNOWN not in (owner_of(first), owner_of(second))
    assert owner_of(others) == UNKNOWN


class SharedMemory:
    """What an array of CuPy's shows part of."""


class Address:
    def __init__(self, mem: SharedMemory) -> None:
        self.mem = mem


class ShownArray:
    """An array as CuPy lays its objects out: views have what they are views of, and its address."""

    def __init__(self, data: Address, base: ShownArray | None = None) -> None:
        self.data, self.base = data, base


def test_memory_is_only_taken_over_from_an_array_that_is_alone() -> None:
    def fresh() -> ShownArray:
        return ShownArray(Address(SharedMemory()))

    alone = fresh()
    assert is_alone(alone)
    inside = fresh()
    view = ShownArray(inside.data, inside)
    assert not is_alone(inside)  # somebody shows it otherwise
    assert not is_alone(view)
    del inside
    assert is_alone(view)
    mine = fresh()
    pointer = mine.data  # somebody could make an array of it
    assert not is_alone(mine)
    del pointer
    memory = mine.data.mem
    assert not is_alone(mine)
    del memory
    assert is_alone(mine)
    elsewhere = ShownArray(Address(mine.data.mem))
    assert not is_alone(mine)
    assert not is_alone(elsewhere)
