"""The loop IR: a fused kernel as loop nests over affine references, free of graph and sizes.

Note [kernels]
    A kernel runs over *outer* dimensions, each combination of which is independent, and *inner*
    ones, over which it reduces. Operations on values that vary along the inner dimensions are in
    the *full* space and run inside a loop nest; the rest run once per outer combination. A
    reduction ends a loop nest: what depends on its result and is again full runs in a later nest
    (its *stage*).

    One dimension is the vector one: the last outer dimension ("columns": every value is a vector
    of neighbouring outer elements) or the last inner one ("rows").

    A kernel's *form* says everything but sizes, strides and addresses; those are words it is
    called with. Kernels of one form share their machine code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.core.dtype import DType, named
from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.operations.record import REGISTRY

LOAD, POINT, REDUCE, HOST, INDEX = "load", "point", "reduce", "host", "index"
COLUMN = "column"  # a sum over outer dimensions: Note [column sums], compiler.fuse
# Sizes along the vector dimension: any, whole vectors only, less than a vector only, of which some
# still have several elements. Code for the middle two is about half of that for the first.
ANY, WHOLE, SHORT, SEVERAL = "any", "whole", "short", "several"


def can_fail(name: str, compute: str) -> bool:
    """Whether an elementwise operation can report an error.

    An index out of bounds, an integer divided by zero, a probability that is none, a condition that
    does not hold.
    """
    fails = REGISTRY[name].fails if name in REGISTRY else ""
    return fails == "values" or (fails == "divisor" and "int" in compute)


def divides(op: Op) -> bool:
    """Whether an operation that fails by its divisor has a number for it that is none of zero."""
    if REGISTRY[op.name].fails != "divisor":
        return False
    kind, value = op.args[1]
    bits = 8 * named(op.compute).itemsize
    return bool(kind == "c" and type(value) is int and value & ((1 << bits) - 1))


@dataclass(eq=False, slots=True)
class AffineReference:
    """An affine reference: element offset + sum of strides times loop indices.

    Without a buffer it is a number, the reference itself (a coordinate).
    """

    buffer: Any  # a compiler's Buffer, or None
    dtype: DType
    offset: int
    strides: dict[Any, int]  # by atom, later by dimension
    picks: tuple[tuple[int, int], ...] = ()  # (stride, size) of dimensions indexed by values


@dataclass(frozen=True, slots=True)
class Op:
    """One operation on numbered values; an argument is ("v", number) or ("c", constant).

    A load's first argument is ("r", reference); further ones are indices along dimensions that
    the reference's strides leave out (`picks` of the kernel's reference).
    """

    kind: str
    name: str  # the record's, or the dtype of a load
    args: tuple[tuple[str, Any], ...]
    params: Any  # hashable
    compute: str  # the dtype computed in
    dtype: str  # the dtype of the result
    full: bool
    stage: int


@dataclass(eq=False, slots=True)
class LoopKernel:
    """What fusion hands over: ranges, loads, expressions and stores, in no order of loops yet.

    References have strides by atom; a target's schedule puts atoms in order, and into dimensions.
    """

    atoms: list[Any]  # all ranges
    reduced: set[Any]  # those it reduces over
    ops: tuple[Op, ...]
    refs: list[AffineReference]  # of loads and coordinates
    stores: list[tuple[int, AffineReference]]  # (operation, reference)
    hosts: tuple[Any, ...]  # the host's numbers, and constants (Note [constants])
    extents: tuple[int, ...]
    faults: dict[int, list[Any]]  # what to raise, by operation
    origin: tuple[str, ...]
    columns: frozenset[Any] = frozenset()  # outer ranges that it sums over


@dataclass(frozen=True, slots=True)
class Form:
    """What a kernel's machine code depends on."""

    rows: bool  # the vector dimension is the last inner one
    outer: int  # dimensions
    inner: int
    ops: tuple[Op, ...]
    refs: tuple[tuple[str, tuple[int, ...]], ...]  # (dtype, classes of strides: `stride_classes`)
    stores: tuple[tuple[int, int], ...]  # (value, reference)
    hosts: tuple[str, ...]  # dtypes of the host's numbers
    spans: str = ANY  # what sizes of the vector dimension it can do
    columns: int = 0  # how many of the outer dimensions, the last ones, it sums over
    tiled: bool = False  # its pieces are a few columns of one row after another
    turned: bool = False  # and it only copies: several rows at a time, square by square
    in_turns: bool = False  # kernels launched together do their first pieces, then their second
    long: bool = False  # its sums have so many terms that they are split twice

    def key(self) -> Any:
        """What tells forms apart; equal ones may differ in the sign of a zero."""
        constants = [x for op in self.ops for kind, x in op.args if kind == "c"]
        params = [op.params for op in self.ops if op.params]
        return (self, number_key((*constants, *params)))

    def checks(self) -> list[tuple[int, int]]:
        """Indices that may be out of bounds: (operation, which of its indices)."""
        checks = []
        for k, op in enumerate(self.ops):
            if op.kind == LOAD:
                checks += [(k, j) for j in range(len(op.args) - 1)]
            elif op.kind == POINT and can_fail(op.name, op.compute) and not divides(op):
                checks.append((k, 0))
        return checks


@dataclass(eq=False, slots=True)
class Kernel:
    """A form with the sizes, strides and buffers of one use."""

    form: Form
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    refs: tuple[AffineReference, ...]  # strides by dimension: outer ones first
    hosts: tuple[Any, ...]  # graph values of the host's numbers
    extents: tuple[int, ...] = ()  # sizes of dimensions that scatters index
    faults: tuple[Any, ...] = ()  # what to raise, by check of the form
    reads: tuple[Any, ...] = ()
    writes: tuple[Any, ...] = ()
    origin: tuple[str, ...] = field(default=())  # names of the nodes it does, for `explain`

    @property
    def work(self) -> int:
        """Elements it runs over."""
        total = 1
        for n in (*self.outer, *self.inner):
            total *= n
        return total
