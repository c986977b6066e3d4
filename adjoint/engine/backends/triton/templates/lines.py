"""What templates that work along lines share: where a line lies, memory of their own, a launch.

A tensor is seen as (before, length, after), in row-major order: `before * after` lines of `length`
elements, `after` apart. Sizes are words, so that one kernel serves all of them.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.launch_words import NAME, Written
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import ARENA, OWN, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.spec import is_known

ZEROS = 2048  # that a program writes
HEAD = ["@triton.jit", f"def {NAME}(words):", "    w = words.to(tl.pointer_type(tl.int64))"]


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def sizes_along(shape: tuple[int, ...], first: int, last: int) -> tuple[int, int, int]:
    """Elements before some dimensions, in them, after them."""
    return prod(shape[:first]), prod(shape[first:last]), prod(shape[last:])


def are_known(*sizes: Any) -> bool:
    """Whether sizes are numbers: kernels are launched for so many."""
    return all(map(is_known, sizes))


def own(setting: Setting, out: Place, name: str) -> tuple[Place, list[Launch]]:
    """Where a template may write its result, and the copy of it to state that follows.

    An error must leave state as it was, which only loops see to.
    """
    if out.buffer.kind in OWN:
        return out, []
    room = row_major(PlannedBuffer(ARENA, out.buffer.dtype, prod(out.shape), name=name), out.shape)
    return room, [copy_step(setting.target, room, out, name)]


def memory(dtype: DType, count: int, name: str) -> Place:
    """Memory for a while."""
    return row_major(PlannedBuffer(ARENA, dtype, count, name=name), (count,))


def address(place: Place) -> Address:
    """The word that is a place's address."""
    return Address(place.buffer, place.offset * place.buffer.dtype.itemsize)


def pointer(word: int, kind: str) -> str:
    """The expression of a pointer that a word is."""
    return f"tl.load(w + {word}).to(tl.pointer_type({kind}))"


def written(
    name: str,
    lines: list[str],
    grid: tuple[int, int],
    *,
    warps: int,
    stages: int = 2,
    fused: bool = False,
) -> Written:
    """A kernel that is given as lines after its `HEAD`."""
    source = "\n".join([*HEAD, *(f"    {line}" for line in lines)]) + "\n"
    return Written(source, grid, warps, name, stages, fused=fused)


def launch_of(
    name: str,
    text: Written,
    words: list[Any],
    reads: list[Place],
    writes: list[Place],
    *,
    cost: int,
    sizes: tuple[int, ...] = (),
) -> Launch:
    """A launch of a kernel, which may be written in several ways."""
    ways = ";".join(f"{way.source};{way.warps};{way.stages}" for way in (text, *text.others))
    return Launch(
        function=f"{name}{digest(ways)}",
        text=text,
        words=words,
        reads=tuple(whole(p.buffer) for p in reads),
        writes=tuple(whole(p.buffer) for p in writes),
        pieces=text.grid[0] * text.grid[1],
        cost=cost,
        label=sized(name, *sizes),
    )


def launch(
    name: str,
    lines: list[str],
    words: list[Any],
    reads: list[Place],
    writes: list[Place],
    grid: tuple[int, int],
    *,
    warps: int,
    cost: int,
    sizes: tuple[int, ...] = (),
    stages: int = 2,
) -> Launch:
    """A launch of a kernel that is given as lines after its `HEAD`."""
    text = written(name, lines, grid, warps=warps, stages=stages)
    return launch_of(name, text, words, reads, writes, cost=cost, sizes=sizes)


def zeros_step(out: Place) -> Launch:
    """Zeros in the whole of a place, which is contiguous."""
    size, dtype = prod(out.shape), out.buffer.dtype
    kind = memory_type(dtype.name)
    lines = [
        f"out = tl.multiple_of({pointer(0, kind)}, {dtype.itemsize})",
        f"at = tl.program_id(0).to(tl.int64) * {ZEROS} + tl.arange(0, {ZEROS})",
        f"tl.store(out + at, tl.full(({ZEROS},), 0, {kind}), mask=at < tl.load(w + 1))",
    ]
    grid = (-(-size // ZEROS), 1)
    return launch("zeros", lines, [address(out), size], [], [out], grid, warps=4, cost=size)
