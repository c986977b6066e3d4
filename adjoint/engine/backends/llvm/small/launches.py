"""Compiled fragments on few elements, run by the code that finds them.

Note [met fragments]
    A fragment on a thousand elements computes for two microseconds, and Python takes five times as
    long to find it, fill in addresses and launch it. So one that is called often is written down as
    rows too (Note [small rows]): one for each array, which puts its address where launches read it,
    one for each number that calls give (the place of a draw, say, or a factor), and one that makes
    the launches. Native code then finds and runs it as it does small programs.

    The launches are the fragment's own. Those of little work are made by one worker; others are a
    table that all of them walk (`runtime.driver`), as they do when Python launches it: work is
    dealt out by shapes alone, so the bits are the same. Where threads have ended, at a fork say,
    the rows fail, and Python, which then runs the fragment, starts new ones.

    A call in place that is one fragment has the launches of an update (Note [updates]), which write
    to their first operand; so nothing is made, and nothing copied. A first row for each of its
    other operands fails where that shares memory with what is written.

    Words and memory are a copy: the thread that has the interpreter's lock may use it while another
    one runs the fragment itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.array.straight import same_arrays
from adjoint.engine.backends.llvm.program.running import Native
from adjoint.engine.backends.llvm.runtime.pool import DriverStep, DriverTable, the_pool
from adjoint.engine.backends.llvm.runtime.ufuncs import InnerLoop
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.backends.llvm.small.rows import NoRow, RowWriter, Walked, address
from adjoint.engine.backends.threads import get_num_threads, number_address
from adjoint.engine.compiler.memory.places import ALIGN
from adjoint.engine.compiler.package.image import TEST, ProgramImage
from adjoint.engine.core.dtype import named
from adjoint.engine.core.operations.record import is_tensor

WORD = 8  # bytes
# Rough operations of a worker, and workers that count: beyond, what Python does is little beside
# them, and nobody else has the interpreter meanwhile.
OF_EACH, COUNTED = 1_000_000, 4
# The same that one worker does sooner: others gain three microseconds on twice as much, but if they
# sleep, it takes ten to wake them.
ALONE = 100_000
MEMORY = 1 << 18  # bytes of a program's own values: each that is written so has a copy


Orders = Sequence[tuple[int, ...] | None]


def launched(
    executable: Any,
    places: Sequence[int],
    given: Sequence[float],
    owned: Any,
    gaps: Sequence[bool],
    orders: Orders,
) -> tuple[Any, ...] | None:
    """What native code finds a fragment by; None where it cannot, or would not give the same.

    `owned` is the record or rules, and what they were given: tensors, of which with the numbers
    after them (`given`) some (`places`) are the program's inputs. `orders` tell of each result how
    its dimensions lie in what the program makes.
    """
    _, operands, params, rest = owned
    arrays = [x._array for x in operands if is_tensor(x)]
    kinds = {*map(type, given)}  # one: whole numbers, or floats
    numbers = [k for k, x in enumerate(operands) if type(x) in kinds]
    if [operands[k] for k in numbers] != [*given]:
        raise NoRow
    walked = written(executable, places, arrays, len(given), orders)
    entry = walked.entry(operands, params, rest, gaps, numbers)
    if entry is None:
        return None
    results = walked.native.meet((entry,), operands, params, rest)
    inputs = [*arrays, *given]
    made = executable([inputs[k] for k in places], [])
    want = [a if o is None else a.transpose(o) for a, o in zip(made, orders, strict=True)]
    same = results is not None and same_arrays([x for x in results if x is not None], want)
    return entry if same else None


def maker_of(shape: Sequence[int], dtype: Any, order: tuple[int, ...] | None) -> tuple[Any, Any]:
    """What makes an array that a program fills, its dimensions in some order.

    >>> make, given = maker_of((2, 3), np.dtype("f4"), (1, 0))
    >>> make(*given).shape, make(*given).strides
    ((3, 2), (4, 12))
    """
    if order is None:
        return np.empty, (shape, dtype)
    seen = np.empty(shape, dtype).transpose(order)
    return np.ndarray, (seen.shape, dtype, None, 0, seen.strides)


def drawn(
    executable: Any, places: Sequence[int], operands: Sequence[Any], fills: bool
) -> tuple[Any, ...] | None:
    """What native code finds a program that draws by; None where it cannot.

    The operands are tensors, then the seed and the place of the draw. A program that `fills` puts
    its result into the first of them.
    """
    *tensors, _, _ = operands
    arrays = [x._array for x in tensors]
    walked = written(executable, places, arrays, 2, fills=fills)
    numbers = (len(tensors), len(tensors) + 1)
    return walked.entry(operands, {}, None, [True] * len(walked.makers), numbers)


def updated(
    executable: Any, places: Sequence[int], operands: Sequence[Any], params: dict[str, Any]
) -> tuple[Any, ...] | None:
    """What native code finds a program by that writes to its first operand.

    Of the tensors among the operands some (`places`) are its inputs.

    None where it cannot, or where a launch might fail after another has written.
    """
    if executable.__class__ is not Native or executable.image.status:
        return None
    arrays = [x._array for x in operands if is_tensor(x)]
    walked = written(executable, places, arrays, 0, fills=True, apart=True)
    return None if walked.makers else walked.entry(operands, params, True, ())


def written(
    executable: Any,
    places: Sequence[int],
    arrays: Sequence[Any],
    numbers: int,
    orders: Orders = (),
    *,
    fills: bool = False,
    apart: bool = False,
) -> Walked:
    """A program as rows, of arrays and so many numbers; one that `fills` writes to the first.

    It then fails, if it is to be so, where another array is not `apart` from that one.
    """
    native = loops.native()
    if native is None or executable.__class__ is not Native:
        raise NoRow
    image = executable.image
    most = OF_EACH * min(get_num_threads(), COUNTED)
    if image.work > most or image.arena > MEMORY or len(image.segments) != 1:
        raise NoRow
    entries = image.segments[0] or ()
    if any(name == TEST or skip for name, _, _, skip in entries):
        raise NoRow  # loops come back to Python now and then
    writer = RowWriter(native)
    words, memory = copied(executable)
    patches = {name: places_of for name, places_of in image.patches.items() if places_of}
    makers: list[Any] = []
    for output, shape, dtype in image.results:
        if output != len(makers):
            raise NoRow
        makers.append(maker_of(shape, NUMPY_OF[named(dtype)], orders[output] if orders else None))
        slot = 1 + len(arrays) + numbers + output
        put(writer, slot, patches.pop(f"result {output}", []), words)
    notes = [check_apart(writer, arrays, k) for k in range(1, len(arrays))] if apart else []
    if fills:
        put(writer, 1, patches.pop("target 0", []), words)
    for k, place in enumerate(places):
        put(writer, 1 + place, patches.pop(f"input {k}", []), words)
        put(writer, 1 + place, image.numbers.get(k, []), words)
    if patches:
        raise NoRow
    name, about, table = (by_all if image.work > ALONE else by_one)(executable, words)
    writer.row(InnerLoop(native.address(name), address(about)), [], [1], [], (), ())
    masks = [0, *[loops.mask_of(a.dtype) for a in arrays]]
    rows = writer.words(1 + len(arrays) + numbers + len(makers), masks)
    for note in (*notes, about):
        note[0] = address(rows[loops.FAILED_AT :])
    writer.alive += [words, memory, table, about, executable]
    return Walked(rows, tuple(makers), writer.alive, native)


def copied(executable: Native) -> tuple[Any, Any]:
    """A program's words, and memory for its values that they point to."""
    image = executable.image
    memory = np.empty(image.arena + ALIGN, np.uint8)
    origin = address(memory) + (-address(memory)) % ALIGN
    with executable.lock:
        words = executable.words.copy()
        words[image.inside] += origin - executable.origin
    return words, memory


def by_one(executable: Native, words: Any) -> tuple[str, Any, Any]:
    """The loop by which one worker makes the launches, what it is told, and memory that it reads.

    That is a status, then function and words of each launch. The first that a loop is told is where
    it notes a failure, which is known once the rows are there.
    """
    image: ProgramImage = executable.image
    entries = image.segments[0] or []
    table = np.zeros(1 + 2 * len(entries), np.int64)
    for k, (name, first, _, _) in enumerate(entries):
        table[1 + 2 * k] = executable.functions[name].address
        table[2 + 2 * k] = address(words) + WORD * first
    for at, _ in image.status:
        words[at] = address(table)
    return "launch_all", np.array([0, address(table), len(entries)], np.int64), table


def by_all(executable: Native, words: Any) -> tuple[str, Any, Any]:
    """The same of all workers, who walk a table together."""
    image: ProgramImage = executable.image
    steps = [
        DriverStep(executable.functions[name].address, address(words) + WORD * first, everyone)
        for name, first, everyone, _ in image.segments[0] or []
    ]
    table = DriverTable(steps)
    for at, _ in image.status:
        words[at] = table.status_address
    pool = the_pool()
    about = [0, table.address, table.count, pool.address, pool.entry, number_address()]
    return "launch_shared", np.array(about, np.int64), table


def check_apart(writer: RowWriter, arrays: Sequence[Any], k: int) -> Any:
    """A row that fails where an array shares memory with the first; what it is told."""
    about = np.array([0, arrays[0].nbytes, arrays[k].nbytes], np.int64)
    loop = InnerLoop(writer.native.address("keep_apart"), address(about))
    writer.row(loop, [(1, 0), (1 + k, 0)], [1], [[0], [0]], (), ())
    writer.alive.append(about)
    return about


def put(writer: RowWriter, slot: int, patches: Sequence[tuple[int, int]], words: Any) -> None:
    """A row that puts an array's address where words have it."""
    if not patches:
        return
    places = [(address(words) + WORD * at, shift) for at, shift in patches]
    where = np.array([len(places), *[x for place in places for x in place]], np.int64)
    writer.alive.append(where)
    loop = InnerLoop(writer.native.address("put_address"), address(where))
    writer.row(loop, [(slot, 0)], [1], [[0]], (), ())
