"""The CPU engine: MPI through mpi4py."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.distributed.communication.reduce_op import PremulSum, RedOpType
from adjoint.distributed.engines.base import Buffer, Request
from adjoint.distributed.engines.process_manager import ProcessManager
from adjoint.distributed.errors import DistBackendError
from adjoint.distributed.store.base import Store

REMEDY = "Install it with `pip install 'adjoint[mpi]'` (or `pip install mpi4py mpich`)."
FINALIZE_PATIENCE = 10.0  # seconds


def load() -> Any:
    """The mpi4py module, MPI not yet started; a clear error where something is missing."""
    try:
        import mpi4py
    except ImportError:
        raise DistBackendError(
            f"More than one process on CPUs needs MPI, and mpi4py is not installed. {REMEDY}"
        ) from None
    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise DistBackendError(
            f"mpi4py is installed, but found no MPI library to load ({error}). {REMEDY}"
        ) from None
    return MPI


def is_installed() -> bool:
    """Whether mpi4py is there; the MPI library itself is looked for when it is used."""
    import importlib.util

    return importlib.util.find_spec("mpi4py") is not None


def joins() -> bool:
    """Whether MPI is there and joins processes that its own mpiexec did not start: MPICH does."""
    try:
        return is_installed() and "MPICH" in str(load().Get_library_version())
    except DistBackendError:
        return False


@functools.cache
def _library() -> Any:
    """The MPI library that mpi4py is linked with."""
    return ctypes.CDLL(load().__file__)


def start(store: Store | None, rank: int, size: int) -> MPIEngine:
    """Join the world of `size` processes; with a store unless mpiexec started them."""
    MPI = load()
    if not MPI.Is_initialized():
        if store is None:
            MPI.Init_thread(MPI.THREAD_MULTIPLE)
        else:
            with ProcessManager(store, rank, size) as manager:
                _KEPT.append(manager)
                provided = ctypes.c_int()
                code = _library().MPI_Init_thread(
                    None, None, ctypes.c_int(MPI.THREAD_MULTIPLE), ctypes.byref(provided)
                )
            if code:
                raise DistBackendError(f"MPI_Init_thread failed with error {code}")
    world = MPI.COMM_WORLD
    world.Set_errhandler(MPI.ERRORS_RETURN)
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise DistBackendError("this MPI library does not support several threads")
    if (world.Get_rank(), world.Get_size()) != (rank, size):
        raise DistBackendError(
            f"MPI says this is rank {world.Get_rank()} of {world.Get_size()}, the program rank "
            f"{rank} of {size}. A library other than MPICH ({MPI.Get_library_version()[:40]!r}) "
            "joins only processes that its own mpiexec started; MPI cannot be joined twice either."
        )
    return MPIEngine(MPI)


_KEPT: list[ProcessManager] = []


class MPIEngine:
    """Processes joined by MPI."""

    name = "mpi"
    device = "cpu"

    def __init__(self, MPI: Any) -> None:
        self.MPI = MPI
        self.world = MPICommunicator(MPI, MPI.COMM_WORLD.Dup())
        forget_shared_memory()

    def close(self, *, orderly: bool) -> None:
        """Finalize MPI, at the end of the process; skipped where some process is gone."""
        if not orderly or self.MPI.Is_finalized():
            return
        ending = threading.Thread(target=_library().MPI_Finalize, daemon=True)
        ending.start()
        ending.join(FINALIZE_PATIENCE)


def forget_shared_memory() -> None:
    """Take the names off MPICH's shared memory, which all have by now: a killed job leaves none."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    for line in maps.read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if path.startswith("/dev/shm/mpich_shm_"):
            Path(path).unlink(missing_ok=True)


class MPIRequest:
    """An MPI request, and what is to be done with its result."""

    __slots__ = ("finish", "keeps", "request")

    def __init__(
        self, request: Any, finish: Callable[[], None] | None = None, keeps: Any = None
    ) -> None:
        self.request = request
        self.finish = finish
        self.keeps = keeps  # memory MPI still reads or writes

    def done(self) -> bool:
        if not self.request.Test():
            return False
        if self.finish is not None:
            self.finish()
            self.finish = None
        self.keeps = None
        return True


class MPICommunicator:
    """Some processes of the world."""

    def __init__(self, MPI: Any, comm: Any) -> None:
        self.MPI = MPI
        self.comm = comm
        self.any_source = int(MPI.ANY_SOURCE)
        self.rank = int(comm.Get_rank())
        self.size = int(comm.Get_size())

    # -- moving: elements are bytes --------------------------------------------------------------

    def _bytes(self, buffer: Buffer) -> Any:
        flat = buffer.reshape(-1).view(np.uint8) if buffer.size else np.empty(0, np.uint8)
        return [flat, self.MPI.BYTE]

    def barrier(self) -> Request:
        return MPIRequest(self.comm.Ibarrier())

    def broadcast(self, buffer: Buffer, root: int) -> Request:
        return MPIRequest(self.comm.Ibcast(self._bytes(buffer), root), keeps=buffer)

    def all_gather(self, out: Buffer, buffer: Buffer) -> Request:
        request = self.comm.Iallgather(self._bytes(buffer), self._bytes(out))
        return MPIRequest(request, keeps=(out, buffer))

    def gather(self, out: Buffer | None, buffer: Buffer, root: int) -> Request:
        into = None if out is None else self._bytes(out)
        return MPIRequest(self.comm.Igather(self._bytes(buffer), into, root), keeps=(out, buffer))

    def scatter(self, out: Buffer, buffer: Buffer | None, root: int) -> Request:
        given = None if buffer is None else self._bytes(buffer)
        return MPIRequest(self.comm.Iscatter(given, self._bytes(out), root), keeps=(out, buffer))

    def all_to_all(
        self, out: Buffer, takes: Sequence[int], buffer: Buffer, gives: Sequence[int]
    ) -> Request:
        size = buffer.dtype.itemsize
        sent = [self._bytes(buffer)[0], [n * size for n in gives], self.MPI.BYTE]
        received = [self._bytes(out)[0], [n * size for n in takes], self.MPI.BYTE]
        return MPIRequest(self.comm.Ialltoallv(sent, received), keeps=(out, buffer))

    def send(self, buffer: Buffer, peer: int, tag: int) -> Request:
        return MPIRequest(self.comm.Isend(self._bytes(buffer), peer, tag), keeps=buffer)

    def receive(self, buffer: Buffer, peer: int, tag: int) -> Request:
        return MPIRequest(self.comm.Irecv(self._bytes(buffer), peer, tag), keeps=buffer)

    # -- reducing --------------------------------------------------------------------------------

    def all_reduce(self, buffer: Buffer, op: Any) -> Request:
        if gathers(buffer.dtype, op):
            return self._gathered(buffer, buffer, op, slice(None))
        wide, operation, finish = self._prepared(buffer, buffer, op)
        request = self.comm.Iallreduce(self.MPI.IN_PLACE, self._typed(wide), operation)
        return MPIRequest(request, finish, (buffer, wide))

    def reduce(self, buffer: Buffer, op: Any, root: int) -> Request:
        if gathers(buffer.dtype, op):  # whole on every rank, and kept by one
            out = buffer if self.rank == root else np.empty_like(buffer)
            return self._gathered(out, buffer, op, slice(None))
        wide, operation, finish = self._prepared(buffer, buffer, op)
        if self.rank == root:
            request = self.comm.Ireduce(self.MPI.IN_PLACE, self._typed(wide), operation, root)
            return MPIRequest(request, finish, (buffer, wide))
        request = self.comm.Ireduce(self._typed(wide), None, operation, root)
        return MPIRequest(request, None, (buffer, wide))

    def reduce_scatter(self, out: Buffer, buffer: Buffer, op: Any) -> Request:
        if gathers(buffer.dtype, op):
            mine = slice(self.rank * out.size, (self.rank + 1) * out.size)
            return self._gathered(out, buffer, op, mine)
        wide, operation, finish = self._prepared(out, buffer, op)
        into = np.empty(out.size, wide.dtype)
        request = self.comm.Ireduce_scatter_block(self._typed(wide), self._typed(into), operation)
        return MPIRequest(request, lambda: finish(into), (out, buffer, wide, into))

    def _typed(self, array: Buffer) -> Any:
        return [array.reshape(-1), getattr(self.MPI, TYPES[array.dtype.name])]

    def _prepared(self, out: Buffer, buffer: Buffer, op: Any) -> tuple[Any, Any, Any]:
        """The array to reduce, MPI's operation, and what puts the result into `out`.

        Halves, which MPI does not know, are summed in float32 and rounded once.
        """
        wide = buffer.astype(np.float32) if is_narrow(buffer.dtype) else buffer
        if isinstance(op, PremulSum):
            wide = wide * wide.dtype.type(op.factor)
        table = LOGICAL if wide.dtype == np.bool_ else ARITHMETIC
        operation = getattr(self.MPI, table[RedOpType(op.value)])

        def finish(result: Buffer = wide) -> None:
            if op is RedOpType.AVG:
                result /= self.size
            if result is not out:
                np.copyto(out, result.reshape(out.shape), casting="unsafe")

        return wide, operation, finish

    def _gathered(self, out: Buffer, buffer: Buffer, op: Any, part: slice) -> Request:
        """A reduction MPI's own operation would get wrong: NaN is not in its order."""
        whole = np.empty((self.size, buffer.size), buffer.dtype)
        combine = np.minimum if op is RedOpType.MIN else np.maximum

        def finish() -> None:
            values = whole[:, part]
            wide = values.astype(np.float32) if is_narrow(values.dtype) else values
            np.copyto(out, combine.reduce(wide).reshape(out.shape), casting="unsafe")

        request = self.comm.Iallgather(self._bytes(buffer), self._bytes(whole))
        return MPIRequest(request, finish, (out, buffer, whole))

    # -- groups ----------------------------------------------------------------------------------

    def split(self, members: Sequence[int]) -> MPICommunicator:
        chosen = self.comm.Get_group().Incl(list(members))
        tag = hash(tuple(members)) & 0x3FFF
        return MPICommunicator(self.MPI, self.comm.Create_group(chosen, tag))

    def close(self) -> None:
        if not self.MPI.Is_finalized():
            self.comm.Free()


def is_narrow(dtype: Any) -> bool:
    """Whether a dtype is a floating-point one that MPI does not know."""
    return dtype.kind in "fV" and dtype.itemsize < 4


def gathers(dtype: Any, op: Any) -> bool:
    """Whether a reduction is done from all values at once, since MPI orders NaN nowhere."""
    return op in (RedOpType.MIN, RedOpType.MAX) and dtype.kind in "fV"


TYPES = {
    "bool": "C_BOOL",
    "int8": "INT8_T",
    "int16": "INT16_T",
    "int32": "INT32_T",
    "int64": "INT64_T",
    "uint8": "UINT8_T",
    "uint16": "UINT16_T",
    "uint32": "UINT32_T",
    "uint64": "UINT64_T",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "complex64": "C_FLOAT_COMPLEX",
    "complex128": "C_DOUBLE_COMPLEX",
}
ARITHMETIC = {
    RedOpType.SUM: "SUM",
    RedOpType.AVG: "SUM",
    RedOpType.PREMUL_SUM: "SUM",
    RedOpType.PRODUCT: "PROD",
    RedOpType.MIN: "MIN",
    RedOpType.MAX: "MAX",
    RedOpType.BAND: "BAND",
    RedOpType.BOR: "BOR",
    RedOpType.BXOR: "BXOR",
}
LOGICAL = {
    RedOpType.SUM: "LOR",
    RedOpType.PRODUCT: "LAND",
    RedOpType.MIN: "LAND",
    RedOpType.MAX: "LOR",
    RedOpType.BAND: "LAND",
    RedOpType.BOR: "LOR",
    RedOpType.BXOR: "LXOR",
}
