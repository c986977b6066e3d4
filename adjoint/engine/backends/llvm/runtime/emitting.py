"""Object code of several modules at once, each on a processor of its own.

llvmlite has one lock for all of LLVM, which itself asks for no more than that no two threads share
a context or a target machine. Making object code is nearly all of what assembling takes, so that
one function is called around the lock: by its name in llvmlite's library, if it is there as it is
expected to be. If not, llvmlite's own method does one module after the other, to the same bytes.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

_NAME = "LLVMPY_TargetMachineEmitToMemory"
_OBJECT = 1  # object code, not assembly
_Emit = Callable[[Any, Any, int, Any], Any]


def emit_all(pairs: Sequence[tuple[Any, Any]]) -> list[bytes]:
    """The object file of each module, by the target machine that is its own."""
    emit = _unlocked() if len(pairs) > 1 else None
    if emit is None:
        return [machine.emit_object(module) for machine, module in pairs]
    outcomes: list[Any] = [None] * len(pairs)
    errors = [ctypes.c_char_p() for _ in pairs]

    def one(number: int) -> None:
        machine, module = pairs[number]
        outcomes[number] = emit(machine, module, _OBJECT, ctypes.byref(errors[number]))

    mine, workers = [0], []
    for number in range(1, len(pairs)):
        worker = threading.Thread(target=partial(one, number))
        try:
            worker.start()
        except RuntimeError:  # the system gives no more threads, or the interpreter ends
            mine.append(number)
        else:
            workers.append(worker)
    try:
        for number in mine:
            one(number)
    finally:
        _join(workers)
    return [_taken(*ended) for ended in zip(outcomes, errors, strict=True)]


@cache
def _unlocked() -> _Emit | None:
    """LLVM's function around llvmlite's lock; None where it is not what this module knows."""
    from llvmlite.binding import ffi

    wanted = [
        ffi.LLVMTargetMachineRef, ffi.LLVMModuleRef, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p),
    ]  # fmt: skip
    try:
        locked = getattr(ffi.lib, _NAME)
        function = getattr(ctypes.CDLL(ffi.lib._name), _NAME)
        if list(locked.argtypes) != wanted or locked.restype is not ffi.LLVMMemoryBufferRef:
            return None
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes, function.restype = wanted, ffi.LLVMMemoryBufferRef
    emit: _Emit = function
    return emit


def _join(workers: Sequence[threading.Thread]) -> None:
    """Wait for all: they use what the caller is about to let go of. An interrupt comes after."""
    interrupt: BaseException | None = None
    for worker in workers:
        while worker.is_alive():
            try:
                worker.join()
            except BaseException as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt


def _taken(buffer: Any, error: ctypes.c_char_p) -> bytes:
    """The bytes of one of LLVM's buffers, which ends."""
    from llvmlite.binding import ffi

    if not buffer:
        raise RuntimeError((error.value or b"LLVM makes no object code of a module").decode())
    try:
        start, size = ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)
