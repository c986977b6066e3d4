"""Simplification: local rules, applied to each node once its inputs are as simple as they get.

A rule looks at a node's inputs (and, through them, at the nodes behind) and gives a value that
equals the node's, or None. What it gives is simplified in turn, so one walk reaches the end.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.operations.record import REGISTRY, Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.graph.passes.rules import algebra, choice_rules, index_rules, view_rules
from adjoint.engine.graph.passes.rules.algebra import Inputs, Params, Rule
from adjoint.engine.graph.verify import as_operand


def simplify_clone(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """Values are not written to, so a copy is as good as what it copies."""
    return inputs[0]


def simplify_move(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """A move to where the tensor is."""
    return inputs[0] if algebra.alike(inputs[0], spec) else None


def simplify_join(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """One tensor, joined to nothing."""
    return inputs[0] if len(inputs) == 1 and algebra.alike(inputs[0], spec) else None


def _views(name: str, rule: Rule) -> tuple[Rule, ...]:
    return (rule, view_rules.view_of_full, view_rules.view_of_written(REGISTRY[name]))


def _binary(name: str, *rules: Rule) -> tuple[Rule, ...]:
    record = REGISTRY[name]
    literal, expanded = algebra.literal_operand(record, 1, 0), algebra.expanded_operand(record)
    return (*rules, literal, expanded)


def _comparison(name: str, *rules: Rule) -> tuple[Rule, ...]:
    # A number cannot be the first operand of these.
    return (*rules, algebra.literal_operand(REGISTRY[name], 1))


RULES: dict[str, tuple[Rule, ...]] = {
    "add": _binary("add", algebra.simplify_add),
    "sub": _binary("sub", algebra.simplify_sub),
    "mul": _binary("mul", algebra.simplify_mul),
    "div": _binary("div", algebra.simplify_div),
    "eq": _comparison("eq", choice_rules.simplify_eq),
    "ne": _comparison("ne", choice_rules.simplify_ne),
    **{name: _comparison(name) for name in ("lt", "le", "gt", "ge")},
    "neg": (algebra.simplify_neg,),
    "pow": (algebra.simplify_pow,),
    "where": (choice_rules.simplify_where,),
    "logical_not": (choice_rules.simplify_not,),
    "cast": (choice_rules.simplify_cast,),
    "to_device": (simplify_move,),
    "sum": (algebra.simplify_sum,),
    **dict.fromkeys(("amax", "amin", "prod"), (algebra.simplify_extreme,)),
    "cat": (simplify_join,),
    "clone": (simplify_clone,),
    "reshape": _views("reshape", view_rules.simplify_reshape),
    "permute": _views("permute", view_rules.simplify_permute),
    "expand": _views("expand", view_rules.simplify_expand),
    "slice": _views("slice", view_rules.simplify_slice),
    "gather": (index_rules.simplify_gather,),
    "index": (index_rules.simplify_index,),
    "index_put": (index_rules.simplify_index_put,),
    "view_scatter": (view_rules.simplify_view_scatter,),
}


class Simplifier(GraphBuilder):
    """A builder whose new nodes are simplified as they are made."""

    __slots__ = ()

    def emit(self, record: Record, *inputs: Any, **params: Any) -> Value:
        """A value equal to the record's application, by as simple a node as the rules know."""
        spec = record.infer(*map(as_operand, inputs), **params)
        simpler = apply_rules(self, record, inputs, params, spec)
        if simpler is not None:
            return simpler
        return self.graph.add_node(record, inputs, params, (spec,))[0]


def rules_of(record: Record) -> tuple[Rule, ...]:
    """The rules for a record: those of the table, and what holds for its family."""
    rules = _RULES_OF.get(record)
    if rules is None:
        rules = RULES.get(record.name, ())
        if record.family == "elementwise":
            rules = (*rules, view_rules.before_expanding(record))
        _RULES_OF[record] = rules
    return rules


_RULES_OF: dict[Record, tuple[Rule, ...]] = {}


def apply_rules(
    b: GraphBuilder, record: Record, inputs: Inputs, params: Params, spec: Spec
) -> Value | None:
    """What the first rule that has something to say makes of a node."""
    for rule in rules_of(record):
        simpler = rule(b, inputs, params, spec)
        if simpler is not None:
            return simpler
    return None


def simplify(graph: DataflowGraph) -> DataflowGraph:
    """The graph with every rule applied wherever it holds."""
    # An output's memory layout can be seen, so a copy that sets it stays.
    laid_out = {v for v in graph.outputs if v.node is not None and _sets_layout(v.node)}

    def visit(b: GraphBuilder, node: Node, inputs: Inputs) -> tuple[Value, ...] | None:
        if len(node.outputs) != 1 or node.outputs[0] in laid_out:
            return None
        simpler = apply_rules(b, node.record, inputs, node.params, node.outputs[0].spec)
        return None if simpler is None else (simpler,)

    return rebuild(graph, visit, Simplifier(graph))


def _sets_layout(node: Node) -> bool:
    return node.record.name == "clone" and node.params.get("strides", "same") != "same"
