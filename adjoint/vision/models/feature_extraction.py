"""What a network computes on the way, by name: torchvision's feature extraction."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adjoint import nn
from adjoint.fx.graph import Graph
from adjoint.fx.graph_module import GraphModule, copy_attribute
from adjoint.fx.node import Node
from adjoint.fx.proxy import Proxy
from adjoint.fx.tracer import Tracer
from adjoint.models.mobilenet import ConvNorm
from adjoint.models.vit import MLPBlock
from adjoint.vision import ops

Names = Sequence[str] | Mapping[str, str]


class LeafModuleAwareTracer(Tracer):
    """A tracer that keeps modules of some classes as one call.

    Args:
        leaf_modules: the classes.
    """

    def __init__(self, *args: Any, leaf_modules: Sequence[type] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.leaf_modules = tuple(leaf_modules)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a module is one call."""
        return isinstance(m, self.leaf_modules) or super().is_leaf_module(m, module_qualified_name)


class NodePathTracer(LeafModuleAwareTracer):
    """A tracer that knows which module each node came from: `node_to_qualname`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.current_module_qualname = ""
        self.node_to_qualname: dict[Node, str] = {}

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """A module was called; what it does belongs to its path."""
        before = self.current_module_qualname
        self.current_module_qualname = self.path_of_module(m)
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.current_module_qualname = before

    def create_proxy(self, kind: str, target: Any, *others: Any, **options: Any) -> Proxy:
        """Put a node into the graph and name it."""
        proxy = super().create_proxy(kind, target, *others, **options)
        self.node_to_qualname[proxy.node] = self._get_node_qualname(proxy.node)
        return proxy

    def _get_node_qualname(self, node: Node) -> str:
        """Its module's path and its own name, with a number if there was one before."""
        path = self.current_module_qualname
        if node.op != "call_module":
            path = f"{path}.{node}" if path else str(node)
        path = re.sub(r"(?<=.)_[0-9]+$", "", path)
        same = re.compile(rf"{re.escape(path)}(?:_([0-9]+))?")
        for earlier in reversed(self.node_to_qualname.values()):
            if match := same.fullmatch(earlier):
                return f"{path}_{int(match[1] or 0) + 1}"
        return path


class DualGraphModule(GraphModule):
    """A module with one graph for training and one for evaluation.

    Args:
        root: the module that has what the graphs call and read.
        train_graph, eval_graph: the graphs.
        class_name: what the module's class is called.
    """

    def __init__(
        self, root: nn.Module, train_graph: Graph, eval_graph: Graph,
        class_name: str = "GraphModule",
    ) -> None:  # fmt: skip
        super().__init__(root, train_graph, class_name)
        for node in eval_graph.nodes:
            if node.op in ("call_module", "get_attr"):
                copy_attribute(root, self, node.target)
        self.train_graph, self.eval_graph = train_graph, eval_graph
        self.training = True

    def train(self, mode: bool = True) -> DualGraphModule:
        """Switch to the graph for training, or to that for evaluation."""
        if mode != self.training:
            self.graph = self.train_graph if mode else self.eval_graph
        super().train(mode)
        return self


def _tracer(options: Mapping[str, Any] | None) -> NodePathTracer:
    """A tracer that keeps torchvision's operations whole, beside what the caller says."""
    given = dict(options or {})
    layers = [member for member in vars(ops).values() if isinstance(member, type)]
    own = [layer for layer in layers if issubclass(layer, nn.Module)] + [ConvNorm, MLPBlock]
    given["leaf_modules"] = [*given.get("leaf_modules", ()), *own]
    given["autowrap_modules"] = (*given.get("autowrap_modules", ()), math, ops)
    given["autowrap_functions"] = tuple(given.get("autowrap_functions", ()))
    return NodePathTracer(**given)


def _traced(
    model: nn.Module, options: Mapping[str, Any] | None, concrete: dict[str, Any] | None
) -> dict[str, NodePathTracer]:
    """The model traced in both modes, and left in its own."""
    before, tracers = model.training, {}
    try:
        for mode in ("train", "eval"):
            tracer = tracers[mode] = _tracer(options)
            tracer.trace(model.train(mode == "train"), concrete_args=concrete)
    finally:
        model.train(before)
    return tracers


def _tell_differences(train: list[str], evaluate: list[str]) -> None:
    if train == evaluate:
        return
    message = (
        "The nodes obtained by tracing the model in train mode are different to those obtained "
    )
    message += "in eval mode. "
    for few, many, one, other in (
        (evaluate, train, "eval", "train"), (train, evaluate, "train", "eval")
    ):  # fmt: skip
        rest = iter(many)
        if all(name in rest for name in few):
            message = (
                f"NOTE: The nodes obtained by tracing the model in {one} mode are a subsequence "
                f"of those obtained in {other} mode. "
            )
            break
    warnings.warn(
        message
        + "When choosing nodes for feature extraction, you may need to specify output nodes "
        "for train and eval mode separately.",
        stacklevel=3,
    )


def get_graph_node_names(
    model: nn.Module, tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False, concrete_args: dict[str, Any] | None = None,
) -> tuple[list[str], list[str]]:  # fmt: skip
    """The names of a model's nodes in order, while training and while evaluating.

    Example:
        >>> get_graph_node_names(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))[0]
        ['input', '0', '1']
    """
    traced = _traced(model, tracer_kwargs, concrete_args)
    train, evaluate = (list(traced[mode].node_to_qualname.values()) for mode in ("train", "eval"))
    if not suppress_diff_warning:
        _tell_differences(train, evaluate)
    return train, evaluate


def _as_dict(names: Names) -> dict[str, str]:
    if isinstance(names, Mapping):
        return {str(k): str(v) for k, v in names.items()}
    return {str(name): str(name) for name in names}


def _keep(tracer: NodePathTracer, wanted: dict[str, str]) -> Graph:
    """A tracer's graph with other results: the last node of each name asked for."""
    graph, names = tracer.graph, tracer.node_to_qualname
    results: dict[str, Node] = {}
    for query, called in wanted.items():
        inside = [n for n, name in names.items() if name == query or name.startswith(query + ".")]
        if not inside:
            raise ValueError(
                f"node: '{query}' is not present in model. Hint: use `get_graph_node_names` to "
                "make sure the `return_nodes` you specified are present. It may even be that you "
                "need to specify `train_return_nodes` and `eval_return_nodes` separately."
            )
        results[called] = inside[-1]
    graph.erase_node(graph.output_node())
    order = {node: place for place, node in enumerate(graph.nodes)}
    graph.output(dict(sorted(results.items(), key=lambda item: order[item[1]])))
    graph.eliminate_dead_code()
    return graph


def create_feature_extractor(
    model: nn.Module, return_nodes: Names | None = None, train_return_nodes: Names | None = None,
    eval_return_nodes: Names | None = None, tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False, concrete_args: dict[str, Any] | None = None,
) -> GraphModule:  # fmt: skip
    """A module that gives a dictionary of what a model computes at the named nodes.

    Args:
        model: the network, whose parameters are shared.
        return_nodes: names of nodes or of modules (whose last node is meant), or such names and
            what to call their results.
        train_return_nodes, eval_return_nodes: the same where they differ between the modes.
        tracer_kwargs: options of the tracer, as `leaf_modules`.
        suppress_diff_warning: do not tell of differences between the modes.
        concrete_args: arguments that are no tensors.

    Example:
        >>> import adjoint as ad
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> parts = create_feature_extractor(net, {"1": "middle"})
        >>> parts(ad.ones(4, 2))["middle"].shape
        adjoint.Size([4, 3])
    """
    if return_nodes is None and train_return_nodes is None and eval_return_nodes is None:
        raise ValueError(
            "Either `return_nodes` or `train_return_nodes` and `eval_return_nodes` together, "
            "should be specified"
        )
    if (train_return_nodes is None) != (eval_return_nodes is None):
        raise ValueError(
            "If any of `train_return_nodes` and `eval_return_nodes` are specified, then both "
            "should be specified"
        )
    if return_nodes is not None and train_return_nodes is not None:
        raise ValueError(
            "If `train_return_nodes` and `eval_return_nodes` are specified, then `return_nodes` "
            "should not be"
        )
    asked = {"train": train_return_nodes, "eval": eval_return_nodes}
    wanted = {mode: _as_dict(names or return_nodes or ()) for mode, names in asked.items()}
    training = model.training
    traced = _traced(model, tracer_kwargs, concrete_args)
    if not suppress_diff_warning:
        _tell_differences(*(list(tracer.node_to_qualname.values()) for tracer in traced.values()))
    train, evaluate = (_keep(traced[mode], wanted[mode]) for mode in ("train", "eval"))
    extractor = DualGraphModule(model, train, evaluate, type(model).__name__)
    extractor.train(training)
    return extractor
