"""What arrays of the CPU take: counted by native code that NumPy calls for memory.

Note [host memory]
    NumPy has all memory of its arrays from a handler that can be replaced (its C interface,
    `PyDataMem_SetHandler`). Ours counts, refuses what goes beyond a limit, and leaves the rest to
    the C library, whose heap is the pool that freed memory stays in (`allocator.py` of
    `backends/array/memory`). It is installed when counting or a limit is first asked for: arrays
    made before belong to the handler that made them and are not counted. NumPy keeps a handler for
    each context, so threads that were started without one (`contextvars`) have NumPy's own.

    What is counted is what the C library gave, which is some bytes more than was asked for.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

import numpy as np
from numpy._core import multiarray

from adjoint.engine.backends.llvm.runtime import library
from adjoint.engine.backends.llvm.runtime.peeking import slow_address
from adjoint.engine.tensor import holders

NAME = b"adjoint_counting"
SET_HANDLER = 304  # its number in NumPy's C interface, since 1.22
# The words that native code keeps.
CURRENT, PEAK, LIMIT, MADE, FREED, REFUSED = range(6)
_FUNCTIONS = ("malloc", "calloc", "realloc", "free", "malloc_usable_size")

_ALLOWED = f"""
define i1 @allowed(ptr %words, i64 %size) {{
  %limitAt = getelementptr i64, ptr %words, i64 {LIMIT}
  %limit = load atomic i64, ptr %limitAt monotonic, align 8
  %now = load atomic i64, ptr %words monotonic, align 8
  %then = add i64 %now, %size
  %none = icmp eq i64 %limit, 0
  %fits = icmp ule i64 %then, %limit
  %whole = icmp uge i64 %then, %now
  %inside = and i1 %fits, %whole
  %fine = or i1 %none, %inside
  br i1 %fine, label %yes, label %no
yes:
  ret i1 true
no:
  %refusedAt = getelementptr i64, ptr %words, i64 {REFUSED}
  %count = atomicrmw add ptr %refusedAt, i64 1 monotonic
  ret i1 false
}}
define void @taken(ptr %words, ptr %memory) {{
  %size = call i64 @malloc_usable_size(ptr %memory)
  %before = atomicrmw add ptr %words, i64 %size monotonic
  %now = add i64 %before, %size
  %peakAt = getelementptr i64, ptr %words, i64 {PEAK}
  %peak = atomicrmw umax ptr %peakAt, i64 %now monotonic
  %madeAt = getelementptr i64, ptr %words, i64 {MADE}
  %made = atomicrmw add ptr %madeAt, i64 1 monotonic
  ret void
}}
define void @given_back(ptr %words, i64 %size) {{
  %before = atomicrmw sub ptr %words, i64 %size monotonic
  %freedAt = getelementptr i64, ptr %words, i64 {FREED}
  %freed = atomicrmw add ptr %freedAt, i64 1 monotonic
  ret void
}}
"""


def _taking(name: str, arguments: str, size: str, call: str) -> str:
    """A function that asks the C library for memory."""
    return f"""
define ptr @take_{name}(ptr %words, {arguments}) {{
  {size}
  %fine = call i1 @allowed(ptr %words, i64 %size)
  br i1 %fine, label %ask, label %no
ask:
  {call}
  %got = icmp ne ptr %memory, null
  br i1 %got, label %yes, label %no
yes:
  call void @taken(ptr %words, ptr %memory)
  ret ptr %memory
no:
  ret ptr null
}}"""


TEXT = "\n".join(
    [
        "declare ptr @malloc(i64)",
        "declare ptr @calloc(i64, i64)",
        "declare ptr @realloc(ptr, i64)",
        "declare void @free(ptr)",
        "declare i64 @malloc_usable_size(ptr)",
        _ALLOWED,
        _taking(
            "malloc", "i64 %asked", "%size = add i64 %asked, 0",
            "%memory = call ptr @malloc(i64 %size)",
        ),
        _taking(
            "calloc", "i64 %count, i64 %each", "%size = mul i64 %count, %each",
            "%memory = call ptr @calloc(i64 %count, i64 %each)",
        ),
        """
define ptr @take_realloc(ptr %words, ptr %old, i64 %size) {
  %had = call i64 @malloc_usable_size(ptr %old)
  %more = sub i64 %size, %had
  %grows = icmp ugt i64 %size, %had
  %extra = select i1 %grows, i64 %more, i64 0
  %fine = call i1 @allowed(ptr %words, i64 %extra)
  br i1 %fine, label %ask, label %no
ask:
  %memory = call ptr @realloc(ptr %old, i64 %size)
  %got = icmp ne ptr %memory, null
  br i1 %got, label %yes, label %no
yes:
  call void @given_back(ptr %words, i64 %had)
  call void @taken(ptr %words, ptr %memory)
  ret ptr %memory
no:
  ret ptr null
}
define void @give_back(ptr %words, ptr %memory, i64 %size) {
  %none = icmp eq ptr %memory, null
  br i1 %none, label %end, label %some
some:
  %had = call i64 @malloc_usable_size(ptr %memory)
  call void @given_back(ptr %words, i64 %had)
  call void @free(ptr %memory)
  br label %end
end:
  ret void
}""",
    ]
)  # fmt: skip


class _Handler(ctypes.Structure):
    """NumPy's `PyDataMem_Handler`."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    ]


class HostMemory:
    """The words, and the handler that keeps them. There is one, and it stays."""

    def __init__(self) -> None:
        self.words = np.zeros(8, np.int64)  # by NumPy's handler, as all before it
        self.code = library.linked("host memory", TEXT, _c_library())
        address = self.code.address
        self.handler = _Handler(
            NAME, 1, slow_address(self.words), address("take_malloc"), address("take_calloc"),
            address("take_realloc"), address("give_back"),
        )  # fmt: skip
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule = new(ctypes.addressof(self.handler), b"mem_handler", None)
        # Arrays may be freed when all modules are gone already.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def install(self) -> None:
        """Have this context's arrays counted from now on."""
        if multiarray.get_handler_name() != NAME.decode():
            _numpy_function(SET_HANDLER, ctypes.py_object, ctypes.py_object)(self.capsule)

    def __getitem__(self, which: int) -> int:
        return int(self.words[which])

    def limit(self, most: int) -> None:
        """Refuse what would take more than `most` bytes in all; 0: nothing."""
        self.words[LIMIT] = most
        holders.LIMIT_TOLD = self.limit_text if most else None

    def limit_text(self) -> str:
        """The limit, for an error."""
        most, now = holders.size(self[LIMIT]), holders.size(self[CURRENT])
        return f"The limit for arrays of the CPU is {most}, of which {now} are taken. "

    def reset_peak(self) -> None:
        """Begin to look for the most memory taken anew."""
        self.words[PEAK] = self.words[CURRENT]


@cache
def _created() -> HostMemory:
    return HostMemory()


def host_memory() -> HostMemory:
    """What counts, installed in this context."""
    counter = _created()
    counter.install()
    return counter


def _c_library() -> dict[str, int]:
    """Where the C library's functions are."""
    here = ctypes.CDLL(None)
    try:
        addresses = [ctypes.cast(getattr(here, name), ctypes.c_void_p).value for name in _FUNCTIONS]
    except AttributeError as error:
        raise NotImplementedError(
            "adjoint.cpu: memory of arrays is counted with the C library's malloc_usable_size, "
            "which this system does not have"
        ) from error
    return {name: where or 0 for name, where in zip(_FUNCTIONS, addresses, strict=True)}


def _interface() -> Any:
    """What holds the table of NumPy's C interface."""
    return sys.modules["numpy._core._multiarray_umath"]._ARRAY_API


def _numpy_function(number: int, result: Any, *arguments: Any) -> Any:
    """A function of NumPy's C interface."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(_interface(), None)
    address = ctypes.c_void_p.from_address(table + number * ctypes.sizeof(ctypes.c_void_p)).value
    return ctypes.PYFUNCTYPE(result, *arguments)(address or 0)
