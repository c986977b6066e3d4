"""Layers that are one for quantisation: nothing is rounded between their parts."""

from __future__ import annotations

from typing import Any

from adjoint import nn


class FusedModule(nn.Sequential):
    """Modules that follow one another and are quantised as one."""


def _pair(name: str, *parts: tuple[type, ...]) -> Any:
    """A class of fused modules, of such parts in this order."""

    def __init__(self: Any, *modules: nn.Module) -> None:
        for given, kinds in zip(modules, parts, strict=True):
            if not isinstance(given, kinds):
                wanted = [kind.__name__ for kind in kinds]
                raise TypeError(f"{name}: expected {wanted}, received {type(given).__name__}")
        nn.Sequential.__init__(self, *modules)

    about = ", ".join(kinds[0].__name__ for kinds in parts)
    body = {"__init__": __init__, "__module__": __name__, "__doc__": f"{about}, as one layer."}
    return type(name, (FusedModule,), body)


_RELU = (nn.ReLU,)
ConvReLU1d = _pair("ConvReLU1d", (nn.Conv1d,), _RELU)
ConvReLU2d = _pair("ConvReLU2d", (nn.Conv2d,), _RELU)
ConvReLU3d = _pair("ConvReLU3d", (nn.Conv3d,), _RELU)
LinearReLU = _pair("LinearReLU", (nn.Linear,), _RELU)
ConvBn1d = _pair("ConvBn1d", (nn.Conv1d,), (nn.BatchNorm1d,))
ConvBn2d = _pair("ConvBn2d", (nn.Conv2d,), (nn.BatchNorm2d,))
ConvBn3d = _pair("ConvBn3d", (nn.Conv3d,), (nn.BatchNorm3d,))
ConvBnReLU1d = _pair("ConvBnReLU1d", (nn.Conv1d,), (nn.BatchNorm1d,), _RELU)
ConvBnReLU2d = _pair("ConvBnReLU2d", (nn.Conv2d,), (nn.BatchNorm2d,), _RELU)
ConvBnReLU3d = _pair("ConvBnReLU3d", (nn.Conv3d,), (nn.BatchNorm3d,), _RELU)
LinearBn1d = _pair("LinearBn1d", (nn.Linear,), (nn.BatchNorm1d,))
BNReLU2d = _pair("BNReLU2d", (nn.BatchNorm2d,), _RELU)
BNReLU3d = _pair("BNReLU3d", (nn.BatchNorm3d,), _RELU)
