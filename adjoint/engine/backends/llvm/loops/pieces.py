"""Pieces: the words a kernel is given, and how its work is dealt out among workers.

Note [kernel words]
    A kernel is called as kernel(args, worker, workers). `args` points to 64-bit words: the number
    of instances, the number of pieces of all instances together, then a block per instance:
        first piece | pieces | chunk | chunks | outer sizes | inner sizes
        | for each reference its address and the strides that are neither 0 nor, along the vector
          dimension, 1, and for dimensions picked by values their strides and sizes
        | where indices are checked, the address of the status and a code per check
        | host numbers
    Work is dealt out in pieces; worker w of n does the pieces from total * w // n to
    total * (w + 1) // n, so which worker does a piece never changes what it computes.

Note [crowded kernels]
    Several registers' worth of elements at a time hide how long an operation takes: of a chain of
    operations, each waits for the one before it. Where many values are needed at once there is
    other work to do meanwhile, and registers are what is short: values go to memory and back, and
    LLVM takes a time that grows faster than the code. Such kernels (a recurrence written as a loop
    in Python, some steps of which are one kernel) take fewer elements at a time. They reduce
    nothing, so that their results are the same.

Note [last lanes]
    What is left of a row after whole vectors takes as long one by one as several vectors: an
    exponential of one element is no quicker than of sixteen. Where the processor reads and writes
    some lanes of a vector by one instruction (AVX-512), the last elements are a vector of one
    register with lanes that are not there: zeros in place of what would be read, which no
    reduction takes and nothing stores. Forms that could report an error of such a lane, or that
    step through memory, do their last elements one by one as elsewhere.
"""

from __future__ import annotations

from collections import Counter

from adjoint.engine.backends.llvm.ir.machine import machine
from adjoint.engine.backends.llvm.ir.piece_walks import PIECES
from adjoint.engine.backends.llvm.loops.column_sums import sums_columns
from adjoint.engine.compiler.loops.ir import INDEX, LOAD, Form, Op
from adjoint.engine.core.dtype import named
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.ops.random.random import word_bits

CHUNK, CHUNKS, SIZES = range(PIECES + 1, PIECES + 4)
WIDE = ("float64", "int64")
FEW_OPERATIONS = 4  # beside a function's own numbers their values have room in registers
FEW_LANES = 4  # elements at a time of rows that are shorter than a few registers


def words_of(form: Form) -> list[tuple[str, int, int]]:
    """The words of an instance after its sizes: ("address", ref, -1), ("stride", ref, dim), ..."""
    words: list[tuple[str, int, int]] = []
    picked = {op.args[0][1]: len(op.args) - 1 for op in form.ops if op.kind == LOAD}
    for r, (_, classes) in enumerate(form.refs):
        words.append(("address", r, -1))
        words += [("stride", r, d) for d, c in enumerate(classes) if c >= 2]
        for j in range(picked.get(r, 0)):
            words += [("pick", r, j), ("limit", r, j)]
    words += [("extent", k, 0) for k, op in enumerate(form.ops) if op.name == "scatter"]
    checks = form.checks()
    if checks:
        words.append(("status", 0, -1))
        words += [("fault", k, j) for k, j in checks]
    words += [("host", h, -1) for h in range(len(form.hosts))]
    return words


def lanes_of(form: Form) -> int:
    """How many elements at a time: a few registers' worth, few where elements are scattered."""
    last = form.outer + form.inner - 1 if form.rows else form.outer - 1
    if last < 0:
        return 1
    if any(classes[last] == 2 and name != "index" for name, classes in form.refs):
        return FEW_LANES
    drawn = _lanes_of_draw(form)
    if drawn:
        return drawn
    # What reduces columns reads a little of every row: take much of it at a time.
    if form.inner and not form.rows and len(form.ops) <= 4 and not sums_columns(form):
        return 16 if any(op.dtype in WIDE for op in form.ops) else 32
    ops = [op for op in form.ops if not _in_one_lane(form, op, last)]
    lanes = 8 if any(op.dtype in WIDE or op.compute in WIDE for op in ops) else 16
    if not form.inner and len(ops) > machine().registers // 2:
        lanes = _lanes_of_crowd(_alive_at_once(form), lanes, 512 // lanes)
    elif last_lanes(form):
        lanes *= _registers_at_once(form)
    return lanes


def last_lanes(form: Form) -> int:
    """The lanes of vectors for the last elements (Note [last lanes]); 0: those come one by one."""
    last = form.outer + form.inner - 1 if form.rows else form.outer - 1
    if not machine().masks or last < 0 or form.turned or form.checks() or sums_columns(form):
        return 0
    if any(op.name in ("random", "scatter") for op in form.ops):
        return 0
    if any(classes[last] == 2 for name, classes in form.refs if name != "index"):
        return 0
    wide = any(op.dtype in WIDE or op.compute in WIDE for op in form.ops)
    return machine().bits // (64 if wide else 32)


def _registers_at_once(form: Form) -> int:
    """How many registers hold a vector of a form whose last elements are no matter.

    A function is one chain of operations, a reduction waits for the element before: others go on
    meanwhile. What only moves and adds waits for memory, and several stores in a row that each
    touch two lines of it take longer than with loads between them.
    """
    functions = any(op.name in REGISTRY and REGISTRY[op.name].cost == "function" for op in form.ops)
    if form.rows:
        return 2
    return (4 if len(form.ops) <= FEW_OPERATIONS else 2) if functions else 1


def _lanes_of_crowd(values: int, lanes: int, bits: int) -> int:
    """So few lanes of so many bits that all values needed at once have room in registers.

    Note [crowded kernels]; at the least a value fills one register.
    """
    one = machine().bits
    while lanes * bits > one and values * lanes * bits > one * machine().registers:
        lanes //= 2
    return max(lanes, FEW_LANES)


def _alive_at_once(form: Form) -> int:
    """How many values are needed at once, at most, in the order in which they are written.

    All values are computed before the first is stored.
    """
    order: dict[int, None] = {}
    for value, _ in form.stores:
        pending = [(value, False)]
        while pending:
            k, complete = pending.pop()
            if complete:
                order[k] = None
            elif k not in order:
                pending.append((k, True))
                operands = [x for tag, x in form.ops[k].args if tag == "v"]
                pending += [(x, False) for x in reversed(operands)]
    last = {x: at for at, k in enumerate(order) for tag, x in form.ops[k].args if tag == "v"}
    last |= {value: len(order) for value, _ in form.stores}
    ending = Counter(last.values())
    most = alive = 0
    for at in range(len(order)):
        most = max(most, alive := alive + 1)
        alive -= ending[at]
    return most


def _in_one_lane(form: Form, op: Op, last: int) -> bool:
    """Whether an index, or the place that a scatter compares it with, takes no lanes."""
    if op.kind not in (LOAD, INDEX) or all(other.name != "scatter" for other in form.ops):
        return False
    return op.kind == INDEX or (len(op.args) == 1 and not form.refs[op.args[0][1]][1][last])


# Blocks of Philox at a time: a round waits for the one before it, so that fewer leave the processor
# idle. Where much else is computed with what is drawn, registers are what is short.
BLOCKS, BLOCKS_AMONG_OTHERS = 8, 4
ALONE = 16  # operations of a kernel that does little but draw


def _lanes_of_draw(form: Form) -> int:
    """The lanes of a kernel that draws one number after another; 0: it does not."""
    draws = [op for op in form.ops if op.name == "random"]
    if not draws or form.inner or form.outer != 1:
        return 0
    bits = max(word_bits(op.params[0], named(op.dtype)) for op in draws)
    blocks = BLOCKS if len(form.ops) <= ALONE else BLOCKS_AMONG_OTHERS
    return blocks * 128 // bits
