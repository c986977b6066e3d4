"""Faults of compiled programs, told when somebody waits for the GPU.

Note [faults of programs]
    A kernel that finds an index out of bounds says so in the program's status, and those that write
    state do nothing from then on. The host goes on: it prepares the next call while the GPU runs
    this one. What was found is raised where the host waits for the GPU (`item`, `cpu`,
    `synchronize`), or at the latest by the next call of the program that finds the status, of which
    each call ends with a copy to the host. Others do not see that status, and might write what a
    program has made: so those that write no state are waited for before anything is differentiated,
    before a tensor on a GPU is written in place (by NCCL too), before an optimizer's update, and
    before a call of a program that writes. Before memory is handed to another library, all that was
    found is raised. With `ADJOINT_LAUNCH_BLOCKING=1` each call waits and raises itself.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import ref

from adjoint.engine.backends.array.gpu.faults import VARIABLES
from adjoint.engine.compiler.package.image import fault_of
from adjoint.engine.core.state.late_faults import LOOKS, UNSEEN

if TYPE_CHECKING:
    from adjoint.engine.backends.triton.program.program import GpuProgram

LATE = (
    "This was found by a kernel of a compiled function that was called before; run with "
    f"{VARIABLES[0]}=1 to have the call itself raise it."
)


class Expected:
    """What a program may have found: its status outlives it."""

    __slots__ = ("faults", "machine", "order", "program", "status")

    def __init__(self, program: GpuProgram) -> None:
        self.program = ref(program)
        self.machine, self.status = program.machine, program.status
        self.faults, self.order = program.image.faults, program.order

    def look(self) -> None:
        """Raise it, once. Until it is known, it is there for other threads to wait for."""
        try:
            self.read()
        except Exception:
            self.forget()
            raise
        self.forget()

    def read(self) -> None:
        """Wait for it, and raise it."""
        program = self.program()
        if program is not None:
            program.look()
            return
        with self.machine.active():
            self.order.follow()
            code = self.machine.read(self.status)
        if code:
            error = fault_of(self.faults, code)
            error.add_note(LATE)
            raise error

    def forget(self) -> None:
        """Nobody need look any more."""
        with suppress(ValueError):  # another thread has looked as well
            PENDING.remove(self)
        with suppress(ValueError):
            UNSEEN.remove(self.look)


PENDING: list[Expected] = []  # of programs that may have found something


def expect(program: GpuProgram) -> Expected:
    """Look at a program when the host waits next, or before others write if it writes nothing."""
    expected = Expected(program)
    PENDING.append(expected)
    if not program.writes:
        UNSEEN.append(expected.look)
    return expected


def look() -> None:
    """Raise what programs have found, the first of them first."""
    while PENDING:
        try:
            expected = PENDING[0]
        except IndexError:  # another thread has looked at the last
            return
        expected.look()


LOOKS.append(look)
