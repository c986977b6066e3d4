"""The template of putting or adding rows at indices: the gradient of an embedding, x[index] = y."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.triton.templates import lines as along
from adjoint.engine.backends.triton.templates.lines import pointer
from adjoint.engine.backends.triton.templates.scatter_kernels import (
    FIXED,
    MOST,
    PUT,
    Positions,
    checked,
    placed,
)
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.lower.indexed import bounds_fault
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.compiler.target import Setting, Template, all_but_first
from adjoint.engine.graph.ir import Node, Value


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Rows of a row-major result, by indices along its first dimensions, or along any one."""
    dims = node.params["dims"]
    alike = len({x.spec.shape for x in inputs[2:]}) == 1
    known = dims == tuple(range(len(dims))) or (len(dims) == 1 and len(inputs[2].spec.shape) == 1)
    return can_put(setting, node, inputs) and alike and known


def can_put(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether rows can be put, once the dimensions that are indexed come first."""
    spec = node.outputs[0].spec
    return (
        all(isinstance(x, Value) for x in inputs)
        and spec.device.type == setting.target.device
        and spec.dtype.name in KIND  # halves that are added are widened
        and not (spec.dtype.name == "bool" and node.params["accumulate"])
        and along.are_known(*spec.shape, *inputs[1].spec.shape)
        and all(x.spec.dtype.name == "int64" for x in inputs[2:])
        and max(prod(spec.shape), prod(inputs[1].spec.shape)) < MOST
    )


def positions(node: Node, indices: list[Place]) -> Positions:
    """The number of each row, by an index for each of the first dimensions; or by one along an
    inner dimension, for each combination of the outer ones."""
    wrap, words = bool(node.params.get("wrap", True)), []
    outer, count = node.params["dims"][0], prod(indices[0].shape)
    lines = [f"at = i // {count}", f"which = i % {count}"] if outer else ["at = i * 0", "which = i"]
    for d, index in enumerate(indices):
        first = FIXED + 3 * d
        load = f"tl.load({pointer(first, 'tl.int64')} + which, mask=inside, other=0)"
        lines += [f"size = tl.load(w + {first + 1})"]
        lines += checked(load, "size", first + 2, wrap)
        lines.append("at = at * size + j")
        size = node.outputs[0].spec.shape[outer + d]
        words += [along.address(index), size, bounds_fault(node, d)]
    return Positions(lines, words, indices)


def steps(setting: Setting, node: Node, operands: list[Any], results: list[Place]) -> list[Launch]:
    """The base copied (None: zeros), then the rows put into it or added to it.

    State that is base and result at once is written where it lies (`Placing.begins_as`).
    """
    base, values, *indices = operands
    inside = base == results[0]
    out, copies = (base, []) if inside else along.own(setting, results[0], "index_put")
    start: list[Launch] = []
    if base is None:
        start = [along.zeros_step(out)]
    elif base != out:
        start = [copy_step(setting.target, base, out, "index_put")]
    shape, first = node.outputs[0].spec.shape, node.params["dims"][0]
    length = prod(shape[first + len(indices) :])
    count = prod(shape[:first]) * prod(indices[0].shape)
    how = "sum" if node.params["accumulate"] else PUT
    where = positions(node, indices)
    return [
        *start,
        *placed(setting.target, "index_put", how, out, values, where, count, length),
        *copies,
    ]


TEMPLATES = {
    "index_put": Template(
        accepts, all_but_first, steps, zeros=frozenset({0}), accepts_moved=can_put, begins=0
    )
}
