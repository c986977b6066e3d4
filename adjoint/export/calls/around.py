"""The functions around `run`, as LLVM text: messages, sizes, state, threads."""

from __future__ import annotations

from adjoint.engine.backends.llvm.runtime import shared_words as table
from adjoint.engine.compiler.package.status import CODE_BITS
from adjoint.export.calls.parts import ProgramText, bytes_text
from adjoint.export.interface import Interface
from adjoint.export.output.machines import Destination


def around(program: ProgramText, where: Destination) -> list[str]:
    """Messages, sizes, state."""
    interface, last = program.interface, len(program.checks.codes.messages) + 1
    name, size = interface.name, where.size
    parts = [
        f"""
define ptr @{name}_error(i32 %code) {{
  %known = icmp ult i32 %code, {last}
  %k = select i1 %known, i32 %code, i32 {last}
  %at = getelementptr ptr, ptr @messages, i32 %k
  %message = load ptr, ptr %at
  ret ptr %message
}}
define i64 @{name}_fault_number(ptr %arena) {{
  %status = load i64, ptr %arena
  %number = ashr i64 %status, {CODE_BITS}
  ret i64 %number
}}"""
    ]
    if interface.sizes:
        parts.append(_at_sizes(program, "arena_bytes", "arena_of", size))
        parts += [
            _at_sizes(program, f"{buffer.name}_count", f"count_{buffer.name}", size)
            for buffer in interface.buffers
        ]
    if not interface.embedded and interface.state_bytes:
        parts.append(_mapped(program, where))
    if interface.embedded and interface.state_written:
        parts.append(_initial(program, where))
    return parts


def _at_sizes(program: ProgramText, name: str, of: str, size: str) -> str:
    """A number of each point; 0 where sizes are out of range."""
    interface = program.interface
    lines, point = [], "0"
    for k, dynamic in enumerate(interface.sizes):
        lines += [
            f"  %b{k} = sub i64 %given.{dynamic.name}, {dynamic.low}",
            f"  %bad{k} = icmp uge i64 %b{k}, {dynamic.count}",
            f"  br i1 %bad{k}, label %none, label %ok{k}",
            f"ok{k}:",
            f"  %m{k} = mul i64 {point}, {dynamic.count}",
            f"  %p{k} = add i64 %m{k}, %b{k}",
        ]
        point = f"%p{k}"
    given = ", ".join(f"i64 %given.{dynamic_size.name}" for dynamic_size in interface.sizes)
    cut = f"  %r = trunc i64 %n to {size}" if size != "i64" else "  %r = add i64 %n, 0"
    body = "\n".join(lines)
    return f"""
define {size} @{interface.name}_{name}({given}) {{
{body}
  %at = getelementptr i64, ptr @{of}, i64 {point}
  %n = load i64, ptr %at
{cut}
  ret {size} %r
none:
  ret {size} 0
}}"""


def _mapped(program: ProgramText, where: Destination) -> str:
    """Where the state begins in a file, if it is the file that was written with the program."""
    interface, size = program.interface, where.size
    header = program.state.header()
    least = len(header) + interface.state_bytes
    return f"""
@file_header = internal constant [{len(header)} x i8] {bytes_text(header)}
define ptr @{interface.name}_state_in(ptr %file, {size} %bytes) {{
entry:
  %none = icmp eq ptr %file, null
  %short = icmp ult {size} %bytes, {least}
  %bad = or i1 %none, %short
  br i1 %bad, label %no, label %head
head:
  %i = phi i64 [0, %entry], [%i1, %same]
  %more = icmp ult i64 %i, {len(header)}
  br i1 %more, label %byte, label %yes
byte:
  %ap = getelementptr i8, ptr %file, i64 %i
  %bp = getelementptr i8, ptr @file_header, i64 %i
  %a = load i8, ptr %ap
  %b = load i8, ptr %bp
  %eq = icmp eq i8 %a, %b
  br i1 %eq, label %same, label %no
same:
  %i1 = add i64 %i, 1
  br label %head
yes:
  %state = getelementptr i8, ptr %file, i64 {len(header)}
  ret ptr %state
no:
  ret ptr null
}}"""


def _initial(program: ProgramText, where: Destination) -> str:
    """A training step's state as it is at first."""
    interface, size = program.interface, where.size
    null, short = program.checks.null["state"], program.checks.counts["state"]
    return f"""
define i32 @{interface.name}_state_init(ptr %state, {size} %bytes) {{
  %none = icmp eq ptr %state, null
  br i1 %none, label %no, label %there
there:
  %short = icmp ult {size} %bytes, {interface.state_bytes}
  br i1 %short, label %less, label %enough
enough:
  call void @llvm.memcpy.p0.p0.i64(ptr %state, ptr @{interface.name}_initial_state,
    i64 {interface.state_bytes}, i1 false)
  ret i32 0
no:
  ret i32 {null}
less:
  ret i32 {short}
}}"""


def pool(interface: Interface, where: Destination) -> str:
    """Threads in memory of the caller's."""
    name, size = interface.name, where.size
    return f"""
@no_pool = internal constant [{table.FIRST_BLOCK} x i8] zeroinitializer, align 64
define i32 @{name}_pool_start(ptr %pool, {size} %bytes, i32 %threads) {{
entry:
  %none = icmp eq ptr %pool, null
  br i1 %none, label %no, label %there
there:
  %few = icmp slt i32 %threads, 1
  %many = icmp sgt i32 %threads, {table.MAX_WORKERS}
  %odd = or i1 %few, %many
  br i1 %odd, label %no, label %sized
sized:
  %n = zext i32 %threads to i64
  %blocks = mul i64 %n, {table.BLOCK}
  %need = add i64 %blocks, {table.FIRST_BLOCK}
  %short = icmp ult {size} %bytes, %need
  br i1 %short, label %no, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %pool, i8 0, i64 %need, i1 false)
  %others = sub i64 %n, 1
  %started = call i64 @grow(ptr %pool, i64 %others, i64 %n)
  %all = icmp eq i64 %started, %others
  br i1 %all, label %yes, label %no
yes:
  ret i32 0
no:
  ret i32 -1
}}
define void @{name}_pool_stop(ptr %pool) {{
  %x = call i64 @stop(ptr %pool, i64 {2**62})
  ret void
}}"""
