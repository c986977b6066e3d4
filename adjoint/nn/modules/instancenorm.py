"""Instance normalisation: each sample's channels by their own statistics."""

from __future__ import annotations

import warnings
from typing import Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.batchnorm import _LazyNormBase, _NormBase


class _InstanceNorm(_NormBase):
    takes_one_sample = True

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        alone = input.ndim == self.ranks[0]  # one sample, without a batch dimension
        dim = 0 if alone else 1
        if self.affine:
            self._check_channels(input, dim, ValueError)
        elif input.shape[dim] != self.num_features:
            warnings.warn(
                f"input's size at dim={dim} does not match num_features ({self.num_features}), "
                f"which is not used because affine=False: received {tuple(input.shape)}",
                stacklevel=2,
            )
        x = input.unsqueeze(0) if alone else input
        out = F.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )
        return out.squeeze(0) if alone else out


class InstanceNorm1d(_InstanceNorm):
    """Zero mean and unit variance of each channel of each sample over its positions.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: how far the running statistics move at each batch.
        affine: whether there is a weight and a bias per channel.
        track_running_stats: whether running statistics are kept, and used in evaluation.

    Shape:
        (N, C, L) or (C, L) -> the same

    Example:
        >>> import adjoint as ad
        >>> ad.nn.InstanceNorm1d(16)(ad.randn(20, 16, 50)).shape
        adjoint.Size([20, 16, 50])
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Zero mean and unit variance of each channel of each sample over its positions.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: how far the running statistics move at each batch.
        affine: whether there is a weight and a bias per channel.
        track_running_stats: whether running statistics are kept, and used in evaluation.

    Shape:
        (N, C, H, W) or (C, H, W) -> the same

    Example:
        >>> import adjoint as ad
        >>> ad.nn.InstanceNorm2d(3)(ad.randn(4, 3, 8, 8)).shape
        adjoint.Size([4, 3, 8, 8])
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Zero mean and unit variance of each channel of each sample over its positions.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: how far the running statistics move at each batch.
        affine: whether there is a weight and a bias per channel.
        track_running_stats: whether running statistics are kept, and used in evaluation.

    Shape:
        (N, C, D, H, W) or (C, D, H, W) -> the same

    Example:
        >>> import adjoint as ad
        >>> ad.nn.InstanceNorm3d(4)(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 4, 12, 10, 8])
    """

    ranks = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """`InstanceNorm1d` that takes the number of channels from the first input.

    Shape:
        (N, C, L) or (C, L) -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyInstanceNorm1d(affine=True)
        >>> layer(ad.randn(20, 16, 50)).shape
        adjoint.Size([20, 16, 50])
        >>> layer.num_features
        16
    """

    cls_to_become = InstanceNorm1d
    ranks = InstanceNorm1d.ranks


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """`InstanceNorm2d` that takes the number of channels from the first input.

    Shape:
        (N, C, H, W) or (C, H, W) -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyInstanceNorm2d(affine=True)
        >>> layer(ad.randn(4, 3, 8, 8)).shape
        adjoint.Size([4, 3, 8, 8])
        >>> layer.num_features
        3
    """

    cls_to_become = InstanceNorm2d
    ranks = InstanceNorm2d.ranks


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """`InstanceNorm3d` that takes the number of channels from the first input.

    Shape:
        (N, C, D, H, W) or (C, D, H, W) -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyInstanceNorm3d(affine=True)
        >>> layer(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 4, 12, 10, 8])
        >>> layer.num_features
        4
    """

    cls_to_become = InstanceNorm3d
    ranks = InstanceNorm3d.ranks
