"""Sizes that a recording leaves open, as a model's nodes compute with them.

A model that is read says in nodes what it makes of its shapes: Shape, Gather, Concat, Reshape.
Where a recording has sizes that may change, those nodes compute with the sizes themselves, so that
what is exported or compiled again holds for all of them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import adjoint as ad
from adjoint.engine.core.state.context import concrete
from adjoint.engine.graph.sizes.extents import Extent, computed
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.types import TENSORS, OpenSizes, Value, element, integers


def sizes_of(numbers: Sequence[int], ndim: int) -> Value:
    """Numbers as a value: a tensor, where none is open."""
    if any(isinstance(n, Extent) for n in numbers):
        return OpenSizes(tuple(numbers), ndim)
    with concrete():
        row = ad.tensor([int(n) for n in numbers], dtype=ad.int64)
        return row if ndim else row.reshape(())


# Operands that an operator reads as plain numbers: which of its inputs.
READ: Final[dict[str, frozenset[int]]] = {
    "AffineGrid": frozenset({1}),
    "ConstantOfShape": frozenset({0}),
    "Expand": frozenset({1}),
    "OneHot": frozenset({1}),
    "Pad": frozenset({1}),
    "Range": frozenset({0, 1, 2}),
    "Reshape": frozenset({1}),
    "Resize": frozenset({3}),
    "Slice": frozenset({1, 2, 3, 4}),
    "Split": frozenset({1}),
    "Tile": frozenset({1}),
    "TopK": frozenset({1}),
}

Rule = Callable[..., Value]  # of a node's inputs and attributes; None: it is no matter of sizes
RULES: dict[str, Rule] = {}


def open_result(name: str, inputs: Sequence[Value], known: Sequence[bool], options: Any) -> Value:
    """What a node gives that computes with sizes alone; None where it does more than that."""
    if name not in RULES or any(
        not (isinstance(x, OpenSizes) or x is None or (k and _is_small(x)))
        for x, k in zip(inputs, known, strict=True)
    ):
        return None
    return RULES[name](*inputs, **options)


def operands_for(name: str, inputs: Sequence[Value]) -> list[Value]:
    """A node's inputs, with open sizes as tensors where it does not read them as numbers."""
    read = READ.get(name, frozenset())
    return [
        x.tensor() if isinstance(x, OpenSizes) and k not in read else x
        for k, x in enumerate(inputs)
    ]


def _is_small(x: Value) -> bool:
    return isinstance(x, Tensor) and x.ndim <= 1 and not x.dtype.is_inexact


def _rank(x: Value) -> int:
    return int(x.ndim)


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def enter(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return enter


@_rule("Identity")
def identity(x: Value) -> Value:
    """The numbers themselves."""
    return x


@_rule("Cast")
def cast(x: Value, *, to: int, **options: Any) -> Value:
    """Whole numbers stay what they are, in whichever type."""
    dtype = TENSORS.get(element(to, "Cast"))
    whole = dtype is not None and not dtype.is_inexact and dtype is not ad.bool
    return x if whole else None


@_rule("Gather")
def gather(x: Value, indices: Value, *, axis: int = 0) -> Value:
    """Some of a row."""
    if _rank(x) != 1 or isinstance(indices, OpenSizes):
        return None
    row = integers(x)
    return sizes_of([row[k] for k in integers(indices)], _rank(indices))


@_rule("Concat")
def concat(*parts: Value, axis: int = 0) -> Value:
    """Rows joined."""
    if any(_rank(x) != 1 for x in parts):
        return None
    return sizes_of([n for x in parts for n in integers(x)], 1)


@_rule("Slice")
def slice_(x: Value, starts: Value, ends: Value, axes: Value = None, steps: Value = None) -> Value:
    """A range of a row."""
    given = [v for v in (starts, ends, steps) if v is not None]
    if _rank(x) != 1 or any(isinstance(v, OpenSizes) or len(integers(v)) != 1 for v in given):
        return None
    (first,), (last,) = integers(starts), integers(ends)
    (step,) = [1] if steps is None else integers(steps)
    return sizes_of(integers(x)[first:last:step], 1) if step > 0 else None


@_rule("Squeeze")
def squeeze(x: Value, axes: Value = None) -> Value:
    """A row of one number as that number."""
    row = integers(x)
    return sizes_of(row, 0) if len(row) == 1 else None


@_rule("Unsqueeze")
def unsqueeze(x: Value, axes: Value) -> Value:
    """A number as a row."""
    return sizes_of(integers(x), 1) if _rank(x) == 0 and len(integers(axes)) == 1 else None


@_rule("Reshape")
def reshape(x: Value, shape: Value, **options: Any) -> Value:
    """A number as a row, a row of one as a number."""
    row, wanted = integers(x), integers(shape)
    fits = wanted in ([-1], [len(row)]) or (not wanted and len(row) == 1)
    return sizes_of(row, len(wanted)) if fits else None


def _elementwise(fn: Callable[..., Any]) -> Rule:
    def apply(*parts: Value, **options: Any) -> Value:
        rows = [integers(x) for x in parts]
        size = max(map(len, rows))
        if any(len(row) not in (1, size) for row in rows):
            return None
        wide = [row * size if len(row) == 1 else row for row in rows]
        numbers = [fn(*column) for column in zip(*wide, strict=True)]
        return None if None in numbers else sizes_of(numbers, max(map(_rank, parts)))

    return apply


def _quotient(a: int, b: int) -> int | None:
    """Sizes divide as both roundings do; what may be negative does not."""
    return a // b if int(a) >= 0 and int(b) > 0 else None


RULES["Add"] = _elementwise(operator.add)
RULES["Sub"] = _elementwise(operator.sub)
RULES["Mul"] = _elementwise(operator.mul)
RULES["Div"] = _elementwise(_quotient)
RULES["Mod"] = _elementwise(operator.mod)
RULES["Neg"] = _elementwise(operator.neg)
RULES["Min"] = _elementwise(lambda *row: row[0] if len(row) == 1 else computed(min, *row))
RULES["Max"] = _elementwise(lambda *row: row[0] if len(row) == 1 else computed(max, *row))


@_rule("ReduceProd")
def product(x: Value, axes: Value = None, *, keepdims: int = 1, **options: Any) -> Value:
    """The product of a row."""
    return sizes_of([math.prod(integers(x))], 1 if keepdims else 0) if _rank(x) == 1 else None


@_rule("ReduceSum")
def total(x: Value, axes: Value = None, *, keepdims: int = 1, **options: Any) -> Value:
    """The sum of a row."""
    return sizes_of([sum(integers(x))], 1 if keepdims else 0) if _rank(x) == 1 else None


@_rule("Equal")
def equal(x: Value, y: Value) -> Value:
    """Whether sizes are others: what decides it is part of the recording."""
    row = _pairs(x, y)
    if row is None:
        return None
    with concrete():
        equal = ad.tensor([bool(a == b) for a, b in row])
        return equal if max(_rank(x), _rank(y)) else equal.reshape(())


@_rule("Where")
def where(condition: Value, x: Value, y: Value) -> Value:
    """One or the other of two rows, number by number."""
    pairs = _pairs(x, y)
    if pairs is None or isinstance(condition, OpenSizes):
        return None
    conditions = integers(condition)
    if len(conditions) not in (1, len(pairs)):
        return None
    conditions = conditions * len(pairs) if len(conditions) == 1 else conditions
    chosen = [a if t else b for t, (a, b) in zip(conditions, pairs, strict=True)]
    return sizes_of(chosen, max(_rank(condition), _rank(x), _rank(y)))


def _pairs(x: Value, y: Value) -> list[tuple[int, int]] | None:
    """Numbers of two rows that stand side by side; one stands beside all of the other."""
    a, b = integers(x), integers(y)
    size = max(len(a), len(b))
    if len(a) not in (1, size) or len(b) not in (1, size):
        return None
    a, b = (row * size if len(row) == 1 else row for row in (a, b))
    return list(zip(a, b, strict=True))
