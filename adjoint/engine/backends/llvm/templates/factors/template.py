"""The templates of linear algebra on small matrices of real numbers (Note [small factors])."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from adjoint.engine.backends.llvm.templates.factors import kernel
from adjoint.engine.backends.llvm.templates.factors.orthogonal import Orthogonal
from adjoint.engine.backends.llvm.templates.product.tiles import tiled
from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, Status, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.errors import LinAlgError
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.common.checks import MATRIX, PLACE, PLACE_BITS
from adjoint.engine.ops.linalg.failures import SINGULAR, kind_of

WORK = 1 << 20  # multiply-adds of a matrix up to which the plain algorithms are worth it
# Rows up to which they are quicker than LAPACK's routines, where there are such: of triangles and
# of other matrices.
SMALL_TRIANGLE, SMALL = 24, {"f32": 64, "f64": 48}
KINDS = {"float32": "f32", "float64": "f64"}


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Small matrices of real numbers on the CPU."""
    for x in inputs:
        if not isinstance(x, Value) or x.spec.dtype.name not in KINDS:
            return False
        if x.spec.device.type != "cpu" or any(is_extent(size) for size in x.spec.shape):
            return False
    name, params = node.record.name, node.params
    if len({x.spec.dtype for x in inputs}) > 1:
        return False
    matrix, right = in_order(name, inputs)
    shape = matrix.spec.shape
    if right.spec.shape[:-1] != shape[:-1] or 0 in right.spec.shape:
        return False
    # Unchecked, what LAPACK leaves of a matrix would be a result.
    if name in SINGULAR and not params["check"]:
        return False
    return work_of(node) <= WORK and shape[-1] < 1 << PLACE_BITS


def is_small(node: Node) -> bool:
    """Whether the plain algorithms are quicker than routines of LAPACK."""
    matrix, _ = in_order(node.record.name, node.inputs)
    spec = matrix.spec
    if node.record.name in ("triangular_solve", "cholesky_solve"):
        return bool(spec.shape[-1] <= SMALL_TRIANGLE)
    return bool(min(spec.shape[-2:]) <= SMALL.get(KINDS.get(spec.dtype.name, ""), 0))


def in_order(name: str, operands: Sequence[Any]) -> tuple[Any, Any]:
    """The matrix and the right side, which may be the matrix itself."""
    first, last = operands[0], operands[-1]
    return (last, first) if name == "cholesky_solve" else (first, last)


def work_of(node: Node) -> int:
    """Multiply-adds of one matrix."""
    matrix, right = in_order(node.record.name, node.inputs)
    return int(matrix.spec.shape[-1] ** 2 * right.spec.shape[-1])


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def writer_of(name: str, kind: str, params: dict[str, Any]) -> tuple[str, Any]:
    """The name of a kernel, and what writes it."""
    upper = bool(params.get("upper"))
    side = "upper" if upper else "lower"
    if name == "cholesky":
        return f"cholesky_{side}", partial(kernel.Cholesky, kind, upper)
    if name == "cholesky_solve":
        return f"definite_{side}", partial(kernel.Definite, kind, upper)
    if name == "triangular_solve":
        unit = bool(params["unit"])
        end = "_unit" if unit else ""
        return f"triangular_{side}{end}", partial(kernel.Triangular, kind, upper, unit)
    return f"eliminate_{name}", partial(kernel.Elimination, kind, name)


def fault_of(name: str, called: str, is_batch: bool) -> Fault:
    """What is said of a matrix that cannot be treated."""
    which = f"(Batch element {MATRIX}): " if is_batch else ""
    text = SINGULAR[kind_of(name, called)].format(info=PLACE)
    return Fault(LinAlgError, f"{called}: {which}{text}")


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; matrices are dealt out among the workers."""
    name = node.record.name
    matrix, right = in_order(name, node.inputs)
    shape, dtype, columns = matrix.spec.shape, matrix.spec.dtype, right.spec.shape[-1]
    n, count = shape[-1], prod(shape[:-2])
    stem, writer = writer_of(name, KINDS[dtype.name], node.params)
    a, b, out = (
        Address(place.buffer, place.offset * dtype.itemsize)
        for place in (*in_order(name, operands), results[0])
    )
    words = kernel.FactorWords(
        a=a, b=b, out=out, info=0, n=n, m=columns, copy=0, pieces=count, status=0, wide=0
    )
    writes = [whole(place.buffer) for place in results]
    if len(results) > 1:
        second = results[1].buffer
        words.info = Address(second, results[1].offset * second.dtype.itemsize)
    if name in SINGULAR:
        words.status = Status()
        words.fault = fault_of(name, node.params["name"], len(shape) > 2)
    if name not in ("triangular_solve", "cholesky_solve"):
        copy = PlannedBuffer(ARENA, dtype, count * n * n, name="matrix")
        words.copy = Address(copy)
        writes.append(whole(copy))
    return [
        Launch(
            function=f"{stem}_{tiled(KINDS[dtype.name])}",
            text=lambda function: writer().text(function),
            words=words.listed(),
            reads=tuple(whole(place.buffer) for place in operands),
            writes=tuple(writes),
            pieces=count,
            cost=count * work_of(node) / 2,
            label=sized(name, count, n, columns),
        )
    ]


def accepts_orthogonal(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Small matrices of any shape, of which both factors are wanted."""
    (x,) = inputs
    if (
        node.params["mode"] == "r"
        or not isinstance(x, Value)
        or x.spec.dtype.name not in KINDS
        or x.spec.device.type != "cpu"
    ):
        return False
    shape = x.spec.shape
    if any(map(is_extent, shape)) or 0 in shape:
        return False
    return orthogonal_work(node) <= WORK


def orthogonal_work(node: Node) -> int:
    """Multiply-adds of one matrix."""
    m, n = node.inputs[0].spec.shape[-2:]
    wide = m if node.params["mode"] == "complete" else min(m, n)
    return int(2 * m * min(m, n) * (n + wide))


def orthogonal_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; matrices are dealt out among the workers."""
    spec, mode = node.inputs[0].spec, node.params["mode"]
    kind, item = KINDS[spec.dtype.name], spec.dtype.itemsize
    *batch, m, n = spec.shape
    count = prod(batch)
    room = m * n + min(m, n) + max(m, n)
    work = PlannedBuffer(ARENA, spec.dtype, count * room, name="matrix")
    a, out, info = (
        Address(place.buffer, place.offset * item)
        for place in (operands[0], results[0], results[1])
    )
    words = kernel.FactorWords(
        a=a, b=0, out=out, info=info, n=m, m=n, copy=Address(work), pieces=count, status=0,
        wide=m if mode == "complete" else min(m, n),
    )  # fmt: skip
    return [
        Launch(
            function=f"orthogonal_{tiled(kind)}",
            text=lambda function: Orthogonal(kind).text(function),
            words=words.listed(),
            reads=(whole(operands[0].buffer),),
            writes=(*[whole(place.buffer) for place in results], whole(work)),
            pieces=count,
            cost=count * orthogonal_work(node),
            label=sized("qr", count, m, n),
        )
    ]


TEMPLATES = {
    **dict.fromkeys(
        ("cholesky", "cholesky_solve", "triangular_solve", "solve", "inv", "det", "slogdet"),
        Template(accepts, packed, steps),
    ),
    "qr": Template(accepts_orthogonal, packed, orthogonal_steps),
}
