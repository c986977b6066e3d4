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


def gathered(places: V, base: str, kind: str, mask: V | None = None, unit: str = "i8") -> V:
    """The elements so many units after a pointer, side by side.

    Where a mask is given and does not hold, they are zero and nothing is read.
    """
    code, lanes, align = places.code, places.lanes, width(kind) // 8
    wide, pointers, bits = type_text(kind, lanes), f"<{lanes} x ptr>", type_text("i1", lanes)
    name = f"@llvm.masked.gather.v{lanes}{suffix(kind)}.v{lanes}p0"
    code.declarations.add(f"declare {wide} {name}({pointers}, i32, {bits}, {wide})")
    at = code.let(f"getelementptr {unit}, ptr {base}, {places.type} {places.ref}")
    held, other = ("splat (i1 true)", "poison") if mask is None else (mask.ref, "zeroinitializer")
    given = f"{pointers} {at}, i32 {align}, {bits} {held}, {wide} {other}"
    return code.value(code.let(f"call {wide} {name}({given})"), kind, lanes)


def scatter(mask: V, value: V, base: str, offsets: V) -> None:
    """Write the lanes of a mask to memory, each so many bytes behind a pointer."""
    code, lanes, align = mask.code, mask.lanes, width(value.kind) // 8
    name = f"@llvm.masked.scatter.v{lanes}{suffix(value.kind)}.v{lanes}p0"
    code.declarations.add(f"declare void {name}({value.type}, <{lanes} x ptr>, i32, {mask.type})")
    places = code.let(f"getelementptr i8, ptr {base}, {offsets.type} {offsets.ref}")
    given = f"{value.type} {value.ref}, <{lanes} x ptr> {places}, i32 {align}"
    code.lines.append(f"call void {name}({given}, {mask.type} {mask.ref})")
