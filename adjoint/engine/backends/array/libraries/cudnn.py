"""cuDNN through its frontend: an operation is a graph, and a plan among those that can run it.

Note [plans]
    The library proposes plans, best first by its own rules. Where it pays (a compiled program, or
    `backends.cudnn.benchmark`), the first few are timed on the device, and the name of the fastest
    is kept on disk; otherwise the first that can be built is taken. An operation is made once for
    a process and a device; calls of it give addresses, and run in the order of the current stream,
    also while that is captured into a CUDA graph. A plan's workspace is the caller's: programs take
    it from their arena.

    Most plans are built at once; some (of depthwise convolutions, say) have the library compile a
    kernel, which takes a fifth of a second each. So what was built slowly is kept on disk as a
    whole, and once that much time is spent on an operation no further plan of it is tried. Plans of
    convolutions are kept however they were built: to have the library propose some takes fifteen
    times as long as to load one.
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Callable, Hashable, Sequence
from ctypes import addressof, c_int64
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import inf
from struct import Struct
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.loading import brought
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE

CANDIDATES = 6  # plans that are timed
TRIALS = 4  # runs that a plan is timed by
SWEEPS = 2  # over all of them: the first that runs finds clocks and caches cold
PATIENCE = 0.25  # seconds of building after which no further plan is tried
HOPELESS = 0.5  # seconds of a first run after which a plan is not run again
SLOW = 0.02  # seconds of building from which on a plan is kept
ROOM = 1 << 30  # bytes of workspace that a plan may ask for
Execute = Callable[[Sequence[int], int], None]  # given addresses, and the workspace's
DTYPES = {"float16": "HALF", "bfloat16": "BFLOAT16", "float32": "FLOAT", "float64": "DOUBLE"}


@dataclass(frozen=True, slots=True)
class CudnnOperation:
    """What is asked of cuDNN: `build` puts it into a graph and gives its tensors, in the order of
    the addresses of a call; `sizes` are the bytes of each, and `key` is all that decides it."""

    key: Hashable
    build: Callable[[Any, Any], Sequence[Any]]  # (the module, the graph) -> tensors
    sizes: tuple[int, ...]
    compute: str = "FLOAT"
    refused: tuple[str, ...] = ()  # numerical notes of plans that are not wanted
    engines: tuple[str, ...] = ()  # parts of names of plans that are not
    kept: bool = field(default=False, compare=False)  # whether plans are, built slowly or not
    options: dict[str, Any] = field(default_factory=dict, compare=False)  # of the graph


@cache
def installed() -> tuple[Any, str]:
    """The frontend's module with the library behind it; or None, and why not."""
    try:
        module = importlib.import_module("cudnn")
        module.backend_version()
    except (ImportError, OSError, RuntimeError) as error:
        return None, str(error)
    return module, ""


@cache
def frontend() -> Any:
    """The frontend's module; None where it or the library is missing, which is said once."""
    module, why = installed()
    if module is None:
        warnings.warn(
            "cuda: cuDNN or its frontend is not installed, so convolutions run by kernels of "
            f"Adjoint's own, which are slower ({why}). Install them with "
            "`pip install adjoint[cuda]`.",
            stacklevel=2,
        )
    return module


def has_gpu() -> bool:
    """Whether there is a GPU, on which convolutions could run."""
    try:
        cupy()
    except RuntimeError:
        return False
    return True


def version() -> int | None:
    """cuDNN's version; None where operations cannot run through it."""
    module = installed()[0] if has_gpu() else None
    return None if module is None else int(module.backend_version())


for _name in ("enabled", "benchmark", "deterministic", "allow_tf32", "fp32_precision"):
    # Without a GPU there is nothing to set, as in PyTorch, and nothing to be told.
    switches.APPLY[f"backends.cudnn.{_name}"] = lambda value: not has_gpu() or version() is not None


def is_used() -> bool:
    """Whether cuDNN is there and not switched off."""
    return bool(switches.get("backends.cudnn.enabled")) and frontend() is not None


@cache
def cudnn_of(index: int) -> Cudnn:
    """cuDNN on a GPU, by its number; ask `is_used` first."""
    return Cudnn(index)


class Cudnn:
    """cuDNN on one GPU: a handle, and the operations that were made."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.module = frontend()
        self.store = brought("adjoint.engine.backends.disk.store")  # where there is a GPU
        self.plans: dict[tuple[Hashable, bool], Planned | None] = {}
        self.lock = Lock()  # a call sets the handle's stream first
        self.stream = -1  # the handle's
        self.current = cupy().cuda.get_current_stream
        with cupy().cuda.Device(index):
            self.handle = self.module.create_handle()

    def planned(self, operation: CudnnOperation, timed: bool) -> Planned | None:
        """An operation with its plan (Note [plans]); None if cuDNN has none for it."""
        key = operation.key, timed
        if key not in self.plans:
            with cupy().cuda.Device(self.index):
                self.plans[key] = self.make(operation, timed)
        return self.plans[key]

    def make(self, operation: CudnnOperation, timed: bool) -> Planned | None:
        """A graph of the operation, and the choice of a plan."""
        key = self.key(operation, f"plan, timed {timed}")
        plan = self.loaded(key)
        if plan is not None:
            return plan
        module = self.module
        graph = module.pygraph(
            intermediate_data_type=module.data_type.FLOAT,
            compute_data_type=getattr(module.data_type, operation.compute),
            handle=self.handle,
            **operation.options,
        )
        try:
            ports = operation.build(module, graph)
            graph.validate()
            graph.build_operation_graph()
            graph.create_execution_plans([module.heur_mode.A, module.heur_mode.FALLBACK])
            notes = [getattr(module.numerical_note, name) for name in operation.refused]
            if notes:
                graph.deselect_numeric_notes(notes)
            if operation.engines:
                graph.deselect_engines(list(operation.engines))
        except (module.cudnnGraphNotSupportedError, RuntimeError, ValueError):
            return None
        candidates = Candidates(self, graph, [port.get_uid() for port in ports], operation)
        chosen = candidates.fastest() if timed else candidates.first()
        if chosen is not None and (operation.kept or candidates.slowest >= SLOW):
            self.keep(key, graph, chosen)
        return None if chosen is None else chosen.plan

    def key(self, operation: CudnnOperation, what: str) -> str:
        """What is kept of an operation is kept by."""
        wanted = operation.key, operation.refused, operation.engines
        return key_of("cudnn", what, repr((*self.where, wanted)))

    @cached_property
    def where(self) -> tuple[Any, str]:
        """The library's versions, and the GPU."""
        name = str(cupy().cuda.runtime.getDeviceProperties(self.index)["name"])
        return (self.module.backend_version(), self.module.__version__), name

    def keep(self, key: str, graph: Any, chosen: ChosenPlan) -> None:
        """Keep a plan with what it was built to."""
        errors = AttributeError, IndexError, RuntimeError, TypeError, ValueError
        try:
            if graph._lowered_graph is None or graph._plans[chosen.place].cpp_index is None:
                return  # an engine that the frontend wrote in Python
            graph.build_plan_at_index(chosen.place)  # which has it be the one that is written
            whole = bytes(graph.serialize())
        except (self.module.cudnnGraphNotSupportedError, *errors):
            return  # not every plan can be
        self.store.put(key, json.dumps(chosen.plan.uids).encode() + b"\n" + whole)

    def loaded(self, key: str) -> Planned | None:
        """A plan that was kept; None if there is none, or it is of no use here."""
        if STREAM_CAPTURE.graph is not None:  # a plan is tried when it is loaded
            return None
        stored = self.store.get(key)
        if stored is None:
            return None
        uids, whole = stored.split(b"\n", 1)
        graph = self.module.pygraph(handle=self.handle)
        try:
            with self.lock:  # it is tried on the handle's stream, which may be gone by now
                self.stream = -1
                self.module.set_stream(self.handle, 0)
                graph.deserialize(self.handle, list(whole))
            room = int(graph.get_workspace_size())
            numbers = json.loads(uids)
            execute = self.execution(graph._lowered_graph, 0, numbers)
        except (self.module.cudnnGraphNotSupportedError, AttributeError, RuntimeError, ValueError):
            return None
        return Planned(self, graph, numbers, execute, room)

    def executor(self, graph: Any, index: int, uids: list[int]) -> Execute:
        """What runs a graph's plan, given addresses, in the order of its tensors' `uids`.

        The frontend's own method looks at all plans and operands again, which takes longer than the
        launch; what it calls in the end is taken where it is found.
        """
        try:
            at = graph._plans[index].cpp_index
            if at is not None:
                return self.execution(graph._lowered_graph, at, uids)
        except (AttributeError, IndexError, TypeError):
            pass
        graph.build_plan_at_index(index)

        def execute(addresses: Sequence[int], workspace: int) -> None:
            given = dict(zip(uids, addresses, strict=True))
            graph.execute(given, workspace, handle=self.handle)

        return execute

    def execution(self, lowered: Any, at: int, uids: list[int]) -> Execute:
        """What runs a plan of the frontend's compiled graph, by its place there.

        It takes a table of addresses by uid, of which it makes an array in the order of uids;
        newer ones take the array. A caller holds the lock: there is one array for all calls.
        """
        by_uid, handle = lowered._execute_plan_at_index, self.handle.backend_handle
        try:
            lowered._prepare_variant_pack_template()
            order = list(lowered._get_variant_pack_uids_sorted())
            run = lowered._execute_with_raw_ptrs
        except (self.module.cudnnGraphNotSupportedError, AttributeError, RuntimeError, ValueError):
            order = []
        if order != sorted(uids):  # it wants others besides, or is an older one

            def execute(addresses: Sequence[int], workspace: int) -> None:
                by_uid(dict(zip(uids, addresses, strict=True)), workspace, at, handle)

            return execute
        count, words = len(uids), (c_int64 * len(uids))()
        begin, put = addressof(words), Struct(f"{len(uids)}q").pack_into
        places = None if order == uids else [uids.index(uid) for uid in order]

        def execute_quickly(addresses: Sequence[int], workspace: int) -> None:
            if len(addresses) != count:
                raise ValueError(f"cuDNN: {len(addresses)} addresses for {count} tensors")
            if places is not None:
                addresses = [addresses[place] for place in places]
            put(words, 0, *addresses)
            run(begin, count, workspace, handle, at)

        return execute_quickly


class Candidates:
    """The plans that a graph has."""

    def __init__(
        self, owner: Cudnn, graph: Any, uids: list[int], operation: CudnnOperation
    ) -> None:
        self.owner, self.graph, self.uids, self.operation = owner, graph, uids, operation
        self.count = int(graph.get_execution_plan_count())
        self.spent = self.slowest = 0.0  # seconds of building, in all and of one plan

    def built(self, index: int) -> ChosenPlan | None:
        """A plan that can run; None if it cannot, is not wanted, or asks for too much memory."""
        owner, begun = self.owner, perf_counter()
        try:
            self.graph.build_plan_at_index(index)
            room = int(self.graph.get_workspace_size_plan_at_index(index))
        except (owner.module.cudnnGraphNotSupportedError, RuntimeError, ValueError):
            return None
        finally:
            taken = perf_counter() - begun
            self.spent, self.slowest = self.spent + taken, max(self.slowest, taken)
        if room > ROOM:
            return None
        execute = owner.executor(self.graph, index, self.uids)
        return ChosenPlan(index, Planned(owner, self.graph, self.uids, execute, room))

    def first(self) -> ChosenPlan | None:
        """The first that can run."""
        every = (self.built(index) for index in range(self.count))
        return next((chosen for chosen in every if chosen is not None), None)

    def fastest(self) -> ChosenPlan | None:
        """The fastest of the first few; the one that was, where that is known."""
        key = self.owner.key(self.operation, "name")
        store = self.owner.store
        stored = store.get(key)
        if stored is not None:
            wanted = stored.decode()
            names = map(self.name, range(self.count))
            at = next((i for i, name in enumerate(names) if name == wanted), None)
            known = None if at is None else self.built(at)
            if known is not None:
                return known
        ready: list[ChosenPlan] = []
        for index in range(self.count):
            chosen = self.built(index)
            if chosen is not None:
                ready.append(chosen)
            if len(ready) == CANDIDATES or (ready and self.spent > PATIENCE):
                break
        if len(ready) > 1:
            best = self.quickest([chosen.plan for chosen in ready])
            store.put(key, self.name(ready[best].place).encode())
            return ready[best]
        return ready[0] if ready else None

    def quickest(self, plans: list[Planned]) -> int:
        """Which of some takes least time."""
        timed = self.timed()
        taken = [timed(plan) for plan in plans]
        for _ in range(SWEEPS - 1):
            again = (inf if t == inf else timed(p) for t, p in zip(taken, plans, strict=True))
            taken = list(map(min, taken, again))
        return taken.index(min(taken))

    def name(self, index: int) -> str:
        """What cuDNN calls a plan: its engine and the engine's settings."""
        return str(self.graph.get_plan_name_at_index(index))

    def timed(self) -> Callable[[Planned], float]:
        """Milliseconds of a plan, on memory of its own."""
        module = cupy().cuda
        arrays = [cupy().zeros(max(size, 1), np.uint8) for size in self.operation.sizes]
        addresses = [int(array.data.ptr) for array in arrays]

        def run(plan: Planned) -> float:
            room = cupy().empty(max(plan.workspace, 1), np.uint8)
            begin, end = module.Event(), module.Event()
            begun = perf_counter()
            try:
                plan(addresses, int(room.data.ptr))
                module.get_current_stream().synchronize()
                if perf_counter() - begun > HOPELESS:
                    return inf
                begin.record()
                for _ in range(TRIALS):
                    plan(addresses, int(room.data.ptr))
                end.record()
                end.synchronize()
            except RuntimeError:  # one that its builder took for possible
                return inf
            return float(module.get_elapsed_time(begin, end))

        return run


class Planned:
    """An operation that can run: called with addresses, in the order of its tensors.

    It runs in the order of a stream, CuPy's current one unless told.
    """

    def __init__(
        self, owner: Cudnn, graph: Any, uids: list[int], execute: Execute, room: int
    ) -> None:
        self.owner, self.graph, self.uids, self.execute = owner, graph, uids, execute
        self.workspace = room  # bytes

    def __call__(self, addresses: Sequence[int], workspace: int, stream: int | None = None) -> None:
        owner = self.owner
        order = int(owner.current().ptr) if stream is None else stream
        with owner.lock:
            if order != owner.stream:
                owner.module.set_stream(owner.handle, order)
                owner.stream = order
            self.execute(addresses, workspace)


class ChosenPlan(NamedTuple):
    """A plan among a graph's, and its place there."""

    place: int
    plan: Planned
