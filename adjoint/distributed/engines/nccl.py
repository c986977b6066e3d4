"""NCCL's library, which carries messages between GPUs: loaded by ctypes, called by name."""

from __future__ import annotations

import ctypes
import importlib
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from adjoint.distributed.errors import DistBackendError
from adjoint.engine.backends.array.gpu.cuda import is_available

REMEDY = "Install it with `pip install 'adjoint[cuda]'` (or `pip install nvidia-nccl-cu13`)."
FILE = "libnccl.so.2"
ID_BYTES = 128
IN_PROGRESS = 7


class UniqueId(ctypes.Structure):
    """What the members of a communicator agree on before they meet."""

    _fields_ = [("internal", ctypes.c_byte * ID_BYTES)]


MOVE = (c_void_p, c_void_p, c_size_t, c_int)  # from, to, count, dtype
# Arguments of the functions that are called; each returns a status.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "GetVersion": (POINTER(c_int),),
    "GetUniqueId": (POINTER(UniqueId),),
    "CommInitRank": (POINTER(c_void_p), c_int, UniqueId, c_int),
    "CommDestroy": (c_void_p,),
    "CommAbort": (c_void_p,),
    "CommGetAsyncError": (c_void_p, POINTER(c_int)),
    "AllReduce": (*MOVE, c_int, c_void_p, c_void_p),
    "Reduce": (*MOVE, c_int, c_int, c_void_p, c_void_p),
    "Broadcast": (*MOVE, c_int, c_void_p, c_void_p),
    "AllGather": (*MOVE, c_void_p, c_void_p),
    "ReduceScatter": (*MOVE, c_int, c_void_p, c_void_p),
    "Send": (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "Recv": (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "GroupStart": (),
    "GroupEnd": (),
}


class NcclLibrary:
    """NCCL's functions; a status that is not success is an error with NCCL's own words."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        for name, arguments in SIGNATURES.items():
            function = getattr(handle, f"nccl{name}")
            function.argtypes, function.restype = arguments, c_int
        for name in ("GetErrorString", "GetLastError"):
            getattr(handle, f"nccl{name}").restype = c_char_p
        handle.ncclGetErrorString.argtypes = (c_int,)
        handle.ncclGetLastError.argtypes = (c_void_p,)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function by its name without "nccl"."""
        status = getattr(self.handle, f"nccl{name}")(*arguments)
        if status not in (0, IN_PROGRESS):
            raise self.failure(f"nccl{name}", status)

    def failure(self, what: str, status: int) -> DistBackendError:
        """The error for a status."""
        meaning = self.handle.ncclGetErrorString(status) or b"unknown error"
        said = self.handle.ncclGetLastError(None) or b""
        text = f"{what}: {meaning.decode(errors='replace')} ({status})"
        if said:
            text += f"; {said.decode(errors='replace').strip()}"
        if b"uplicate GPU" in said:
            text += ". Each process needs a GPU of its own: cuda.set_device(LOCAL_RANK)."
        return DistBackendError(text + " (NCCL_DEBUG=INFO says more.)")

    def version(self) -> tuple[int, int, int]:
        """Its version, as (major, minor, patch)."""
        number = c_int()
        self.call("GetVersion", byref(number))
        return number.value // 10000, number.value // 100 % 100, number.value % 100

    def unique_id(self) -> bytes:
        """A new identity of a communicator."""
        identity = UniqueId()
        self.call("GetUniqueId", byref(identity))
        return bytes(identity)

    def join(self, identity: bytes, rank: int, size: int) -> int:
        """Join a communicator; returns when all have. Its handle."""
        comm = c_void_p()
        self.call("CommInitRank", byref(comm), size, UniqueId.from_buffer_copy(identity), rank)
        return int(comm.value or 0)

    def fault(self, comm: int) -> int:
        """The status of what a communicator does in the background."""
        status = c_int()
        self.call("CommGetAsyncError", comm, byref(status))
        return 0 if status.value == IN_PROGRESS else status.value


@cache
def load() -> NcclLibrary:
    """The library: a wheel's, else the system's; an error that says how to get it."""
    places = []
    for package in ("nvidia.nccl", "nvidia.cu13"):
        try:
            module = importlib.import_module(package)
        except ImportError:
            continue
        places += [Path(root) / "lib" / FILE for root in module.__path__]
    for name in [str(path) for path in places if path.exists()] + [FILE]:
        try:
            return NcclLibrary(ctypes.CDLL(name))
        except OSError:
            continue
        except AttributeError as error:
            raise DistBackendError(
                f"{name} is not NCCL as this package knows it: {error}"
            ) from None
    raise DistBackendError(f"NCCL's library, {FILE}, was not found. {REMEDY}")


def missing() -> str | None:
    """What lacks for messages between GPUs; None where nothing does."""
    if not is_available():
        return "there is no GPU here (cuda.is_available() is False). Use backend='gloo'."
    try:
        load()
    except DistBackendError as error:
        return str(error)
    return None


def is_usable() -> bool:
    """Whether messages between GPUs can be carried by NCCL."""
    return missing() is None
