"""Inner loops that NumPy does not have: moves, conversions, counts; those of order beside them.

They are assembled by families, so that a program's first rows wait for no more than they need.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from adjoint.engine.backends.llvm.ir.machine import this_machine
from adjoint.engine.backends.llvm.small.order import loops as order_loops

_MEMCPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
MOVES = ("copy", "select", "gather", "scatter", "position", "need", "count")


def family_of(name: str) -> str | None:
    """The loops that one is assembled with; None of what is no inner loop."""
    kind, _, char = name.rpartition("_")
    if kind in order_loops.NAMES:
        return f"order {char}"
    if kind.startswith("convert_"):
        return f"conversions {kind.removeprefix('convert_')}"
    return "moves" if name.startswith(MOVES) else None


def text_of(family: str) -> str:
    """The module of a family."""
    kind, _, char = family.partition(" ")
    if kind == "order":
        return order_loops.text(char)
    if kind == "conversions":
        return "\n".join(_conversions("?" if char == "bool" else char))
    return "\n".join([_MEMCPY, *_moves(), *map(_counting, FLOATS)])


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


def _arithmetic(name: str, kind: str) -> str:
    """What is there, %y, combined with %x."""
    return f"  %z = {'' if kind == 'i64' else 'f'}{name} {kind} %y, %x"


def _extreme(way: str, kind: str) -> str:
    """The larger (`gt`) or smaller (`lt`) of what is there, %y, and %x; a NaN if one is.

    Which of two zeros NumPy takes is its machine's affair: they fail, for the kernel to decide.
    """
    if kind == "i64":
        return f"  %over = icmp s{way} i64 %x, %y\n  %z = select i1 %over, i64 %x, i64 %y"
    bits = "i32" if kind == "float" else "i64"
    return (
        f"  %xBits = bitcast {kind} %x to {bits}\n  %yBits = bitcast {kind} %y to {bits}\n"
        f"  %apart = icmp ne {bits} %xBits, %yBits\n  %equal = fcmp oeq {kind} %x, %y\n"
        "  %zeros = and i1 %apart, %equal\n  br i1 %zeros, label %fail, label %combine\n"
        f"combine:\n  %over = fcmp u{way} {kind} %x, %y\n"
        f"  %best = select i1 %over, {kind} %x, {kind} %y\n"
        f"  %stays = fcmp uno {kind} %y, %y\n  %z = select i1 %stays, {kind} %y, {kind} %best"
    )


COMBINING: dict[str, Callable[[str], str]] = {
    "add": partial(_arithmetic, "add"),
    "prod": partial(_arithmetic, "mul"),
    "amax": partial(_extreme, "gt"),
    "amin": partial(_extreme, "lt"),
}


LINE = 64  # bytes of a store of one value over and over


def _filling(size: int, word: str) -> str:
    """One value to elements side by side, by lines; the last line overlaps the one before it."""
    lanes = LINE // size
    line, zeros = f"<{lanes} x {word}>", f"<{lanes} x i32> zeroinitializer"
    return (
        f"  %still = icmp eq i64 %s0, 0\n  %dense = icmp eq i64 %s1, {size}\n"
        f"  %enough = icmp sge i64 %n, {lanes}\n  %even = and i1 %still, %dense\n"
        "  %fills = and i1 %even, %enough\n  br i1 %fills, label %fill, label %begin\n"
        f"fill:\n  %value = load {word}, ptr %b0\n"
        f"  %one = insertelement {line} poison, {word} %value, i32 0\n"
        f"  %line = shufflevector {line} %one, {line} poison, {zeros}\n"
        f"  %last = sub i64 %n, {lanes}\n  br label %lines\n"
        "lines:\n  %f = phi i64 [0, %fill], [%fNext, %lines]\n"
        f"  %fAt = getelementptr {word}, ptr %b1, i64 %f\n"
        f"  store {line} %line, ptr %fAt, align {size}\n"
        f"  %fNext = add i64 %f, {lanes}\n  %fMore = icmp slt i64 %fNext, %last\n"
        "  br i1 %fMore, label %lines, label %filled\n"
        f"filled:\n  %lastAt = getelementptr {word}, ptr %b1, i64 %last\n"
        f"  store {line} %line, ptr %lastAt, align {size}\n  ret void\n"
    )


def _moves() -> list[str]:
    texts = []
    for size, word in WORDS.items():
        move = f"  %x = load {word}, ptr %p0\n  store {word} %x, ptr %p1"
        at_once = (
            f"  %near = icmp eq i64 %s0, {size}\n  %next.to = icmp eq i64 %s1, {size}\n"
            "  %in.one = and i1 %near, %next.to\n  br i1 %in.one, label %piece, label %begin.not\n"
            f"piece:\n  %bytes = mul i64 %n, {size}\n"
            "  call void @llvm.memcpy.p0.p0.i64(ptr %b1, ptr %b0, i64 %bytes, i1 false)\n"
            f"  ret void\nbegin.not:\n{_filling(size, word)}begin:"
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


def _conversions(have: str) -> list[str]:
    kinds = {**FLOATS, **{char: f"i{bits}" for char, bits in INTEGERS.items()}}
    bodies = {want: _converting(have, want, kinds) for want in kinds if have in kinds}
    bodies |= {want: body for (from_, want), body in HALF_CONVERSIONS.items() if from_ == have}
    return [
        inner_loop(conversion(have, want), 2, body)
        for want, body in bodies.items()
        if can_convert(have, want)
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


def can_convert(have: str, want: str) -> bool:
    """Whether there is a loop from one of NumPy's characters of dtypes to another."""
    if (have, want) in HALF_CONVERSIONS:
        return "e" not in (have, want) or this_machine().features.halves
    known = FLOATS.keys() | INTEGERS.keys()
    return have != want and have in known and want in known
