"""Arrays of this process beside pages that may not be touched.

NumPy has the memory of its arrays from a handler (Note [host memory]). This one gives each array
pages of its own, filled with ones, beside a page without any access: behind the array, whose last
byte is the last that may be read, or in front of it. What reads or writes outside an array then
ends the process, what reads memory that nobody wrote finds NaN, and what reads an array that is gone
ends the process too. Values that programs keep for themselves lie in an arena, where they can be
given such pages too.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.program.arena import Arena
from adjoint.engine.backends.llvm.runtime import host_memory, library
from adjoint.engine.compiler.package import image_maker

PLACES = {"behind": 0, "in front": 1}  # where the page is, and how many stand before the array
PAGE = mmap.PAGESIZE
_FUNCTIONS = ("mmap", "mprotect", "munmap", "memset", "memcpy")
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_NO_ACCESS = 0
SLOT = 1 << 20  # bytes of an arena for each block: guards are at the same places in all programs


def _text(before: int) -> str:
    """The handler's functions.

    Mappings are a page that holds the array's bytes and the mapping's, the page without access if it
    is to be in front, the array's pages, and the page without access if it is to be behind.
    """
    start = "%first" if before else "%last_start"
    return f"""
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @mprotect(ptr, i64, i32)
declare i32 @munmap(ptr, i64)
declare ptr @memset(ptr, i32, i64)
declare ptr @memcpy(ptr, ptr, i64)
define ptr @taken(i64 %size, i32 %filling) {{
  %more = add i64 %size, {PAGE - 1}
  %pages = and i64 %more, -{PAGE}
  %whole = add i64 %pages, {2 * PAGE}
  %base = call ptr @mmap(ptr null, i64 %whole, i32 {_READ_WRITE},
      i32 {mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}, i32 -1, i64 0)
  %at = ptrtoint ptr %base to i64
  %failed = icmp eq i64 %at, -1
  br i1 %failed, label %no, label %yes
no:
  ret ptr null
yes:
  store i64 %size, ptr %base, align 8
  %whole_at = getelementptr i64, ptr %base, i64 1
  store i64 %whole, ptr %whole_at, align 8
  %first = getelementptr i8, ptr %base, i64 {PAGE * (1 + before)}
  %filled = call ptr @memset(ptr %first, i32 %filling, i64 %pages)
  %behind = getelementptr i8, ptr %first, i64 %pages
  %in_front = getelementptr i8, ptr %base, i64 {PAGE}
  %done = call i32 @mprotect(ptr {"%in_front" if before else "%behind"}, i64 {PAGE}, i32 {_NO_ACCESS})
  %back = sub i64 0, %size
  %last_start = getelementptr i8, ptr %behind, i64 %back
  ret ptr {start}
}}
define ptr @base_of(ptr %memory) {{
  %at = ptrtoint ptr %memory to i64
  %page = and i64 %at, -{PAGE}
  %base = sub i64 %page, {PAGE * (1 + before)}
  %there = inttoptr i64 %base to ptr
  ret ptr %there
}}
define ptr @guarded_malloc(ptr %none, i64 %size) {{
  %memory = call ptr @taken(i64 %size, i32 255)
  ret ptr %memory
}}
define ptr @guarded_calloc(ptr %none, i64 %count, i64 %each) {{
  %size = mul i64 %count, %each
  %memory = call ptr @taken(i64 %size, i32 0)
  ret ptr %memory
}}
define void @guarded_free(ptr %none, ptr %memory, i64 %size) {{
  %nothing = icmp eq ptr %memory, null
  br i1 %nothing, label %end, label %some
some:
  %base = call ptr @base_of(ptr %memory)
  %whole_at = getelementptr i64, ptr %base, i64 1
  %whole = load i64, ptr %whole_at, align 8
  %done = call i32 @munmap(ptr %base, i64 %whole)
  br label %end
end:
  ret void
}}
define ptr @guarded_realloc(ptr %none, ptr %old, i64 %size) {{
  %memory = call ptr @taken(i64 %size, i32 255)
  %nothing = icmp eq ptr %old, null
  %failed = icmp eq ptr %memory, null
  %either = or i1 %nothing, %failed
  br i1 %either, label %end, label %some
some:
  %base = call ptr @base_of(ptr %old)
  %had = load i64, ptr %base, align 8
  %less = icmp ult i64 %had, %size
  %kept = select i1 %less, i64 %had, i64 %size
  %copied = call ptr @memcpy(ptr %memory, ptr %old, i64 %kept)
  call void @guarded_free(ptr null, ptr %old, i64 %had)
  br label %end
end:
  ret ptr %memory
}}
"""


def _system(names: tuple[str, ...]) -> dict[str, int]:
    """Where functions of the C library are."""
    here = ctypes.CDLL(None)
    return {name: ctypes.cast(getattr(here, name), ctypes.c_void_p).value or 0 for name in names}


def guard_arrays(place: str) -> None:
    """Have all arrays that this context makes from now on beside pages without access."""
    code = library.linked("guarded memory", _text(PLACES[place]), _system(_FUNCTIONS))
    addresses = [
        code.address(f"guarded_{name}") for name in ("malloc", "calloc", "realloc", "free")
    ]
    handler = host_memory._Handler(b"guarded", 1, 0, *addresses)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = new(ctypes.addressof(handler), b"mem_handler", None)
    host_memory._numpy_function(host_memory.SET_HANDLER, ctypes.py_object, ctypes.py_object)(
        capsule
    )
    # Arrays may be freed when all modules are gone already.
    for held in (code, handler):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))


def guard_arenas() -> None:
    """Have each block of programs planned from now on end at a page without access.

    Such programs are kept on disk as others are: this wants a cache of its own.
    """
    protect = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(
        _system(("mprotect",))["mprotect"]
    )

    def pack(blocks: list[object], sizes: list[int], others: object) -> tuple[list[int], int]:
        assert max(sizes, default=0) <= SLOT - PAGE, sizes
        ends = [(k + 1) * SLOT - PAGE for k in range(len(sizes))]
        return [end - size for end, size in zip(ends, sizes, strict=True)], SLOT * len(sizes)

    def reserve(self: Arena, nbytes: int) -> None:
        if nbytes <= self.nbytes:
            return
        with self.lock:
            self.array = np.frombuffer(mmap.mmap(-1, max(nbytes, PAGE)), np.uint8)
            self.nbytes, self.origin = nbytes, self.array.ctypes.data
            for end in range(self.origin + SLOT, self.origin + nbytes + 1, SLOT):
                assert protect(end - PAGE, PAGE, _NO_ACCESS) == 0
            for user in self.users:
                user.move(self.origin)

    vars(image_maker).update(pack=pack, rounded=lambda nbytes: max(nbytes, 1))
    arenas: Any = Arena
    arenas.reserve = reserve
    # What clears an arena's pages would touch these.
    arenas.touched = lambda self: contextlib.nullcontext()
