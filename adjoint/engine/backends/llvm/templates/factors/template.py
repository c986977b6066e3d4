"""The templates of linear algebra on small matrices of real numbers (Note [small factors])."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from adjoint.engine.backends.llvm.templates.factors import kernel
from adjoint.engine.backends.llvm.templates.product.tiles import tiled
from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, Status, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.errors import LinAlgError
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.common.checks import NUMBER
from adjoint.engine.ops.linalg.failures import SINGULAR

WORK = 1 << 18  # multiply-adds of a matrix up to which the plain algorithms are worth it
KINDS = {"float32": "f32", "float64": "f64"}


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Real matrices on the CPU, small ones, whose failures one number tells of."""
    for x in inputs:
        if not isinstance(x, Value) or x.spec.dtype.name not in KINDS:
            return False
        if x.spec.device.type != "cpu" or any(is_extent(size) for size in x.spec.shape):
            return False
    name, params, shape = node.record.name, node.params, inputs[0].spec.shape
    if 0 in shape or len({x.spec.dtype for x in inputs}) > 1:
        return False
    if len(inputs) == 2 and (inputs[1].spec.shape[:-1] != shape[:-1] or 0 in inputs[1].spec.shape):
        return False
    # Of a batch the message tells which matrix it was, too; unchecked, what is left of one.
    if name in ("cholesky", "inv", "solve") and (not params["check"] or len(shape) > 2):
        return False
    if name == "cholesky" and params["upper"]:
        return False
    return work_of(node) <= WORK


def work_of(node: Node) -> int:
    """Multiply-adds of one matrix."""
    n = node.inputs[0].spec.shape[-1]
    columns: int = node.inputs[-1].spec.shape[-1]
    return int(n * n * columns)


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def writer_of(name: str, kind: str, params: dict[str, Any]) -> tuple[str, Any]:
    """The name of a kernel, and what writes it."""
    if name == "cholesky":
        return "cholesky", partial(kernel.Cholesky, kind)
    if name == "triangular_solve":
        upper, unit = bool(params["upper"]), bool(params["unit"])
        words = f"{'upper' if upper else 'lower'}{'_unit' if unit else ''}"
        return f"triangular_{words}", partial(kernel.Triangular, kind, upper, unit)
    return f"eliminate_{name}", partial(kernel.Elimination, kind, name)


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; matrices are dealt out among the workers."""
    name, shape = node.record.name, node.inputs[0].spec.shape
    dtype, n, columns = node.inputs[0].spec.dtype, shape[-1], node.inputs[-1].spec.shape[-1]
    count = prod(shape[:-2])
    stem, writer = writer_of(name, KINDS[dtype.name], node.params)
    words: list[Any] = [0] * kernel.WORDS
    for at, place in ((kernel.A, operands[0]), (kernel.B, operands[-1]), (kernel.OUT, results[0])):
        words[at] = Address(place.buffer, place.offset * dtype.itemsize)
    writes = [whole(place.buffer) for place in results]
    if len(results) > 1:
        words[kernel.INFO] = Address(results[1].buffer, results[1].offset * 4)
        message = f"{node.params['name']}: {SINGULAR[name].format(info=NUMBER)}"
        words[kernel.STATUS], words[kernel.FAULT] = Status(), Fault(LinAlgError, message)
    if name in ("solve", "inv", "det"):
        copy = PlannedBuffer(ARENA, dtype, count * n * n, name="matrix")
        words[kernel.COPY] = Address(copy)
        writes.append(whole(copy))
    words[kernel.N], words[kernel.M], words[kernel.PIECES] = n, columns, count
    return [
        Launch(
            function=f"{stem}_{tiled(KINDS[dtype.name])}",
            text=lambda function: writer().text(function),
            words=words,
            reads=tuple(whole(place.buffer) for place in operands),
            writes=tuple(writes),
            pieces=count,
            cost=count * work_of(node) / 2,
            label=sized(name, count, n, columns),
        )
    ]


TEMPLATES = dict.fromkeys(
    ("cholesky", "triangular_solve", "solve", "inv", "det"), Template(accepts, packed, steps)
)
