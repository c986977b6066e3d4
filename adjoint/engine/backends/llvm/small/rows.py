"""Graphs of small operations as rows of words.

Note [small rows]
    A straight program (Note [straight programs]) of kernels on a few elements spends its time in
    NumPy's preparations: a microsecond and more for what an inner loop does in ten nanoseconds. So
    one that is called often is written down once more, as rows: which inner loop, at which
    addresses, with which sizes and steps. One native function walks them.

    The inner loops are NumPy's own, called as NumPy would call them for operands that lie like
    these, so results have the same bits. What moves elements without computing (selections,
    copies, gathering), conversions from integers and scattered sums are loops of ours, of which
    each gives what IEEE arithmetic says. Values between rows lie in memory of the program, which
    only the thread that has the interpreter's lock may walk.

    What has no row raises `NoRow`, and the straight program stays as it is. Rows that fail (an
    index that is out of bounds, an address that is not aligned) have the straight program called,
    which says what is wrong in its own words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy import ndarray

from adjoint.engine.backends.array.casting import cast_operand, make_plan
from adjoint.engine.backends.array.executor import pattern
from adjoint.engine.backends.array.kernels.elementwise.layouts import as_first
from adjoint.engine.backends.array.quiet import quietly
from adjoint.engine.backends.array.straight import same_arrays
from adjoint.engine.backends.array.table import kernel_for
from adjoint.engine.backends.llvm.runtime.ufuncs import InnerLoop, inner_loop_of
from adjoint.engine.backends.llvm.small import comparing, inner_loops, loops
from adjoint.engine.core.device import CPU
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.ops.create.creation import FULL

Array = Any
# What a function is of, as native code is told: arrays, and gives arrays; tensors, and gives
# tensors, whether they are on the tape or not; tensors off the tape, and gives arrays.
Of = Literal["arrays", "tensors", "tensors to arrays"]
FUNCTIONS: dict[Of, Any] = {"arrays": None, "tensors": False, "tensors to arrays": True}
Given = tuple[
    Sequence[Any], dict[str, Any], bool
]  # operands, parameters, whether it has one result
MOST = 1 << 13  # elements of a value: beyond, NumPy's preparations take no time that matters
ROWS = 2048  # of a program
ONE_OF_A_KIND = (1, 2)  # dtypes that are one object each: NumPy's own, and those it was told of
OPERANDS = 16  # of a program that native code finds, at most


class NoRow(Exception):
    """An operation on operands for which there is no row."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a value lies: an array of the layout it has, `offset` bytes from what is in a slot."""

    slot: int  # 0: absolute
    base: int  # the address that the slot had when this was written
    array: Array

    @property
    def offset(self) -> int:
        return address(self.array) - self.base

    def seen(self, array: Array) -> Spot:
        """A view of it: what NumPy made elsewhere (`x[()]`, a reshaping that copies) is none."""
        if array.__class__ is not ndarray or (
            array.size and not np.may_share_memory(array, self.array)
        ):
            raise NoRow
        return Spot(self.slot, self.base, array)


def address(array: Array) -> int:
    """Where an array's elements begin."""
    where: int = array.__array_interface__["data"][0]
    return where


@dataclass(slots=True)
class RowWriter:
    """Writes rows, one operation after another."""

    native: loops.SmallCode
    rows: list[list[int]] = field(default_factory=list)
    alive: list[Any] = field(default_factory=list)  # memory that rows point to
    constants: set[int] = field(default_factory=set)  # whose elements rows only read

    def constant(self, value: Any, dtype: Any) -> Spot:
        """A number, or elements that are always the same."""
        array = np.array(value, dtype)
        self.alive.append(array)
        self.constants.add(id(array))
        return Spot(0, 0, array)

    def filled(self, array: Array) -> Spot:
        """Elements that are all the same, of which memory has one."""
        one = array.reshape(-1)[:1].copy()
        shown = np.broadcast_to(one.reshape(()), array.shape)
        self.alive += (one, shown)
        self.constants.add(id(shown))
        return Spot(0, 0, shown)

    def is_constant(self, x: Any) -> bool:
        """Whether an operand is the same at every call."""
        return not isinstance(x, Spot) or id(x.array) in self.constants

    def scratch(self, like: Array, dtype: Any = None) -> Spot:
        """Memory for a value that lies as `like` does."""
        array = np.empty_like(like, dtype=dtype or like.dtype, subok=False)
        self.alive.append(array)
        return Spot(0, 0, array)

    def call(
        self,
        loop: InnerLoop,
        places: Sequence[Spot],
        shape: tuple[int, ...],
        steps: Sequence[Sequence[int]],
        more_dims: Sequence[int] = (),
        more_steps: Sequence[int] = (),
    ) -> None:
        """A row that goes through `shape`, each argument by its own steps; the last is inmost."""
        if len(places) > loops.ARGUMENTS:
            raise NoRow
        sizes, strides = coalesced(shape, steps)
        offsets = [p.offset for p in places]
        slots = [p.slot for p in places]
        beyond = max(len(sizes) - 1 - loops.OUTER, 0)  # gone through here
        inner = [own[beyond:] for own in strides]
        for at in np.ndindex(*sizes[:beyond]):
            moved = [
                offset + sum([i * s for i, s in zip(at, own[:beyond], strict=True)])
                for offset, own in zip(offsets, strides, strict=True)
            ]
            starts = [*zip(slots, moved, strict=True)]
            self.row(loop, starts, sizes[beyond:], inner, more_dims, more_steps)

    def row(
        self,
        loop: InnerLoop,
        starts: Sequence[tuple[int, int]],
        sizes: list[int],
        strides: list[list[int]],
        more_dims: Sequence[int],
        more_steps: Sequence[int],
    ) -> None:
        """One row: slots and offsets of the arguments, then how they are gone through."""
        outer = sizes[:-1]
        row = [0] * loops.ROW
        row[0], row[1], row[2] = loop.address, loop.data, len(starts)
        pad = loops.OUTER - len(outer)
        row[loops.SIZES_AT : loops.SIZES_AT + loops.OUTER] = [1] * pad + outer
        dims = [sizes[-1], *more_dims]
        row[loops.DIMS_AT : loops.DIMS_AT + len(dims)] = dims
        inner = [s[-1] for s in strides] + [*more_steps]
        row[loops.STEPS_AT : loops.STEPS_AT + len(inner)] = inner
        for k, ((slot, offset), own) in enumerate(zip(starts, strides, strict=True)):
            at = loops.ARGUMENTS_AT + k * loops.ARGUMENT
            row[at : at + loops.ARGUMENT] = [slot, offset, *[0] * pad, *own[:-1]]
        self.rows.append(row)
        if len(self.rows) > ROWS:
            raise NoRow

    def loop(self, name: str) -> InnerLoop:
        """One of our loops."""
        return InnerLoop(self.native.address(name), loops.NOTE_FAILURE)

    def own(self, name: str, *places: Spot) -> None:
        """A row of one of our loops, over the shape of the last place."""
        shape = places[-1].array.shape
        self.call(self.loop(name), places, shape, [spread(p.array, shape) for p in places])

    def ufunc(self, function: np.ufunc, out: Spot, *places: Spot) -> Spot:
        """function(*places) into `out`."""
        if any(p.array.dtype.kind not in "fiub" for p in (*places, out)):
            raise NoRow
        kinds = "".join([p.array.dtype.char for p in places]) + "->" + out.array.dtype.char
        loop = inner_loop_of(function, kinds)
        if loop is None or not all(p.array.dtype.isnative for p in (*places, out)):
            raise NoRow
        given = [*places, out]
        shape = out.array.shape
        if function not in EXACT and not all(one_piece(p.array) for p in given):
            raise NoRow  # how NumPy goes through others is its own affair
        self.call(loop, given, shape, [spread(p.array, shape) for p in given])
        return out

    def copy(self, source: Spot, out: Spot) -> Spot:
        """The elements of one place in another, converted if need be."""
        have, want = source.array.dtype, out.array.dtype
        if want.kind == "c" and have.kind in "fc" and want.isnative:  # both parts
            imaginary = source.seen(source.array.imag) if have.kind == "c" else None
            self.copy(source.seen(source.array.real), out.seen(out.array.real))
            nothing = self.constant(0, out.array.imag.dtype)
            self.copy(imaginary or nothing, out.seen(out.array.imag))
            return out
        moved = have.kind in "fiub" or have.char == "E"  # which is how NumPy has bfloat16
        if have == want and have.itemsize in inner_loops.WORDS and moved:
            self.own(f"copy{have.itemsize}", source, out)
            return out
        if (
            not have.isnative
            or not want.isnative
            or not inner_loops.can_convert(have.char, want.char)
        ):
            raise NoRow
        self.own(inner_loops.conversion(have.char, want.char), source, out)
        return out

    def words(self, slots: int, masks: Sequence[int]) -> Array:
        """All of it."""
        if slots > loops.SLOTS:
            raise NoRow
        table = np.zeros(loops.FIRST_ROW + len(self.rows) * loops.ROW, np.int64)
        table[loops.ROWS_AT] = len(self.rows)
        table[loops.MASKS_AT : loops.MASKS_AT + len(masks)] = masks
        for k, row in enumerate(self.rows):
            if row[1] == loops.NOTE_FAILURE:
                row[1] = address(table[loops.FAILED_AT :])
            table[loops.FIRST_ROW + k * loops.ROW :][: loops.ROW] = row
        return table


# Universal functions of which every element is the one result that IEEE arithmetic knows, or a
# choice, however the loop goes through them.
EXACT = frozenset(
    {
        np.add, np.subtract, np.multiply, np.divide, np.negative, np.absolute, np.sqrt,
        np.reciprocal, np.maximum, np.minimum, np.fmax, np.fmin, np.sign, np.equal, np.not_equal,
        np.less, np.less_equal, np.greater, np.greater_equal, np.isnan, np.isinf, np.isfinite,
        np.logical_and, np.logical_or, np.logical_xor, np.logical_not, np.bitwise_and,
        np.bitwise_or, np.bitwise_xor, np.invert, np.left_shift, np.right_shift,
        np.copysign, np.floor, np.ceil, np.trunc, np.rint,
    }
)  # fmt: skip


def one_piece(array: Array) -> bool:
    """Whether elements follow one another, so that NumPy goes through them in one go."""
    return bool(array.flags.c_contiguous)


def spread(array: Array, shape: tuple[int, ...]) -> list[int]:
    """The steps of an array where it is broadcast to a shape."""
    added = len(shape) - array.ndim
    steps = [0] * added
    for n, m, step in zip(array.shape, shape[added:], array.strides, strict=True):
        if n != m and n != 1:
            raise NoRow
        steps.append(step if n == m and n != 1 else 0)
    return steps


def coalesced(
    shape: Sequence[int], steps: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """The same elements in as few dimensions as can be, at least one.

    >>> coalesced((2, 1, 3), [(12, 0, 4), (0, 0, 0)])
    ([6], [[4], [0]])
    """
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in steps]
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(own[-1] == s[d] * n for own, s in zip(merged, steps, strict=True)):
            sizes[-1] *= n
            for own, s in zip(merged, steps, strict=True):
                own[-1] = s[d]
        else:
            sizes.append(n)
            for own, s in zip(merged, steps, strict=True):
                own.append(s[d])
    return (sizes, merged) if sizes else ([1], [[0] for _ in steps])


Lowering = Callable[..., Any]  # of a writer, a result that says the layout, places, parameters
LOWERED: dict[Record, Lowering] = {}


def writes(record: Record) -> Callable[[Lowering], Lowering]:
    """Register how an operation is written as rows: the same steps as its kernel takes."""

    def register(lowering: Lowering) -> Lowering:
        LOWERED[record] = lowering
        return lowering

    return register


def written(graph: DataflowGraph, places: Sequence[int], arrays: Sequence[Array]) -> Walked:
    """A graph as rows, for arrays that lie like these."""
    native = loops.native()
    if native is None:
        raise NoRow
    writer = RowWriter(native)
    spots: dict[Value, Spot] = {}
    for value, k in zip(graph.inputs, places, strict=True):
        spots[value] = Spot(1 + k, address(arrays[k]), arrays[k])
    for node in graph.nodes:
        given = [spots[x] if isinstance(x, Value) else x for x in node.inputs]
        results = one_node(writer, node.record, given, node.params)
        spots.update(zip(node.outputs, results, strict=True))
    return finished(writer, [spots[v] for v in graph.outputs], arrays)


def one_node(writer: RowWriter, record: Record, given: list[Any], params: Any) -> list[Spot]:
    """The rows of one operation."""
    arrays = [x.array if isinstance(x, Spot) else x for x in given]
    kernel = kernel_for(record)
    draws = record.draws and record.creates  # others are given what was drawn
    alone = not (record.opaque or record.communicates)
    if kernel is None or draws or not alone or params.get("device", CPU) is not CPU:
        raise NoRow
    if record.window is not None:
        (source,) = given
        seen = kernel(source.array, **params)
        if seen.size and not np.may_share_memory(seen, source.array):
            whole = writer.scratch(np.empty(source.array.shape, source.array.dtype))
            return [writer.copy(source, whole).seen(kernel(whole.array, **params))]
        return [source.seen(seen)]
    if record.creates:
        folded = kernel(*given, **params)
        if record is FULL and folded.size > 1 and folded.flags.c_contiguous:
            return [writer.filled(folded)]
        return [writer.constant(folded, folded.dtype)]
    result, laid = None, False
    if record.promotion is not None:
        key = pattern(arrays)
        plan = record.plans.get(key) or make_plan(record, arrays, params)
        result, laid = plan.result, plan.keeps_layout
        for k, cast in enumerate(plan.casts or ()):
            if cast is not None:
                given[k] = converted(writer, given[k], cast)
    dtype = next((x.array.dtype for x in given if isinstance(x, Spot)), None)
    now = [x.array if isinstance(x, Spot) else x for x in given]
    out = quietly(kernel, now, params)
    if laid:
        out = as_first(out, now)
    if not record.draws and all(map(writer.is_constant, given)):
        return as_constants(writer, out, result)
    if isinstance(out, tuple):
        return several(writer, record, out, given, params)
    if out.__class__ is not ndarray:
        out = np.asarray(out)
    if not 0 < out.size <= MOST:
        raise NoRow
    if record in LOWERED:
        place = LOWERED[record](writer, out, *given, **params)
    elif kernel.__class__ is np.ufunc:
        placed = [x if isinstance(x, Spot) else writer.constant(x, dtype) for x in given]
        place = writer.ufunc(kernel, writer.scratch(out), *placed)
    else:
        raise NoRow
    if result is not None and place.array.dtype != result:
        place = writer.copy(place, writer.scratch(out, result))
    place.array[...] = out  # later kernels look at values
    return [place]


def as_constants(writer: RowWriter, out: Any, dtype: Any) -> list[Spot]:
    """The results of an operation on constants."""
    outs = out if isinstance(out, tuple) else (out,)
    if sum(np.size(one) for one in outs) > MOST:
        raise NoRow
    return [writer.constant(one, dtype or np.asarray(one).dtype) for one in outs]


def several(
    writer: RowWriter, record: Record, outs: tuple[Array, ...], given: list[Any], params: Any
) -> list[Spot]:
    """The rows of an operation with several results."""
    if record not in LOWERED or not all(0 < out.size <= MOST for out in outs):
        raise NoRow
    places = [*LOWERED[record](writer, outs, *given, **params)]
    for place, out in zip(places, outs, strict=True):
        if place.array.dtype != out.dtype:
            raise NoRow
        place.array[...] = out
    return places


def converted(writer: RowWriter, x: Any, cast: Any) -> Any:
    """An operand in the dtype computed in."""
    if not isinstance(x, Spot):
        return cast_operand(x, cast)
    if cast.__class__ is tuple:
        raise NoRow  # halves
    return writer.copy(x, writer.scratch(x.array, cast))


def finished(writer: RowWriter, results: Sequence[Spot], arrays: Sequence[Array]) -> Walked:
    """All of it, with results in arrays of their own, of the layouts that they have."""
    templates: list[Array] = []
    for k, place in enumerate(results):
        slot = 1 + len(arrays) + k
        like = place.array
        if writer.is_constant(place) and 0 in like.strides:
            template = np.empty(like.shape, like.dtype)  # of which there is one element
        else:
            template = np.empty_like(like, subok=False)
            if template.strides != like.strides:
                raise NoRow
        templates.append(template)
        writer.copy(place, Spot(slot, address(template), template))
    tables = [None, *arrays, *templates]
    masks = [0, *[loops.mask_of(a.dtype) for a in tables[1:]]]
    words = writer.words(len(tables), masks)
    return Walked(words, tuple([maker(t) for t in templates]), writer.alive, writer.native)


def maker(template: Array) -> tuple[Any, tuple[Any, ...]]:
    """A function, and what it makes a new array like this of in the least time."""
    if template.flags.c_contiguous:
        return np.empty, (template.shape, template.dtype)
    return np.empty_like, (template,)


@dataclass(frozen=True, slots=True)
class Walked:
    """A program of rows."""

    words: Array
    makers: tuple[tuple[Any, tuple[Any, ...]], ...]  # of the results
    alive: list[Any]  # memory that words point to
    native: loops.SmallCode

    def run(self, *arrays: Array) -> Any:
        """The results; None where the rows do not know these arrays."""
        results = [make(*given) for make, given in self.makers]
        return None if self.native.walk(self.words, *arrays, *results) else results

    def entry(
        self,
        operands: Sequence[Any],
        params: dict[str, Any],
        rest: Any,
        gaps: Sequence[bool],
        numbers: Sequence[int] = (),
    ) -> tuple[Any, ...] | None:
        """What `meet` compares operands with (Note [meeting]); None: it could not.

        Of the results, those that are no `gaps` are there. The operands at `numbers` may be any
        whole numbers, which have slots after the tensors'.
        """
        described = wanted_and_slots(operands, params, numbers)
        if described is None:
            return None
        wanted, slots, dtypes = described
        literals = literals_of(operands, slots)
        makers = iter(self.makers)
        results = tuple([next(makers) if there else None for there in gaps])
        alive = (self.alive, dtypes)
        return self.words, wanted, literals, (*params,), (*params.values(),), rest, results, alive


def wanted_and_slots(
    operands: Sequence[Any],
    params: dict[str, Any],
    numbers: Sequence[int] = (),
) -> tuple[Array, dict[int, int], list[Any]] | None:
    """What a program wants of operands, their slots, and dtypes, which are told by addresses."""
    tensors = {k: x for k, x in enumerate(operands) if is_tensor(x) or comparing.is_passed_on(x)}
    arrays = [x._array for x in tensors.values() if is_tensor(x)]
    if len(operands) > OPERANDS or any(
        a.ndim > comparing.DIMENSIONS or a.dtype.isbuiltin not in ONE_OF_A_KIND for a in arrays
    ):
        return None
    slots = {k: 1 + place for place, k in enumerate([*tensors, *numbers])}
    return comparing.wanted_of(operands, params, slots), slots, [a.dtype for a in arrays]


def literals_of(operands: Sequence[Any], slots: dict[int, int]) -> tuple[Any, ...]:
    """The operands that are no tensors and have no slots."""
    return tuple([None if k in slots else x for k, x in enumerate(operands)])


def entry_of(
    rows: Callable[..., Any] | None,
    kernels: Callable[..., Any],
    arrays: Sequence[Array],
    given: Given,
    *,
    of: Of = "tensors",
) -> tuple[Any, ...] | None:
    """What `meet_call` compares and runs: rows where they do the same, else the kernels.

    Without rows, what is in the kernels' place is the function that `of` says.
    """
    operands, params, single = given
    native = loops.native()
    if native is None or native.meet_call is None:
        return None
    if rows is None:
        return called(kernels, operands, params, single, of)
    want = kernels(*arrays)
    try:
        walked = rows(arrays)
        results = walked.run(*arrays)
        if results is not None and same_arrays(results, want):
            entry: tuple[Any, ...] | None = walked.entry(
                operands, params, single, [True] * len(want)
            )
            return entry
    except NoRow:
        pass
    return called(kernels, operands, params, single)


def taped_entry(
    step: tuple[Any, ...], operands: Sequence[Any], params: dict[str, Any], pattern: int
) -> tuple[Any, ...] | None:
    """What `meet_taped` compares and does (Note [one operation])."""
    described = wanted_and_slots(operands, params)
    if described is None:
        return None
    wanted, slots, alive = described
    literals = literals_of(operands, slots)
    return None, wanted, literals, (*params,), (*params.values(),), pattern, step, alive


def called(
    function: Callable[..., Any],
    operands: Sequence[Any],
    params: dict[str, Any],
    single: bool,
    of: Of = "arrays",
) -> tuple[Any, ...] | None:
    """The same of a function in the place of makers; in that of words, what it is a function of."""
    described = wanted_and_slots(operands, params)
    if described is None:
        return None
    wanted, slots, alive = described
    literals = literals_of(operands, slots)
    return FUNCTIONS[of], wanted, literals, (*params,), (*params.values(),), single, function, alive
