"""Code of quick tests: LLVM makes it without some passes, also in the processes that tests start."""

from __future__ import annotations

import os
from functools import cache

SAID = "ADJOINT_TESTS_QUICK_CODE"  # in the environment of processes whose code is quick tests'
# The arithmetic of addresses in loops, rewritten: a fourth of LLVM's time, for code that is faster
# and no different. Of what is left the others take a sixth: the number of registers in use while
# instructions are put in order, arithmetic moved to where it is used, constants that are loaded once
# and copies that are not needed. Passes that move loads and stores stay: they show what is said
# wrongly of memory.
PASSES_LEFT_OUT = (
    "-disable-lsr", "-misched-regpressure=false", "-disable-cgp", "-disable-constant-hoisting",
    "-disable-copyprop",
)  # fmt: skip


@cache  # LLVM takes an option once
def leave_out_passes() -> None:
    """Do without them in this process, if the environment says so."""
    if SAID not in os.environ:
        return
    import llvmlite.binding as llvm

    for option in PASSES_LEFT_OUT:
        llvm.set_option("tests", option)
