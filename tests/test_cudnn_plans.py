"""What calls of cuDNN's plans are given, by frontends of several ages: no GPU is needed."""

from __future__ import annotations

import ctypes
from itertools import permutations
from threading import Lock
from types import SimpleNamespace
from typing import Any

import pytest

from adjoint.engine.backends.array.libraries.cudnn import Cudnn, Planned

HANDLE, ROOM = 77, 4096


class Lowered:
    """A graph that notes what it was given by uid."""

    def __init__(self, uids: list[int]) -> None:
        self.uids, self.given, self.by_array = sorted(uids), [], 0  # type: ignore[var-annotated]

    def _execute_plan_at_index(self, given: Any, workspace: int, at: int, handle: int) -> None:
        self.given.append((dict(given), workspace, at, handle))


class Quick(Lowered):
    """A newer one."""

    def _prepare_variant_pack_template(self) -> None: ...

    def _get_variant_pack_uids_sorted(self) -> list[int]:
        return self.uids

    def _execute_with_raw_ptrs(
        self, begin: int, count: int, workspace: int, handle: int, at: int
    ) -> None:
        self.by_array += 1
        words = (ctypes.c_int64 * count).from_address(begin)
        given = dict(zip(self.uids, words, strict=True))
        self._execute_plan_at_index(given, workspace, at, handle)


class Wanting(Quick):
    """One with a tensor more than the caller knows."""

    def _get_variant_pack_uids_sorted(self) -> list[int]:
        return [0, *self.uids]


class Unready(Quick):
    def _prepare_variant_pack_template(self) -> None:
        raise RuntimeError("no template")


class Refused(Exception):
    pass


@pytest.mark.parametrize("kind", [Lowered, Quick, Wanting, Unready])
def test_addresses_reach_their_tensors(kind: type[Lowered]) -> None:
    owner = Cudnn.__new__(Cudnn)
    streams: list[int] = []
    owner.module = SimpleNamespace(
        cudnnGraphNotSupportedError=Refused, set_stream=lambda handle, at: streams.append(at)
    )
    owner.handle, owner.lock, owner.stream = SimpleNamespace(backend_handle=HANDLE), Lock(), -1
    for uids in permutations([12, 3, 40]):
        graph = kind([*uids])
        plan = Planned(owner, graph, [*uids], owner.execution(graph, 2, [*uids]), ROOM)
        for addresses in ((1 << 40, 2, 3), (2**47 - 1, 5, 0)):
            plan(addresses, ROOM, 9)
            assert graph.given.pop() == (dict(zip(uids, addresses, strict=True)), ROOM, 2, HANDLE)
        for wrong in ((1, 2), (1, 2, 3, 4)):
            with pytest.raises(ValueError, match="argument|addresses"):
                plan(wrong, ROOM, 9)
        assert not graph.given
        assert graph.by_array == (2 if kind is Quick else 0)
    assert streams == [9]
