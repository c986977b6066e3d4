"""Layers under training that feel the rounding of their weights."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.utils.fusion import fuse_conv_bn_weights


def _check_config(name: str, qconfig: Any) -> Any:
    if not qconfig:
        raise AssertionError(f"{name}: qconfig must be provided for a QAT module")
    return qconfig


@ad.no_grad()
def _look_at(layer: Any) -> None:
    """Let the observer of a weight see it, so that it knows the channels before training.

    It sees what training will show it: averages that move slowly would keep another's range.
    """
    norms = isinstance(layer, _QATConv) and layer.norms
    layer.weight_fake_quant(layer.scaled()[0] if norms else layer.weight)


class QATLinear(nn.Linear):
    """A linear layer whose weight is rounded as it is used."""

    relu = False

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.qconfig = _check_config("Linear", qconfig)
        self.weight_fake_quant = qconfig.weight()

    @classmethod
    def from_float(cls, mod: Any, **_: Any) -> QATLinear:
        """The layer of a float one, whose parameters it takes over."""
        layer = mod[0] if isinstance(mod, nn.Sequential) else mod
        converted = cls(
            layer.in_features, layer.out_features, layer.bias is not None, qconfig=mod.qconfig
        )
        converted.weight, converted.bias = layer.weight, layer.bias
        _look_at(converted)
        return converted

    def forward(self, input: Tensor) -> Tensor:
        out = F.linear(input, self.weight_fake_quant(self.weight), self.bias)
        return out.relu() if self.relu else out


class QATLinearReLU(QATLinear):
    """The same with a ReLU after it."""

    relu = True


class _QATConv:
    """What convolutions of all dimensions share; before nn.ConvNd among the bases."""

    relu = False
    norms = False

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.qconfig = _check_config("Conv", qconfig)
        self.weight_fake_quant = qconfig.weight()
        self.freeze_bn = False  # whether the batch norm keeps its statistics while training

    def freeze_bn_stats(self: Any) -> Any:
        """Have the batch norm use its running statistics, and leave them as they are."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def update_bn_stats(self: Any) -> Any:
        """Have the batch norm use each batch's statistics again, and follow them."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def train(self: Any, mode: bool = True) -> Any:
        """Set whether it trains; a frozen batch norm does not."""
        super().train(mode)  # type: ignore[misc]
        if self.norms and self.freeze_bn:
            self.bn.training = False
        return self

    @classmethod
    def from_float(cls, mod: Any, **_: Any) -> Any:
        """The layer of a float one, whose parameters it takes over."""
        parts = list(mod) if isinstance(mod, nn.Sequential) else [mod]
        conv: Any = parts[0]
        converted: Any = cls(
            conv.in_channels,
            conv.out_channels,
            conv.kernel_size,
            conv.stride,
            conv.padding,
            conv.dilation,
            conv.groups,
            conv.bias is not None,
            conv.padding_mode,
            qconfig=mod.qconfig,
        )
        converted.weight, converted.bias = conv.weight, conv.bias
        if cls.norms:
            converted.bn = parts[1]
        _look_at(converted)
        converted.train(mod.training)
        return converted

    def forward(self: Any, input: Tensor) -> Tensor:
        out = self.normed(input) if self.norms else self.plain(input, self.weight, self.bias)
        return out.relu() if self.relu else out

    def plain(self: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with a weight rounded."""
        out: Tensor = self._conv_forward(x, self.weight_fake_quant(weight), bias)
        return out

    def normed(self: Any, x: Tensor) -> Tensor:
        """Convolution and batch norm, the weight rounded as it will be once both are one.

        The norm's running scale goes into the weight before rounding and is taken out again, so
        that its statistics are those of the convolution alone.
        """
        scaled, factor = self.scaled()
        shape = (1, -1, *[1] * (self.weight.ndim - 2))
        out = self.plain(x, scaled, None) / factor.reshape(shape)
        if self.bias is not None:
            out = out + self.bias.reshape(shape)
        result: Tensor = self.bn(out)
        return result

    def scaled(self: Any) -> tuple[Tensor, Tensor]:
        """The weight with the norm's running scale in it, and that scale."""
        bn = self.bn
        factor = (bn.running_var + bn.eps).rsqrt()
        factor = factor if bn.weight is None else bn.weight * factor
        return self.weight * factor.reshape((-1, *[1] * (self.weight.ndim - 1))), factor

    def folded(self: Any) -> tuple[Tensor, Tensor] | None:
        """Weight and bias with the batch norm in them."""
        if not self.norms:
            return None
        bn = self.bn
        with ad.no_grad():
            return fuse_conv_bn_weights(
                self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
            )


def _kind(name: str, base: type, relu: bool, norms: bool) -> Any:
    about = f"{base.__name__}{', batch norm' if norms else ''}{', ReLU' if relu else ''}"
    body = {
        "relu": relu,
        "norms": norms,
        "__module__": __name__,
        "__doc__": f"{about}, whose weight is rounded as it is used.",
    }
    return type(name, (_QATConv, base), body)


_CONVOLUTIONS: dict[int, type] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
# (dimensions, batch norm, ReLU) -> class
QAT_CONVOLUTIONS: dict[tuple[int, bool, bool], Any] = {
    (rank, norms, relu): _kind(
        f"QATConv{'Bn' if norms else ''}{'ReLU' if relu else ''}{rank}d", base, relu, norms
    )
    for rank, base in _CONVOLUTIONS.items()
    for norms in (False, True)
    for relu in (False, True)
}


def freeze_bn_stats(mod: nn.Module) -> None:
    """Freeze the batch norm in a convolution under training; for `model.apply`.

    Example:
        >>> from adjoint import nn
        >>> from adjoint.ao.nn.intrinsic.qat import freeze_bn_stats
        >>> model = nn.Sequential(nn.Conv2d(1, 1, 1))
        >>> _ = model.apply(freeze_bn_stats)  # which has none: nothing happens
    """
    if isinstance(mod, _QATConv) and mod.norms:
        mod.freeze_bn_stats()


def update_bn_stats(mod: nn.Module) -> None:
    """Have the batch norm in a convolution under training follow batches; for `model.apply`.

    Example:
        >>> from adjoint import nn
        >>> from adjoint.ao.nn.intrinsic.qat import update_bn_stats
        >>> model = nn.Sequential(nn.Conv2d(1, 1, 1))
        >>> _ = model.apply(update_bn_stats)  # which has none: nothing happens
    """
    if isinstance(mod, _QATConv) and mod.norms:
        mod.update_bn_stats()
