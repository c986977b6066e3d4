"""Linking: the system's C compiler, or the one in the ziglang package."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from adjoint.export.errors import ExportError
from adjoint.export.output.machines import NATIVE, Destination

HOW = "Install a C compiler, or `pip install adjoint[export]` for the one in ziglang."


def has_zig() -> bool:
    """Whether the ziglang package is installed."""
    return find_spec("ziglang") is not None


def _zig(*command: str) -> list[str]:
    return [sys.executable, "-m", "ziglang", *command]


def compiler(where: Destination) -> list[str] | None:
    """The command that compiles C and links for a machine; None where there is none.

    For this machine it is what $CC says, the system's compiler or ziglang; for others ziglang.
    """
    if where.name == NATIVE:
        asked = os.environ.get("CC")
        if asked:
            return shlex.split(asked)
        for name in ("cc", "gcc", "clang"):
            path = shutil.which(name)
            if path:
                return [path]
    return _zig("cc", "-target", where.zig) if has_zig() and where.zig else None


def link(
    arguments: Sequence[str], where: Destination, command: Sequence[str] | None = None
) -> None:
    """Run the C compiler of a machine."""
    tool = command or compiler(where)
    if tool is None:
        raise ExportError(f"export: there is no C compiler for {where.name} here. {HOW}")
    call([*tool, *arguments])


def call(command: Sequence[str]) -> None:
    """Run a tool; what it says is the error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        message = (done.stderr or done.stdout).strip()
        raise ExportError(f"export: {Path(command[0]).name} failed:\n{message[-2000:]}")


def wasm_linker() -> list[str] | None:
    """The command of the linker of WebAssembly; None where there is none."""
    path = shutil.which("wasm-ld")
    if path:
        return [path]
    return _zig("wasm-ld") if has_zig() else None
