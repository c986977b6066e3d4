"""Code of quick tests: LLVM makes it without some passes, also in the processes that tests start."""

from __future__ import annotations

import os
from functools import cache

SAID = "ADJOINT_TESTS_QUICK_CODE"  # in the environment of processes whose code is quick tests'
# The arithmetic of addresses in loops, rewritten, and then what makes code a little faster each and
# no different: the number of registers in use while instructions are put in order, arithmetic moved
# to where it is used, constants that are loaded once, copies and repeated instructions that are not
# needed, ranges of values cut to spill fewer, instructions put in order once more when they have
# their registers, blocks laid out and joined. With all of them LLVM takes nearly twice as long.
# Passes that move loads and stores across each other stay: they show what is said wrongly of memory.
PASSES_LEFT_OUT = (
    "-disable-lsr", "-misched-regpressure=false", "-disable-cgp", "-disable-constant-hoisting",
    "-disable-copyprop", "-disable-machine-cse", "-disable-machine-sink", "-disable-postra-machine-sink",
    "-disable-peephole", "-disable-early-ifcvt", "-disable-early-taildup", "-disable-tail-duplicate",
    "-disable-branch-fold", "-disable-block-placement", "-disable-ssc", "-enable-shrink-wrap=false",
    "-enable-post-misched=false", "-grow-region-complexity-budget=0",
)  # fmt: skip


@cache  # LLVM takes an option once
def leave_out_passes() -> None:
    """Do without them in this process, if the environment says so."""
    if SAID not in os.environ:
        return
    import llvmlite.binding as llvm

    for option in PASSES_LEFT_OUT:
        llvm.set_option("tests", option)
