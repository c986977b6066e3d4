"""An exported program run in this process, through the functions that C calls."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.llvm.runtime import jit
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.tensor.tensor import Tensor
from adjoint.export.interface import Interface
from adjoint.export.state import ALIGNED, ProgramState


def aligned(nbytes: int) -> Any:
    """Memory at a multiple of what arenas and states want."""
    memory = np.zeros(nbytes + ALIGNED, np.uint8)
    start = -memory.ctypes.data % ALIGNED
    return memory[start : start + nbytes]


class InProcess:
    """The program's code, an arena and a state."""

    def __init__(self, text: str, interface: Interface, state: ProgramState) -> None:
        self.interface = interface
        self.library = jit.link(jit.assemble(text))
        self.arena = aligned(max(interface.arena_bytes))
        self.state = aligned(interface.state_bytes)
        self.state[:] = np.frombuffer(state.block(), np.uint8)
        run = ctypes.CFUNCTYPE(ctypes.c_int)
        self.run = run(self.library.address(f"{interface.name}_run"))
        error = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int)
        self.error = error(self.library.address(f"{interface.name}_error"))

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Results of a call with these tensors and numbers."""
        interface = self.interface
        given: list[Any] = []
        arrays: dict[Any, Any] = {}
        at = 0
        for buffer in interface.buffers:
            if buffer.role != "output":
                leaf = leaves[buffer.base[1]]
                arrays[buffer.base] = np.ascontiguousarray(leaf.detach().numpy())
        at = self._point(arrays)
        for size, n in zip(interface.sizes, interface.points()[at], strict=True):
            del size
            given.append(ctypes.c_int64(n))
        outputs = []
        for buffer in interface.buffers:
            if buffer.role == "output":
                arrays[buffer.base] = np.empty(buffer.shapes[at], NUMPY_OF[buffer.dtype])
                outputs.append(arrays[buffer.base])
            array = arrays[buffer.base]
            given += [ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.size)]
        given += [ctypes.c_double(leaves[k]) for _, k in interface.numbers]
        if interface.takes_state:
            given += [ctypes.c_void_p(self.state.ctypes.data), ctypes.c_size_t(self.state.size)]
        given += [ctypes.c_void_p(self.arena.ctypes.data), ctypes.c_size_t(self.arena.size)]
        if interface.threads:
            given.append(ctypes.c_void_p(None))
        code = self.run(*given)
        if code:
            raise RuntimeError(f"{interface.name}_run: {self.error(code).decode()}")
        results: list[Tensor] = [HOOKS.array.wrap(x) for x in outputs]
        return results[0] if len(results) == 1 else tuple(results)

    def _point(self, arrays: dict[Any, Any]) -> int:
        """The point whose shapes the arguments have; the first one where there is none."""
        buffers = [b for b in self.interface.buffers if b.role != "output"]
        for k in range(len(self.interface.arena_bytes)):
            if all(arrays[b.base].shape == b.shapes[k] for b in buffers):
                return k
        return 0
