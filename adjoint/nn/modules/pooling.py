"""Pooling layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import _ntuple, _single


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    _pool: ClassVar[str]  # the function, looked up at each call: programs replace it

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._pool)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest of each window of a sequence; see `MaxPool2d`.

    Shape:
        (N, C, L) -> (N, C, L'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.MaxPool1d(3, stride=2)(ad.randn(20, 16, 50)).shape
        adjoint.Size([20, 16, 24])
    """

    _pool: ClassVar[str] = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """The largest of each window of an image.

    Args:
        kernel_size: an int or one per dimension.
        stride: the same; the kernel's size unless given.
        padding: at most half of the kernel's size; never the largest.
        dilation: the distance of a window's elements.
        return_indices: also give the places of the largest, for `MaxUnpool2d`.
        ceil_mode: also take a last window that is partly outside.

    Shape:
        (N, C, H, W) -> (N, C, H', W'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.MaxPool2d(3, stride=2)(ad.randn(20, 16, 50, 32)).shape
        adjoint.Size([20, 16, 24, 15])
    """

    _pool: ClassVar[str] = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """The largest of each window of a volume; see `MaxPool2d`.

    Shape:
        (N, C, D, H, W) -> (N, C, D', H', W'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.MaxPool3d(3, stride=2)(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 4, 5, 4, 3])
    """

    _pool: ClassVar[str] = "max_pool3d"


class _MaxUnpoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding"]
    _rank: ClassVar[int]
    _unpool: ClassVar[str]  # the function, looked up at each call: programs replace it

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        many = _ntuple(self._rank)
        self.kernel_size = many(kernel_size)
        self.stride = many(kernel_size if stride is None else stride)
        self.padding = many(padding)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        unpool = getattr(F, self._unpool)
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """The partial inverse of `MaxPool1d`; see `MaxUnpool2d`.

    Shape:
        (N, C, L') and indices of that shape -> (N, C, L).

    Example:
        >>> import adjoint as ad
        >>> values, places = ad.nn.MaxPool1d(2, return_indices=True)(ad.randn(20, 16, 50))
        >>> ad.nn.MaxUnpool1d(2)(values, places).shape
        adjoint.Size([20, 16, 50])
    """

    _rank = 1
    _unpool: ClassVar[str] = "max_unpool1d"


class MaxUnpool2d(_MaxUnpoolNd):
    """The partial inverse of `MaxPool2d`: what was not the largest becomes zero.

    Example:
        >>> import adjoint as ad
        >>> y, at = ad.nn.MaxPool2d(2, return_indices=True)(ad.arange(4.0).reshape(1, 2, 2))
        >>> ad.nn.MaxUnpool2d(2)(y, at)
        tensor([[[0., 0.],
                 [0., 3.]]])
    """

    _rank = 2
    _unpool: ClassVar[str] = "max_unpool2d"


class MaxUnpool3d(_MaxUnpoolNd):
    """The partial inverse of `MaxPool3d`; see `MaxUnpool2d`.

    Shape:
        (N, C, D', H', W') and indices of that shape -> (N, C, D, H, W).

    Example:
        >>> import adjoint as ad
        >>> values, places = ad.nn.MaxPool3d(2, return_indices=True)(ad.randn(2, 4, 12, 10, 8))
        >>> ad.nn.MaxUnpool3d(2)(values, places).shape
        adjoint.Size([2, 4, 12, 10, 8])
    """

    _rank = 3
    _unpool: ClassVar[str] = "max_unpool3d"


class AvgPool1d(Module):
    """The mean of each window of a sequence; see `AvgPool2d`.

    Shape:
        (N, C, L) -> (N, C, L'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.AvgPool1d(2)(ad.randn(20, 16, 50)).shape
        adjoint.Size([20, 16, 25])
    """

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPoolNd(Module):
    __constants__ = [
        "kernel_size",
        "stride",
        "padding",
        "ceil_mode",
        "count_include_pad",
        "divisor_override",
    ]
    _pool: ClassVar[str]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._pool)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPoolNd):
    """The mean of each window of an image.

    Args:
        kernel_size: an int or one per dimension.
        stride: the same; the kernel's size unless given.
        padding: zeros added on both sides.
        ceil_mode: also take a last window that is partly outside.
        count_include_pad: whether the zeros of the padding count.
        divisor_override: divide by this instead of by the number of elements.

    Shape:
        (N, C, H, W) -> (N, C, H', W'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.AvgPool2d(3, stride=2)(ad.randn(20, 16, 50, 32)).shape
        adjoint.Size([20, 16, 24, 15])
    """

    _pool: ClassVar[str] = "avg_pool2d"


class AvgPool3d(_AvgPoolNd):
    """The mean of each window of a volume; see `AvgPool2d`.

    Shape:
        (N, C, D, H, W) -> (N, C, D', H', W'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.AvgPool3d(2)(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 4, 6, 5, 4])
    """

    _pool: ClassVar[str] = "avg_pool3d"


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    _pool: ClassVar[str]

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        pool = getattr(F, self._pool)
        norm = float(self.norm_type)
        return pool(input, norm, self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    r"""$(\sum x^p)^{1/p}$ of each window of a sequence; see `LPPool2d`.

    Shape:
        (N, C, L) -> (N, C, L'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.LPPool1d(2, 2)(ad.randn(20, 16, 50)).shape
        adjoint.Size([20, 16, 25])
    """

    _pool: ClassVar[str] = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    r"""$(\sum x^p)^{1/p}$ of each window of an image.

    Args:
        norm_type: the exponent p.
        kernel_size, stride, ceil_mode: as of `AvgPool2d`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.LPPool2d(2, 2)(ad.ones(1, 2, 2))
        tensor([[[2.]]])
    """

    _pool: ClassVar[str] = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    r"""$(\sum x^p)^{1/p}$ of each window of a volume; see `LPPool2d`.

    Shape:
        (N, C, D, H, W) -> (N, C, D', H', W'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.LPPool3d(2, 2)(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 4, 6, 5, 4])
    """

    _pool: ClassVar[str] = "lp_pool3d"


class _AdaptiveAvgPoolNd(Module):
    __constants__ = ["output_size"]
    _pool: ClassVar[str]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._pool)(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of as many windows of a sequence as wanted; see `AdaptiveAvgPool2d`.

    Shape:
        (N, C, L) -> (N, C, L'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.AdaptiveAvgPool1d(5)(ad.randn(20, 16, 50)).shape
        adjoint.Size([20, 16, 5])
    """

    _pool: ClassVar[str] = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of as many windows of an image as wanted.

    Args:
        output_size: an int or one per dimension; None keeps the input's.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.AdaptiveAvgPool2d((5, None))(ad.randn(1, 64, 8, 9)).shape
        adjoint.Size([1, 64, 5, 9])
    """

    _pool: ClassVar[str] = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The means of as many windows of a volume as wanted; see `AdaptiveAvgPool2d`.

    Shape:
        (N, C, D, H, W) -> (N, C, D', H', W'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.AdaptiveAvgPool3d((3, 2, 2))(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 4, 3, 2, 2])
    """

    _pool: ClassVar[str] = "adaptive_avg_pool3d"


class _AdaptiveMaxPoolNd(Module):
    __constants__ = ["output_size", "return_indices"]
    _pool: ClassVar[str]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._pool)(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest of as many windows of a sequence as wanted; see `AdaptiveMaxPool2d`.

    Shape:
        (N, C, L) -> (N, C, L'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.AdaptiveMaxPool1d(5)(ad.randn(20, 16, 50)).shape
        adjoint.Size([20, 16, 5])
    """

    _pool: ClassVar[str] = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest of as many windows of an image as wanted.

    Args:
        output_size: an int or one per dimension; None keeps the input's.
        return_indices: also give the places of the largest.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.AdaptiveMaxPool2d(5)(ad.randn(1, 64, 8, 9)).shape
        adjoint.Size([1, 64, 5, 5])
    """

    _pool: ClassVar[str] = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest of as many windows of a volume as wanted; see `AdaptiveMaxPool2d`.

    Shape:
        (N, C, D, H, W) -> (N, C, D', H', W'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.AdaptiveMaxPool3d((3, 2, 2))(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 4, 3, 2, 2])
    """

    _pool: ClassVar[str] = "adaptive_max_pool3d"


class _FractionalMaxPoolNd(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _rank: ClassVar[int]
    _pool: ClassVar[str]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, many = type(self).__name__, _ntuple(self._rank)
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{name} requires specifying either an output size or a pooling ratio")
        self.kernel_size = many(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else many(output_size)
        self.output_ratio = None if output_ratio is None else many(output_ratio)
        if any(k <= 0 for k in self.kernel_size):
            raise ValueError(f"{name}: kernel_size must be positive, received {kernel_size}")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"{name}: output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._pool)(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The largest of windows of an image laid at random.

    Args:
        kernel_size: an int or one per dimension.
        output_size: how many windows; or
        output_ratio: how many, as a fraction of the input's size.
        return_indices: also give the places of the largest.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.FractionalMaxPool2d(3, output_size=(13, 12))(ad.randn(2, 4, 50, 32)).shape
        adjoint.Size([2, 4, 13, 12])
    """

    _rank = 2
    _pool: ClassVar[str] = "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The largest of windows of a volume laid at random; see `FractionalMaxPool2d`.

    Shape:
        (N, C, D, H, W) -> (N, C, D', H', W'), or without the batch.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.FractionalMaxPool3d(2, output_size=(6, 5, 4))(ad.randn(2, 4, 12, 10, 8)).shape
        adjoint.Size([2, 4, 6, 5, 4])
    """

    _rank = 3
    _pool: ClassVar[str] = "fractional_max_pool3d"
