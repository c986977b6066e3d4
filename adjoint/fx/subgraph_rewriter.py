"""Replacing parts of a graph that look like a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from adjoint.fx.graph import Graph
from adjoint.fx.graph_module import GraphModule
from adjoint.fx.node import Node
from adjoint.fx.tracer import symbolic_trace


class Match(NamedTuple):
    """A part that looks like the pattern: its last node, and by the pattern's node, its own."""

    anchor: Node
    nodes_map: dict[Node, Any]


def _graph_of(given: Any) -> Graph:
    if isinstance(given, Graph):
        return given
    return given.graph if isinstance(given, GraphModule) else symbolic_trace(given).graph


class _Matcher:
    """Compares nodes with a pattern's, from its result backwards."""

    def __init__(self, pattern: Graph) -> None:
        self.output = next(node for node in pattern.nodes if node.op == "output")
        self.result = self.output.args[0]
        self.inner = {node for node in pattern.nodes if node.op not in ("placeholder", "output")}

    def at(self, node: Node) -> dict[Node, Any] | None:
        """What the pattern's nodes are if its result is this node; None if it is not."""
        matched: dict[Node, Any] = {}
        if not self._same(self.result, node, matched):
            return None
        actual_nodes = {
            matched[pattern_node] for pattern_node in self.inner if pattern_node in matched
        }
        for inner_node in self.inner:
            outside = [user for user in matched[inner_node].users if user not in actual_nodes]
            if inner_node is not self.result and outside:
                return None  # others need what would vanish
        return matched

    def _same(self, pattern: Any, actual: Any, matched: dict[Node, Any]) -> bool:
        if not isinstance(pattern, Node):
            return self._same_values(pattern, actual, matched)
        if pattern in matched:
            return matched[pattern] is actual
        if isinstance(actual, Node) and actual in matched.values():
            return False  # a node stands for one of the pattern's, as in PyTorch
        if pattern.op == "placeholder":
            matched[pattern] = actual
            return True
        if not isinstance(actual, Node) or pattern.op != actual.op:
            return False
        if pattern.target != actual.target:
            return False
        matched[pattern] = actual
        return self._same_values(pattern.args, actual.args, matched) and self._same_values(
            pattern.kwargs, actual.kwargs, matched
        )

    def _same_values(self, pattern: Any, actual: Any, matched: dict[Node, Any]) -> bool:
        if isinstance(pattern, (tuple, list)):
            if not isinstance(actual, (tuple, list)) or len(pattern) != len(actual):
                return False
            pairs = zip(pattern, actual, strict=True)
            return all(self._same(part, other, matched) for part, other in pairs)
        if isinstance(pattern, dict):
            if not isinstance(actual, dict) or pattern.keys() != actual.keys():
                return False
            return all(self._same(pattern[key], actual[key], matched) for key in pattern)
        return type(pattern) is type(actual) and bool(pattern == actual)


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | Any, replacement: Callable[..., Any] | Any
) -> list[Match]:
    """Replace every part of a graph that computes a pattern of one result.

    Args:
        gm: the module, changed in place.
        pattern: a function or module that shows what to look for; its arguments match anything.
        replacement: the same of what to put there, with the same arguments.

    Returns:
        The parts that were replaced.

    Example:
        >>> import adjoint as ad
        >>> traced = symbolic_trace(lambda x: ad.relu(x) + 1)
        >>> len(replace_pattern(traced, lambda x: ad.relu(x), lambda x: ad.tanh(x)))
        1
        >>> traced(ad.zeros(1))
        tensor([1.])
    """
    wanted, instead = _graph_of(pattern), _graph_of(replacement)
    matcher = _Matcher(wanted)
    if not isinstance(matcher.result, Node) or matcher.result.op == "placeholder":
        raise NotImplementedError("replace_pattern: the pattern must compute one result")
    arguments = [node for node in wanted.nodes if node.op == "placeholder"]
    parameters = [node for node in instead.nodes if node.op == "placeholder"]
    if len(arguments) != len(parameters):
        raise RuntimeError(
            f"replace_pattern: the pattern takes {len(arguments)} arguments, the replacement "
            f"{len(parameters)}"
        )
    replaced, gone = list[Match](), set[Node]()
    for node in list(gm.graph.nodes):
        matched = None if node in gone else matcher.at(node)
        if matched is None or any(matched[inner_node] in gone for inner_node in matcher.inner):
            continue
        values = {
            parameter: matched.get(argument)
            for parameter, argument in zip(parameters, arguments, strict=True)
        }
        with gm.graph.inserting_before(node):
            result = gm.graph.graph_copy(instead, values)
        node.replace_all_uses_with(result)
        gone |= {matched[inner_node] for inner_node in matcher.inner}
        replaced.append(Match(node, matched))
    for node in reversed(list(gm.graph.nodes)):
        if node in gone:
            gm.graph.erase_node(node)
    _bring_modules(gm, replacement)
    gm.recompile()
    return replaced


def _bring_modules(gm: GraphModule, replacement: Any) -> None:
    """Give the module the submodules that the replacement calls, where it has none of the name."""
    known = {name for name, _ in gm.named_modules()}
    for node in gm.graph.nodes:
        if node.op == "call_module" and node.target not in known:
            gm.add_submodule(node.target, replacement.get_submodule(node.target))
