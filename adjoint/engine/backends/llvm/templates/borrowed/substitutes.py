"""What stands for operations so that borrowed loops can do them (Note [borrowed loops]).

A pseudo-inverse is made of singular values, and a polygamma function of a zeta function, as the
eager table makes them; so is the solution of least squares, which eager mode has from LAPACK;
operands of special functions are spread to the shape of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, nan, prod
from typing import Any

from adjoint.engine.backends.llvm.ir.machine import is_this_process
from adjoint.engine.backends.llvm.templates.borrowed.template import CHARS, SPECIAL
from adjoint.engine.backends.llvm.templates.factors.further import MOST_MINORS
from adjoint.engine.core.dtype import (
    DType,
    bool_,
    complex128,
    float64,
    int64,
)
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.graph.verify import as_operand
from adjoint.engine.ops.create.creation import FULL
from adjoint.engine.ops.create.ranges import EYE
from adjoint.engine.ops.elementwise import records
from adjoint.engine.ops.elementwise.comparison import ISFINITE
from adjoint.engine.ops.elementwise.condition import WHERE
from adjoint.engine.ops.elementwise.logical import LOGICAL_AND
from adjoint.engine.ops.linalg.det import DET
from adjoint.engine.ops.linalg.eigen import EIG_PAIRS, EIGH
from adjoint.engine.ops.linalg.powers import MATRIX_EXP
from adjoint.engine.ops.linalg.svd import SVD
from adjoint.engine.ops.products.matmul import MATMUL
from adjoint.engine.ops.reduce.extremes import AMAX, AMIN
from adjoint.engine.ops.reduce.product import PROD
from adjoint.engine.ops.reduce.reduction import ALL, SUM
from adjoint.engine.ops.shape.convert import CAST
from adjoint.engine.ops.shape.reinterpret import VIEW_AS_COMPLEX, VIEW_AS_REAL
from adjoint.engine.ops.shape.views import EXPAND, PERMUTE, RESHAPE
from adjoint.engine.ops.special.zeta import ZETA

Values = tuple[Value, ...]
Rule = Callable[[GraphBuilder, Node, tuple[Any, ...]], Values | None]


def substituted(graph: DataflowGraph) -> DataflowGraph:
    """The graph with the rules of this file."""
    wanted = is_this_process() and any(node.record.name in RULES for node in graph.nodes)
    return rebuild(graph, visit) if wanted else graph


def visit(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Values | None:
    """What stands for a node's results; None where it stays."""
    rule = RULES.get(node.record.name)
    if rule is None or any(is_extent(n) for v in node.outputs for n in v.spec.shape):
        return None
    return rule(builder, node, inputs)


def several(builder: GraphBuilder, record: Record, *inputs: Any, **params: Any) -> Values:
    """A new node, of several outputs or of one."""
    specs = record.infer(*map(as_operand, inputs), **params)
    return tuple(
        builder.graph.add_node(record, inputs, params, specs if record.outputs > 1 else (specs,))
    )


def least_squares(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Values | None:
    """By singular values in double precision: V S^-1 U^H y, of those that count.

    A matrix with an element that is no number has a solution of NaNs and no rank, as eager mode
    has by drivers that do not look for singular values; "gelsd" refuses it there and here.
    """
    x, y = inputs
    dtype: DType = x.spec.dtype
    if dtype.is_half or 0 in (*x.spec.shape, *y.spec.shape) or not _truncates_alike(node, x):
        return None
    emit = builder.emit
    wide, right = (to(builder, v, doubled(dtype)) for v in (x, y))
    *batch, m, n = x.spec.shape
    finite: Any = None
    if node.params["driver"] != "gelsd":
        parts = emit(VIEW_AS_REAL, wide) if dtype.is_complex else wide
        signs = emit(CAST, emit(records.ISFINITE, parts), dtype=int64)
        within = tuple(range(len(batch), len(parts.spec.shape)))
        least = emit(AMIN, signs, dims=within, keepdim=False)
        least = emit(RESHAPE, least, shape=(*batch, 1, 1))
        finite = emit(records.GT, least, 0)
        wide = emit(WHERE, finite, wide, 0.0)
    u, s, vh = several(builder, SVD, wide, full_matrices=False)
    last = len(s.spec.shape) - 1
    limit = emit(records.MUL, emit(AMAX, s, dims=(last,), keepdim=True), node.params["rcond"])
    counts = emit(records.GT, s, limit)
    inverse = emit(WHERE, counts, emit(records.DIV, 1.0, emit(WHERE, counts, s, 1.0)), 0.0)
    scaled = emit(
        records.MUL,
        emit(MATMUL, adjoint(builder, u), right),
        emit(RESHAPE, inverse, shape=(*batch, min(m, n), 1)),
    )
    solution = emit(MATMUL, adjoint(builder, vh), scaled)
    rank = emit(SUM, emit(CAST, counts, dtype=int64), dims=(last,), keepdim=False)
    if node.params["driver"] not in ("gelsd", "gelss"):  # which have no use for them
        s = emit(records.MUL, s, 0.0)
    if finite is not None:
        solution = emit(WHERE, finite, solution, nan)
    if node.params["driver"] == "gelss":
        s = emit(WHERE, emit(RESHAPE, finite, shape=(*batch, 1)), s, nan)
    return (to(builder, solution, dtype), rank, to(builder, s, dtype.to_real()))


def _truncates_alike(node: Node, x: Value) -> bool:
    """Whether leaving out small singular values is what the driver does.

    "gelsy" leaves out what is small of a factor with pivots: the same up to rounding where `rcond`
    is as small as rounding itself, and another solution where it is larger.
    """
    rcond = node.params["rcond"]
    if not isinstance(rcond, float) or not 0 <= rcond < 1:  # not known yet, or LAPACK's own limit
        return False
    epsilon = float(finfo(x.spec.dtype).eps)
    return node.params["driver"] in ("gelsd", "gelss") or rcond <= epsilon * max(x.spec.shape[-2:])


def to(builder: GraphBuilder, x: Value, dtype: DType) -> Value:
    """A value in a dtype."""
    return x if x.spec.dtype is dtype else builder.emit(CAST, x, dtype=dtype)


def in_double(builder: GraphBuilder, record: Record, x: Value, **params: Any) -> Values:
    """Factors found in double precision, in that of the matrix."""
    dtype: DType = x.spec.dtype
    wide = several(builder, record, to(builder, x, doubled(dtype)), **params)
    return tuple(
        to(builder, y, dtype if y.spec.dtype.is_complex else dtype.to_real()) for y in wide
    )


def doubled(dtype: DType) -> DType:
    """The same numbers in double precision."""
    return complex128 if dtype.is_complex else float64


def pseudo_inverse(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Values | None:
    """V S^-1 U^H, where singular values up to a limit count as zero."""
    x, *tolerances = inputs
    if x.spec.dtype.is_half or 0 in x.spec.shape:
        return None
    emit = builder.emit
    if node.params["hermitian"]:
        s, u = several(builder, EIGH, x, upper=False)
        right = u
    else:
        u, s, vh = several(builder, SVD, x, full_matrices=False)
        right = adjoint(builder, vh)
    size = emit(records.ABS, s)
    largest = emit(AMAX, size, dims=(len(s.spec.shape) - 1,), keepdim=True)
    absolute, relative = (column(builder, t, largest.spec) for t in tolerances)
    above = emit(records.GT, size, emit(records.MUL, largest, relative))
    counts = emit(LOGICAL_AND, above, emit(records.GT, size, absolute))
    inverse = emit(WHERE, counts, emit(records.DIV, 1.0, emit(WHERE, counts, s, 1.0)), 0.0)
    *batch, k = s.spec.shape
    scaled = emit(records.MUL, right, emit(RESHAPE, inverse, shape=(*batch, 1, k)))
    return (emit(MATMUL, scaled, adjoint(builder, u)),)


def cofactors(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Values | None:
    """The conjugate matrix of cofactors, of singular matrices, too: in double precision.

    Those of complex matrices are found by singular values. Of large ones eager mode knows more.
    """
    (x,) = inputs
    dtype: DType = x.spec.dtype
    if dtype.is_half or dtype is float64 or 0 in x.spec.shape or x.spec.shape[-1] > MOST_MINORS:
        return None
    if not dtype.is_complex:
        return in_double(builder, node.record, x)
    emit = builder.emit
    parts = emit(VIEW_AS_REAL, x)
    sides = tuple(range(len(parts.spec.shape)))[-3:]
    finite = emit(ALL, emit(ISFINITE, parts), dims=sides, keepdim=True)
    finite = emit(EXPAND, finite, shape=parts.spec.shape)
    known = emit(VIEW_AS_COMPLEX, emit(WHERE, finite, parts, 0.0))
    u, s, vh = in_double(builder, SVD, known, full_matrices=True)
    turn = emit(records.CONJ, emit(records.MUL, emit(DET, u), emit(DET, vh)))
    *batch, k = s.spec.shape
    own = emit(EYE, n=k, m=k, dtype=bool_, device=x.spec.device)
    row = emit(EXPAND, emit(RESHAPE, s, shape=(*batch, 1, k)), shape=(*batch, k, k))
    others = emit(PROD, emit(WHERE, own, 1.0, row), dims=(len(batch) + 1,), keepdim=False)
    scaled = emit(records.MUL, u, emit(RESHAPE, others, shape=(*batch, 1, k)))
    size = emit(RESHAPE, turn, shape=(*batch, 1, 1))
    out = emit(VIEW_AS_REAL, emit(records.MUL, size, emit(MATMUL, scaled, vh)))
    return (emit(VIEW_AS_COMPLEX, emit(WHERE, finite, out, nan)),)


def eigenvalues(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Values | None:
    """Of real matrices, as pairs."""
    (x,) = inputs
    if x.spec.dtype.name not in CHARS or 0 in x.spec.shape:
        return None
    pairs = several(builder, EIG_PAIRS, x)
    return tuple(builder.emit(VIEW_AS_COMPLEX, pair) for pair in pairs)


def adjoint(builder: GraphBuilder, x: Value) -> Value:
    """Matrices transposed, and of complex numbers conjugated."""
    rank = len(x.spec.shape)
    turned = builder.emit(PERMUTE, x, dims=(*range(rank - 2), rank - 1, rank - 2))
    return builder.emit(records.CONJ, turned) if x.spec.dtype.is_complex else turned


def column(builder: GraphBuilder, tolerance: Any, like: Spec) -> Any:
    """One tolerance for each matrix, or for all."""
    if not isinstance(tolerance, Value) or tolerance.host:
        return tolerance
    return builder.emit(RESHAPE, tolerance, shape=like.shape)


def exponential(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Values | None:
    """In double precision, as the eager table has it."""
    (x,) = inputs
    if x.spec.dtype is float64 or x.spec.dtype.is_complex or 0 in x.spec.shape:
        return None
    wide = builder.emit(MATRIX_EXP, builder.emit(CAST, x, dtype=float64))
    return (builder.emit(CAST, wide, dtype=x.spec.dtype),)


def polygamma(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Values | None:
    """n! zeta(n + 1, x) and its sign; the first two are computed in registers."""
    (x,), n = inputs, node.params["n"]
    if n <= 1 or x.spec.dtype.name not in CHARS or 0 in x.spec.shape:
        return None
    emit, spec = builder.emit, x.spec
    order = emit(FULL, n + 1.0, shape=(), dtype=spec.dtype, device=spec.device, strides=None)
    return (emit(records.MUL, emit(ZETA, order, x), float(factorial(n) * (1 if n % 2 else -1))),)


def spread(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Values | None:
    """Operands of one shape and one dtype; numbers stay one element."""
    out: Spec = node.outputs[0].spec
    if 0 in out.shape or not (out.dtype.name in CHARS or out.dtype.is_half):
        return None
    operands = tuple(spread_to(builder, x, out) for x in inputs)
    if operands == inputs:
        return None
    return tuple(builder.graph.add_node(node.record, operands, node.params, (out,)))


def spread_to(builder: GraphBuilder, x: Any, out: Spec) -> Any:
    """An operand as an inner loop takes it."""
    if not isinstance(x, Value) or x.host:
        return x
    if x.spec.dtype is not out.dtype:
        x = builder.emit(CAST, x, dtype=out.dtype)
    if prod(x.spec.shape) == 1 or x.spec.shape == out.shape:
        return x
    return builder.emit(EXPAND, x, shape=out.shape)


RULES: dict[str, Rule] = {
    "lstsq": least_squares,
    "pinv": pseudo_inverse,
    "eig": eigenvalues,
    "cofactor": cofactors,
    "matrix_exp": exponential,
    "polygamma": polygamma,
    **dict.fromkeys(SPECIAL, spread),
}
