"""The template of putting or adding rows at indices: the gradient of an embedding, x[index] = y."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.llvm.templates.rows import kernel as rows
from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.lower.indexed import bounds_fault
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Address, Launch, Status, sized, whole
from adjoint.engine.compiler.target import Setting, Template, all_but_first
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import computed


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Rows of a row-major result, by indices along dimensions next to each other."""
    dims = node.params["dims"]
    alike = len({x.spec.shape for x in inputs[2:]}) == 1
    together = dims == tuple(range(dims[0], dims[0] + len(dims)))
    return can_put(setting, node, inputs) and alike and together


def can_put(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether rows can be put, once the dimensions that are indexed come first."""
    spec = node.outputs[0].spec
    return (
        all(isinstance(x, Value) for x in inputs)
        and spec.device.type == "cpu"
        and spec.dtype.name in KIND
        and all(x.spec.dtype.name == "int64" for x in inputs[2:])
    )


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """The base copied, then the rows put into it or added to it."""
    base, values, *indices = operands
    out, spec = results[0], node.outputs[0].spec
    first = node.params["dims"][0]
    tables, length = prod(spec.shape[:first]), prod(spec.shape[first + len(indices) :])
    count = prod(indices[0].shape)
    accumulate, wrap = bool(node.params["accumulate"]), bool(node.params.get("wrap", True))
    item, parts = spec.dtype.itemsize, -(-length // rows.PART)
    words = rows.PutWords(
        out=Address(out.buffer, out.offset * item),
        values=Address(values.buffer, values.offset * item),
        count=count, length=length, parts=parts, tables=tables, wrap=int(wrap), status=Status(),
    ).listed()  # fmt: skip
    for d, index in enumerate(indices):
        start = Address(index.buffer, index.offset * 8)
        words += rows.IndexWords(start, spec.shape[first + d], bounds_fault(node, d)).listed()
    launch = Launch(
        function=f"rows_{spec.dtype.name}_{len(indices)}_{'add' if accumulate else 'put'}",
        text=lambda name: rows.rows_text(name, spec.dtype, len(indices), accumulate),
        words=words,
        reads=(whole(values.buffer), *(whole(i.buffer) for i in indices), whole(out.buffer)),
        writes=(whole(out.buffer),),
        pieces=computed(shares, tables, parts),
        cost=2 * tables * count * length,
        label=sized("index_put", tables, count, length),
    )
    return [copy_step(setting.target, base, out, "index_put"), launch] if base != out else [launch]


def shares(tables: int, parts: int) -> int:
    """Among how many workers tables, or the parts of one, can be dealt out."""
    return tables if tables > 1 else parts


TEMPLATES = {"index_put": Template(accepts, all_but_first, steps, accepts_moved=can_put)}
