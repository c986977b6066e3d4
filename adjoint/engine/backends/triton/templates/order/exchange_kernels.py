"""Kernels that put lines in order by exchanges, each line or block of one by one program.

Note [exchanges]
    A bitonic network: an item is exchanged with the one whose place differs in a single bit, `log2`
    times `log2` over two times in all (55 for 1,024 items). Its text is a loop in which the place
    of the other item is a number and `tl.gather` fetches that item, so it is as short for long
    blocks as for short ones. `tl.sort`, the same network written out, takes Triton seconds.
    Every item is another (Note [items]), so the order that comes out is the stable one.

    Of two sorted runs that become one, a program writes `MERGED` items. How many of those before
    them are the first run's, it finds by bisection; then its items are the least of as many from
    there on in both. The first ones of one run and, backwards, of the other, the lesser of each
    pair, are just these: they rise and then fall, so the exchanges of one stage put them in order.
"""

from __future__ import annotations

from adjoint.engine.backends.triton.templates.lines import pointer
from adjoint.engine.backends.triton.templates.order.sorting_kernels import (
    ELEMENTS,
    HIGHEST,
    LAST,
    LENGTH,
    MODE,
    OUT,
    PICK,
    PLACE,
    PLACES,
    RUN,
    RUNS,
    SOURCE,
    STEPS,
    LineOrder,
    head_lines,
    item_lines,
    program_lines,
    which_text,
)

MERGED, MERGE_WARPS = 1024, 8  # items of a program that merges; they divide those of a run
LONGEST = 4096  # items of a line, or of a block of one, that one program puts in order
TOGETHER = 1024  # items of the lines that one program puts in order, if they are short
EACH = 4  # items of a thread
MOST_WARPS = 16


def exchanged_rows(block: int) -> int:
    """Lines of a program."""
    return max(1, TOGETHER // block)


def exchange_warps(block: int) -> int:
    """Warps of a program."""
    return max(1, min(MOST_WARPS, block * exchanged_rows(block) // (32 * EACH)))


def exchanged_lines(what: LineOrder) -> list[str]:
    """A block of lines: its items in order, then what is asked for."""
    block, rows = what.block, exchanged_rows(what.block)
    by_key = what.wide and what.keys == ELEMENTS  # items are keys, and places beside them
    lines = [
        *head_lines(what),
        *program_lines(block),
        # In one dimension: of two, Triton would have every warp hold all of a line.
        f"each = tl.arange(0, {rows * block})",
        f"at = each % {block}",
        f"line = number // blocks * {rows} + each // {block}",
        "start = line // after * (length * after) + line % after",
        f"p = number % blocks * {block} + at",
        *item_lines(what, "p", "mine"),
        "inside = (p < length) & (line < count)",
    ]
    if by_key:  # beyond the end: no key is above it, and of equal ones the later place is
        lines += [f"mine = tl.where(inside, mine, {LAST})", "place = at"]
    if what.which != "take" and what.real:
        missing = f"mine == {LAST}" if by_key else f"(mine >> 32) == {HIGHEST}"
        lines += [
            f"none = ({missing}) & inside",
            *of_line("absent", "sum", "none.to(tl.int32)", rows, block),
        ]
    return [*lines, *network_lines(block, by_key), *asked_lines(what, by_key)]


def of_line(name: str, function: str, value: str, rows: int, block: int) -> list[str]:
    """A sum or the largest of each line, for each of its items."""
    return [
        f"{name} = tl.{function}(tl.reshape({value}, ({rows}, {block})), 1, keep_dims=True)",
        f"{name} = tl.reshape(tl.broadcast_to({name}, ({rows}, {block})), ({rows * block},))",
    ]


def network_lines(block: int, by_key: bool) -> list[str]:
    """All exchanges of a block."""
    less = "mine < other"
    if by_key:
        less = "(mine < other) | ((mine == other) & (place < other_place))"
    lines = [
        f"for stage in range(1, {block.bit_length()}):",
        "    for back in range(stage):",
        "        step = 1 << (stage - 1 - back)",
        "        other = tl.gather(mine, each ^ step, 0)",
    ]
    if by_key:
        lines.append("        other_place = tl.gather(place, each ^ step, 0)")
    lines += [
        "        is_least = (((at >> stage) & 1) == 0) == ((at & step) == 0)",
        f"        stays = ({less}) == is_least",
        "        mine = tl.where(stays, mine, other)",
    ]
    return [*lines, "        place = tl.where(stays, place, other_place)"] if by_key else lines


def asked_lines(what: LineOrder, by_key: bool) -> list[str]:
    """What is written of items in order: those of the line's elements are its first ones."""
    if what.writes == RUNS:
        return ["tl.store(out + line * length + p, mine, mask=inside)"]
    lines = [] if by_key else [f"place = mine & {PLACE}"]
    if what.writes == PLACES:
        to = "line // after * (take * after) + p * after + line % after"
        stored = "place.to(tl.int64), mask=inside & (p < take)"
        return [*lines, f"tl.store(out + {to}, {stored})"]
    lines += mode_lines(what, by_key) if what.writes == MODE else [f"rank = {which_text(what)}"]
    lines.append("chosen = inside & (p == rank)")
    if what.writes in (PICK, MODE):
        return [*lines, "tl.store(out + line, place.to(tl.int64), mask=chosen)"]
    return [
        *lines,
        "found = tl.load(x + start + place.to(tl.int64) * after, mask=chosen, other=0)",
        "tl.store(out + line, found, mask=chosen)",
    ]


def mode_lines(what: LineOrder, by_key: bool) -> list[str]:
    """`rank`: where the first of the longest runs of equal elements ends; no NaN equals another."""
    missing = LAST if by_key else HIGHEST
    begins = "(at == 0) | (key != tl.gather(key, tl.maximum(each - 1, 0), 0))"
    return [
        f"key = {'mine' if by_key else '(mine >> 32).to(tl.int32)'}",
        f"begins = {begins}{f' | (key == {missing})' if what.real else ''}",
        "begun = tl.where(begins, at, 0)",
        f"for doubling in range({(what.block - 1).bit_length()}):",
        "    earlier = tl.maximum(at - (1 << doubling), 0) - at",
        "    begun = tl.maximum(begun, tl.gather(begun, each + earlier, 0))",
        f"score = (at - begun) * {what.block} + ({what.block - 1} - at)",
        *of_line(
            "most", "max", "tl.where(inside, score, -1)", exchanged_rows(what.block), what.block
        ),
        f"rank = {what.block - 1} - most % {what.block}",
    ]


def merge_lines() -> list[str]:
    """Two neighbouring runs of `run` items each become one."""
    return [
        f"items = {pointer(SOURCE, 'tl.int64')}",
        f"out = {pointer(OUT, 'tl.int64')}",
        f"length = tl.load(w + {LENGTH})",
        f"run = tl.load(w + {RUN})",
        f"blocks = (length + {MERGED - 1}) // {MERGED}",
        "line = tl.program_id(0).to(tl.int64) // blocks",
        f"first = tl.program_id(0).to(tl.int64) % blocks * {MERGED}",
        "items += line * length",
        "begin = first // (2 * run) * (2 * run)",
        "middle = tl.minimum(begin + run, length)",
        "end = tl.minimum(begin + 2 * run, length)",
        "before = first - begin",  # so many items come before the program's
        "low = tl.maximum(before - (end - middle), 0)",
        "high = tl.minimum(before, middle - begin)",
        f"for _ in range(tl.load(w + {STEPS})):",
        "    open = low < high",
        "    half = (low + high) // 2",
        "    mine = tl.load(items + begin + half, mask=open, other=0)",
        "    other = tl.load(items + middle + before - 1 - half, mask=open, other=0)",
        "    up = open & (mine < other)",
        "    low = tl.where(up, half + 1, low)",
        "    high = tl.where(open & (mine > other), half, high)",
        f"at = tl.arange(0, {MERGED})",
        "a = begin + low + at",
        f"b = middle + before - low + ({MERGED - 1} - at)",
        f"mine = tl.load(items + a, mask=a < middle, other={LAST})",
        f"mine = tl.minimum(mine, tl.load(items + b, mask=b < end, other={LAST}))",
        f"for back in range({MERGED.bit_length() - 1}):",
        f"    step = {MERGED // 2} >> back",
        "    other = tl.gather(mine, at ^ step, 0)",
        "    mine = tl.where((mine < other) == ((at & step) == 0), mine, other)",
        "tl.store(out + line * length + first + at, mine, mask=first + at < length)",
    ]
