"""Rules of choices, comparisons and conversions for `simplify`."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.dtype import BOOL, FLOAT, INT, DType
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.graph.passes.rules.algebra import (
    Inputs,
    Params,
    alike,
    made_by,
    never_negative_zero,
    number_in,
)
from adjoint.engine.ops.elementwise.comparison import EQ, NE
from adjoint.engine.ops.elementwise.condition import WHERE
from adjoint.engine.ops.elementwise.logical import LOGICAL_NOT
from adjoint.engine.ops.shape.convert import CAST


def simplify_where(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """A condition that is constant or negated, or a choice between the same."""
    condition, x, y = inputs
    number = number_in(condition)
    if number is not None and condition.spec.dtype.category == BOOL:
        chosen = x if number else y
        if alike(chosen, spec):
            return chosen
    if x is y and alike(x, spec):
        return x
    negated = made_by(condition, "logical_not")
    if negated is not None and negated.inputs[0].spec.dtype.category == BOOL:
        return b.emit(WHERE, negated.inputs[0], y, x)
    return _unguarded(b, condition, x, y, spec)


def _unguarded(b: GraphBuilder, condition: Value, x: Any, y: Any, spec: Spec) -> Value | None:
    """where(c, x, f(where(c, z, y))) without the inner choice, which the outer one hides.

    Derivatives want the guard; values do not. And where(y == 0, 0, sqrt(y)) is sqrt(y) as it is.
    """
    node = y.node if y.__class__ is Value else None
    if node is None or node.record.family != "elementwise" or len(node.inputs) != 1:
        return None
    inner = made_by(node.inputs[0], "where")
    if inner is not None and inner.inputs[0] is condition and alike(inner.inputs[2], inner_spec(y)):
        return b.emit(WHERE, condition, x, b.emit(node.record, inner.inputs[2], **node.params))
    tested = made_by(condition, "eq")
    if tested is None or node.record.name != "sqrt" or not alike(y, spec):
        return None
    zeros = number_in(x) == 0 and number_in(tested.inputs[1]) == 0
    if zeros and tested.inputs[0] is node.inputs[0] and never_negative_zero(node.inputs[0]):
        return y
    return None


def inner_spec(y: Value) -> Spec:
    """The spec of the one operand of the node that made y."""
    operand: Value = y.node.inputs[0]  # type: ignore[union-attr]
    return operand.spec


def simplify_eq(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """Whether a condition, as a number, is zero."""
    source = _condition_tested(inputs)
    return None if source is None else b.emit(LOGICAL_NOT, source)


def simplify_ne(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """Whether a condition, as a number, is not zero."""
    return _condition_tested(inputs)


def _condition_tested(inputs: Inputs) -> Value | None:
    x, y = inputs
    cast = made_by(x, "cast")
    if cast is None or y.__class__ is Value or y != 0:
        return None
    source: Value = cast.inputs[0]
    return source if source.spec.dtype.category == BOOL else None


_OPPOSITE: dict[str, Record] = {"eq": NE, "ne": EQ}  # the orderings are not: NaN fails both


def simplify_not(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """not not x, not x == y."""
    x = inputs[0]
    inner = made_by(x, "logical_not")
    if inner is not None and alike(inner.inputs[0], spec):
        return inner.inputs[0]
    node = x.node if x.__class__ is Value else None
    if node is not None and node.record.name in _OPPOSITE:
        return b.emit(_OPPOSITE[node.record.name], *node.inputs)
    return None


def widens(a: DType, b: DType) -> bool:
    """Whether every number of dtype a is one of dtype b."""
    if a is b or a.category == BOOL:
        return True
    if a.category == INT and b.category == INT:
        if a.is_signed and not b.is_signed:
            return False
        return a.itemsize < b.itemsize or (a.itemsize == b.itemsize and a.is_signed == b.is_signed)
    if a.category == INT and b.category == FLOAT:
        return a.itemsize * 2 <= b.itemsize
    return a.category == b.category and a.itemsize < b.itemsize


def simplify_cast(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """A cast to the dtype x has, and a cast after one that lost nothing."""
    x = inputs[0]
    if alike(x, spec):
        return x
    inner = made_by(x, "cast")
    if inner is None:
        return None
    source = inner.inputs[0]
    if source.__class__ is not Value or not widens(source.spec.dtype, x.spec.dtype):
        return None
    if source.spec.dtype is spec.dtype:
        return source
    # Out of range, a float becomes whatever integer the way there makes of it.
    if source.spec.dtype.category >= FLOAT and spec.dtype.category == INT:
        return None
    return b.emit(CAST, source, dtype=spec.dtype)
