"""Inner loops that put rows of few elements in order, find the best of a row, and search one.

Called as NumPy calls its own, on a first element and a first place of each row: `dims` are how many
rows there are, how long they are and flags; the steps along rows come after those between them.
"""

from __future__ import annotations

ELEMENTS = {"f": "float", "d": "double", "i": "i32", "l": "i64", "q": "i64"}
DESCENDING, DISTINCT = 1, 2  # flags: the largest first; two that are equal, or a NaN, are a failure
LONGEST = 64  # elements of a row, each of which is compared with all others
LANES = 16  # elements that are compared with one at once


NAMES = ("order", "best", "running_best", "mode", "search")


def text(char: str) -> str:
    """The functions of elements of one dtype."""
    return "\n".join([loop(char) for loop in (_order, _best, _running_best, _mode, _search)])


def _before(char: str) -> str:
    """Whether a value stands before another; NaN is larger than any number."""
    kind = ELEMENTS[char]
    if char in "fd":
        body = f"""
  %less = fcmp olt {kind} %a, %b
  %more = fcmp ogt {kind} %a, %b
  %aMissing = fcmp uno {kind} %a, %a
  %bMissing = fcmp uno {kind} %b, %b
  %aIs = xor i1 %aMissing, true
  %bIs = xor i1 %bMissing, true
  %lastIs = and i1 %aIs, %bMissing
  %firstIs = and i1 %aMissing, %bIs
  %up = or i1 %less, %lastIs
  %down = or i1 %more, %firstIs"""
    else:
        body = f"""
  %up = icmp slt {kind} %a, %b
  %down = icmp sgt {kind} %a, %b"""
    return f"""
define i1 @before_{char}({kind} %a, {kind} %b, i1 %descending) alwaysinline {{{body}
  %out = select i1 %descending, i1 %down, i1 %up
  ret i1 %out
}}"""


_HEAD = """
entry:
  %rows = load i64, ptr %dims
  %lengthAt = getelementptr i64, ptr %dims, i64 1
  %length = load i64, ptr %lengthAt
  %flagsAt = getelementptr i64, ptr %dims, i64 2
  %flags = load i64, ptr %flagsAt
  %descendingBit = and i64 %flags, 1
  %descending = icmp ne i64 %descendingBit, 0
  %distinctBit = and i64 %flags, 2
  %distinct = icmp ne i64 %distinctBit, 0
  %x0 = load ptr, ptr %args
  %o0At = getelementptr ptr, ptr %args, i64 1
  %o0 = load ptr, ptr %o0At
  %xStep = load i64, ptr %steps
  %oStepAt = getelementptr i64, ptr %steps, i64 1
  %oStep = load i64, ptr %oStepAt
  %alongAt = getelementptr i64, ptr %steps, i64 2
  %along = load i64, ptr %alongAt
  %oAlongAt = getelementptr i64, ptr %steps, i64 3
  %oAlong = load i64, ptr %oAlongAt
  br label %row
row:
  %r = phi i64 [0, %entry], [%rNext, %rowEnd]
  %xAway = mul i64 %r, %xStep
  %x = getelementptr i8, ptr %x0, i64 %xAway
  %oAway = mul i64 %r, %oStep
  %o = getelementptr i8, ptr %o0, i64 %oAway
  %rNext = add i64 %r, 1
  %left = icmp slt i64 %r, %rows
  br i1 %left, label %begin, label %end
"""


def _source(name: str, index: str) -> str:
    """Where an element of the row that is read lies."""
    return f"""  %{name}.away = mul i64 %{index}, %along
  %{name} = getelementptr i8, ptr %x, i64 %{name}.away"""


def _target(name: str, index: str) -> str:
    """Where an element of the row that is written lies."""
    return f"""  %{name}.away = mul i64 %{index}, %oAlong
  %{name} = getelementptr i8, ptr %o, i64 %{name}.away"""


def _ranks(char: str) -> str:
    """How many elements are less than each of a row; whether no two are equal and none is NaN.

    Two elements that differ count one for one of them, all others count nothing: all ranks
    together are the number of pairs exactly if each pair differs.
    """
    kind = ELEMENTS[char]
    size, some = f"<{LANES} x {kind}>", f"<{LANES} x i32>"
    less = "fcmp olt" if char in "fd" else "icmp slt"
    return f"""
define i1 @ranks_{char}(ptr %row, ptr %ranks, i64 %length) {{
entry:
  br label %block
block:
  %j = phi i64 [0, %entry], [%jNext, %done]
  %inside = icmp slt i64 %j, %length
  br i1 %inside, label %first, label %sum
first:
  %atPlace = getelementptr {kind}, ptr %row, i64 %j
  %at = load {size}, ptr %atPlace, align 8
  br label %each
each:
  %i = phi i64 [0, %first], [%iNext, %each]
  %count = phi {some} [zeroinitializer, %first], [%countNext, %each]
  %onePlace = getelementptr {kind}, ptr %row, i64 %i
  %one = load {kind}, ptr %onePlace
  %single = insertelement {size} poison, {kind} %one, i64 0
  %all = shufflevector {size} %single, {size} poison, {some} zeroinitializer
  %stands = {less} {size} %all, %at
  %more = sext <{LANES} x i1> %stands to {some}
  %countNext = sub {some} %count, %more
  %iNext = add i64 %i, 1
  %again = icmp slt i64 %iNext, %length
  br i1 %again, label %each, label %done
done:
  %to = getelementptr i32, ptr %ranks, i64 %j
  store {some} %countNext, ptr %to, align 8
  %jNext = add i64 %j, {LANES}
  br label %block
sum:
  %k = phi i64 [0, %block], [%kNext, %add]
  %total = phi i64 [0, %block], [%totalNext, %add]
  %some = icmp slt i64 %k, %length
  br i1 %some, label %add, label %compare
add:
  %rankAt = getelementptr i32, ptr %ranks, i64 %k
  %rank = load i32, ptr %rankAt
  %wide = zext i32 %rank to i64
  %totalNext = add i64 %total, %wide
  %kNext = add i64 %k, 1
  br label %sum
compare:
  %less = sub i64 %length, 1
  %twice = mul i64 %length, %less
  %pairs = lshr i64 %twice, 1
  %out = icmp eq i64 %total, %pairs
  ret i1 %out
}}"""


def _order(char: str) -> str:
    """Places of a row's elements in order, equal ones as they come.

    Where all differ, an element goes where its rank says; else they are inserted one by one.
    """
    kind = ELEMENTS[char]
    equal = (
        f"fcmp ueq {kind} %first, %second" if char in "fd" else f"icmp eq {kind} %first, %second"
    )
    head = _HEAD.replace(
        "entry:",
        f"""entry:
  %values = alloca [{LONGEST} x {kind}], align 16
  %ranks = alloca [{LONGEST} x i32], align 16
  store [{LONGEST} x {kind}] zeroinitializer, ptr %values, align 16""",
    )
    return f"""{_before(char)}{_ranks(char)}
define void @order_{char}(ptr %args, ptr %dims, ptr %steps, ptr %own) {{{head}
begin:
  br label %gather
gather:
  %g = phi i64 [0, %begin], [%gNext, %gatherOne]
  %gSome = icmp slt i64 %g, %length
  br i1 %gSome, label %gatherOne, label %rank
gatherOne:
{_source("gAt", "g")}
  %gValue = load {kind}, ptr %gAt
  %gTo = getelementptr {kind}, ptr %values, i64 %g
  store {kind} %gValue, ptr %gTo
  %gNext = add i64 %g, 1
  br label %gather
rank:
  %lastRank = sub i64 %length, 1
  %differ = call i1 @ranks_{char}(ptr %values, ptr %ranks, i64 %length)
  br i1 %differ, label %place, label %element
place:
  %s = phi i64 [0, %rank], [%sNext, %place]
  %sRankAt = getelementptr i32, ptr %ranks, i64 %s
  %sRank = load i32, ptr %sRankAt
  %sWide = zext i32 %sRank to i64
  %sBack = sub i64 %lastRank, %sWide
  %sRow = select i1 %descending, i64 %sBack, i64 %sWide
{_target("sTo", "sRow")}
  store i64 %s, ptr %sTo
  %sNext = add i64 %s, 1
  %sSome = icmp slt i64 %sNext, %length
  br i1 %sSome, label %place, label %rowEnd
element:
  %i = phi i64 [0, %rank], [%iNext, %insert]
  %iNext = add i64 %i, 1
  %some = icmp slt i64 %i, %length
  br i1 %some, label %take, label %ordered
take:
{_source("vAt", "i")}
  %v = load {kind}, ptr %vAt
  br label %shift
shift:
  %p = phi i64 [%i, %take], [%q, %move]
  %isFirst = icmp eq i64 %p, 0
  br i1 %isFirst, label %insert, label %compare
compare:
  %q = sub i64 %p, 1
{_target("qAt", "q")}
  %other = load i64, ptr %qAt
{_source("wAt", "other")}
  %w = load {kind}, ptr %wAt
  %goes = call i1 @before_{char}({kind} %v, {kind} %w, i1 %descending)
  br i1 %goes, label %move, label %insert
move:
{_target("to", "p")}
  store i64 %other, ptr %to
  br label %shift
insert:
{_target("here", "p")}
  store i64 %i, ptr %here
  br label %element
ordered:
  br i1 %distinct, label %look, label %rowEnd
look:
  %k = phi i64 [0, %ordered], [%kNext, %pair]
  %kNext = add i64 %k, 1
  %inside = icmp slt i64 %kNext, %length
  br i1 %inside, label %pair, label %rowEnd
pair:
{_target("aAt", "k")}
  %aPlace = load i64, ptr %aAt
{_target("bAt", "kNext")}
  %bPlace = load i64, ptr %bAt
  %aFrom = mul i64 %aPlace, %along
  %firstAt = getelementptr i8, ptr %x, i64 %aFrom
  %first = load {kind}, ptr %firstAt
  %bFrom = mul i64 %bPlace, %along
  %secondAt = getelementptr i8, ptr %x, i64 %bFrom
  %second = load {kind}, ptr %secondAt
  %tied = {equal}
  br i1 %tied, label %fail, label %look
fail:
  store i64 1, ptr %own
  ret void
rowEnd:
  br label %row
end:
  ret void
}}"""


def _row_walk(
    name: str, kind: str, better: str, first: int, each: str = "", row_end: str = ""
) -> str:
    """Walks along rows from their `first` element on and keeps the place %p of the best.

    `better` tells whether an element %v is better than the best %b; `each` and `row_end` store.
    """
    return f"""
define void @{name}(ptr %args, ptr %dims, ptr %steps, ptr %own) {{{_HEAD}
begin:
  %start = load {kind}, ptr %x
  br label %element
element:
  %i = phi i64 [{first}, %begin], [%iNext, %take]
  %b = phi {kind} [%start, %begin], [%bNext, %take]
  %p = phi i64 [0, %begin], [%pNext, %take]
  %iNext = add i64 %i, 1
  %some = icmp slt i64 %i, %length
  br i1 %some, label %take, label %rowEnd
take:
{_source("vAt", "i")}
  %v = load {kind}, ptr %vAt{better}
  %bNext = select i1 %better, {kind} %v, {kind} %b
  %pNext = select i1 %better, i64 %i, i64 %p{each}
  br label %element
rowEnd:{row_end}
  br label %row
end:
  ret void
}}"""


def _best(char: str) -> str:
    """The place of a row's largest element, or smallest; of equal ones the first, and a NaN."""
    kind = ELEMENTS[char]
    if char in "fd":
        better = f"""
  %up = fcmp ogt {kind} %v, %b
  %down = fcmp olt {kind} %v, %b
  %vMissing = fcmp uno {kind} %v, %v
  %bIs = fcmp ord {kind} %b, %b
  %absent = and i1 %vMissing, %bIs
  %chosen = select i1 %descending, i1 %up, i1 %down
  %better = or i1 %chosen, %absent"""
    else:
        better = f"""
  %up = icmp sgt {kind} %v, %b
  %down = icmp slt {kind} %v, %b
  %better = select i1 %descending, i1 %up, i1 %down"""
    return _row_walk(
        f"best_{char}", kind, better, first=1, row_end="""
  store i64 %p, ptr %o""",
    )  # fmt: skip


def _running_best(char: str) -> str:
    """The place of the largest element up to each, or the smallest; the latest of equal ones."""
    kind = ELEMENTS[char]
    if char in "fd":
        better = f"""
  %up = fcmp oge {kind} %v, %b
  %down = fcmp ole {kind} %v, %b
  %absent = fcmp uno {kind} %v, %v
  %chosen = select i1 %descending, i1 %up, i1 %down
  %better = or i1 %chosen, %absent"""
    else:
        better = f"""
  %up = icmp sge {kind} %v, %b
  %down = icmp sle {kind} %v, %b
  %better = select i1 %descending, i1 %up, i1 %down"""
    return _row_walk(
        f"running_best_{char}", kind, better, first=0, each=f"""
{_target("to", "i")}
  store i64 %pNext, ptr %to""",
    )  # fmt: skip


def _mode(char: str) -> str:
    """The last place of a row's most frequent element: of several the smallest; a NaN is alone."""
    kind = ELEMENTS[char]
    equal = f"fcmp oeq {kind} %v, %u" if char in "fd" else f"icmp eq {kind} %v, %u"
    return f"""
define void @mode_{char}(ptr %args, ptr %dims, ptr %steps, ptr %own) {{{_HEAD}
begin:
  %start = load {kind}, ptr %x
  br label %element
element:
  %i = phi i64 [0, %begin], [%iNext, %compare]
  %b = phi {kind} [%start, %begin], [%bNext, %compare]
  %most = phi i64 [0, %begin], [%mostNext, %compare]
  %p = phi i64 [0, %begin], [%pNext, %compare]
  %iNext = add i64 %i, 1
  %some = icmp slt i64 %i, %length
  br i1 %some, label %take, label %rowEnd
take:
{_source("vAt", "i")}
  %v = load {kind}, ptr %vAt
  br label %count
count:
  %j = phi i64 [0, %take], [%jNext, %count]
  %many = phi i64 [0, %take], [%manyNext, %count]
  %last = phi i64 [%i, %take], [%lastNext, %count]
{_source("uAt", "j")}
  %u = load {kind}, ptr %uAt
  %same = {equal}
  %one = zext i1 %same to i64
  %manyNext = add i64 %many, %one
  %lastNext = select i1 %same, i64 %j, i64 %last
  %jNext = add i64 %j, 1
  %further = icmp slt i64 %jNext, %length
  br i1 %further, label %count, label %compare
compare:
  %none = icmp eq i64 %manyNext, 0
  %often = select i1 %none, i64 1, i64 %manyNext
  %more = icmp sgt i64 %often, %most
  %as.many = icmp eq i64 %often, %most
  %smaller = call i1 @before_{char}({kind} %v, {kind} %b, i1 false)
  %instead = and i1 %as.many, %smaller
  %better = or i1 %more, %instead
  %bNext = select i1 %better, {kind} %v, {kind} %b
  %mostNext = select i1 %better, i64 %often, i64 %most
  %pNext = select i1 %better, i64 %lastNext, i64 %p
  br label %element
rowEnd:
  store i64 %p, ptr %o
  br label %row
end:
  ret void
}}"""


def _search(char: str) -> str:
    """Where values go in a sequence, after equal ones with a flag: the steps that PyTorch takes.

    What is NaN on either side is passed by: Note [searches], in templates.searching.
    """
    kind = ELEMENTS[char]
    less, least = ("fcmp ult", "fcmp ule") if char in "fd" else ("icmp slt", "icmp sle")
    return f"""
define void @search_{char}(ptr %args, ptr %dims, ptr %steps, ptr %own) {{
entry:
  %count = load i64, ptr %dims
  %lengthAt = getelementptr i64, ptr %dims, i64 1
  %length = load i64, ptr %lengthAt
  %rightAt = getelementptr i64, ptr %dims, i64 2
  %rightBit = load i64, ptr %rightAt
  %right = icmp ne i64 %rightBit, 0
  %x = load ptr, ptr %args
  %vAt = getelementptr ptr, ptr %args, i64 1
  %v0 = load ptr, ptr %vAt
  %oAt = getelementptr ptr, ptr %args, i64 2
  %o0 = load ptr, ptr %oAt
  %vStepAt = getelementptr i64, ptr %steps, i64 1
  %vStep = load i64, ptr %vStepAt
  %oStepAt = getelementptr i64, ptr %steps, i64 2
  %oStep = load i64, ptr %oStepAt
  %alongAt = getelementptr i64, ptr %steps, i64 3
  %along = load i64, ptr %alongAt
  br label %value
value:
  %i = phi i64 [0, %entry], [%iNext, %found]
  %some = icmp slt i64 %i, %count
  br i1 %some, label %take, label %end
take:
  %vAway = mul i64 %i, %vStep
  %vPlace = getelementptr i8, ptr %v0, i64 %vAway
  %v = load {kind}, ptr %vPlace
  br label %halve
halve:
  %low = phi i64 [0, %take], [%lowNext, %look]
  %high = phi i64 [%length, %take], [%highNext, %look]
  %more = icmp slt i64 %low, %high
  br i1 %more, label %look, label %found
look:
  %width = sub i64 %high, %low
  %half = lshr i64 %width, 1
  %middle = add i64 %low, %half
{_source("mAt", "middle")}
  %m = load {kind}, ptr %mAt
  %less = {less} {kind} %m, %v
  %least = {least} {kind} %m, %v
  %goes = select i1 %right, i1 %least, i1 %less
  %beyond = add i64 %middle, 1
  %lowNext = select i1 %goes, i64 %beyond, i64 %low
  %highNext = select i1 %goes, i64 %high, i64 %middle
  br label %halve
found:
  %oAway = mul i64 %i, %oStep
  %oPlace = getelementptr i8, ptr %o0, i64 %oAway
  store i64 %low, ptr %oPlace
  %iNext = add i64 %i, 1
  br label %value
end:
  ret void
}}"""
