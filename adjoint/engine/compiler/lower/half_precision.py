"""Templates on float16 and bfloat16: computed in float32, rounded once, as eager execution does."""

from __future__ import annotations

from typing import Any

from adjoint.engine.compiler.target import Setting
from adjoint.engine.core.dtype import float32
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import Node, Value


def is_half(x: Any) -> bool:
    """Whether an operand is a tensor of half precision."""
    return isinstance(x, Value) and x.spec.dtype.is_half


def wide_specs(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> tuple[Spec, ...] | None:
    """Specs of the results in float32, if a template takes the node with such operands."""
    if node.record.name not in setting.target.widened or not any(map(is_half, inputs)):
        return None
    operands = tuple(
        Value("wide", Spec(x.spec.shape, float32, x.spec.device)) if is_half(x) else x
        for x in inputs
    )
    specs = [
        Spec(v.spec.shape, float32, v.spec.device) if v.spec.dtype.is_half else v.spec
        for v in node.outputs
    ]
    probe = Node(node.record, operands, node.params)
    probe.outputs = tuple(Value("wide", spec, probe) for spec in specs)
    return tuple(specs) if setting.template_for(probe, operands) is not None else None
