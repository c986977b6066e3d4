"""Faults of compiled programs, told when somebody waits for the GPU.

Note [faults of programs]
    A kernel that finds an index out of bounds says so in the program's status, and those that write
    state do nothing from then on. The host goes on: it prepares the next call while the GPU runs
    this one. What was found is raised where the host waits for the GPU (`item`, `cpu`,
    `synchronize`), or at the latest by the next call of the program that finds the status, of which
    each call ends with a copy to the host. With `ADJOINT_LAUNCH_BLOCKING=1`, and where a program
    writes no state, so that others may with what it made, a call waits and raises itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from adjoint.engine.backends.array.gpu.faults import VARIABLES
from adjoint.engine.core.state.late_faults import LOOKS

if TYPE_CHECKING:
    from adjoint.engine.backends.triton.program.program import GpuProgram

LATE = (
    "This was found by a kernel of a compiled function that was called before; run with "
    f"{VARIABLES[0]}=1 to have the call itself raise it."
)
PENDING: list[ref[GpuProgram]] = []  # programs that may have found something


def expect(program: GpuProgram) -> None:
    """Look at a program when the host waits next."""
    PENDING.append(ref(program))


def look() -> None:
    """Raise what programs have found."""
    while PENDING:
        program = PENDING.pop()()
        if program is not None:
            program.look()


LOOKS.append(look)
