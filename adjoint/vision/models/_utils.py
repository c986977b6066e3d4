"""Parts of networks as backbones."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor


class IntermediateLayerGetter(nn.ModuleDict):
    """The layers of a network up to the last that is asked for, giving several of their results.

    Args:
        model: the network, of layers that follow one another.
        return_layers: the name of a layer -> the name of its result.
    """

    def __init__(self, model: nn.Module, return_layers: dict[str, str]) -> None:
        if not set(return_layers) <= {name for name, _ in model.named_children()}:
            raise ValueError("return_layers are not present in model")
        wanted = {str(k): str(v) for k, v in return_layers.items()}
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        left = set(wanted)
        for name, module in model.named_children():
            layers[name] = module
            left.discard(name)
            if not left:
                break
        super().__init__(layers)
        self.return_layers = wanted

    def forward(self, x: Tensor) -> dict[str, Any]:
        """The results by name."""
        out: OrderedDict[str, Any] = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                out[self.return_layers[name]] = x
        return out
