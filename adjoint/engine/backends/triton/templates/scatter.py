"""The templates of scatters along a dimension (Note [placing])."""

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


def way_of(node: Node) -> str:
    """How values and what is there are combined."""
    return node.params.get("reduce") or ("sum" if node.params["accumulate"] else PUT)


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Values for every line of the base; halves that are combined are widened first."""
    if not all(
        isinstance(x, Value) and x.spec.device.type == setting.target.device for x in inputs
    ):
        return False
    base, _, index = inputs
    shape, picks, dim = base.spec.shape, index.spec.shape, node.params["dim"]
    dtype = node.outputs[0].spec.dtype
    return (
        dtype.name in KIND
        and not (dtype.is_half and way_of(node) != PUT)
        and len(shape) > 0
        and along.are_known(*shape, *picks)
        and index.spec.dtype.name == "int64"
        and (*shape[:dim], *shape[dim + 1 :]) == (*picks[:dim], *picks[dim + 1 :])
        and max(prod(shape), prod(picks)) < MOST
    )


def positions(node: Node, index: Place, out: Place) -> Positions:
    """Places of elements, given by an index each."""
    dim = node.params["dim"]
    inner = prod(out.shape[dim + 1 :])
    lines = [
        f"index = {pointer(FIXED, 'tl.int64')}",
        f"inner = tl.load(w + {FIXED + 1})",
        f"deep = tl.load(w + {FIXED + 2})",
        f"size = tl.load(w + {FIXED + 3})",
        *checked("tl.load(index + i, mask=inside, other=0)", "size", FIXED + 4, wrap=False),
        "at = (i // (deep * inner) * size + j) * inner + i % inner",
    ]
    words = [along.address(index), inner, index.shape[dim], out.shape[dim], bounds_fault(node, 0)]
    return Positions(lines, words, [index])


def steps(setting: Setting, node: Node, operands: list[Any], results: list[Place]) -> list[Launch]:
    """The base copied (None: zeros), then the values put into it."""
    base, values, index = operands
    name = node.record.name
    out, copies = along.own(setting, results[0], name)
    start: list[Launch] = []
    if base is None:
        start = [along.zeros_step(out)]
    elif base != out:
        start = [copy_step(setting.target, base, out, name)]
    where, count = positions(node, index, out), prod(index.shape)
    return [
        *start,
        *placed(setting.target, name, way_of(node), out, values, where, count, 1),
        *copies,
    ]


TEMPLATES = {
    "scatter": Template(accepts, all_but_first, steps, zeros=frozenset({0})),
    "scatter_reduce": Template(accepts, all_but_first, steps),
}
