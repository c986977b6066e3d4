"""How kernels in CUDA C report what they find wrong with their operands.

They write to the word of their device that all kernels of eager mode report to, so nobody waits
for them (Note [late faults]). A device on which no such kernel ran yet has none; then a word of
this call's own is looked at, and waited for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.backends.array.gpu.faults import BLOCKING
from adjoint.engine.core.state import late_faults
from adjoint.engine.ops.common.checks import failure

Array = Any
BITS = 24  # of a code, in a word of a call's own

# `status`, `code` and `bits` are what `Report.words` says.
REPORT = r"""
__device__ void report(unsigned long long* status, long long code, int bits, long long number) {
    long long most = 1ll << (63 - bits), shown = number << bits;
    if (number >= most || number < -most) shown = (long long)(1ull << 63);
    atomicCAS(status, 0ull, (unsigned long long)(shown | code));
}
"""


Fault = tuple[str, str]  # the name of an exception, and its message


def fault_of(error: Exception) -> Fault:
    """What an error is reported as."""
    return type(error).__name__, str(error)


class Report:
    """Errors that a launch may have to report.

    `words` are the status, a code for each of them, and the bits of a code.
    """

    def __init__(self, xp: Any, device: int, *faults: Fault) -> None:
        self.faults = faults
        self.own: Array | None = None
        board = late_faults.BOARDS.get(device)
        found = None if board is None else board.reported_by(*faults)
        if found is None:
            self.own = xp.zeros(1, np.int64)
            found = int(self.own.data.ptr), [*range(1, len(faults) + 1)], BITS
        status, codes, bits = found
        self.words = status, *codes, bits

    def look(self) -> None:
        """Raise what was found, where nobody will look later."""
        if self.own is None:
            if BLOCKING:
                late_faults.look()
            return
        status = int(self.own[0])
        if status:
            number = status >> BITS
            kind, message = self.faults[(status & (1 << BITS) - 1) - 1]
            raise failure(message, kind, None if number == -(1 << (63 - BITS)) else number)
