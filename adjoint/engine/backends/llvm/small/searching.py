"""Native text that searches a list of programs for the one that a call fits (Note [meeting])."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.engine.backends.llvm.small.comparing import (
    INT,
    LIST,
    NONE,
    TUPLE,
    ArrayText,
)
from adjoint.engine.core.operations.listing import BITS, FACTOR, TOGETHER, WORD

SLOTS = 64
OPERANDS_FIT = "call i1 @operands_fit(ptr %program, ptr %operands, ptr %slots)"
PARAMETERS_FIT = "call i1 @parameters_fit(ptr %program, ptr %params)"
REST_FITS = "call i1 @rest_fits(ptr %program, ptr %rest)"


def search(
    name: str, checks: Sequence[tuple[str, str]], run: str, *, fourth: str = "rest", begin: str = ""
) -> str:
    """A function of (programs, operands, params, the `fourth`, ...) that runs the first that fits.

    Each of the `checks` is lines of text, and what says whether a program still fits; `run` ends
    with what is returned, or goes to %none, where None is. `begin` is done before all.
    """
    labels = [f"check{k}" for k in range(len(checks))]
    again = "".join(f", [%kNext, %{label}]" for label in labels)
    steps = "\n".join(
        f"""{label}:
{lines}
  %fits{k} = {fits}
  br i1 %fits{k}, label %{after}, label %next"""
        for k, (label, after, (lines, fits)) in enumerate(
            zip(labels, [*labels[1:], "run"], checks, strict=True)
        )
    )
    return f"""
define ptr @{name}(ptr %self, ptr %args, i64 %given) {{
entry:
  %slots = alloca [{SLOTS} x i64]
  %listed = load ptr, ptr %args
  %operandsAt = getelementptr ptr, ptr %args, i64 1
  %operands = load ptr, ptr %operandsAt
  %paramsAt = getelementptr ptr, ptr %args, i64 2
  %params = load ptr, ptr %paramsAt
  %{fourth}At = getelementptr ptr, ptr %args, i64 3
  %{fourth} = load ptr, ptr %{fourth}At
  %noneAt = getelementptr ptr, ptr @world, i64 {NONE}
  %absent = load ptr, ptr %noneAt
{begin}
  br label %begin
begin:
  %programs = call ptr @part_of(ptr %listed, ptr %operands, ptr %params)
  %many = call i64 @PyTuple_Size(ptr %programs)
  br label %next
next:
  %k = phi i64 [0, %begin]{again}
  %kNext = add i64 %k, 1
  %more = icmp slt i64 %k, %many
  br i1 %more, label %{labels[0]}, label %none
{steps}
run:
{run}
none:
  call void @Py_IncRef(ptr %absent)
  ret ptr %absent
}}"""


PROGRAM = "  %program = call ptr @PyTuple_GetItem(ptr %programs, i64 %k)"
OPERANDS, PARAMETERS, REST = (PROGRAM, OPERANDS_FIT), ("", PARAMETERS_FIT), ("", REST_FITS)


def text(arrays: ArrayText) -> str:
    """What searches go by, after the functions that compare: parts, and what else is compared."""
    return f"""
define i1 @rest_fits(ptr %program, ptr %rest) alwaysinline {{
  %wanted = call ptr @PyTuple_GetItem(ptr %program, i64 5)
  %same = call i1 @same(ptr %rest, ptr %wanted)
  ret i1 %same
}}
define i64 @mixed(i64 %mark, i64 %number) alwaysinline {{
  %either = xor i64 %mark, %number
  %mixed = mul i64 %either, {FACTOR - (1 << WORD)}
  ret i64 %mixed
}}
define i64 @marked(ptr %x, i64 %first) {{
entry:
  %class = call ptr @class_of(ptr %x)
  %is.int = call i1 @is_a(ptr %class, i64 {INT})
  br i1 %is.int, label %whole, label %look
whole:
  %value = call i64 @PyLong_AsUnsignedLongLongMask(ptr %x)
  %with = call i64 @mixed(i64 %first, i64 %value)
  ret i64 %with
look:
  %is.list = call i1 @is_a(ptr %class, i64 {LIST})
  %is.group = call i1 @is_group(ptr %class)
  br i1 %is.group, label %group, label %other
other:
  ret i64 %first
group:
  %count = call i64 @size_of(ptr %x, i1 %is.list)
  br label %next
next:
  %k = phi i64 [0, %group], [%kNext, %each]
  %mark = phi i64 [%first, %group], [%markNext, %each]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %done
each:
  %item = call ptr @item_of(ptr %x, i64 %k, i1 %is.list)
  %markNext = call i64 @marked(ptr %item, i64 %mark)
  %kNext = add i64 %k, 1
  br label %next
done:
  ret i64 %mark
}}
define i64 @shape_marked(ptr %x, i64 %first) {{
entry:
  %array = call ptr @array_in(ptr %x)
  %absent = icmp eq ptr %array, null
  br i1 %absent, label %other, label %kind
kind:
  %class = call ptr @class_of(ptr %array)
  %is.array = call i1 @is_a(ptr %class, i64 {arrays.type})
  br i1 %is.array, label %sized, label %other
other:
  ret i64 %first
sized:
{arrays.rank}
{arrays.sizes_and_strides}
  br label %next
next:
  %k = phi i64 [0, %sized], [%kNext, %each]
  %mark = phi i64 [%first, %sized], [%markNext, %each]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %each, label %done
each:
  %sizeAt = getelementptr i64, ptr %sizes, i64 %k
  %size = load i64, ptr %sizeAt
  %markNext = call i64 @mixed(i64 %mark, i64 %size)
  %kNext = add i64 %k, 1
  br label %next
done:
  ret i64 %mark
}}
define i64 @operand_marked(ptr %x, i64 %mark) {{
entry:
  %class = call ptr @class_of(ptr %x)
  %base = load ptr, ptr @world
  %exact = icmp eq ptr %class, %base
  br i1 %exact, label %tensor, label %number
number:
  %is.int = call i1 @is_a(ptr %class, i64 {INT})
  br i1 %is.int, label %same, label %derived
same:
  ret i64 %mark
derived:
  %sub = call i32 @PyType_IsSubtype(ptr %class, ptr %base)
  %is.tensor = icmp ne i32 %sub, 0
  br i1 %is.tensor, label %tensor, label %literal
tensor:
  %a = call i64 @shape_marked(ptr %x, i64 %mark)
  ret i64 %a
literal:
  %b = call i64 @marked(ptr %x, i64 %mark)
  ret i64 %b
}}
define ptr @part_of(ptr %listed, ptr %operands, ptr %params) {{
entry:
  %position = alloca i64
  %keyAt = alloca ptr
  %valueAt = alloca ptr
  %many = call i64 @PyTuple_Size(ptr %listed)
  %is.one = icmp sle i64 %many, {TOGETHER}
  br i1 %is.one, label %whole, label %parted
whole:
  ret ptr %listed
parted:
  %class = call ptr @class_of(ptr %operands)
  %is.list = call i1 @is_a(ptr %class, i64 {LIST})
  %is.tuple = call i1 @is_a(ptr %class, i64 {TUPLE})
  %either = or i1 %is.list, %is.tuple
  br i1 %either, label %sized, label %found
sized:
  %count = call i64 @size_of(ptr %operands, i1 %is.list)
  br label %next
next:
  %k = phi i64 [0, %sized], [%kNext, %each]
  %mark = phi i64 [0, %sized], [%markNext, %each]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %each, label %named
each:
  %x = call ptr @item_of(ptr %operands, i64 %k, i1 %is.list)
  %markNext = call i64 @operand_marked(ptr %x, i64 %mark)
  %kNext = add i64 %k, 1
  br label %next
named:
  store i64 0, ptr %position
  br label %param
param:
  %own = phi i64 [%mark, %named], [%ownNext, %value]
  %there = call i32 @PyDict_Next(ptr %params, ptr %position, ptr %keyAt, ptr %valueAt)
  %is.there = icmp ne i32 %there, 0
  br i1 %is.there, label %value, label %found
value:
  %held = load ptr, ptr %valueAt
  %ownNext = call i64 @marked(ptr %held, i64 %own)
  br label %param
found:
  %all = phi i64 [0, %parted], [%own, %param]
  %place = lshr i64 %all, {WORD - BITS}
  %part = call ptr @PyTuple_GetItem(ptr %listed, i64 %place)
  ret ptr %part
}}"""
