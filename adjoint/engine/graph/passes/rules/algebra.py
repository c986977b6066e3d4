"""Rules of arithmetic for `simplify`. Each holds for every value IEEE 754 has.

x + 0.0 is not x (-0.0 + 0.0 is 0.0) unless x is known never to be -0.0; x * 0 is not 0; division by
a power of two is the same as multiplication by its inverse, by nothing else. Sums are the one
exception: the order of a sum's additions is not part of its meaning, so sums of sums join.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, frexp
from typing import Any

from adjoint.engine.core.dtype import BOOL, FLOAT, INT, DType
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.operations.reductions import reduced_shape
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.elementwise.arithmetic import ADD, MUL, NEG, SUB
from adjoint.engine.ops.elementwise.division import DIV
from adjoint.engine.ops.elementwise.power import RSQRT, SQRT
from adjoint.engine.ops.reduce.reduction import SUM
from adjoint.engine.ops.shape.views import RESHAPE

Inputs = tuple[Any, ...]
Params = dict[str, Any]
Rule = Callable[[GraphBuilder, Inputs, Params, Spec], "Value | None"]
NUMBERS = (bool, int, float, complex)  # by category of dtype


def made_by(x: Any, name: str) -> Node | None:
    """The node that made x, if it applies the record called `name`."""
    if x.__class__ is Value:
        node: Node | None = x.node
        if node is not None and node.record.name == name:
            return node
    return None


def number_in(x: Any) -> Any:
    """The one number all elements of x are, or None: a literal, or a tensor filled with one.

    A number that depends on dynamic sizes is none: what holds for it may not hold at others.
    """
    if x.__class__ is not Value:
        return None if is_extent(x) else x
    node = x.node
    if node is None or node.record.name != "full" or node.inputs[0].__class__ is Value:
        return None
    number = node.inputs[0]
    if is_extent(number):
        return None
    return bool(number) if x.spec.dtype.category == BOOL else number


def alike(x: Any, spec: Spec) -> bool:
    """Whether x is a tensor of exactly this spec."""
    return x.__class__ is Value and not x.host and x.spec == spec


def is_real(dtype: DType) -> bool:
    """Whether arithmetic in this dtype is IEEE's, on reals."""
    return dtype.category == FLOAT


def never_negative_zero(x: Any, depth: int = 4) -> bool:
    """Whether no element of x can be -0.0, as far as its definition shows."""
    number = number_in(x)
    if number is not None:
        return number != 0 or copysign(1.0, number) > 0
    node = x.node if x.__class__ is Value else None  # else a number of sizes, of any value
    if node is None or depth == 0:
        return False
    name = node.record.name
    if node.record.never_negative_zero:
        return True
    if node.record.selects:
        return never_negative_zero(node.inputs[0], depth - 1)
    if name == "mul":
        return node.inputs[0] is node.inputs[1]
    if name == "add":  # both terms would have to be
        return any(never_negative_zero(y, depth - 1) for y in node.inputs)
    return False


def is_zero_to_add(number: Any, x: Any, spec: Spec) -> bool:
    """Whether x + number is x."""
    if number is None or number != 0 or not alike(x, spec):
        return False
    if spec.dtype.category <= INT:
        return True
    return is_real(spec.dtype) and (copysign(1.0, number) < 0 or never_negative_zero(x))


# -- sums and products ---------------------------------------------------------------------------


def literal_operand(record: Record, *positions: int) -> Rule:
    """A filled tensor as an operand is as good as its number, where that promotes and rounds the
    same.
    """

    def rule(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
        for i in positions:
            full, other = inputs[i], inputs[1 - i]
            number = number_in(full)
            if full.__class__ is not Value or number is None or other.__class__ is not Value:
                continue
            dtype = full.spec.dtype
            if other.host or other.spec.dtype is not dtype or other.spec.shape != spec.shape:
                continue
            if NUMBERS.index(type(number)) != dtype.category or not _rounds_alike(number, dtype):
                continue
            return b.emit(record, *((number, other) if i == 0 else (other, number)))
        return None

    return rule


def expanded_operand(record: Record) -> Rule:
    """An operand need not be expanded to the shape the other has."""

    def rule(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
        x, y = inputs
        for node, other, first in (
            (made_by(x, "expand"), y, True),
            (made_by(y, "expand"), x, False),
        ):
            if node is None or other.__class__ is not Value or other.spec.shape != spec.shape:
                continue
            source = node.inputs[0]
            if other.spec.dtype is source.spec.dtype and source.spec.shape:  # promotion as before
                return b.emit(record, *((source, other) if first else (other, source)))
        return None

    return rule


def _rounds_alike(number: Any, dtype: DType) -> bool:
    """Whether a number is the same in a dtype and in the one it computes in."""
    return not dtype.is_half or (abs(number) <= 256 and number == int(number))


def simplify_add(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """x + 0 and x + -y."""
    x, y = inputs
    for a, c in ((x, y), (y, x)):
        if is_zero_to_add(number_in(c), a, spec):
            return a
    for a, c in ((x, y), (y, x)):
        negated = made_by(c, "neg")
        if negated is not None and c.spec.dtype is spec.dtype and _has_dtype(a, spec.dtype):
            # A bool counts as a whole number here, which subtraction refuses it as.
            a = int(a) if a.__class__ is bool else a
            return b.emit(SUB, a, negated.inputs[0])
    return None


def _has_dtype(x: Any, dtype: DType) -> bool:
    return x.__class__ is not Value or x.spec.dtype is dtype


def simplify_sub(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """x - 0 and x - -y."""
    x, y = inputs
    number = number_in(y)
    if number is not None and number == 0 and alike(x, spec):
        exact = spec.dtype.category == INT or (is_real(spec.dtype) and copysign(1.0, number) > 0)
        if exact:
            return x
    negated = made_by(y, "neg")
    if negated is not None and y.spec.dtype is spec.dtype and _has_dtype(x, spec.dtype):
        return b.emit(ADD, x, negated.inputs[0])
    return None


def simplify_mul(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """x * 1, x * -1, and negated factors."""
    x, y = inputs
    for a, c in ((x, y), (y, x)):
        number = number_in(c)
        if number is None or not alike(a, spec):
            continue
        if number == 1 and not spec.dtype.is_complex:  # inf * (1 + 0j) has a NaN in it
            return a
        if number == -1 and is_real(spec.dtype):
            return emit_neg(b, a)
        negated = made_by(a, "neg")
        if negated is not None and is_real(spec.dtype) and c.__class__ is float:
            factors = (negated.inputs[0], -c)  # in their order: Note [numbers beside halves]
            return b.emit(MUL, *(factors if c is y else factors[::-1]))
    first, second = made_by(x, "neg"), made_by(y, "neg")
    if first is not None and second is not None and x.spec.dtype is y.spec.dtype:
        return b.emit(MUL, first.inputs[0], second.inputs[0])
    return None


def simplify_neg(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """- -x."""
    inner = made_by(inputs[0], "neg")
    return None if inner is None else inner.inputs[0]


def emit_neg(b: GraphBuilder, x: Value) -> Value:
    """-x, or what x negates."""
    inner = made_by(x, "neg")
    return b.emit(NEG, x) if inner is None else inner.inputs[0]


def simplify_div(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """Division by 1, -1 and powers of two."""
    x, y = inputs
    number = number_in(y)
    if number is None or isinstance(number, complex) or not alike(x, spec):
        return None
    if not is_real(spec.dtype) or number == 0:
        return None
    if number == 1:
        return x
    if number == -1:
        return emit_neg(b, x)
    mantissa, exponent = frexp(number)
    # Within these bounds the inverse is a normal number of every dtype.
    if abs(mantissa) == 0.5 and -12 <= exponent <= (12 if spec.dtype.is_half else 120):
        return b.emit(MUL, x, 1.0 / number)
    return None


def simplify_pow(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """The powers that are cheaper written otherwise: 1, 2, 1/2, -1/2, -1."""
    x, y = inputs
    if y.__class__ not in (int, float) or not alike(x, spec):
        return None
    if y == 1:
        return x
    if y == 2:
        return b.emit(MUL, x, x)
    if y == 0.5 and is_real(spec.dtype):
        return b.emit(SQRT, x)
    if y == -0.5 and is_real(spec.dtype):
        return b.emit(RSQRT, x)
    if y == -1 and is_real(spec.dtype):
        return b.emit(DIV, 1, x)
    return None


# -- reductions ----------------------------------------------------------------------------------


def simplify_sum(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """A sum over nothing or over dimensions of size 1; a sum of a sum."""
    x, dims = inputs[0], params["dims"]
    shape = x.spec.shape
    if all(shape[d] == 1 for d in dims):
        if is_real(spec.dtype) and not never_negative_zero(x):
            x = b.emit(ADD, x, 0.0)  # what a sum of one -0.0 is
        elif spec.dtype.is_complex:
            return None
        return b.emit(RESHAPE, x, shape=spec.shape)
    inner = made_by(x, "sum")
    if inner is None or spec.dtype.is_half:  # halves round between the two
        return None
    return _join_sums(b, inner, dims, spec)


def _join_sums(b: GraphBuilder, inner: Node, dims: tuple[int, ...], spec: Spec) -> Value:
    x, first = inner.inputs[0], inner.params["dims"]
    if not inner.params["keepdim"]:
        left = [d for d in range(len(x.spec.shape)) if d not in first]
        dims = tuple([left[d] for d in dims])
    joined = b.emit(SUM, x, dims=tuple(sorted({*first, *dims})), keepdim=False)
    return joined if joined.spec == spec else b.emit(RESHAPE, joined, shape=spec.shape)


def simplify_extreme(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """The largest, smallest or product over dimensions of size 1."""
    x, dims = inputs[0], params["dims"]
    if not alike(x, spec._replace(shape=x.spec.shape)):
        return None
    if any(x.spec.shape[d] != 1 for d in dims):
        return None
    return b.emit(RESHAPE, x, shape=reduced_shape(x.spec.shape, dims, params["keepdim"]))
