"""Vectors of which some lanes are read or written, by one instruction (`CodeMachine.masks`).

Machines that have those also read each lane from a place of its own so.
"""

from __future__ import annotations

from adjoint.engine.backends.registers.vector import V, suffix, type_text, width


def masked_load(mask: V, at: str, align: int, kind: str) -> V:
    """The lanes of a mask from memory, zeros in others, whose memory is not touched."""
    code, lanes = mask.code, mask.lanes
    wide = type_text(kind, lanes)
    name = f"@llvm.masked.load.v{lanes}{suffix(kind)}.p0"
    code.declarations.add(f"declare {wide} {name}(ptr, i32, {mask.type}, {wide})")
    given = f"ptr {at}, i32 {align}, {mask.type} {mask.ref}, {wide} zeroinitializer"
    return code.value(code.let(f"call {wide} {name}({given})"), kind, lanes)


def masked_store(mask: V, value: V, at: str, align: int) -> None:
    """Write the lanes of a mask to memory, of which the rest is not touched."""
    code = mask.code
    name = f"@llvm.masked.store.v{value.lanes}{suffix(value.kind)}.p0"
    code.declarations.add(f"declare void {name}({value.type}, ptr, i32, {mask.type})")
    given = f"{value.type} {value.ref}, ptr {at}, i32 {align}, {mask.type} {mask.ref}"
    code.lines.append(f"call void {name}({given})")


GATHERED = frozenset({"f32", "f64", "i32", "i64", "u32", "u64"})


def masked_gather(mask: V, base: str, places: V, kind: str) -> V:
    """The elements so many places after a pointer, zeros where a mask does not hold."""
    code, lanes = mask.code, mask.lanes
    wide, pointers = type_text(kind, lanes), f"<{lanes} x ptr>"
    name = f"@llvm.masked.gather.v{lanes}{suffix(kind)}.v{lanes}p0"
    code.declarations.add(f"declare {wide} {name}({pointers}, i32, {mask.type}, {wide})")
    element = type_text(kind, 1)
    at = code.let(f"getelementptr {element}, ptr {base}, {places.type} {places.ref}")
    given = f"{pointers} {at}, i32 {width(kind) // 8}, {mask.type} {mask.ref}, {wide}"
    return code.value(code.let(f"call {wide} {name}({given} zeroinitializer)"), kind, lanes)
