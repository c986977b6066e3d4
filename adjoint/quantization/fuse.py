"""Fusing: neighbours that quantisation shall see as one layer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import nn
from adjoint.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from adjoint.quantization.modules import intrinsic as ni

_RANKS = (1, 2, 3)
_CONV = {rank: getattr(nn, f"Conv{rank}d") for rank in _RANKS}
_NORM = {rank: getattr(nn, f"BatchNorm{rank}d") for rank in _RANKS}


def _fused(name: str) -> Callable[..., nn.Module]:
    return getattr(ni, name)


# Types in order -> what they become for inference; a batch norm goes into the weights.
EVALUATION: dict[tuple[type, ...], Callable[..., nn.Module]] = {
    (nn.Linear, nn.ReLU): _fused("LinearReLU"),
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn_eval,
    (nn.BatchNorm2d, nn.ReLU): _fused("BNReLU2d"),
    (nn.BatchNorm3d, nn.ReLU): _fused("BNReLU3d"),
}
TRAINING: dict[tuple[type, ...], Callable[..., nn.Module]] = {
    (nn.Linear, nn.ReLU): _fused("LinearReLU"),
    (nn.BatchNorm2d, nn.ReLU): _fused("BNReLU2d"),
    (nn.BatchNorm3d, nn.ReLU): _fused("BNReLU3d"),
}


def _fill() -> None:
    for rank in _RANKS:
        conv, norm, relu = _CONV[rank], _NORM[rank], _fused(f"ConvReLU{rank}d")
        EVALUATION[conv, nn.ReLU] = TRAINING[conv, nn.ReLU] = relu
        EVALUATION[conv, norm] = fuse_conv_bn_eval
        EVALUATION[conv, norm, nn.ReLU] = lambda c, b, r, relu=relu: relu(
            fuse_conv_bn_eval(c, b), r
        )
        TRAINING[conv, norm] = _fused(f"ConvBn{rank}d")
        TRAINING[conv, norm, nn.ReLU] = _fused(f"ConvBnReLU{rank}d")


_fill()


def fuse_modules(
    model: nn.Module,
    modules_to_fuse: Sequence[Any],
    inplace: bool = False,
    fuser_func: Any = None,
    fuse_custom_config_dict: Any = None,
) -> nn.Module:
    """Join convolution, batch norm and ReLU (or some of them) into one layer, for inference.

    Args:
        modules_to_fuse: names of modules that follow one another, or a list of such lists.
        inplace: whether the model itself is changed, or a copy.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
        >>> fuse_modules(model, ["0", "1", "2"])
        Sequential(
          (0): ConvReLU2d(
            (0): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))
            (1): ReLU()
          )
          (1): Identity()
          (2): Identity()
        )
    """
    return _fuse(model, modules_to_fuse, inplace, EVALUATION, training=False)


def fuse_modules_qat(
    model: nn.Module,
    modules_to_fuse: Sequence[Any],
    inplace: bool = False,
    fuser_func: Any = None,
    fuse_custom_config_dict: Any = None,
) -> nn.Module:
    """The same for training: batch norms stay, and go into the weights when all is converted."""
    return _fuse(model, modules_to_fuse, inplace, TRAINING, training=True)


def _fuse(
    model: nn.Module, names: Sequence[Any], inplace: bool, table: Any, training: bool
) -> nn.Module:
    model = model if inplace else copy.deepcopy(model)
    groups = [names] if names and all(isinstance(name, str) for name in names) else names
    for group in groups:
        modules = [model.get_submodule(name) for name in group]
        if any(module.training != training for module in modules):
            wanted, call = ("training", "train()") if training else ("evaluation", "eval()")
            raise AssertionError(
                f"fuse: {list(group)} must be in {wanted} mode. Call model.{call} first, or use "
                f"{'fuse_modules' if training else 'fuse_modules_qat'}."
            )
        kinds = tuple(type(module) for module in modules)
        if kinds not in table:
            raise NotImplementedError(
                f"Cannot fuse modules: {[kind.__name__ for kind in kinds]}; these are fused: "
                + "; ".join(", ".join(k.__name__ for k in kinds) for kinds in table)
            )
        fused = table[kinds](*modules)
        fused.train(training)
        if hasattr(modules[0], "qconfig"):
            fused.qconfig = modules[0].qconfig
        # Hooks of the ends stay where users put them.
        fused._forward_pre_hooks.update(modules[0]._forward_pre_hooks)
        fused._forward_hooks.update(modules[-1]._forward_hooks)
        modules[0]._forward_pre_hooks.clear()
        modules[-1]._forward_hooks.clear()
        for name, layer in zip(group, [fused, *[nn.Identity() for _ in modules[1:]]], strict=True):
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, layer.train(training))
    return model
