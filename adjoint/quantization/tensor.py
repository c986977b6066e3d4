"""QuantizedTensor: whole numbers with a scale and a zero point, thin on ordinary tensors.

Functions take it where they make sense on it (`TAKEN`): those that move elements work on the whole
numbers, some others on what they stand for, rounded again by the same scale. All else is refused,
as PyTorch refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import adjoint as ad
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.tensor.tensor import Tensor
from adjoint.quantization.functional import dequantize_affine, quantize_affine
from adjoint.quantization.ranges import IntegerRange, choose_scale
from adjoint.quantization.schemes import (
    QUANTIZED,
    RANGES,
    per_channel_affine,
    per_tensor_affine,
    qscheme,
    storage_dtype,
)


class QuantizedTensor:
    """A tensor of whole numbers that stand for real ones.

    Example:
        >>> x = quantize_per_tensor(ad.tensor([-1.0, 0.0, 1.0]), 0.1, 10, ad.quint8)
        >>> x.int_repr(), x.dequantize()
        (tensor([ 0, 10, 20], dtype=adjoint.uint8), tensor([-1.,  0.,  1.]))
    """

    __slots__ = ("_axis", "_ints", "_scale", "_zero")
    is_quantized = True
    requires_grad = False
    is_leaf = True

    def __init__(self, ints: Tensor, scale: Tensor, zero: Tensor, axis: int | None = None) -> None:
        self._ints, self._scale, self._zero, self._axis = ints, scale, zero, axis
        if not OVERRIDES.enlisted:  # from now on functions ask whether a value takes them over
            OVERRIDES.enlist()

    # -- what it holds -----------------------------------------------------------------------

    def int_repr(self) -> Tensor:
        """The whole numbers."""
        return self._ints

    def dequantize(self) -> Tensor:
        """The real numbers, in float32."""
        return dequantize_affine(self._ints, self._scale, self._zero, axis=self._axis)

    def qscheme(self) -> qscheme:
        """Whether it has one scale or one to a channel."""
        return per_tensor_affine if self._axis is None else per_channel_affine

    def q_scale(self) -> float:
        """The scale."""
        self._want_one("q_scale")
        return float(self._scale)

    def q_zero_point(self) -> int:
        """The zero point."""
        self._want_one("q_zero_point")
        return int(self._zero)

    def q_per_channel_scales(self) -> Tensor:
        """The scales of channels."""
        self._want_many("q_per_channel_scales")
        return self._scale.to(ad.float64)

    def q_per_channel_zero_points(self) -> Tensor:
        """The zero points of channels."""
        self._want_many("q_per_channel_zero_points")
        return self._zero

    def q_per_channel_axis(self) -> int:
        """The dimension that channels are along."""
        self._want_many("q_per_channel_axis")
        return self._axis or 0

    def _want_one(self, name: str) -> None:
        if self._axis is not None:
            raise RuntimeError(f"{name}: expected quantizer->qscheme() == kPerTensorAffine")

    def _want_many(self, name: str) -> None:
        if self._axis is None:
            raise RuntimeError(f"{name}: expected quantizer->qscheme() == kPerChannelAffine")

    # -- what it looks like --------------------------------------------------------------------

    @property
    def dtype(self) -> DType:
        return QUANTIZED[self._ints.dtype]

    @property
    def shape(self) -> Any:
        return self._ints.shape

    @property
    def device(self) -> Any:
        return self._ints.device

    @property
    def ndim(self) -> int:
        return self._ints.ndim

    def dim(self) -> int:
        """How many dimensions."""
        return self._ints.ndim

    def numel(self) -> int:
        """How many elements."""
        return self._ints.numel()

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one size of it."""
        return self._ints.size() if dim is None else self._ints.size(dim)

    def is_floating_point(self) -> bool:
        """No."""
        return False

    def __len__(self) -> int:
        return len(self._ints)

    def __repr__(self) -> str:
        if self._axis is None:
            about = f"scale={self.q_scale()}, zero_point={self.q_zero_point()}"
        else:
            about = f"scale={self._scale}, zero_point={self._zero}, axis={self._axis}"
        values = repr(self.dequantize())[:-1]
        return (
            f"{values}, size={tuple(self.shape)}, dtype={self.dtype!r},\n"
            f"       quantization_scheme={self.qscheme()!r}, {about})"
        )

    def to(self, device: Any, *args: Any, **kwargs: Any) -> QuantizedTensor:
        """The same on another device."""
        if isinstance(device, DType) or args or kwargs:
            _refuse("to", "a conversion")
        ints, scale, zero = (x.to(device) for x in (self._ints, self._scale, self._zero))
        return QuantizedTensor(ints, scale, zero, self._axis)

    def cpu(self) -> QuantizedTensor:
        """The same in the host's memory."""
        return self.to("cpu")

    # -- functions -----------------------------------------------------------------------------

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """A function of a quantised tensor, by its name."""
        taken = TAKEN.get(func.__name__)
        if taken is None:
            _refuse(func.__name__)
        return taken(func, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        if name in TAKEN:
            function = getattr(Tensor, name)
            return lambda *args, **kwargs: TAKEN[name](function, (self, *args), kwargs)
        raise AttributeError(
            f"'QuantizedTensor' object has no attribute {name!r}. Call dequantize() first."
        )

    def __getitem__(self, key: Any) -> QuantizedTensor:
        self._want_one("indexing")
        return QuantizedTensor(self._ints[key], self._scale, self._zero)


def _refuse(name: str, what: str = "an operation") -> NoReturn:
    raise NotImplementedError(
        f"{name}: not {what} of quantised tensors. Call dequantize() first, or put a DeQuantStub "
        "before it."
    )


def same_steps(x: QuantizedTensor, real: Tensor) -> QuantizedTensor:
    """Real numbers rounded by the scale of another tensor."""
    return rounded(real, x._scale, x._zero, x._ints.dtype)


def rounded(real: Tensor, scale: Tensor, zero: Tensor, dtype: DType) -> QuantizedTensor:
    """Real numbers rounded by a scale: whole numbers of a dtype."""
    low, high = RANGES[dtype]
    return QuantizedTensor(quantize_affine(real, scale, zero, low, high, dtype), scale, zero)


def _moving(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Elements are moved about: the whole numbers do as well."""
    x, *rest = args
    x._want_one(func.__name__)
    result = func(x._ints, *rest, **kwargs)
    if isinstance(result, Tensor):
        return QuantizedTensor(result, x._scale, x._zero)
    return type(result)(QuantizedTensor(part, x._scale, x._zero) for part in result)


def _real(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What the elements stand for, rounded again by the same scale."""
    x, *rest = args
    x._want_one(func.__name__)
    return same_steps(x, func(x.dequantize(), *rest, **kwargs))


def _fixed(scale: float, zero: int) -> Callable[..., Any]:
    """A function whose range is known: one scale serves always."""

    def taken(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        x, *rest = args
        real = func(x.dequantize(), *rest, **kwargs)
        moved = zero if x._ints.dtype is ad.uint8 else zero - 128
        device = real.device
        return rounded(
            real,
            ad.tensor(scale, device=device),
            ad.tensor(moved, dtype=ad.int32, device=device),
            x._ints.dtype,
        )

    return taken


def _joined(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Tensors joined by the scale of the first."""
    many, *rest = args
    many = list(many) if isinstance(many, Iterable) else many
    first = many[0]
    first._want_one(func.__name__)
    return same_steps(first, func([x.dequantize() for x in many], *rest, **kwargs))


def _as_it_is(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Dropout, once a model is trained."""
    training = kwargs.get("training", args[2] if len(args) > 2 else True)
    if training:
        _refuse(func.__name__)
    return args[0]


TAKEN: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(
        "reshape view flatten permute transpose squeeze unsqueeze contiguous clone detach chunk "
        "split narrow expand movedim swapaxes select unflatten repeat pixel_shuffle t flip "
        "channel_shuffle index_select".split(),
        _moving,
    ),
    **dict.fromkeys(
        "relu relu_ relu6 hardtanh hardtanh_ clamp leaky_relu max_pool1d max_pool2d max_pool3d "
        "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
        "adaptive_avg_pool3d adaptive_max_pool2d mean amax amin interpolate threshold "
        "constant_pad_nd".split(),
        _real,
    ),
    **dict.fromkeys(("cat", "concat", "stack"), _joined),
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), _as_it_is),
    "sigmoid": _fixed(1 / 256, 0),
    "tanh": _fixed(2 / 256, 128),
}


# -- making them -------------------------------------------------------------------------------


def quantize_per_tensor(
    input: Tensor, scale: Any, zero_point: Any, dtype: DType
) -> QuantizedTensor:
    """A tensor rounded to whole numbers by one scale and zero point.

    >>> quantize_per_tensor(ad.tensor([0.26]), 0.1, 0, ad.qint8).int_repr()
    tensor([3], dtype=adjoint.int8)
    """
    whole = storage_dtype("quantize_per_tensor", dtype)
    low, high = RANGES[whole]
    device = input.device
    scale = ad.as_tensor(scale, dtype=ad.float32, device=device).reshape(())
    zero = ad.as_tensor(zero_point, dtype=ad.int32, device=device).reshape(())
    return QuantizedTensor(quantize_affine(input, scale, zero, low, high, whole), scale, zero)


def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: DType
) -> QuantizedTensor:
    """A tensor rounded to whole numbers, each index along an axis by its own scale.

    >>> scales, zeros = ad.tensor([0.1, 1.0]), ad.zeros(2, dtype=ad.int32)
    >>> quantize_per_channel(ad.ones(2, 1), scales, zeros, 0, ad.qint8).int_repr()
    tensor([[10],
            [ 1]], dtype=adjoint.int8)
    """
    whole = storage_dtype("quantize_per_channel", dtype)
    low, high = RANGES[whole]
    scales, zeros = scales.to(ad.float32), zero_points.to(ad.int32)
    ints = quantize_affine(input, scales, zeros, low, high, whole, axis)
    return QuantizedTensor(ints, scales, zeros, axis)


def quantize_per_tensor_dynamic(
    input: Tensor, dtype: DType, reduce_range: bool = False
) -> QuantizedTensor:
    """A tensor rounded to whole numbers by the range it has."""
    whole = storage_dtype("quantize_per_tensor_dynamic", dtype)
    low, high = RANGES[whole]
    if reduce_range:
        low, high = low // 2, high // 2
    scale, zero = choose_scale(
        input.amin(), input.amax(), IntegerRange(low, high, whole), symmetric=False
    )
    return QuantizedTensor(quantize_affine(input, scale, zero, low, high, whole), scale, zero)


def dequantize(tensor: Any) -> Any:
    """The real numbers of a quantised tensor, or of several."""
    if isinstance(tensor, (list, tuple)):
        return type(tensor)(dequantize(part) for part in tensor)
    return tensor.dequantize() if isinstance(tensor, QuantizedTensor) else tensor.to(ad.float32)
