"""Parts of networks as backbones, and what copies of torchvision's networks call."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from adjoint import nn
from adjoint.engine.core.errors import warn_user
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.registry import make_divisible


def _make_divisible(v: float, divisor: int, min_value: int | None = None) -> int:
    """The multiple of a divisor nearest to a width, never more than a tenth below it."""
    return make_divisible(v, divisor, min_value)


def _ovewrite_named_param(kwargs: dict[str, Any], param: str, new_value: Any) -> None:
    """Set an option that weights need to have a value; another that was given is refused."""
    if kwargs.setdefault(param, new_value) != new_value:
        raise ValueError(
            f"The parameter '{param}' expected value {new_value} but got {kwargs[param]} instead."
        )


def _ovewrite_value_param(param: str, actual: Any, expected: Any) -> Any:
    """The value that weights need an option to have; another that was given is refused."""
    if actual is not None and actual != expected:
        raise ValueError(
            f"The parameter '{param}' expected value {expected} but got {actual} instead."
        )
    return expected


def handle_legacy_interface(
    **weights: tuple[str, Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function that builds a network take `pretrained=True` for the weights it means.

    Args:
        weights: for each parameter of weights, the older flag and the weights it stands for, or a
            function of the call's arguments that gives them.
    """

    def decorate(build: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(build)
        def make(*args: Any, **kwargs: Any) -> Any:
            for name, (flag, meant) in weights.items():
                if args and name not in kwargs and isinstance(args[0], bool):
                    kwargs[flag], args = args[0], args[1:]
                if flag not in kwargs:
                    continue
                warn_user(f"The parameter '{flag}' is deprecated, please use '{name}' instead.")
                if kwargs.pop(flag):
                    kwargs[name] = meant(kwargs) if callable(meant) else meant
                else:
                    kwargs.setdefault(name, None)
            return build(*args, **kwargs)

        return make

    return decorate


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
