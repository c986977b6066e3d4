"""The header of an exported program."""

from __future__ import annotations

import re

from adjoint.engine.backends.llvm.runtime import shared_words as table
from adjoint.export.interface import C_TYPES, HandedBuffer, Interface
from adjoint.export.state import ALIGNED, ProgramState


def header_text(
    interface: Interface, state: ProgramState, messages: list[str], made_for: str
) -> str:
    """What C includes: every function said in words, sizes as macros, codes in a list."""
    name, upper = interface.name, interface.name.upper()
    parts = [
        (
            f"/* {name}: a program compiled ahead of time by Adjoint, for {made_for}.\n"
            " *\n"
            " * It keeps nothing between calls and allocates nothing: memory is the caller's.\n"
            f" * Calls with different {_own(interface)} may run at the same time.\n"
            " */"
        ),
        f"#ifndef {upper}_H\n#define {upper}_H\n",
        "#include <stddef.h>\n#include <stdint.h>\n",
        (
            '#ifdef __cplusplus\nextern "C" {\n#define ADJOINT_RESTRICT\n#else\n'
            "#define ADJOINT_RESTRICT restrict\n#endif\n"
        ),
        _macros(interface),
        _state_macros(interface, state),
        _run(interface),
        _others(interface),
        _codes(interface, messages),
        "#undef ADJOINT_RESTRICT\n#ifdef __cplusplus\n}\n#endif\n#endif",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _own(interface: Interface) -> str:
    return "arenas and states" if interface.state_written else "arenas"


def _macro(text: str) -> str:
    return re.sub(r"\W", "_", text, flags=re.ASCII).upper()


def _macros(interface: Interface) -> str:
    upper = interface.name.upper()
    lines = []
    for size in interface.sizes:
        lines.append(f"#define {upper}_{_macro(size.name)}_MIN {size.low}")
        lines.append(f"#define {upper}_{_macro(size.name)}_MAX {size.high}")
    most = "_MAX" if interface.sizes else ""
    for buffer in interface.buffers:
        stem = f"{upper}_{_macro(buffer.name)}"
        dims = [interface.dimension(buffer, d) for d in range(len(buffer.shapes[0]))]
        lines.append(f"/* {buffer.name}: {buffer.dtype.name} ({', '.join(dims)}) */")
        lines.append(f"#define {stem}_RANK {len(dims)}")
        if all(dim.isdigit() for dim in dims) and dims:
            lines.append(f"#define {stem}_SHAPE {{{', '.join(dims)}}}")
        lines.append(f"#define {stem}_COUNT{most} {max(buffer.counts)}")
    lines.append(
        f"/* The arena: bytes, and what its address is a multiple of (the state's too). */\n"
        f"#define {upper}_ARENA_BYTES{most} {max(interface.arena_bytes)}\n"
        f"#define {upper}_ALIGNMENT {ALIGNED}"
    )
    return "\n".join(lines) + "\n"


def _state_macros(interface: Interface, state: ProgramState) -> str:
    if not interface.state_bytes:
        return ""
    upper = interface.name.upper()
    lines = [f"#define {upper}_STATE_BYTES {interface.state_bytes}"]
    if interface.takes_state:
        lines.append("/* Where each tensor of the state begins, in bytes. */")
        taken: set[str] = set()
        for tensor in state.tensors:
            stem = _macro(tensor.name)
            while stem in taken:
                stem += "_"
            taken.add(stem)
            lines.append(
                f"#define {upper}_AT_{stem} {tensor.offset}  "
                f"/* {tensor.dtype.name} ({', '.join(map(str, tensor.shape))}) */"
            )
    return "\n".join(lines) + "\n"


def _pointer(buffer: HandedBuffer) -> str:
    const = "const " if buffer.role == "input" else ""
    return f"{const}{C_TYPES[buffer.dtype.name]} *ADJOINT_RESTRICT {buffer.name}"


def parameters(interface: Interface) -> list[str]:
    """The parameters of `run` as C writes them."""
    listed = [f"int64_t {size.name}" for size in interface.sizes]
    listed += [f"{_pointer(buffer)}, size_t {buffer.name}_count" for buffer in interface.buffers]
    listed += [f"double {name}" for name, _ in interface.numbers]
    if interface.takes_state:
        const = "" if interface.state_written else "const "
        listed.append(f"{const}void *ADJOINT_RESTRICT state, size_t state_bytes")
    listed.append("void *ADJOINT_RESTRICT arena, size_t arena_bytes")
    return listed + (["void *pool"] if interface.threads else [])


_ROLES = {"input": "read", "output": "written", "both": "read and written"}


def _run(interface: Interface) -> str:
    lines = [f" *   {size.name}: {size.low} to {size.high}" for size in interface.sizes]
    for buffer in interface.buffers:
        dims = ", ".join(interface.dimension(buffer, d) for d in range(len(buffer.shapes[0])))
        lines.append(
            f" *   {buffer.name}: {_ROLES[buffer.role]}, {buffer.dtype.name} ({dims}) "
            f"in row-major order; {buffer.name}_count is how many elements are there"
        )
    lines += [f" *   {name}: a number" for name, _ in interface.numbers]
    if interface.takes_state and interface.state_written:
        lines.append(" *   state: read and written; a call that fails leaves it as it was")
    elif interface.takes_state:
        lines.append(" *   state: the weights, read")
    lines.append(" *   arena: memory for the call, of any content")
    if interface.threads:
        lines.append(f" *   pool: of {interface.name}_pool_start, or NULL to run on this thread")
    listed = ",\n    ".join(parameters(interface))
    return (
        "/* Run the program. Returns 0, or a code of which the message is "
        f"{interface.name}_error(code);\n * what is given is looked at before anything is written."
        " Nothing may overlap.\n *\n" + "\n".join(lines) + f"\n */\nint {interface.name}_run(\n"
        f"    {listed});\n"
    )


def _others(interface: Interface) -> str:
    name, upper = interface.name, interface.name.upper()
    parts = [
        f"/* What a code means. */\nconst char *{name}_error(int code);\n",
        (
            "/* The number that a failed call's message is about (an index out of bounds). */\n"
            f"int64_t {name}_fault_number(const void *arena);\n"
        ),
    ]
    if interface.sizes:
        sizes = ", ".join(f"int64_t {size.name}" for size in interface.sizes)
        parts.append(
            f"/* Bytes of the arena at some sizes; 0 where they are out of range. */\n"
            f"size_t {name}_arena_bytes({sizes});\n"
        )
        parts += [
            f"/* Elements of {buffer.name}; 0 where sizes are out of range. */\n"
            f"size_t {name}_{buffer.name}_count({sizes});\n"
            for buffer in interface.buffers
        ]
    if interface.state_bytes and not interface.embedded:
        parts.append(
            f"/* The state in {name}.safetensors, whose bytes are at `file` (mapped, or read to\n"
            f" * an address that is a multiple of {ALIGNED}); NULL where it is another file. */\n"
            f"const void *{name}_state_in(const void *file, size_t bytes);\n"
        )
    if interface.embedded and interface.state_written:
        parts.append(
            "/* Write the state that the program was exported with. */\n"
            f"int {name}_state_init(void *state, size_t state_bytes);\n"
        )
    if interface.threads:
        parts.append(
            f"#define {upper}_POOL_BYTES(threads) "
            f"({table.FIRST_BLOCK} + {table.BLOCK} * (size_t)(threads))\n"
            "/* Start threads, the caller counted as one, in memory that stays theirs until\n"
            f" * {name}_pool_stop; its address is a multiple of 128. Returns 0, or -1. A pool\n"
            " * serves one call at a time; others run on their own thread meanwhile. */\n"
            f"int {name}_pool_start(void *pool, size_t pool_bytes, int threads);\n"
            f"void {name}_pool_stop(void *pool);\n"
        )
    return "\n".join(parts)


def _codes(interface: Interface, messages: list[str]) -> str:
    lines = [f" * {code:4}  {_comment(m)}" for code, m in enumerate(messages, 1)]
    return "/* Codes:\n" + "\n".join(lines) + "\n */\n"


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("\n", " ")
