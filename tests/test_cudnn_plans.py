"""What calls of cuDNN's plans are given, by frontends of several ages: no GPU is needed."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from itertools import permutations
from threading import Lock
from types import SimpleNamespace
from typing import Any

import pytest

from adjoint.engine.backends.array.libraries import cudnn
from adjoint.engine.backends.array.libraries.cudnn import Cudnn, CudnnOperation, Planned

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


class Frontend:
    """A module whose graphs have two plans; it tells what was asked of it."""

    cudnnGraphNotSupportedError = Refused
    __version__ = "1.0"
    heur_mode = SimpleNamespace(A=0, FALLBACK=1)
    data_type = SimpleNamespace(FLOAT=0, DOUBLE=1)
    numerical_note = SimpleNamespace()

    def __init__(self, is_written: bool = True) -> None:
        self.asked: list[str] = []
        self.is_written = is_written

    def backend_version(self) -> int:
        return 9

    def create_handle(self) -> Any:
        return SimpleNamespace(backend_handle=HANDLE)

    def set_stream(self, handle: Any, stream: int) -> None: ...

    def pygraph(self, **how: Any) -> Any:
        return Graph(self)


class Graph:
    def __init__(self, module: Frontend) -> None:
        self.module, self.at = module, 0
        self._plans = [SimpleNamespace(cpp_index=k) for k in range(2)]
        self._lowered_graph = Quick([7, 5])

    def validate(self) -> None: ...
    def build_operation_graph(self) -> None: ...

    def create_execution_plans(self, modes: Any) -> None:
        self.module.asked.append("plans")

    def get_execution_plan_count(self) -> int:
        return 2

    def build_plan_at_index(self, at: int) -> None:
        if at == 0:
            raise Refused
        self.at = at

    def get_workspace_size_plan_at_index(self, at: int) -> int:
        return 100 + at

    def get_workspace_size(self) -> int:
        return 100 + self.at

    def serialize(self) -> bytes:
        if not self.module.is_written:
            raise RuntimeError("not this one")
        return bytes([self.at, 10, 13])  # with the end of a line in it

    def deserialize(self, handle: Any, whole: list[int]) -> None:
        self.module.asked.append("load")
        self.at = whole[0]


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("is_written", [False, True])
def test_plans_are_loaded_where_they_are_kept(
    monkeypatch: pytest.MonkeyPatch, kept: bool, is_written: bool
) -> None:
    disk: dict[str, bytes] = {}
    store = SimpleNamespace(get=disk.get, put=disk.__setitem__)
    module = Frontend(is_written)
    properties = SimpleNamespace(getDeviceProperties=lambda index: {"name": "a GPU"})
    cuda = SimpleNamespace(
        runtime=properties, Device=lambda index: nullcontext(),
        get_current_stream=lambda: SimpleNamespace(ptr=0),
    )  # fmt: skip
    monkeypatch.setattr(cudnn, "cupy", lambda: SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(cudnn, "frontend", lambda: module)
    monkeypatch.setattr(cudnn, "brought", lambda name: store)
    monkeypatch.setattr(cudnn, "SLOW", 1e9)
    ports = [SimpleNamespace(get_uid=lambda uid=uid: uid) for uid in (7, 5)]
    operation = CudnnOperation("key", lambda module, graph: ports, (1, 1), kept=kept)
    plans = [Cudnn(0).planned(operation, False) for _ in range(2)]  # as in two processes
    assert module.asked == (["plans", "load"] if kept and is_written else ["plans", "plans"])
    assert bool(disk) == (kept and is_written)
    for plan in plans:
        assert plan is not None
        assert (plan.uids, plan.workspace) == ([7, 5], 101)
        plan((1, 2), 3)
    first, again = (plan.graph._lowered_graph.given for plan in plans if plan is not None)
    assert first == [({7: 1, 5: 2}, 3, 1, HANDLE)]
    assert again == [({7: 1, 5: 2}, 3, 0 if kept and is_written else 1, HANDLE)]
    other = CudnnOperation("key", lambda module, graph: ports, (1, 1), engines=("x",), kept=kept)
    assert Cudnn(0).key(other, "") != Cudnn(0).key(operation, "")


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
