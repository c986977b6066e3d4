"""Convolution layers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import sqrt
from typing import Any, ClassVar

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import ShapeError, ShapeValueError
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from adjoint.nn.parameter import Parameter

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share: arguments, parameters, how they print."""

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]
    weight: Any
    bias: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self._check(in_channels, out_channels, groups, padding, stride, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._both_sides()
        ends = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        shape = (ends[0], ends[1] // groups, *kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _check(
        self,
        in_channels: int,
        out_channels: int,
        groups: int,
        padding: Any,
        stride: tuple[int, ...],
        padding_mode: str,
    ) -> None:
        name = type(self).__name__
        if groups <= 0:
            raise ValueError(f"{name}: groups must be a positive integer, received {groups}")
        for what, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(
                    f"{name}: {what} must be divisible by groups, received {channels} and {groups}"
                )
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"{name}: invalid padding string {padding!r}, should be one of 'same', 'valid'"
                )
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError(
                    f"{name}: padding='same' is not supported for strided convolutions"
                )
        if padding_mode not in PADDING_MODES:
            raise ValueError(
                f"{name}: padding_mode must be one of {PADDING_MODES}, but got "
                f"padding_mode={padding_mode!r}"
            )

    def _both_sides(self) -> tuple[int, ...]:
        """The padding as `functional.pad` takes it."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        sides: list[int] = []
        for k, d in zip(reversed(self.kernel_size), reversed(self.dilation), strict=True):
            total = d * (k - 1) if self.padding == "same" else 0
            sides += (total // 2, total - total // 2)
        return tuple(sides)

    def _require(self, input: Tensor, weight: Tensor) -> None:
        """Refuse an input that does not fit, in the layer's name.

        The weight is given: reading a parametrized one again would compute it again, and a
        spectral norm would go a step further in its iteration.
        """
        if not hasattr(input, "ndim"):
            raise TypeError(
                f"{type(self).__name__}: input must be Tensor, not {type(input).__name__}"
            )
        rank, shape = len(self.kernel_size), weight.shape
        channels = shape[0] if self.transposed else shape[1] * self.groups
        if input.ndim in (rank + 1, rank + 2) and input.shape[-1 - rank] == channels:
            return
        spatial = ", ".join(("D", "H", "W")[-rank:] if rank > 1 else ("L",))
        remedy = ""
        if input.ndim in (rank + 1, rank + 2) and input.shape[-1] == channels:
            remedy = f". Channels are last: bring them forward with movedim(-1, {-1 - rank})"
        raise ShapeError(
            f"{type(self).__name__}: expected input of shape (N, {channels}, {spatial}) or "
            f"({channels}, {spatial}), received {list(input.shape)}: given groups={self.groups}, "
            f"weight of size {list(shape)}, expected input to have {channels} channels{remedy}"
        )

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        none = (0,) * len(self.kernel_size)
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != none:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != none:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    """A convolution of `_rank` dimensions."""

    _rank: ClassVar[int]
    _convolve: ClassVar[str]  # the function, looked up at each call: programs replace it

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        many = _ntuple(self._rank)
        super().__init__(
            in_channels,
            out_channels,
            many(kernel_size),
            many(stride),
            padding if isinstance(padding, str) else many(padding),
            many(dilation),
            False,
            many(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        self._require(input, weight)
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
            padding = (0,) * self._rank
        convolve = getattr(F, self._convolve)
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """A convolution over sequences: (N, C, L) -> (N, O, L'); see `Conv2d`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Conv1d(16, 33, 3, padding=1)(ad.randn(20, 16, 50)).shape
        adjoint.Size([20, 33, 50])
    """

    _rank = 1
    _convolve: ClassVar[str] = "conv1d"


class Conv2d(_Conv):
    r"""A convolution over images: $out_{n,o} = b_o + \sum_c w_{o,c} \star x_{n,c}$.

    Weight and bias start uniform within $1/\sqrt{\text{fan in}}$ of zero.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size, stride, dilation: an int or one per dimension.
        padding: an int, one per dimension, "valid" or "same".
        groups: input and output channels are divided into this many separate convolutions.
        bias: whether to add $b$.
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Shape:
        (N, C, H, W) -> (N, O, H', W'), or without the batch, where
        H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Conv2d(16, 33, 3, stride=2, padding=1)(ad.randn(20, 16, 50, 100)).shape
        adjoint.Size([20, 33, 25, 50])
    """

    _rank = 2
    _convolve: ClassVar[str] = "conv2d"


class Conv3d(_Conv):
    """A convolution over volumes: (N, C, D, H, W) -> (N, O, D', H', W'); see `Conv2d`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Conv3d(4, 6, 3, padding=1)(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 6, 12, 10, 8])
    """

    _rank = 3
    _convolve: ClassVar[str] = "conv3d"


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution of `_rank` dimensions."""

    _rank: ClassVar[int]
    _convolve: ClassVar[str]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'{type(self).__name__}: only "zeros" padding mode is supported, received '
                f"{padding_mode!r}"
            )
        many = _ntuple(self._rank)
        super().__init__(
            in_channels,
            out_channels,
            many(kernel_size),
            many(stride),
            many(padding),
            many(dilation),
            True,
            many(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """What to add so that the result has the wanted size."""
        if output_size is None:
            return self.output_padding
        name, rank = type(self).__name__, self._rank
        lead = input.ndim - rank
        wanted = tuple(output_size)
        if len(wanted) == lead + rank:
            wanted = wanted[lead:]
        if len(wanted) != rank:
            raise ShapeValueError(
                f"{name}: for {input.ndim}D input, output_size must have {rank} or {lead + rank} "
                f"elements (got {len(wanted)})"
            )
        padding = self.padding if isinstance(self.padding, tuple) else (0,) * rank
        extra = []
        for d in range(rank):
            least = (
                (input.shape[lead + d] - 1) * self.stride[d]
                - 2 * padding[d]
                + self.dilation[d] * (self.kernel_size[d] - 1)
                + 1
            )
            if not least <= wanted[d] < least + self.stride[d]:
                raise ValueError(
                    f"{name}: requested an output size of {wanted}, but valid sizes of dimension "
                    f"{d} range from {least} to {least + self.stride[d] - 1} (for an input of "
                    f"{list(input.shape[lead:])})"
                )
            extra.append(wanted[d] - least)
        return tuple(extra)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        weight = self.weight
        self._require(input, weight)
        convolve = getattr(F, self._convolve)
        return convolve(
            input,
            weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size),
            self.groups,
            self.dilation,
        )


class _ConvTransposeMixin(_ConvTransposeNd):
    """PyTorch's old name for `_ConvTransposeNd`, which libraries still import."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            "`_ConvTransposeMixin` is a deprecated internal class. "
            "Please consider using public APIs.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of a convolution over sequences; see `ConvTranspose2d`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ConvTranspose1d(16, 33, 2, stride=2)(ad.randn(20, 16, 50)).shape
        adjoint.Size([20, 33, 100])
    """

    _rank = 1
    _convolve: ClassVar[str] = "conv_transpose1d"


class ConvTranspose2d(_ConvTransposeNd):
    r"""The transpose of `Conv2d`: each input spreads over a window of the result.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size, stride, padding, dilation: as of the convolution it transposes.
        output_padding: added to the result's size on one side.
        groups: input and output channels are divided into this many separate maps.
        bias: whether to add a bias.

    Shape:
        (N, C, H, W) -> (N, O, H', W'), or without the batch, where
        H' = (H - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ConvTranspose2d(16, 8, 3, stride=2)(ad.randn(1, 16, 6, 6)).shape
        adjoint.Size([1, 8, 13, 13])
    """

    _rank = 2
    _convolve: ClassVar[str] = "conv_transpose2d"


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of a convolution over volumes; see `ConvTranspose2d`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ConvTranspose3d(4, 6, 2, stride=2)(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 6, 24, 20, 16])
    """

    _rank = 3
    _convolve: ClassVar[str] = "conv_transpose3d"
