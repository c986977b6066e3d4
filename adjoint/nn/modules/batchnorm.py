"""Normalisation of channels over the batch, with running statistics."""

from __future__ import annotations

from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import DType, int64
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.state.loading import brought
from adjoint.engine.core.state.processes import STATE
from adjoint.engine.ops.create.creation import empty, ones, zeros
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.lazy import LazyModuleMixin
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter


class _NormBase(Module):
    """Weight, bias and running statistics of `num_features` channels."""

    _version = 2  # num_batches_tracked came with PyTorch's second
    takes_one_sample = False  # an input without a batch dimension
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    ranks: tuple[int, ...] = ()  # how many dimensions an input may have
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            parameter = (
                Parameter(empty(num_features, device=device, dtype=dtype)) if wanted else None
            )
            self.register_parameter(name, parameter)
        tracked = track_running_stats
        self.register_buffer(
            "running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None
        )
        self.register_buffer(
            "running_var", ones(num_features, device=device, dtype=dtype) if tracked else None
        )
        self.register_buffer(
            "num_batches_tracked", zeros((), dtype=int64, device=device) if tracked else None
        )
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the statistics: mean 0, variance 1, no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]
            self.running_var.fill_(1)  # type: ignore[union-attr]
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def reset_parameters(self) -> None:
        """Forget the statistics, and set the weight to ones and the bias to zeros."""
        self.reset_running_stats()
        with no_grad():
            if self.weight is not None:
                self.weight.fill_(1)
            if self.bias is not None:
                self.bias.zero_()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            one = input.ndim == min(self.ranks) - 1
            raise ShapeValueError(
                f"{type(self).__name__}: expected {' or '.join(f'{n}D' for n in self.ranks)} input "
                f"(got {input.ndim}D input, shape {tuple(input.shape)}) with {self.num_features} "
                f"channels{'. A batch of one sample is made by unsqueeze(0)' if one else ''}"
            )

    def _check_channels(
        self, input: Tensor, dim: int, kind: type[Exception] = RuntimeError
    ) -> None:
        if self.num_features and input.shape[dim] != self.num_features:
            raise kind(
                f"{type(self).__name__}: expected input's size at dim={dim} to match num_features "
                f"({self.num_features}), but got: {input.shape[dim]} (shape {tuple(input.shape)})."
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        *others: Any,
    ) -> None:
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats:
            state_dict.setdefault(
                key,
                self.num_batches_tracked
                if self.num_batches_tracked is not None
                else zeros((), dtype=int64),
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        self._check_channels(input, 1)
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        track = self.training and self.track_running_stats
        factor: Any = 0.0 if self.momentum is None else self.momentum
        if track and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain average over all batches so far
                factor = 1.0 / self.num_batches_tracked.to(input.dtype)
        tracked = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            use_batch,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    r"""Zero mean and unit variance of each channel over the batch.

    $y = \frac{x - E[x]}{\sqrt{Var[x] + \epsilon}} \gamma + \beta$

    In training with the batch's statistics, towards which the running ones move; in evaluation
    with the running ones.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: how far the running statistics move at each batch; None keeps plain averages.
        affine: whether there is a weight and a bias per channel.
        track_running_stats: whether running statistics are kept.

    Shape:
        (N, C) or (N, C, L) -> the same

    Example:
        >>> import adjoint as ad
        >>> ad.nn.BatchNorm1d(1)(ad.tensor([[1.0], [3.0]])).detach()
        tensor([[-1.0000],
                [ 1.0000]])
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    r"""Zero mean and unit variance of each channel over the batch and the positions of images.

    $y = \frac{x - E[x]}{\sqrt{Var[x] + \epsilon}} \gamma + \beta$

    In training with the batch's statistics, towards which the running ones move; in evaluation
    with the running ones.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: how far the running statistics move at each batch; None keeps plain averages.
        affine: whether there is a weight and a bias per channel.
        track_running_stats: whether running statistics are kept.

    Shape:
        (N, C, H, W) -> the same

    Example:
        >>> import adjoint as ad
        >>> ad.nn.BatchNorm2d(3)(ad.randn(4, 3, 8, 8)).shape
        adjoint.Size([4, 3, 8, 8])
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    r"""Zero mean and unit variance of each channel over the batch and the positions of volumes.

    $y = \frac{x - E[x]}{\sqrt{Var[x] + \epsilon}} \gamma + \beta$

    In training with the batch's statistics, towards which the running ones move; in evaluation
    with the running ones.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: how far the running statistics move at each batch; None keeps plain averages.
        affine: whether there is a weight and a bias per channel.
        track_running_stats: whether running statistics are kept.

    Shape:
        (N, C, D, H, W) -> the same

    Example:
        >>> import adjoint as ad
        >>> ad.nn.BatchNorm3d(4)(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 4, 12, 10, 8])
    """

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes.

    In training, mean and variance are those of the elements of every process of the group, and
    gradients flow to all of them. In one process it is batch normalisation.

    Args:
        num_features: the number of channels.
        eps: added to the variance.
        momentum: how far the running statistics move at each batch; None keeps plain averages.
        affine: whether there is a weight and a bias per channel.
        track_running_stats: whether running statistics are kept.
        process_group: the processes; all unless given.

    Shape:
        (N, C, ...) -> the same

    Example:
        >>> import adjoint as ad
        >>> model = ad.nn.Sequential(ad.nn.Conv2d(3, 6, 3), ad.nn.BatchNorm2d(6))
        >>> ad.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]
        SyncBatchNorm(6, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        group = STATE.group
        if self.process_group is not None:
            group = brought("adjoint.distributed.groups.group").resolve(self.process_group)
        batch = self.training or self.running_mean is None
        if group is None or group.size() == 1 or not batch:
            return super().forward(input)
        self._check_input_dim(input)
        self._check_channels(input, 1)
        x = input.float() if input.dtype.is_half else input
        over = [d for d in range(x.ndim) if d != 1]
        count = x.new_full((1,), x.numel() // max(x.shape[1], 1))
        operations = brought("adjoint.distributed.communication.operations")
        how = operations.RedOpType.SUM, group
        sums = operations.all_reduce(cat([x.sum(over), count]), *how)
        total = sums[-1].detach()
        mean = sums[:-1] / total
        shape = [1, -1] + [1] * (x.ndim - 2)
        centred = x - mean.reshape(shape)
        variance = operations.all_reduce((centred * centred).sum(over), *how) / total
        if self.training and self.track_running_stats:
            self._follow(mean.detach(), variance.detach() * total / (total - 1).clamp(min=1))
        out = centred * (variance + self.eps).rsqrt().reshape(shape)
        if self.weight is not None:
            out = out * self.weight.reshape(shape)
        if self.bias is not None:
            out = out + self.bias.reshape(shape)
        return out.to(input.dtype)

    def _follow(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics towards those of a batch."""
        if self.running_mean is None or self.running_var is None:
            return
        factor: Any = self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / self.num_batches_tracked.to(mean.dtype)
        with no_grad():
            for running, batch in ((self.running_mean, mean), (self.running_var, variance)):
                running.add_((batch.to(running.dtype) - running) * factor)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ShapeValueError(
                f"SyncBatchNorm: expected at least 2D input (got {input.ndim}D input)"
            )

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every batch normalisation in it replaced by one of this class."""
        out = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            out = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group, bias=module.bias is not None,
            )  # fmt: skip
            out.weight, out.bias = module.weight, module.bias
            out.running_mean, out.running_var = module.running_mean, module.running_var
            out.num_batches_tracked = module.num_batches_tracked
            out.training = module.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Takes the number of channels from the first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = zeros((), dtype=int64, device=device)

    def reset_parameters(self) -> None:
        """Set what has a shape already."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of channels from an input."""
        if not self.has_uninitialized_params():
            return
        alone = self.takes_one_sample and input.ndim == self.ranks[0]
        self.num_features = input.shape[0 if alone else 1]
        for waiting in (self.weight, self.bias, self.running_mean, self.running_var):
            if waiting is not None:
                waiting.materialize((self.num_features,))  # type: ignore[attr-defined]
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """`BatchNorm1d` that takes the number of channels from the first input.

    Shape:
        (N, C) or (N, C, L) -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyBatchNorm1d()
        >>> layer(ad.randn(20, 16, 50)).shape
        adjoint.Size([20, 16, 50])
        >>> layer.num_features
        16
    """

    cls_to_become = BatchNorm1d
    ranks = BatchNorm1d.ranks


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """`BatchNorm2d` that takes the number of channels from the first input.

    Shape:
        (N, C, H, W) -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyBatchNorm2d()
        >>> layer(ad.randn(4, 3, 8, 8)).shape
        adjoint.Size([4, 3, 8, 8])
        >>> layer.num_features
        3
    """

    cls_to_become = BatchNorm2d
    ranks = BatchNorm2d.ranks


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """`BatchNorm3d` that takes the number of channels from the first input.

    Shape:
        (N, C, D, H, W) -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.LazyBatchNorm3d()
        >>> layer(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 4, 12, 10, 8])
        >>> layer.num_features
        4
    """

    cls_to_become = BatchNorm3d
    ranks = BatchNorm3d.ranks
