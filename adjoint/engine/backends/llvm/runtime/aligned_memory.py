"""Memory of arrays that begins where a line of the cache does.

Note [aligned arrays]
    The C library's memory begins at any multiple of 16 bytes. Vectors of 64 bytes that are written
    there each touch two lines, and where results are larger than the second cache writing takes up
    to twice as long. So on processors with vectors of more than 16 bytes NumPy has memory of many
    elements from a handler (Note [host memory]) that asks for it by lines. It is NumPy's own in
    all else: the C library's heap, and advice to use huge pages. `align_arrays`
    installs it where there is no other handler than NumPy's; nothing calls it yet.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

from numpy._core import multiarray

from adjoint.engine.backends.llvm.ir.machine import this_machine
from adjoint.engine.backends.llvm.runtime import library

NAME = b"adjoint_aligned"
NUMPYS = "default_allocator"
SET_HANDLER = 304  # its number in NumPy's C interface, since 1.22
LINE, MANY = 64, 8192  # bytes; of less memory than many, other things take longer than writing it
ADVISED, HUGE_PAGES = 4 << 20, 14  # from how many bytes on; Linux's name of the advice
PAGE = 4096
FUNCTIONS = ("malloc", "calloc", "realloc", "free", "aligned_alloc", "madvise")

# `lines`: memory of so many bytes, by lines if they are many. What handlers are given first is a
# pointer of their own, and last how much is given back.
TEXT = f"""
declare ptr @malloc(i64)
declare ptr @aligned_alloc(i64, i64)
declare i32 @madvise(ptr, i64, i32)
define ptr @lines(i64 %size) {{
  %many = icmp uge i64 %size, {MANY}
  %over = add i64 %size, {LINE - 1}
  %fits = icmp uge i64 %over, %size
  %by.lines = and i1 %many, %fits
  br i1 %by.lines, label %ask, label %few
few:
  %little = call ptr @malloc(i64 %size)
  ret ptr %little
ask:
  %rounded = and i64 %over, -{LINE}
  %memory = call ptr @aligned_alloc(i64 {LINE}, i64 %rounded)
  %got = icmp ne ptr %memory, null
  %large = icmp uge i64 %size, ADVISED
  %advise = and i1 %got, %large
  br i1 %advise, label %tell, label %end
tell:
  %start = ptrtoint ptr %memory to i64
  %up = add i64 %start, {PAGE - 1}
  %page = and i64 %up, -{PAGE}
  %skipped = sub i64 %page, %start
  %left = sub i64 %size, %skipped
  %first = inttoptr i64 %page to ptr
  %told = call i32 @madvise(ptr %first, i64 %left, i32 {HUGE_PAGES})
  br label %end
end:
  ret ptr %memory
}}
declare ptr @calloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
define ptr @line_malloc(ptr %own, i64 %size) {{
  %memory = call ptr @lines(i64 %size)
  ret ptr %memory
}}
define ptr @line_calloc(ptr %own, i64 %count, i64 %each) {{
  %memory = call ptr @calloc(i64 %count, i64 %each)
  ret ptr %memory
}}
define ptr @line_realloc(ptr %own, ptr %old, i64 %size) {{
  %memory = call ptr @realloc(ptr %old, i64 %size)
  ret ptr %memory
}}
define void @line_free(ptr %own, ptr %memory, i64 %size) {{
  call void @free(ptr %memory)
  ret void
}}
"""


class Handler(ctypes.Structure):
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


def text(of: str) -> str:
    """A text, with the size from which NumPy gives advice: none where it is told not to."""
    told = vars(multiarray).get("_get_madvise_hugepage")
    advised = ADVISED if told is not None and told() else -1  # the largest there is
    return of.replace("ADVISED", str(advised))


def capsule_of(handler: Handler) -> Any:
    """What NumPy takes a handler as."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(handler), b"mem_handler", None)


def c_library(names: Sequence[str]) -> dict[str, int]:
    """Where functions of the C library are; AttributeError for one that it does not have."""
    here = ctypes.CDLL(None)
    return {name: ctypes.cast(getattr(here, name), ctypes.c_void_p).value or 0 for name in names}


def numpy_function(number: int, result: Any, *arguments: Any) -> Any:
    """A function of NumPy's C interface."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(sys.modules["numpy._core._multiarray_umath"]._ARRAY_API, None)
    address = ctypes.c_void_p.from_address(table + number * ctypes.sizeof(ctypes.c_void_p)).value
    return ctypes.PYFUNCTYPE(result, *arguments)(address or 0)


_kept: list[Any] = []  # as long as there are arrays, which may be freed after all modules


def align_arrays() -> bool:
    """Have this context's arrays begin at lines of the cache; whether they do from now on."""
    wide = this_machine().bits > 8 * 16
    if not wide or not sys.platform.startswith("linux"):
        return False
    if multiarray.get_handler_name() != NUMPYS:  # None where no array of this context is known
        return False
    if not _kept:
        code = library.linked("aligned memory", text(TEXT), c_library(FUNCTIONS))
        names = ("line_malloc", "line_calloc", "line_realloc", "line_free")
        handler = Handler(NAME, 1, None, *map(code.address, names))
        _kept.extend((code, handler, capsule_of(handler)))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))
    numpy_function(SET_HANDLER, ctypes.py_object, ctypes.py_object)(_kept[-1])
    return True
