"""The templates of triangular factors, orders of rows, exponentials and cofactors.

Note [small factors] says how.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.llvm.ir.machine import is_this_process
from adjoint.engine.backends.llvm.templates.factors import exchanges, exponential, minors
from adjoint.engine.backends.llvm.templates.factors.kernel import FactorWords
from adjoint.engine.backends.llvm.templates.factors.template import (
    KINDS,
    WORK,
    fault_of,
    packed,
)
from adjoint.engine.backends.llvm.templates.product.tiles import tiled
from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, Status, sized, whole
from adjoint.engine.compiler.target import Setting, Template
from adjoint.engine.core.dtype import float64, int32
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.common.checks import NUMBER, PLACE_BITS

# Rows of a matrix up to which its exponential is not SciPy's: where that is at hand, and where not.
WITH_SCIPY, LARGEST = 32, 128
MOST_MINORS = 128  # rows of a matrix whose cofactors are not made of its inverse


def is_known(x: Any) -> bool:
    """Whether an operand is a tensor on the CPU of known sizes that is not empty."""
    return (
        isinstance(x, Value)
        and not x.host
        and x.spec.device.type == "cpu"
        and not any(map(is_extent, x.spec.shape))
        and 0 not in x.spec.shape
    )


def address(place: Place) -> Address:
    """Where a place begins."""
    return Address(place.buffer, place.offset * place.buffer.dtype.itemsize)


# -- triangular factors -------------------------------------------------------------------------


def accepts_lower_upper(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Small matrices of real numbers."""
    (x,) = inputs
    if not is_known(x) or x.spec.dtype.name not in KINDS:
        return False
    m, n = x.spec.shape[-2:]
    return bool(m * n * min(m, n) <= WORK and max(m, n) < 1 << PLACE_BITS)


def lower_upper_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; matrices are dealt out among the workers."""
    spec, params = node.inputs[0].spec, node.params
    *batch, m, n = spec.shape
    count, kind, checked = prod(batch), KINDS[spec.dtype.name], bool(params["check"])
    factors, pivots, info = map(address, results)
    words = FactorWords(
        a=address(operands[0]), b=pivots, out=factors, info=info, n=m, m=n, copy=0, pieces=count,
        status=Status() if checked else 0, wide=0,
    )  # fmt: skip
    name = params["name"]
    called = f"torch.{name}" if name == "linalg.lu_factor" else name
    if checked:
        words.fault = fault_of("lu_factor", called, bool(batch))
    return [
        Launch(
            function=f"lower_upper_{'checked_' if checked else ''}{tiled(kind)}",
            text=lambda function: exchanges.LowerUpper(kind, checked).text(function),
            words=words.listed(),
            reads=(whole(operands[0].buffer),),
            writes=tuple(whole(place.buffer) for place in results),
            pieces=count,
            cost=count * m * n * min(m, n) / 2,
            label=sized("lu_factor", count, m, n),
        )
    ]


def accepts_order(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Exchanges as LAPACK tells them, of rows that there are."""
    (x,) = inputs
    return is_known(x) and x.spec.dtype is int32 and x.spec.shape[-1] <= node.params["size"]


def order_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; rows are dealt out among the workers."""
    *batch, count = node.inputs[0].spec.shape
    rows, size, inverse = prod(batch), node.params["size"], bool(node.params["inverse"])
    wrong = f"pivots_to_permutation: row {NUMBER} of a matrix with {size} rows cannot be exchanged"
    words = exchanges.ExchangeWords(
        pivots=address(operands[0]), out=address(results[0]), rows=rows, count=count, size=size,
        status=Status(), fault=Fault(IndexError, wrong),
    )  # fmt: skip
    return [
        Launch(
            function=f"order_of_exchanges_{'back' if inverse else 'there'}",
            text=lambda function: exchanges.order_text(function, inverse),
            words=words.listed(),
            reads=(whole(operands[0].buffer),),
            writes=(whole(results[0].buffer),),
            pieces=rows,
            cost=rows * (size + 2 * count),
            label=sized(node.record.name, rows, size),
        )
    ]


# -- exponentials -------------------------------------------------------------------------------


def accepts_exponential(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Small matrices in double precision, to which others are brought."""
    (x,) = inputs
    largest = WITH_SCIPY if is_this_process() else LARGEST
    return is_known(x) and x.spec.dtype is float64 and x.spec.shape[-1] <= largest


def exponential_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; matrices are dealt out among the workers."""
    n = node.inputs[0].spec.shape[-1]
    kernel = exponential.MatrixExponential("f64")
    return [_of_each(node, operands, results, kernel, n * n * exponential.ROOM, 6 * n**3)]


# -- cofactors ----------------------------------------------------------------------------------


def accepts_cofactors(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Small matrices in double precision, to which others are brought."""
    (x,) = inputs
    return is_known(x) and x.spec.dtype is float64 and x.spec.shape[-1] <= MOST_MINORS


def cofactor_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; matrices are dealt out among the workers."""
    n = node.inputs[0].spec.shape[-1]
    room = n * n * minors.ROOM + n * minors.ROWS
    return [_of_each(node, operands, results, minors.Cofactors("f64"), room, 2 * n**3)]


def _of_each(
    node: Node,
    operands: list[Place],
    results: list[Place],
    kernel: exponential.MatrixExponential | minors.Cofactors,
    room: int,
    cost: int,
) -> Launch:
    """The launch of a kernel that takes a matrix a piece, with room beside it to work in."""
    *batch, n, _ = node.inputs[0].spec.shape
    count, name = prod(batch), node.record.name
    beside = PlannedBuffer(ARENA, float64, count * room, name=f"room of {name}")
    words = FactorWords(
        a=address(operands[0]), b=0, out=address(results[0]), info=0, n=n, m=n,
        copy=Address(beside), pieces=count, status=0, wide=0,
    )  # fmt: skip
    return Launch(
        function=f"{name}_{tiled('f64')}",
        text=kernel.text,
        words=words.listed(),
        reads=(whole(operands[0].buffer),),
        writes=(whole(results[0].buffer), whole(beside)),
        pieces=count,
        cost=count * cost,
        label=sized(name, count, n, n),
    )


TEMPLATES = {
    "cofactor": Template(accepts_cofactors, packed, cofactor_steps),
    "lu_factor": Template(accepts_lower_upper, packed, lower_upper_steps),
    "pivots_to_permutation": Template(accepts_order, packed, order_steps),
    "matrix_exp": Template(accepts_exponential, packed, exponential_steps),
}
