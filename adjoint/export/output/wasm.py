"""WebAssembly: the module of a program, linked."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from adjoint.export.errors import ExportError
from adjoint.export.interface import Interface
from adjoint.export.output.linking import call, wasm_linker
from adjoint.export.output.machines import Destination, object_code

STACK = 1 << 20  # bytes; products put panels aside there


def wasm_module(text: str, interface: Interface, where: Destination) -> bytes:
    """The module: it exports its functions and its memory, and imports nothing."""
    linker = wasm_linker()
    if linker is None:
        raise ExportError(
            "export: WebAssembly is linked by wasm-ld, which is not here. Install LLVM's lld, or "
            "`pip install adjoint[export]` for the one in ziglang."
        )
    functions = sorted(set(re.findall(rf"^define \w+ @({interface.name}_\w+)\(", text, re.M)))
    with tempfile.TemporaryDirectory() as work:
        source, target = Path(work, "program.o"), Path(work, "program.wasm")
        source.write_bytes(object_code(text, where))
        command = [*linker, "--no-entry", "--stack-first", "-z", f"stack-size={STACK}"]
        command += ["--export=__heap_base", *(f"--export={name}" for name in functions)]
        if interface.embedded and interface.state_written:
            command.append(f"--export={interface.name}_initial_state")
        call([*command, "-o", str(target), str(source)])
        return target.read_bytes()
