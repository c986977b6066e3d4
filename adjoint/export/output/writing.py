"""Files of an exported program; all of them or none."""

from __future__ import annotations

import tempfile
from pathlib import Path

from adjoint.engine.backends.llvm.runtime.jit import printed
from adjoint.engine.core.files.atomic import atomic_write
from adjoint.export.c_source.translate import c_text
from adjoint.export.errors import ExportError
from adjoint.export.interface import Interface
from adjoint.export.output.javascript import loader_text, types_text
from adjoint.export.output.linking import link
from adjoint.export.output.machines import PORTABLE, Destination, object_code
from adjoint.export.output.wasm import wasm_module
from adjoint.export.state import ProgramState

KINDS = ("o", "so", "c", "ll", "wasm")


def files_of(
    interface: Interface, state: ProgramState, header: str, text: str, machine: Destination, to: str
) -> dict[str, bytes]:
    """The contents of all files, by name."""
    if to not in KINDS:
        raise ValueError(f"export: {to!r} is none of {', '.join(KINDS)}.")
    if (to == "wasm") != machine.is_wasm:
        raise ExportError(
            f"export: a program for {machine.name} is not written as {to!r}. Export it "
            "with machine='wasm32' for 'wasm', and only for that."
        )
    if machine.name == PORTABLE and to not in ("c", "ll"):
        raise ExportError("export: a portable program is written as 'c'.")
    name = interface.name
    files: dict[str, bytes] = {}
    if to == "wasm":
        files[f"{name}.wasm"] = wasm_module(text, interface, machine)
        files[f"{name}.mjs"] = loader_text(interface, state).encode()
        files[f"{name}.d.mts"] = types_text(interface).encode()
    else:
        files[f"{name}.h"] = header.encode()
    if to == "ll":
        files[f"{name}.ll"] = text.encode()
    elif to == "o":
        files[f"{name}.o"] = object_code(text, machine)
    elif to == "so":
        files[f"lib{name}.so"] = shared_library(text, machine, threads=interface.threads)
    elif to == "c":
        files[f"{name}.c"] = c_text(printed(text), header, name).encode()
    if interface.state_bytes and not interface.embedded:
        files[f"{name}.safetensors"] = state.header() + state.block()
    return files


def shared_library(text: str, machine: Destination, *, threads: bool) -> bytes:
    """A shared library of a module."""
    with tempfile.TemporaryDirectory() as work:
        source, target = Path(work, "program.o"), Path(work, "program.so")
        source.write_bytes(object_code(text, machine))
        pthread = ["-lpthread"] if threads else []
        link(["-shared", "-o", str(target), str(source), "-lm", *pthread], machine)
        return target.read_bytes()


def put_all(folder: Path, files: dict[str, bytes]) -> list[Path]:
    """Write files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        with atomic_write(folder / name, "export", durable=False) as file:
            file.write(data)
    return [folder / name for name in files]
