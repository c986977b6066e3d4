"""One arena: buffers get offsets so that those alive together do not overlap.

Note [in place]
    A kernel's result may take the memory of an operand that is not read after it, if the kernel
    reads that operand only at the element it is about to write: no reduction, the whole of both,
    the same strides, nobody else in the launch that touches either. Such buffers are placed as one,
    a *block*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from adjoint.engine.compiler.loops.ir import AffineReference, Kernel
from adjoint.engine.compiler.memory.places import ALIGN, ARENA, PlannedBuffer
from adjoint.engine.compiler.schedule.plan import Plan
from adjoint.engine.compiler.schedule.steps import Launch, Step, inside

Spans = dict[PlannedBuffer, tuple[int, int]]


@dataclass(eq=False, slots=True)
class ArenaBlock:
    """Buffers that lie in one place, one after the other in time."""

    nbytes: int
    first: int
    last: int
    buffers: list[PlannedBuffer]


def lifetimes(plan: Plan) -> Spans:
    """The first and last moment (of `plan.moments`) at which each arena buffer is touched.

    What a loop or branch touches as a whole lives through all of it. What its steps make for
    themselves is dead at the end of a turn, so the moments of one turn stand for those of all.
    What is kept from call to call lives through all of the program.
    """
    spans: Spans = {}

    def visit(steps: Iterable[Step], now: int) -> int:
        for step in steps:
            start, now = now, visit(inside(step), now + 1)
            for touch in (*step.reads, *step.writes):
                buffer = touch.buffer
                if buffer.kind == ARENA:
                    first, last = spans.get(buffer, (start, now - 1))
                    spans[buffer] = (min(first, start), max(last, now - 1))
        return now

    count = visit(plan.steps, 0)
    kept = () if plan.kept is None else plan.kept.buffers
    return spans | {buffer: (0, max(count - 1, 0)) for buffer in kept}


def rounded(nbytes: int) -> int:
    """The room that so many bytes take."""
    return -(-max(nbytes, 1) // ALIGN) * ALIGN


def together(blocks: list[ArenaBlock]) -> list[list[int]]:
    """For each block those that are alive at the same time.

    Blocks are met in the order in which they begin: those still alive are the ones to note, so
    that a long program, most of whose blocks are never alive together, takes no longer for that.
    """
    others: list[list[int]] = [[] for _ in blocks]
    living: list[int] = []
    for k in sorted(range(len(blocks)), key=lambda k: blocks[k].first):
        start = blocks[k].first
        living = [j for j in living if blocks[j].last >= start]
        for j in living:
            others[j].append(k)
        others[k] = living.copy()
        living.append(k)
    return others


def pack(
    blocks: list[ArenaBlock], sizes: list[int], others: list[list[int]]
) -> tuple[list[int], int]:
    """Place blocks of these sizes, the largest first, in the tightest gap between `others`.

    Returns where each begins and the size of it all.
    """
    starts = [-1] * len(blocks)
    total = 0
    for k in sorted(range(len(blocks)), key=lambda k: (-sizes[k], blocks[k].first)):
        size = sizes[k]
        at, best, room = 0, -1, 0
        for start, stop in sorted([(s, s + sizes[j]) for j in others[k] if (s := starts[j]) >= 0]):
            if start - at >= size and (best < 0 or start - at < room):
                best, room = at, start - at
            if stop > at:
                at = stop
        starts[k] = best if best >= 0 else at
        total = max(total, starts[k] + size)
    return starts, total


def alive(blocks: list[ArenaBlock], sizes: list[int], moments: int) -> list[int]:
    """Bytes of the blocks alive at each moment; no arena can be smaller than the largest."""
    change = [0] * (moments + 1)
    for block, size in zip(blocks, sizes, strict=True):
        change[block.first] += size
        change[block.last + 1] -= size
    return list(accumulate(change[:-1]))


# -- in place (Note [in place]) -----------------------------------------------------------------


def blocks(plan: Plan, spans: Spans) -> list[ArenaBlock]:
    """Buffers to be placed, those together of which one takes the place of another."""
    block_of: dict[PlannedBuffer, ArenaBlock] = {}
    moments = plan.moments
    kept = frozenset() if plan.kept is None else plan.kept.buffers
    for buffer, (first, last) in sorted(spans.items(), key=lambda e: e[1]):
        _, step = moments[first]
        takes = isinstance(step, Launch) and buffer not in kept
        dying = dying_operand(step, first, buffer, spans) if takes else None  # type: ignore[arg-type]
        dying = None if dying in kept else dying
        block = block_of.get(dying) if dying is not None else None
        free = block is not None and block.last == first and block.nbytes >= buffer.nbytes
        # Another result of the step may have taken its place, even one that nobody reads.
        if block is not None and free and block.buffers[-1] is dying:
            block.last = last
            block.buffers.append(buffer)
            block_of[buffer] = block
        else:
            block_of[buffer] = ArenaBlock(buffer.nbytes, first, last, [buffer])
    return list({id(b): b for b in block_of.values()}.values())


def dying_operand(
    step: Launch, k: int, buffer: PlannedBuffer, spans: Spans
) -> PlannedBuffer | None:
    """A buffer that ends at a step and whose memory another, made there, can take."""
    kernel = only_user(step, buffer)
    if kernel is None or kernel.form.inner:
        return None
    stores = {r for _, r in kernel.form.stores}
    target = [r for r in kernel.refs if r.buffer is buffer]
    if len(target) != 1:
        return None
    for i, ref in enumerate(kernel.refs):
        other = ref.buffer
        if other is None or i in stores or other.kind != ARENA or spans[other][1] != k:
            continue
        if spans[other][0] == k or not other.size == buffer.size == kernel.work:
            continue
        if not in_step(kernel, other, target[0]):
            continue
        if only_user(step, other) is kernel:
            return other
    return None


def only_user(step: Launch, buffer: PlannedBuffer) -> Kernel | None:
    """The one kernel of a launch that touches a buffer."""
    users = [k for k in step.kernels if any(r.buffer is buffer for r in k.refs)]
    return users[0] if len(users) == 1 else None


def in_step(kernel: Kernel, source: PlannedBuffer, target: AffineReference) -> bool:
    """Whether a kernel reads a buffer only at the element it writes."""
    sizes = (*kernel.outer, *kernel.inner)
    if target.picks or any(n > 1 and not target.strides[d] for d, n in enumerate(sizes)):
        return False
    return all(
        r.offset == target.offset
        and r.dtype.itemsize == target.dtype.itemsize
        and not r.picks
        and all(n == 1 or r.strides[d] == target.strides[d] for d, n in enumerate(sizes))
        for r in kernel.refs
        if r.buffer is source
    )
