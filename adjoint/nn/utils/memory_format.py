"""Convolutions' weights in another order in memory."""

from __future__ import annotations

from typing import Any

from adjoint.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from adjoint.nn.modules.module import Module


def _convert(module: Any, kinds: tuple[type[Module], ...], memory_format: Any) -> Any:
    for layer in module.modules():
        if isinstance(layer, kinds):
            weight: Any = layer.weight
            weight.data = weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """`module`, with the weights of its two-dimensional convolutions in a memory format.

    Example:
        >>> import adjoint as ad
        >>> net = ad.nn.Sequential(ad.nn.Conv2d(8, 4, 3))
        >>> net = ad.nn.utils.convert_conv2d_weight_memory_format(net, ad.channels_last)
        >>> net[0].weight.is_contiguous(memory_format=ad.channels_last)
        True
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """`module`, with the weights of its three-dimensional convolutions in a memory format."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
