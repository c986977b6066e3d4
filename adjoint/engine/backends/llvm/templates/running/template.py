"""The templates of what runs along a dimension: cumulative sums and the like, recurrences."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.llvm.templates.running import kernel as running
from adjoint.engine.backends.llvm.templates.running.kernel import Running
from adjoint.engine.backends.registers.elementwise import kind_of
from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value

RUNNING_EXTREME = "running_extreme"  # the composite of values and positions
KEPT_WHOLE = (RUNNING_EXTREME,)


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Real numbers on the CPU."""
    return all(
        isinstance(x, Value)
        and x.spec.dtype.name in KIND
        and x.spec.dtype is inputs[0].spec.dtype
        and x.spec.shape == node.outputs[0].spec.shape
        and x.spec.device.type == "cpu"
        and len(x.spec.shape) > 0
        for x in inputs
    ) and not (node.record.name == "linear_scan" and inputs[0].spec.dtype.name == "bool")


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def described(node: Node) -> Running:
    """The kernel a node needs."""
    name, spec = node.record.name, node.inputs[0].spec
    dim = node.params["dim"]
    values = name == RUNNING_EXTREME
    if values or name == "cumextreme":
        name = "cummax" if node.params["largest"] else "cummin"
    wide = kind_of(spec.dtype)
    if wide == "f32" and name not in running.EXTREMES:
        wide = "f64"  # as eager execution does: rounding errors would grow with the length
    lines = prod(spec.shape[dim + 1 :]) == 1
    reverse = bool(node.params.get("reverse", False))
    return Running(name, spec.dtype, wide, reverse, lines, values)


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; lines are dealt out among the workers."""
    what, out = described(node), results[-1]  # after the values, where there are some
    shape, dim = node.inputs[0].spec.shape, node.params["dim"]
    item = what.dtype.itemsize
    before, after = prod(shape[:dim]), prod(shape[dim + 1 :])
    parts = 1 if what.lines else -(-after // running.PART)
    first, *more = (Address(place.buffer, place.offset * item) for place in operands)
    words = running.RunningWords(
        out=Address(out.buffer, out.offset * what.result.itemsize),
        first=first, second=more[0] if more else 0,
        values=Address(results[0].buffer, results[0].offset * item) if what.values else 0,
        before=before, length=shape[dim], after=after, parts=parts, pieces=before * parts,
    )  # fmt: skip
    return [
        Launch(
            function=what.function,
            text=lambda name: running.running_text(name, what),
            words=words.listed(),
            reads=tuple(whole(p.buffer) for p in operands),
            writes=tuple(whole(p.buffer) for p in results),
            pieces=before * parts,
            cost=3 * prod(shape),
            label=sized(node.record.name, before, shape[dim], after),
        )
    ]


TEMPLATES = dict.fromkeys(
    ("cumsum", "cumprod", "logcumsumexp", "linear_scan", "cumextreme", RUNNING_EXTREME),
    Template(accepts, packed, steps),
)
