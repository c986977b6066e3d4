"""Simplification: local rules, applied to each node once its inputs are as simple as they get.

A rule looks at a node's inputs (and, through them, at the nodes behind) and gives a value that
equals the node's, or None. What it gives is simplified in turn, so one walk reaches the end.
"""

from __future__ import annotations

from typing import Any

from adjoint.core.record import REGISTRY, Record
from adjoint.core.spec import Spec
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.passes import algebra, view_rules
from adjoint.graph.passes.algebra import Inputs, Params, Rule
from adjoint.graph.passes.rewrite import Builder, rebuild
from adjoint.graph.verify import as_operand


def simplify_clone(b: Builder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """Values are not written to, so a copy is as good as what it copies."""
    return inputs[0]


def simplify_move(b: Builder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """A move to where the tensor is."""
    return inputs[0] if algebra.alike(inputs[0], spec) else None


def simplify_join(b: Builder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """One tensor, joined to nothing."""
    return inputs[0] if len(inputs) == 1 and algebra.alike(inputs[0], spec) else None


def _views(name: str, rule: Rule) -> tuple[Rule, ...]:
    return (rule, view_rules.view_of_full, view_rules.view_of_written(REGISTRY[name]))


def _binary(name: str, *rules: Rule) -> tuple[Rule, ...]:
    return (*rules, algebra.literal_operand(REGISTRY[name], 1, 0))


RULES: dict[str, tuple[Rule, ...]] = {
    "add": _binary("add", algebra.simplify_add),
    "sub": _binary("sub", algebra.simplify_sub),
    "mul": _binary("mul", algebra.simplify_mul),
    "div": _binary("div", algebra.simplify_div),
    **{  # a number cannot be the first operand of these
        name: (algebra.literal_operand(REGISTRY[name], 1),)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    },
    "neg": (algebra.simplify_neg,),
    "pow": (algebra.simplify_pow,),
    "where": (algebra.simplify_where,),
    "logical_not": (algebra.simplify_not,),
    "cast": (algebra.simplify_cast,),
    "to_device": (simplify_move,),
    "sum": (algebra.simplify_sum,),
    **dict.fromkeys(("amax", "amin", "prod"), (algebra.simplify_extreme,)),
    "cat": (simplify_join,),
    "clone": (simplify_clone,),
    "reshape": _views("reshape", view_rules.simplify_reshape),
    "permute": _views("permute", view_rules.simplify_permute),
    "expand": _views("expand", view_rules.simplify_expand),
    "slice": _views("slice", view_rules.simplify_slice),
    "view_scatter": (view_rules.simplify_view_scatter,),
}


class Simplifier(Builder):
    """A builder whose new nodes are simplified as they are made."""

    __slots__ = ()

    def emit(self, record: Record, *inputs: Any, **params: Any) -> Value:
        """A value equal to the record's application, by as simple a node as the rules know."""
        spec = record.infer(*map(as_operand, inputs), **params)
        found = apply_rules(self, record, inputs, params, spec)
        if found is not None:
            return found
        return self.graph.add_node(record, inputs, params, (spec,))[0]


def apply_rules(
    b: Builder, record: Record, inputs: Inputs, params: Params, spec: Spec
) -> Value | None:
    """What the first rule that has something to say makes of a node."""
    for rule in RULES.get(record.name, ()):
        found = rule(b, inputs, params, spec)
        if found is not None:
            return found
    return None


def simplify(graph: Graph) -> Graph:
    """The graph with every rule applied wherever it holds."""
    # An output's memory layout can be seen, so a copy that sets it stays.
    laid_out = {v for v in graph.outputs if v.node is not None and _sets_layout(v.node)}

    def visit(b: Builder, node: Node, inputs: Inputs) -> tuple[Value, ...] | None:
        if node.record.name not in RULES or node.outputs[0] in laid_out:
            return None
        found = apply_rules(b, node.record, inputs, node.params, node.outputs[0].spec)
        return None if found is None else (found,)

    return rebuild(graph, visit, Simplifier(graph))


def _sets_layout(node: Node) -> bool:
    return node.record.name == "clone" and node.params.get("strides", "same") != "same"
