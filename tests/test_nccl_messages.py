"""Messages of a process to itself by NCCL's engine, with a library that notes what is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed.communication.progress import PROGRESS
from adjoint.engine.backends.array.gpu.faults import LOST
from tests.ranks import wires
from tests.ranks.wires import Pairs


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pairs]:
    played = Pairs()
    wires.play(played, monkeypatch.setattr)
    monkeypatch.setattr(PROGRESS, "broken", None)
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield played
    dist.destroy_process_group()


def exchange(*pairs: tuple[Any, Any]) -> list[Any]:
    """Send each first tensor to this process, and receive it in the second."""
    messages = []
    for given, into in pairs:
        messages += [dist.P2POp(dist.isend, given, 0), dist.P2POp(dist.irecv, into, 0)]
    works = dist.batch_isend_irecv(messages)
    for work in works:
        work.wait()
    return works


def test_both_halves_are_queued_in_one_group(library: Pairs) -> None:
    x = ad.zeros(3)
    exchange((ad.arange(3.0), x))
    assert x.tolist() == [0.0, 1.0, 2.0]
    queued = [name for name in library.calls if name in ("GroupStart", "Send", "Recv", "GroupEnd")]
    assert queued == ["GroupStart", "Send", "Recv", "GroupEnd"]
    assert library.calls.count("CommInitRank") == 1
    exchange((ad.ones(3), x))
    assert library.calls.count("CommInitRank") == 1  # one wire for all that follows
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_order_and_handles(library: Pairs) -> None:
    into = [ad.zeros(2) for _ in range(4)]
    works = exchange(*((ad.full((2,), float(i)), x) for i, x in enumerate(into)))
    assert [x.tolist() for x in into] == [[float(i)] * 2 for i in range(4)]
    for work in works:
        work.synchronize()
        assert work.get_future().wait()
    while not all(work.is_completed() for work in works):
        pass
    assert all(work.is_success() and work.exception() is None for work in works)


def test_what_was_sent_is_what_was_there(library: Pairs) -> None:
    x, y = ad.ones(3), ad.zeros(3)
    dist.send(x, 0, tag=7)
    x += 1
    assert dist.recv(y, tag=7) == 0
    assert y.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("shape", [(0,), (), (2, 3)])
def test_shapes(library: Pairs, shape: tuple[int, ...]) -> None:
    given = ad.arange(float(max(1, ad.zeros(shape).numel())))[: ad.zeros(shape).numel()].view(shape)
    into = ad.zeros(shape)
    exchange((given, into))
    assert into.tolist() == given.tolist()
    assert ("Send" in library.calls) == (given.numel() > 0)


def test_other_shapes_and_dtypes_are_refused(library: Pairs) -> None:
    for into in (ad.zeros(4), ad.zeros(3, dtype=ad.float64)):
        dist.send(ad.zeros(3), 0)
        with pytest.raises(dist.DistBackendError, match="member 0 sent"):
            dist.recv(into, 0)
    exchange((ad.ones(3), into := ad.zeros(3)))  # what comes after is not disturbed
    assert into.tolist() == [1.0] * 3


def test_one_that_never_comes_is_named(library: Pairs) -> None:
    lost = len(LOST)
    work = dist.irecv(ad.zeros(2), 0)
    assert work is not None
    with pytest.raises(
        dist.DistBackendError, match=r"receive \(2,\) .*float32 by NCCL from rank 0"
    ):
        work.wait(0.05)
    assert len(LOST) == lost  # nothing was on the GPU that could be lost
