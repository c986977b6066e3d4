"""The function that walks rows of words, and inner loops that NumPy does not have.

All of it is one module of native code, the same for every program, kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from adjoint.engine.backends.llvm.ir.machine import this_machine
from adjoint.engine.backends.llvm.runtime import fastcall, library
from adjoint.engine.backends.llvm.runtime.objects import objects
from adjoint.engine.backends.llvm.runtime.peeking import COUNTED, HEAD, looks, slow_address, steps
from adjoint.engine.backends.llvm.runtime.shared_words import MAX_WORKERS
from adjoint.engine.backends.llvm.small import calling, meeting, order_loops
from adjoint.engine.backends.llvm.small.combining import COMBINING
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state import forks

ARGUMENTS = 6  # pointers that an inner loop is given at most
OUTER = 3  # dimensions that rows go through around an inner loop
DIMS, STEPS = 4, 11  # words of an inner loop's sizes and steps: those of singular values
SLOTS = 32  # arrays of a program, and one for absolute addresses
# The words of a program: how many rows, whether one failed, then which low bits of each array's
# address must be zero; then the rows.
ROWS_AT, FAILED_AT, MASKS_AT = 0, 1, 2
NOTE_FAILURE = -1  # as a row's data: the address of that word
FIRST_ROW = MASKS_AT + SLOTS
# The words of a row: function, its data, how many arguments; sizes; for each argument the slot, the
# offset from it and the steps of outer dimensions.
SIZES_AT = 3
DIMS_AT = SIZES_AT + OUTER
STEPS_AT = DIMS_AT + DIMS
ARGUMENTS_AT = STEPS_AT + STEPS
ARGUMENT = 2 + OUTER
ROW = ARGUMENTS_AT + ARGUMENTS * ARGUMENT

# `@carry_out` runs the rows on arrays whose addresses are in slots, and tells whether one failed.
WALK = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare ptr @PyLong_FromLongLong(i64)
define i64 @carry_out(ptr %table, ptr %slots, i64 %count) {{
entry:
  %given = alloca [{ARGUMENTS} x ptr]
  store i64 0, ptr %slots
  %failedAt = getelementptr i64, ptr %table, i64 {FAILED_AT}
  store i64 0, ptr %failedAt
  %rows = load i64, ptr %table
  br label %arrays
arrays:
  %k = phi i64 [1, %entry], [%kNext, %array]
  %bits = phi i64 [0, %entry], [%bitsNext, %array]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %array, label %looked
array:
  %slotAt = getelementptr i64, ptr %slots, i64 %k
  %data = load i64, ptr %slotAt
  %maskIndex = add i64 %k, {MASKS_AT}
  %maskAt = getelementptr i64, ptr %table, i64 %maskIndex
  %mask = load i64, ptr %maskAt
  %low = and i64 %data, %mask
  %bitsNext = or i64 %bits, %low
  %kNext = add i64 %k, 1
  br label %arrays
looked:
  %astray = icmp ne i64 %bits, 0
  br i1 %astray, label %bad, label %begin
bad:
  ret i64 1
begin:
  %first = getelementptr i64, ptr %table, i64 {FIRST_ROW}
  br label %row
row:
  %r = phi i64 [0, %begin], [%rNext, %rowEnd]
  %words.r = phi ptr [%first, %begin], [%rowNext, %rowEnd]
  %left = icmp slt i64 %r, %rows
  br i1 %left, label %read, label %done
read:
  %fn = load ptr, ptr %words.r
  %ownAt = getelementptr i64, ptr %words.r, i64 1
  %own = load ptr, ptr %ownAt
  %manyAt = getelementptr i64, ptr %words.r, i64 2
  %many = load i64, ptr %manyAt
  %aAt = getelementptr i64, ptr %words.r, i64 {SIZES_AT}
  %a = load i64, ptr %aAt
  %bAt = getelementptr i64, ptr %words.r, i64 {SIZES_AT + 1}
  %b = load i64, ptr %bAt
  %cAt = getelementptr i64, ptr %words.r, i64 {SIZES_AT + 2}
  %c = load i64, ptr %cAt
  %dims = getelementptr i64, ptr %words.r, i64 {DIMS_AT}
  %steps = getelementptr i64, ptr %words.r, i64 {STEPS_AT}
  %argsAt = getelementptr i64, ptr %words.r, i64 {ARGUMENTS_AT}
  br label %outer
outer:
  %i = phi i64 [0, %read], [%iNext, %innerEnd]
  %j = phi i64 [0, %read], [%jNext, %innerEnd]
  %l = phi i64 [0, %read], [%lNext, %innerEnd]
  br label %argument
argument:
  %n = phi i64 [0, %outer], [%nNext, %argument]
  %base = mul i64 %n, {ARGUMENT}
  %argAt = getelementptr i64, ptr %argsAt, i64 %base
  %slot = load i64, ptr %argAt
  %offsetAt = getelementptr i64, ptr %argAt, i64 1
  %offset = load i64, ptr %offsetAt
  %s0At = getelementptr i64, ptr %argAt, i64 2
  %s0 = load i64, ptr %s0At
  %s1At = getelementptr i64, ptr %argAt, i64 3
  %s1 = load i64, ptr %s1At
  %s2At = getelementptr i64, ptr %argAt, i64 4
  %s2 = load i64, ptr %s2At
  %heldAt = getelementptr i64, ptr %slots, i64 %slot
  %held = load i64, ptr %heldAt
  %t0 = mul i64 %i, %s0
  %t1 = mul i64 %j, %s1
  %t2 = mul i64 %l, %s2
  %p0 = add i64 %held, %offset
  %p1 = add i64 %p0, %t0
  %p2 = add i64 %p1, %t1
  %p3 = add i64 %p2, %t2
  %placeAt = getelementptr i64, ptr %given, i64 %n
  store i64 %p3, ptr %placeAt
  %nNext = add i64 %n, 1
  %further = icmp slt i64 %nNext, %many
  br i1 %further, label %argument, label %inner
inner:
  call void %fn(ptr %given, ptr %dims, ptr %steps, ptr %own)
  %l1 = add i64 %l, 1
  %lEnd = icmp sge i64 %l1, %c
  %lNext = select i1 %lEnd, i64 0, i64 %l1
  %lCarry = zext i1 %lEnd to i64
  %j1 = add i64 %j, %lCarry
  %jEnd = icmp sge i64 %j1, %b
  %jNext = select i1 %jEnd, i64 0, i64 %j1
  %jCarry = zext i1 %jEnd to i64
  %iNext = add i64 %i, %jCarry
  br label %innerEnd
innerEnd:
  %again = icmp slt i64 %iNext, %a
  br i1 %again, label %outer, label %rowLast
rowLast:
  %wrongNow = load i64, ptr %failedAt
  %wrong = icmp ne i64 %wrongNow, 0
  br i1 %wrong, label %done, label %rowEnd
rowEnd:
  %rNext = add i64 %r, 1
  %rowNext = getelementptr i64, ptr %words.r, i64 {ROW}
  br label %row
done:
  %failed = load i64, ptr %failedAt
  ret i64 %failed
}}
define ptr @walk(ptr %self, ptr %args, i64 %count) {{
entry:
  %slots = alloca [{SLOTS} x i64]
  %words = load ptr, ptr %args
  %wordsAt = getelementptr i8, ptr %words, i64 {HEAD}
  %table = load ptr, ptr %wordsAt
  br label %arrays
arrays:
  %k = phi i64 [1, %entry], [%kNext, %array]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %array, label %looked
array:
  %objectAt = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %objectAt
  %dataAt = getelementptr i8, ptr %object, i64 {HEAD}
  %data = load i64, ptr %dataAt
  %slotAt = getelementptr i64, ptr %slots, i64 %k
  store i64 %data, ptr %slotAt
  %kNext = add i64 %k, 1
  br label %arrays
looked:
  %failed = call i64 @carry_out(ptr %table, ptr %slots, i64 %count)
  %out = call ptr @PyLong_FromLongLong(i64 %failed)
  ret ptr %out
}}
"""


# What a fragment's rows call (Note [met fragments]): `put_address` adds to an array's address and
# stores it, for each place of a list; `launch_all` makes the launches of a table, `launch_shared`
# has all workers walk one, of which there are as many as Python says now.
LAUNCHES = (
    f"""
define void @launch_shared(ptr %args, ptr %dims, ptr %steps, ptr %own) {{
entry:
  %tableAt = getelementptr ptr, ptr %own, i64 1
  %table = load ptr, ptr %tableAt
  %countAt = getelementptr i64, ptr %own, i64 2
  %count = load i64, ptr %countAt
  %poolAt = getelementptr ptr, ptr %own, i64 3
  %pool = load ptr, ptr %poolAt
  %runAt = getelementptr ptr, ptr %own, i64 4
  %run = load ptr, ptr %runAt
  %numberAt = getelementptr ptr, ptr %own, i64 5
  %number = load ptr, ptr %numberAt
  %wanted = load i64, ptr %number
  %many = icmp sgt i64 %wanted, {MAX_WORKERS}
  %workers = select i1 %many, i64 {MAX_WORKERS}, i64 %wanted
  %status = call i64 %run(ptr %pool, ptr %table, i64 %count, i64 %workers, i64 0)
  %failed = icmp ne i64 %status, 0
  br i1 %failed, label %fail, label %end
fail:
  %noteAt = load ptr, ptr %own
  store i64 1, ptr %noteAt
  br label %end
end:
  ret void
}}
"""
    """
define void @put_address(ptr %args, ptr %dims, ptr %steps, ptr %own) {
entry:
  %data = load i64, ptr %args
  %count = load i64, ptr %own
  %first = getelementptr i64, ptr %own, i64 1
  br label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %one]
  %p = phi ptr [%first, %entry], [%pNext, %one]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %one, label %end
one:
  %to = load ptr, ptr %p
  %shiftAt = getelementptr i64, ptr %p, i64 1
  %shift = load i64, ptr %shiftAt
  %value = add i64 %data, %shift
  store i64 %value, ptr %to
  %kNext = add i64 %k, 1
  %pNext = getelementptr i64, ptr %p, i64 2
  br label %next
end:
  ret void
}
define void @launch_all(ptr %args, ptr %dims, ptr %steps, ptr %own) {
entry:
  %tableAt = getelementptr ptr, ptr %own, i64 1
  %table = load ptr, ptr %tableAt
  %countAt = getelementptr i64, ptr %own, i64 2
  %count = load i64, ptr %countAt
  store atomic i64 0, ptr %table monotonic, align 8
  %first = getelementptr i64, ptr %table, i64 1
  br label %next
next:
  %k = phi i64 [0, %entry], [%kNext, %looked]
  %p = phi ptr [%first, %entry], [%pNext, %looked]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %one, label %end
one:
  %function = load ptr, ptr %p
  %wordsAt = getelementptr ptr, ptr %p, i64 1
  %words = load ptr, ptr %wordsAt
  call void %function(ptr %words, i64 0, i64 1)
  %status = load atomic i64, ptr %table monotonic, align 8
  %failed = icmp ne i64 %status, 0
  br i1 %failed, label %fail, label %looked
looked:
  %kNext = add i64 %k, 1
  %pNext = getelementptr i64, ptr %p, i64 2
  br label %next
fail:
  %noteAt = load ptr, ptr %own
  store i64 1, ptr %noteAt
  ret void
end:
  ret void
}
"""
)


def inner_loop(name: str, arguments: int, body: str, before: str = "") -> str:
    """A loop over elements, called as NumPy calls its own; `body` may use %p0, %p1, ...

    What comes before the loop may use %b0, %b1, ..., and end in a block %begin of its own.
    """
    heads, phis, nexts = [], [], []
    start = "begin" if before.endswith("begin:") else "entry"
    for k in range(arguments):
        heads.append(f"  %q{k} = getelementptr ptr, ptr %args, i64 {k}")
        heads.append(f"  %b{k} = load ptr, ptr %q{k}")
        heads.append(f"  %r{k} = getelementptr i64, ptr %steps, i64 {k}")
        heads.append(f"  %s{k} = load i64, ptr %r{k}")
        phis.append(f"  %p{k} = phi ptr [%b{k}, %{start}], [%n{k}, %next]")
        nexts.append(f"  %n{k} = getelementptr i8, ptr %p{k}, i64 %s{k}")
    newline = "\n"
    return f"""
define void @{name}(ptr %args, ptr %dims, ptr %steps, ptr %own) {{
entry:
  %n = load i64, ptr %dims
{newline.join(heads)}
{before}
  br label %loop
loop:
  %i = phi i64 [0, %{start}], [%iNext, %next]
{newline.join(phis)}
  %more = icmp slt i64 %i, %n
  br i1 %more, label %each, label %end
each:
{body}
  br label %next
next:
{newline.join(nexts)}
  %iNext = add i64 %i, 1
  br label %loop
end:
  ret void
}}"""


# Reading an index: `own` is where a failure is noted, the size is the second of `dims`, and the
# step along the indexed dimension comes after those of the arguments.
def _picking(arguments: int) -> str:
    return (
        "  %sizeAt = getelementptr i64, ptr %dims, i64 1\n  %size = load i64, ptr %sizeAt\n"
        f"  %alongAt = getelementptr i64, ptr %steps, i64 {arguments}\n"
        "  %along = load i64, ptr %alongAt"
    )


_PICK = """
  %pick = load i64, ptr %p1
  %wrong = icmp uge i64 %pick, %size
  br i1 %wrong, label %fail, label %fine
fail:
  store i64 1, ptr %own
  ret void
fine:
  %away = mul i64 %pick, %along
"""
WORDS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}  # elements that are only moved, by size
# A row that fails where one of its conditions does not hold.
_NEED = """
  %c = load i8, ptr %p0
  %holds = icmp ne i8 %c, 0
  br i1 %holds, label %fine, label %fail
fail:
  store i64 1, ptr %own
  ret void
fine:
"""
FLOATS = {"f": "float", "d": "double"}
INTEGERS = {"?": 8, "B": 8, "b": 8, "h": 16, "i": 32, "l": 64, "q": 64}  # bits
UNSIGNED = "?B"
# Halves, from and to float32 alone: float16 where the machine converts it in one instruction, for
# else LLVM would call a function that is not here; bfloat16, as NumPy has it, by its bits.
HALF_CONVERSIONS = {
    ("e", "f"): "  %h = load half, ptr %p0\n  %y = fpext half %h to float\n"
    "  store float %y, ptr %p1",
    ("f", "e"): "  %x = load float, ptr %p0\n  %h = fptrunc float %x to half\n"
    "  store half %h, ptr %p1",
    ("E", "f"): "  %h = load i16, ptr %p0\n  %low = zext i16 %h to i32\n"
    "  %y = shl i32 %low, 16\n  store i32 %y, ptr %p1",
    ("f", "E"): """
  %x = load float, ptr %p0
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %bias = add i32 %odd, 32767
  %sum = add i32 %bits, %bias
  %near = lshr i32 %sum, 16
  %sign = and i32 %high, 32768
  %quiet = or i32 %sign, 32704
  %is.nan = fcmp uno float %x, %x
  %y = select i1 %is.nan, i32 %quiet, i32 %near
  %h = trunc i32 %y to i16
  store i16 %h, ptr %p1""",
}


def _moves() -> list[str]:
    texts = []
    for size, word in WORDS.items():
        move = f"  %x = load {word}, ptr %p0\n  store {word} %x, ptr %p1"
        at_once = (
            f"  %near = icmp eq i64 %s0, {size}\n  %next.to = icmp eq i64 %s1, {size}\n"
            "  %in.one = and i1 %near, %next.to\n  br i1 %in.one, label %piece, label %begin\n"
            f"piece:\n  %bytes = mul i64 %n, {size}\n"
            "  call void @llvm.memcpy.p0.p0.i64(ptr %b1, ptr %b0, i64 %bytes, i1 false)\n"
            "  ret void\nbegin:"
        )
        texts.append(inner_loop(f"copy{size}", 2, move, at_once))
        select = (
            "  %c = load i8, ptr %p0\n  %yes = icmp ne i8 %c, 0\n"
            f"  %x = load {word}, ptr %p1\n  %y = load {word}, ptr %p2\n"
            f"  %z = select i1 %yes, {word} %x, {word} %y\n  store {word} %z, ptr %p3"
        )
        texts.append(inner_loop(f"select{size}", 4, select))
        gather = (
            f"{_PICK}  %from = getelementptr i8, ptr %p0, i64 %away\n"
            f"  %x = load {word}, ptr %from\n  store {word} %x, ptr %p2"
        )
        texts.append(inner_loop(f"gather{size}", 3, gather, _picking(3)))
        scatter = (
            f"{_PICK}  %to = getelementptr i8, ptr %p2, i64 %away\n"
            f"  %x = load {word}, ptr %p0\n  store {word} %x, ptr %to"
        )
        texts.append(inner_loop(f"scatter{size}", 3, scatter, _picking(3)))
    further = f"{_PICK}  %x = load i64, ptr %p0\n  %z = add i64 %x, %away\n  store i64 %z, ptr %p2"
    texts.append(inner_loop("position", 3, further, _picking(3)))
    texts.append(inner_loop("need", 1, _NEED))
    for char, kind in {**FLOATS, "l": "i64"}.items():
        for name, combine in COMBINING.items():
            into = (
                f"{_PICK}  %to = getelementptr i8, ptr %p2, i64 %away\n"
                f"  %x = load {kind}, ptr %p0\n  %y = load {kind}, ptr %to\n"
                f"{combine(kind)}\n  store {kind} %z, ptr %to"
            )
            texts.append(inner_loop(f"scatter_{name}_{char}", 3, into, _picking(3)))
    return texts


def _conversions() -> list[str]:
    kinds = {**FLOATS, **{char: f"i{bits}" for char, bits in INTEGERS.items()}}
    return [
        inner_loop(conversion(have, want), 2, _converting(have, want, kinds))
        for have in kinds
        for want in kinds
        if can_convert(have, want)
    ] + [
        inner_loop(conversion(*pair), 2, body)
        for pair, body in HALF_CONVERSIONS.items()
        if can_convert(*pair)
    ]


def _converting(have: str, want: str, kinds: dict[str, str]) -> str:
    """One element in another dtype, as NumPy converts it."""
    old, new = kinds[have], kinds[want]
    load, store = f"  %x = load {old}, ptr %p0\n", f"\n  store {new} %y, ptr %p1"
    if want == "?":
        unequal = f"fcmp une {old} %x, 0.0" if have in FLOATS else f"icmp ne {old} %x, 0"
        return f"{load}  %c = {unequal}\n  %y = zext i1 %c to i8{store}"
    if have in FLOATS and want in INTEGERS:
        return load + _to_whole(want, old, new) + store
    if have in FLOATS:
        op = "fpext" if want == "d" else "fptrunc"
    elif want in FLOATS:
        op = "uitofp" if have in UNSIGNED else "sitofp"
    elif INTEGERS[have] == INTEGERS[want]:
        op = "bitcast"
    elif INTEGERS[have] > INTEGERS[want]:
        op = "trunc"
    else:
        op = "zext" if have in UNSIGNED else "sext"
    return f"{load}  %y = {op} {old} %x to {new}{store}"


def _to_whole(want: str, old: str, new: str) -> str:
    """The whole part of a number; the row fails where it has no place, which machines do each in
    their own way. Eight bits without a sign are the low ones of 64 (`CAST`)."""
    through = "i64" if want in UNSIGNED else new
    limit = f"{2.0 ** (int(through[1:]) - 1):.1f}"
    return (
        f"  %high = fcmp olt {old} %x, {limit}\n  %low = fcmp ogt {old} %x, -{limit}\n"
        "  %fits = and i1 %high, %low\n  br i1 %fits, label %fine, label %fail\n"
        "fail:\n  store i64 1, ptr %own\n  ret void\n"
        f"fine:\n  %w = fptosi {old} %x to {through}\n"
        f"  %y = {'trunc' if through != new else 'bitcast'} {through} %w to {new}"
    )


def _counting(char: str) -> str:
    """How many elements are in each of equal bins between two numbers, every step rounded; the row
    fails where one of those is not finite, or where their distance is not."""
    kind = FLOATS[char]
    before = """
  %binsAt = getelementptr i64, ptr %dims, i64 1
  %bins = load i64, ptr %binsAt
  %last = sub i64 %bins, 1
  %many = sitofp i64 %bins to KIND
  %low = load KIND, ptr %b1
  %high = load KIND, ptr %b2
  %range = fsub KIND %high, %low
  %none = fsub KIND %range, %range
  %finite = fcmp oeq KIND %none, 0.0
  br i1 %finite, label %begin, label %astray
astray:
  store i64 1, ptr %own
  ret void
begin:"""
    body = """
  %x = load KIND, ptr %p0
  %above = fcmp oge KIND %x, %low
  %below = fcmp ole KIND %x, %high
  %inside = and i1 %above, %below
  br i1 %inside, label %count, label %next
count:
  %far = fsub KIND %x, %low
  %scaled = fmul KIND %far, %many
  %spot = fdiv KIND %scaled, %range
  %ends = fcmp ole KIND %spot, %many
  br i1 %ends, label %fits, label %fail
fail:
  store i64 1, ptr %own
  ret void
fits:
  %at = fptosi KIND %spot to i64
  %beyond = icmp sgt i64 %at, %last
  %bin = select i1 %beyond, i64 %last, i64 %at
  %to = getelementptr KIND, ptr %p3, i64 %bin
  %old = load KIND, ptr %to
  %new = fadd KIND %old, 1.0
  store KIND %new, ptr %to"""
    before, body = (part.replace("KIND", kind) for part in (before, body))
    return inner_loop(f"count_{char}", 4, body, before)


def conversion(have: str, want: str) -> str:
    """The name of the loop from one of NumPy's characters of dtypes to another."""
    have, want = ("bool" if char == "?" else char for char in (have, want))
    return f"convert_{have}_{want}"


class SmallCode(NamedTuple):
    """What small programs are run with."""

    walk: Callable[..., int]
    meet: Callable[..., Any]
    address: Callable[[str], int]  # of an inner loop of ours
    meet_call: Callable[..., Any] | None = None  # of public functions, where tensors are native
    meet_into: Callable[..., Any] | None = None  # of their in-place forms


_lock = forks.lock(forks.LockOrder.LIBRARY)


def native() -> SmallCode | None:
    """The walker; None where objects may not be laid out as it expects, or threads run at once.

    There is one: what another thread's had written would point to code that is gone.
    """
    with _lock:
        return _native()


@cache
def _native() -> SmallCode | None:
    address, _ = looks()
    world = meeting.world()
    if not COUNTED or address is slow_address or world is None:
        return None
    parts = [WALK, LAUNCHES, meeting.text(), order_loops.text(), *_moves(), *_conversions()]
    parts += map(_counting, FLOATS)
    symbols = {**fastcall.interpreter(), "world": slow_address(world)}
    tensors, offsets = objects(), calling.offsets()
    names = ["walk", "meet"]
    if tensors is not None and offsets is not None:
        parts.append(calling.text(*offsets))
        symbols |= {"tensor_of": tensors.tensor_of, "false": id(False), "true": id(True)}
        names += ["meet_call", "meet_into"]
    code = library.linked("small rows", "\n".join(parts), symbols)
    walk, meet, *calls = (
        fastcall.builtin(
            code.address(name), name=name, flags=fastcall.METH_FASTCALL, keep=(code, world, tensors)
        )
        for name in names
    )
    HOOKS.meet, HOOKS.small_code = meet, True
    if calls:
        (HOOKS.meet_call, HOOKS.meet_into_small), HOOKS.small_call_code = calls, True
    HOOKS.address, HOOKS.steps = address, steps()
    return SmallCode(walk, meet, code.address, *calls)


def can_convert(have: str, want: str) -> bool:
    """Whether there is a loop from one of NumPy's characters of dtypes to another."""
    if (have, want) in HALF_CONVERSIONS:
        return "e" not in (have, want) or this_machine().features.halves
    known = FLOATS.keys() | INTEGERS.keys()
    return have != want and have in known and want in known


def mask_of(dtype: np.dtype[Any]) -> int:
    """Which low bits of an address are zero where elements of a dtype are aligned."""
    return max(dtype.alignment, 1) - 1
