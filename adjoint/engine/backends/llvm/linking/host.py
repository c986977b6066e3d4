"""The machine that code is for, told without loading LLVM.

LLVM asks the processor, and its answer is kept on disk under what the system tells of the same
processor and of LLVM's files. Where the system tells nothing, LLVM is asked each time.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator

from adjoint.engine.backends.disk import store
from adjoint.engine.core.identity.keys import key_of

CPUINFO = "/proc/cpuinfo"
# What of a processor decides its instructions; the rest are numbers, places and frequencies.
TELLING = frozenset(
    {
        "vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features",
        "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision",
    }
)  # fmt: skip
# Cores of one processor may differ on Arm, where LLVM looks at all of them. On x86 it asks the one
# it runs on, and to list hundreds takes long.
ALL_CORES = frozenset({"aarch64", "arm64"})
# The line that names its instructions; another processor's is there where one is emulated.
INSTRUCTIONS = {"x86_64": "flags", "aarch64": "Features", "arm64": "Features"}


def kept_name(ask: Callable[[], str]) -> str:
    """What `ask` tells of this machine, from the disk cache if it was asked before."""
    processor, assembler = [*_processor()], [*_assembler()]
    if not processor or not assembler:
        return ask()
    key = key_of("host", str(len(processor)), *processor, *assembler)
    known = store.get(key)
    if known is not None:
        return known.decode()
    name = ask()
    store.put(key, name.encode())
    return name


def _processor() -> Iterator[str]:
    """Lines about the processor; none where they say too little."""
    if sys.platform != "linux":
        return
    system = os.uname()
    try:
        with open(CPUINFO, encoding="utf-8", errors="replace") as file:
            lines = set(_telling(file, system.machine in ALL_CORES))
    except OSError:
        return
    named = INSTRUCTIONS.get(system.machine)
    if named is not None and any(line.startswith(named) for line in lines):
        yield from (system.machine, system.release, *sorted(lines))


def _telling(file: Iterator[str], to_the_end: bool) -> Iterator[str]:
    for line in file:
        if line == "\n" and not to_the_end:
            return
        if line.partition(":")[0].strip() in TELLING:
            yield line


def _assembler() -> Iterator[str]:
    """LLVM's files: which they are, and that they are the same as before."""
    spec = importlib.util.find_spec("llvmlite")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    for folder in folders:
        for part in ("_version.py", "binding"):
            path = os.path.join(folder, part)
            try:
                x = os.stat(path)
            except OSError:  # in an archive
                return
            yield f"{path} {x.st_ino} {x.st_size} {x.st_mtime_ns} {x.st_ctime_ns}"
