"""Weight normalisation by a hook: a weight as a magnitude times a direction."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter, is_lazy

M = TypeVar("M", bound=Module)


def norm_except_dim(v: Tensor, pow: float, dim: int) -> Tensor:
    """The norm over all dimensions but one (-1: over all), kept broadcastable."""
    if dim == -1:
        return v.norm(pow)
    others = tuple(d for d in range(v.ndim) if d != dim)
    return v.norm(pow, others, keepdim=True) if others else v.abs()


def normalised(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """The weight of direction v and magnitude g."""
    return v * (g / norm_except_dim(v, 2, dim))


class WeightNorm:
    """The hook: before each forward it computes the weight from `name_g` and `name_v`."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight from its two parameters."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return normalised(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace a parameter of the module by the two it is computed from."""
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of "
            "`torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure "
                "to run the dummy forward before applying weight normalization"
            )
        del module._parameters[name]
        module.register_parameter(
            name + "_g", Parameter(norm_except_dim(weight, 2, fn.dim).detach())
        )
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    r"""Write a parameter as $w = g \, v / \lVert v \rVert$, with `name_g` and `name_v` trained.

    Args:
        module: the module the parameter is of.
        name: the parameter.
        dim: the dimension whose slices have a magnitude each; None for one in all.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Undo `weight_norm`, keeping the present weight."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
