"""Faults of compiled programs, told when somebody waits for the GPU.

Note [faults of programs]
    A kernel that finds an index out of bounds says so in the program's status, and those that write
    state do nothing from then on. The host goes on: it prepares the next call while the GPU runs
    this one. What was found is raised where the host waits for the GPU (`item`, `cpu`,
    `synchronize`), or at the latest by the next call of the program that finds the status, of which
    each call ends with a copy to the host. Others do not see that status, and might write what a
    program has made: so those that write no state are waited for before anything is differentiated,
    before an optimizer's update, and before a call of a program that writes. With
    `ADJOINT_LAUNCH_BLOCKING=1` each call waits and raises itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from adjoint.engine.backends.array.gpu.faults import VARIABLES
from adjoint.engine.compiler.package.image import fault_of
from adjoint.engine.core.state.late_faults import LOOKS, SETTLES

if TYPE_CHECKING:
    from adjoint.engine.backends.triton.program.program import GpuProgram

LATE = (
    "This was found by a kernel of a compiled function that was called before; run with "
    f"{VARIABLES[0]}=1 to have the call itself raise it."
)


class Expected:
    """What a program may have found: its status outlives it."""

    __slots__ = ("faults", "machine", "program", "status")

    def __init__(self, program: GpuProgram) -> None:
        self.program = ref(program)
        self.machine, self.status = program.machine, program.status
        self.faults = program.image.faults

    def look(self) -> None:
        """Raise it."""
        program = self.program()
        if program is not None:
            program.look()
            return
        with self.machine.active():
            code = self.machine.read(self.status)
        if code:
            error = fault_of(self.faults, code)
            error.add_note(LATE)
            raise error


PENDING: list[Expected] = []  # of programs that may have found something
UNSEEN: list[Expected] = []  # those of them that write no state


def expect(program: GpuProgram) -> None:
    """Look at a program when the host waits next."""
    expected = Expected(program)
    PENDING.append(expected)
    if not program.writes:
        UNSEEN.append(expected)


def look() -> None:
    """Raise what programs have found."""
    UNSEEN.clear()
    while PENDING:
        PENDING.pop().look()


def settle() -> None:
    """Wait for the programs whose status nobody else sees."""
    while UNSEEN:
        expected = UNSEEN.pop()
        PENDING.remove(expected)
        expected.look()


LOOKS.append(look)
SETTLES.append(settle)
