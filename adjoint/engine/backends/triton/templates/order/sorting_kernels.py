"""Kernels of order: items of lines, the first few of them, and what is read off sorted ones.

Note [items]
    An *item* is a word: a key, a signed number in the order of the elements (NaN above all, both
    zeros the same), and below it the place of its element. So no two items are equal, and what
    comes out is the stable order. Lines are put in order by exchanges, long ones block by block;
    then two sorted runs become one, again and again (Note [exchanges]).

    Keys of 64 bits do not fit. Lines of one block compare keys, then places; longer ones are sorted
    by the low half, then, from the order that gives, by the high half, which like it is stable.

    A few of a line are the least item, the least of the others and so on; of long lines a few of
    every block, and then of those.
"""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.templates.lines import pointer

SELECTED = 2048  # items of a program that selects
FINISHED, FINISH_WARPS = 512, 4  # results of a program that reads them off
PLACE = 0xFFFFFFFF  # the bits of an item that are its place
HIGHEST = 0x7FFFFFFF
PAD = HIGHEST << 32 | 0x80000000  # from here on: no elements
LAST = (1 << 63) - 1
# What kernels are told.
SOURCE, OUT, ORDER, LENGTH, AFTER, LINES, TAKE, RUN, STEPS = range(9)
# What keys are made of: all of the element, half of it, or items that are there already.
ELEMENTS, LOW, HIGH, ITEMS = "elements", "low", "high", "items"
# What is written: sorted runs, a block's best, places in order, one place or element of each line,
# or the place of the most frequent element.
RUNS, BEST, PLACES, PICK, VALUE, MODE = "runs", "best", "places", "pick", "value", "mode"


@dataclass(frozen=True, slots=True)
class LineOrder:
    """What decides the text of a kernel."""

    dtype: str
    descending: bool
    keys: str  # ELEMENTS, LOW, HIGH or ITEMS
    writes: str  # RUNS, BEST, PLACES, PICK, VALUE or MODE
    which: str = "take"  # of a line, which is picked: "take", "first" median, "omit" NaN
    block: int = 0

    @property
    def wide(self) -> bool:
        """Whether keys have 64 bits."""
        return self.dtype in ("int64", "float64")

    @property
    def real(self) -> bool:
        """Whether there may be NaN."""
        return "float" in self.dtype


def key_lines(what: LineOrder, value: str, name: str) -> list[str]:
    """The key of elements, in 32 bits or 64."""
    bits = 64 if what.wide else 32
    kind, most = f"tl.int{bits}", (1 << (bits - 1)) - 1
    if what.real:
        wide = "tl.float64" if what.wide else "tl.float32"
        lines = [
            f"{value} = {value}.to({wide})",
            f"{name} = {value}.to({kind}, bitcast=True)",
            f"{name} = {name} ^ (({name} >> {bits - 1}) & {most})",
            f"{name} = tl.where({value} == 0, 0, {name}).to({kind})",
            f"{name} = tl.where({value} != {value}, {most}, {name}).to({kind})",
        ]
    elif what.dtype == "uint32":
        lines = [f"{name} = ({value}.to(tl.int64) - {1 << 31}).to(tl.int32)"]
    else:
        lines = [f"{name} = {value}.to({kind})"]
    return [*lines, f"{name} = ~{name}"] if what.descending else lines


def item_lines(what: LineOrder, place: str, name: str) -> list[str]:
    """Items at places of lines; beyond a line's end, and of lines that are not, `PAD` and above."""
    inside, at, value, key = (f"{prefix}_{name}" for prefix in ("inside", "at", "value", "key"))
    lines = [f"{inside} = ({place} < length) & (line < count)"]
    if what.keys == ITEMS:
        return [
            *lines,
            f"{name} = tl.load(items + line * length + {place}, mask={inside}, other={PAD})",
            f"{name} = tl.where({name} >= {PAD}, {PAD} + {place}, {name})",
        ]
    if what.keys == HIGH:
        load = f"tl.load(order + line * length + {place}, mask={inside}, other=0)"
        lines.append(f"{at} = {load} & {PLACE}")
    element = f"x + start + {at if what.keys == HIGH else place} * after"
    lines += [
        f"{value} = tl.load({element}, mask={inside}, other=0)",
        *key_lines(what, value, key),
    ]
    if what.keys == LOW:
        lines.append(f"{key} = ({key} & {PLACE}) - {1 << 31}")
    elif what.keys == HIGH:
        lines.append(f"{key} = {key} >> 32")
    if what.wide and what.keys == ELEMENTS:
        return [*lines, f"{name} = {key}"]
    item = f"({key}.to(tl.int64) << 32) | {place}"
    return [*lines, f"{name} = tl.where({inside}, {item}, {PAD} + {place})"]


def program_lines(block: int) -> list[str]:
    """Which program it is: those of a line's blocks lie one after another, in one dimension of the
    grid, since of the others there are 65,535 at most."""
    return [
        "number = tl.program_id(0).to(tl.int64)",
        f"blocks = (length + {block - 1}) // {block}",
    ]


def selected_lines(what: LineOrder) -> list[str]:
    """A block of lines: the least item, then the least of those that are left, and so on."""
    block, rows = what.block, selected_rows(what.block)
    lines = [
        *head_lines(what),
        *program_lines(block),
        f"line = number // blocks * {rows} + tl.arange(0, {rows})[:, None]",
        "start = line // after * (length * after) + line % after",
        f"first = number % blocks * {block}",
        f"p = first + tl.arange(0, {block})[None, :]",
        *item_lines(what, "p", "mine"),
        "for rank in range(take):",
        "    least = tl.min(mine, 1, keep_dims=True)",
        f"    mine = tl.where(mine == least, {LAST}, mine)",
    ]
    if what.writes == BEST:
        to = "(line * blocks + number % blocks) * take + rank"
        return [*lines, f"    tl.store(out + {to}, least, mask=line < count)"]
    to = "line // after * (take * after) + rank * after + line % after"
    return [*lines, f"    tl.store(out + {to}, least & {PLACE}, mask=line < count)"]


def selected_rows(block: int) -> int:
    """Lines of a program that selects."""
    return max(1, SELECTED // block)


def which_text(what: LineOrder) -> str:
    """Which of a line's elements in order is picked; `absent` of them are NaN."""
    middle = "(length - 1) // 2"
    if what.which == "take":
        return "take - 1"
    if not what.real:
        return middle
    if what.which == "omit":
        return "tl.maximum(length - absent - 1, 0) // 2"
    return f"tl.where(absent > 0, length - absent, {middle})"


def head_lines(what: LineOrder) -> list[str]:
    """What kernels are told, by name."""
    kind = memory_type(what.dtype)
    result_type = kind if what.writes == VALUE else "tl.int64"
    return [
        f"x = {pointer(SOURCE, kind)}",
        f"items = {pointer(SOURCE, 'tl.int64')}",
        f"out = {pointer(OUT, result_type)}",
        f"order = {pointer(ORDER, 'tl.int64')}",
        f"length = tl.load(w + {LENGTH})",
        f"after = tl.load(w + {AFTER})",
        f"count = tl.load(w + {LINES})",
        f"take = tl.load(w + {TAKE})",
    ]


def finish_lines(what: LineOrder) -> list[str]:
    """What is read off lines whose items are sorted: at `ORDER` they are, `SOURCE` the elements.

    Of keys of 64 bits, `RUN` is the order by low halves, in which items say their places.
    """
    lines = [
        *head_lines(what),
        f"by_low = {pointer(RUN, 'tl.int64')}",
        f"o = tl.program_id(0).to(tl.int64) * {FINISHED} + tl.arange(0, {FINISHED})",
    ]
    if what.writes == PLACES:
        lines += [
            "inside = o < count * take",
            "rank = o // after % take",
            "line = o // (after * take) * after + o % after",
        ]
    else:
        lines += ["inside = o < count", "line = o"]
        if what.which != "take" and what.real:
            lines += first_missing_lines()
        lines.append(f"rank = {which_text(what)}")
    lines.append(f"place = tl.load(order + line * length + rank, mask=inside, other=0) & {PLACE}")
    if what.wide:
        lines.append(
            f"place = tl.load(by_low + line * length + place, mask=inside, other=0) & {PLACE}"
        )
    if what.writes != VALUE:
        return [*lines, "tl.store(out + o, place, mask=inside)"]
    return [
        *lines,
        "start = line // after * (length * after) + line % after",
        "found = tl.load(x + start + place * after, mask=inside, other=0)",
        "tl.store(out + o, found, mask=inside)",
    ]


def first_missing_lines() -> list[str]:
    """How many NaN each sorted line ends with."""
    return [
        "low = tl.zeros_like(o)",
        "high = low + length",
        f"for _ in range(tl.load(w + {STEPS})):",
        "    middle = (low + high) // 2",
        "    open = low < high",
        "    probe = tl.load(order + line * length + middle, mask=open & inside, other=0)",
        f"    up = open & ((probe >> 32) < {HIGHEST})",
        "    low = tl.where(up, middle + 1, low)",
        "    high = tl.where(open & (up == 0), middle, high)",
        "absent = length - low",
    ]
