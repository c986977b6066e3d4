"""What the text of a program is made of, and its constants: images, tables, messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.export.calls.checks import Checks
from adjoint.export.calls.layout import Base, Variant
from adjoint.export.interface import Interface
from adjoint.export.recording import CallForExport
from adjoint.export.state import ALIGNED, ProgramState


@dataclass(frozen=True, slots=True)
class ProgramText:
    """All that the text of a program is made of."""

    interface: Interface
    checks: Checks
    variants: list[Variant]
    recording: CallForExport  # of the first point; numbers are the same in all
    state: ProgramState
    fixed: set[Any]  # options that are constants
    kernels: str


def bytes_text(data: bytes) -> str:
    """Bytes as LLVM writes them."""
    plain = bytes(range(32, 127)).translate(None, b'"\\')
    shown = {b: chr(b) if b in plain else f"\\{b:02X}" for b in range(256)}
    return 'c"' + "".join([shown[b] for b in data]) + '"'


def numbers_text(kind: str, numbers: Any) -> str:
    """Integers as a constant array."""
    listed = ", ".join([f"{kind} {int(n)}" for n in numbers])
    return f"[{len(numbers)} x {kind}] [{listed}]"


def constants(program: ProgramText) -> str:
    """Images, tables and messages."""
    bases = bases_of(program)
    lines = []
    for k, variant in enumerate(program.variants):
        first = variant.first
        places = [n for at, base in first.additions for n in (at, bases[base])]
        pairs = zip(variant.columns, variant.which, strict=True)
        differ = [n for at, column in pairs for n in (at, column)]
        lines += [
            f"@image_{k} = internal constant {numbers_text('i64', first.words)}, align 64",
            f"@places_{k} = internal constant {numbers_text('i32', places)}, align 8",
            f"@differ_{k} = internal constant {numbers_text('i32', differ)}, align 8",
            f"@rows_{k} = internal constant {numbers_text('i64', variant.table.reshape(-1))}",
        ]
    messages = ["no error", *program.checks.codes.messages, "there is no such code"]
    for k, message in enumerate(messages):
        data = message.encode() + b"\0"
        lines.append(f"@message_{k} = internal constant [{len(data)} x i8] {bytes_text(data)}")
    listed = ", ".join(f"ptr @message_{k}" for k in range(len(messages)))
    lines.append(f"@messages = internal constant [{len(messages)} x ptr] [{listed}]")
    interface = program.interface
    if interface.sizes:
        count = len(interface.arena_bytes)
        variant_of, row_of = [0] * count, [0] * count
        for k, variant in enumerate(program.variants):
            for row, at in enumerate(variant.points):
                variant_of[at], row_of[at] = k, row
        lines += [
            f"@variant_of = internal constant {numbers_text('i32', variant_of)}",
            f"@row_of = internal constant {numbers_text('i32', row_of)}",
            f"@arena_of = internal constant {numbers_text('i64', interface.arena_bytes)}",
        ]
        for buffer in interface.buffers:
            lines.append(
                f"@count_{buffer.name} = internal constant {numbers_text('i64', buffer.counts)}"
            )
    if interface.embedded and interface.state_bytes:
        block = program.state.block()
        shown = "" if interface.state_written else "internal "
        lines.append(
            f"@{interface.name}_initial_state = {shown}constant [{len(block)} x i8] "
            f"{bytes_text(block)}, align {ALIGNED}"
        )
    return "\n".join(lines)


def bases_of(program: ProgramText) -> dict[Base, int]:
    """A number for each base that words are added to."""
    numbers: dict[Base, int] = {}
    for variant in program.variants:
        for _, base in variant.first.additions:
            numbers.setdefault(base, len(numbers))
    return numbers
