"""A layer that deals channels out among groups."""

from __future__ import annotations

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module


class ChannelShuffle(Module):
    """Channels (N, C, ...) dealt out so that each of `groups` gets some of every other.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ChannelShuffle(2)(ad.arange(4.0).reshape(1, 4, 1)).flatten()
        tensor([0., 2., 1., 3.])
    """

    __constants__ = ["groups"]
    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
