"""Traced networks made smaller for inference."""

from __future__ import annotations

import copy
from typing import Any

from adjoint.fx.graph_module import GraphModule
from adjoint.fx.node import Node
from adjoint.fx.tracer import symbolic_trace
from adjoint.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from adjoint.nn.modules.conv import Conv1d, Conv2d, Conv3d
from adjoint.nn.modules.dropout import Dropout
from adjoint.nn.modules.module import Module
from adjoint.nn.utils.fusion import fuse_conv_bn_eval

PAIRS = {(Conv1d, BatchNorm1d), (Conv2d, BatchNorm2d), (Conv3d, BatchNorm3d)}


def _traced(model: Module) -> GraphModule:
    return model if isinstance(model, GraphModule) else symbolic_trace(model)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> Module:
    """A network whose batch norms are folded into the convolutions before them.

    Args:
        model: the network, in evaluation mode.
        inplace: change its modules instead of copies.
        no_trace: accepted as PyTorch has it, for a network that is traced.
    """
    traced = _traced(model if inplace else copy.deepcopy(model))
    modules: dict[str, Any] = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        before = node.args[0] if node.args else None
        if node.op != "call_module" or not isinstance(before, Node) or before.op != "call_module":
            continue
        conv, norm = modules[before.target], modules[node.target]
        if (type(conv), type(norm)) not in PAIRS or len(before.users) > 1:
            continue
        if not norm.track_running_stats:
            continue
        modules[before.target] = fused = fuse_conv_bn_eval(conv, norm)
        traced.add_submodule(before.target, fused)
        node.replace_all_uses_with(before)
        traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def remove_dropout(model: Module) -> Module:
    """A network without its dropout layers."""
    traced = _traced(model)
    for node in list(traced.graph.nodes):
        if node.op == "call_module" and isinstance(traced.get_submodule(node.target), Dropout):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.recompile()
    return traced
