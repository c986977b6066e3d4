"""Layers that take and give quantised tensors, by scales that were observed."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.engine.core.dtype import DType, named
from adjoint.engine.tensor.tensor import Tensor
from adjoint.quantization.functional import quantized_convolution, quantized_linear
from adjoint.quantization.modules.kept import Called, Kept
from adjoint.quantization.schemes import HELD
from adjoint.quantization.tensor import QuantizedTensor, quantize_per_channel, rounded


def check_quantized(name: str, x: Any) -> QuantizedTensor:
    """Refuse floats where quantised numbers are wanted."""
    if not isinstance(x, QuantizedTensor):
        raise NotImplementedError(
            f"{name}: expected a quantised tensor, received {type(x).__name__}. Put a QuantStub "
            "before it, and quantise what leads to it."
        )
    return x


def bytes_of(x: QuantizedTensor) -> Tensor:
    """The whole numbers of a tensor, if they are of 8 bits."""
    if x._ints.dtype not in (ad.int8, ad.uint8):
        raise NotImplementedError(f"products of {x.dtype}: only qint8 and quint8 are multiplied")
    return x._ints


def observed(module: Any) -> tuple[Tensor, Tensor, DType]:
    """Scale, zero point and dtype of a layer's output, as its observer has it."""
    seen = getattr(module, "activation_post_process", None)
    if seen is None:
        raise RuntimeError(
            f"convert: a {type(module).__name__} has no observer. Call prepare and run some data "
            "through the model first."
        )
    scale, zero = seen.calculate_qparams()
    scale, zero = scale.reshape(()).to(ad.float32), zero.reshape(()).to(ad.int32)
    return scale.clone(), zero.clone(), seen.dtype  # tensors of their own, not views


class _Weighted(Called):
    """A layer with a weight of int8, whose outputs are rounded by a scale of its own."""

    weight_scale: Tensor
    weight_zero: Tensor | None
    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, tensors: dict[str, Tensor], dtype: str = "quint8", relu: bool = False
    ) -> None:
        super().__init__()
        self.dtype, self.relu = named(dtype), relu
        self.put(tensors["weight"], tensors.get("bias"))
        self.register_buffer("weight_scale", tensors["weight_scale"])
        self.register_buffer("weight_zero", tensors.get("weight_zero"))
        self.register_buffer("scale", tensors["scale"])
        self.register_buffer("zero_point", tensors["zero_point"])

    def options(self) -> dict[str, Any]:
        return {"dtype": self.dtype.name, "relu": self.relu}

    def finish(self, real: Tensor) -> QuantizedTensor:
        """The result, rounded."""
        real = real.relu() if self.relu else real
        return rounded(real, self.scale, self.zero_point, HELD[self.dtype])

    def by_channel(self) -> QuantizedTensor:
        zeros = self.weight_zero
        if zeros is None:
            zeros = self.weight_scale.new_zeros(self.weight_scale.shape, dtype=ad.int32)
        return QuantizedTensor(self.held("weight"), self.weight_scale, zeros, 0)

    def dequantize(self) -> Tensor:
        """The weight in float32."""
        return self.by_channel().dequantize()


def weight_tensors(module: Any, weight: Tensor, bias: Tensor | None) -> dict[str, Tensor]:
    """A layer's tensors, its weight rounded as what watches it says."""
    watch = getattr(module, "weight_fake_quant", None) or module.qconfig.weight()
    watch(weight)
    scale, zero = watch.calculate_qparams()
    if HELD.get(watch.dtype) is not ad.int8:
        raise NotImplementedError(
            f"convert: weights are multiplied as qint8, the observer of a {type(module).__name__} "
            f"has {watch.dtype}"
        )
    channels = weight.shape[0]
    scales = scale.reshape(-1).expand((channels,)).to(ad.float32).clone()
    zeros = zero.reshape(-1).expand((channels,)).to(ad.int32).clone()
    integers = quantize_per_channel(weight.detach(), scales, zeros, 0, ad.qint8)
    # What was rounded in training to fewer numbers than int8 has is to be the same here.
    whole = integers.int_repr().clamp(watch.quant_min, watch.quant_max)
    tensors = {"weight": whole, "weight_scale": scales}
    if bool(zeros.any()):
        tensors["weight_zero"] = zeros
    out_scale, out_zero, _ = observed(module)
    tensors |= {"scale": out_scale, "zero_point": out_zero}
    return tensors if bias is None else tensors | {"bias": bias.detach()}


class QuantizedLinear(_Weighted):
    """A linear layer of int8, between quantised tensors."""

    kind = "static_linear"

    def __init__(self, tensors: dict[str, Tensor], **options: Any) -> None:
        super().__init__(tensors, **options)
        self.out_features, self.in_features = map(int, self.held("weight").shape)

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> QuantizedLinear:
        return cls(tensors, **options)

    @classmethod
    def from_float(cls, mod: Any, relu: bool = False) -> QuantizedLinear:
        """The layer of an observed linear one."""
        with ad.no_grad():
            tensors = weight_tensors(mod, mod.weight, mod.bias)
        return cls(tensors, dtype=observed(mod)[2].name, relu=relu)

    def forward(self, input: QuantizedTensor) -> QuantizedTensor:
        x = check_quantized("Linear", input)
        return self.finish(
            quantized_linear(
                bytes_of(x),
                x._scale,
                x._zero,
                self.held("weight"),
                self.weight_scale,
                self.weight_sums,
                self._parameters["bias"],
                self.weight_zero,
            )
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"scale={float(self.scale)}, zero_point={int(self.zero_point)}, relu={self.relu}"
        )


class QuantizedConv(_Weighted):
    """A convolution of int8, between quantised tensors, of as many dimensions as its weight has."""

    kind = "static_convolution"

    def __init__(
        self,
        tensors: dict[str, Tensor],
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(tensors, **options)
        self.stride, self.padding, self.dilation = _plain(stride), _plain(padding), _plain(dilation)
        self.groups = groups
        self.out_channels = int(self.held("weight").shape[0])
        self.in_channels = int(self.held("weight").shape[1]) * groups
        self.kernel_size = tuple(int(n) for n in self.held("weight").shape[2:])

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> QuantizedConv:
        return cls(tensors, **options)

    def options(self) -> dict[str, Any]:
        names = ("stride", "padding", "dilation", "groups")
        return super().options() | {name: getattr(self, name) for name in names}

    @classmethod
    def from_float(
        cls, mod: Any, relu: bool = False, folded: tuple[Tensor, Tensor] | None = None
    ) -> QuantizedConv:
        """The layer of an observed convolution, perhaps with what a batch norm made of it."""
        if mod.padding_mode != "zeros" or isinstance(mod.padding, str):
            raise NotImplementedError(
                f"convert: a convolution with padding={mod.padding!r}, "
                f"padding_mode={mod.padding_mode!r}; quantised ones pad with zeros by numbers"
            )
        with ad.no_grad():
            tensors = weight_tensors(mod, *(folded or (mod.weight, mod.bias)))
        return cls(
            tensors,
            mod.stride,
            mod.padding,
            mod.dilation,
            mod.groups,
            dtype=observed(mod)[2].name,
            relu=relu,
        )

    def forward(self, input: QuantizedTensor) -> QuantizedTensor:
        x = check_quantized("Conv", input)
        return self.finish(
            quantized_convolution(
                bytes_of(x),
                x._scale,
                x._zero,
                self.held("weight"),
                self.weight_scale,
                self.weight_sums,
                self._parameters["bias"],
                self.stride,
                self.padding,
                self.dilation,
                self.groups,
                self.weight_zero,
            )
        )

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, scale={float(self.scale)}, "
            f"zero_point={int(self.zero_point)}, relu={self.relu}"
        )


def _plain(value: Any) -> Any:
    """Numbers as a file has them."""
    return int(value) if isinstance(value, int) else tuple(int(n) for n in value)


def put_scale(module: nn.Module, scale: Any, zero_point: Any) -> None:
    """A scale and a zero point as tensors of a module's own, not views of others."""
    one = ad.as_tensor(scale, dtype=ad.float32).reshape(()).clone()
    module.register_buffer("scale", one)
    point = ad.as_tensor(zero_point, dtype=ad.int32).reshape(()).clone()
    module.register_buffer("zero_point", point)


class Quantize(Kept):
    """Floats to quantised numbers, by a scale that was observed."""

    kind = "quantize"
    scale: Tensor
    zero_point: Tensor

    def __init__(self, scale: Any, zero_point: Any, dtype: Any) -> None:
        super().__init__()
        self.dtype: DType = named(dtype) if isinstance(dtype, str) else dtype
        put_scale(self, scale, zero_point)

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> Quantize:
        return cls(tensors["scale"], tensors["zero_point"], **options)

    def options(self) -> dict[str, Any]:
        return {"dtype": self.dtype.name}

    @classmethod
    def from_float(cls, mod: Any) -> Quantize:
        """What a stub whose output was observed becomes."""
        return cls(*observed(mod))

    def forward(self, X: Tensor) -> QuantizedTensor:
        return rounded(X, self.scale, self.zero_point, HELD[self.dtype])

    def extra_repr(self) -> str:
        return f"scale={float(self.scale)}, zero_point={int(self.zero_point)}, dtype={self.dtype}"


class DeQuantize(Kept):
    """Quantised numbers to floats."""

    kind = "dequantize"

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> DeQuantize:
        return cls(**options)

    def options(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_float(cls, mod: Any) -> DeQuantize:
        """What a stub becomes."""
        return cls()

    def forward(self, Xq: Any) -> Tensor:
        out: Tensor = Xq.dequantize() if isinstance(Xq, QuantizedTensor) else Xq
        return out


class QuantizedThrough(Kept):
    """A layer without products, in floats between quantised tensors (a norm, an activation)."""

    kind = "through"
    scale: Tensor
    zero_point: Tensor

    def __init__(self, layer: nn.Module, scale: Tensor, zero_point: Tensor, dtype: DType) -> None:
        super().__init__()
        self.layer, self.dtype = layer, dtype
        self.register_buffer("scale", scale)
        self.register_buffer("zero_point", zero_point)

    @classmethod
    def from_float(cls, mod: Any) -> QuantizedThrough:
        """The layer of an observed one."""
        observers = observed(mod)
        return cls(mod, *observers)

    def options(self) -> dict[str, Any]:
        return {"around": type(self.layer).__name__, "dtype": self.dtype.name}

    @classmethod
    def in_place_of(
        cls, layer: nn.Module, tensors: dict[str, Tensor], **options: Any
    ) -> QuantizedThrough:
        """Around the model's own layer, which has to be of the class that was saved."""
        wanted, dtype = str(options["around"]), named(str(options["dtype"]))
        if type(layer).__name__ != wanted:
            raise ValueError(f"the model has a {type(layer).__name__} there, the file a {wanted}")
        if dtype not in HELD:
            raise ValueError(f"outputs of {dtype}: expected one of {', '.join(map(str, HELD))}")
        return cls(layer, tensors["scale"].clone(), tensors["zero_point"].clone(), dtype)

    def forward(self, input: QuantizedTensor) -> QuantizedTensor:
        real = self.layer(check_quantized(type(self.layer).__name__, input).dequantize())
        return rounded(real, self.scale, self.zero_point, HELD[self.dtype])


class QFunctional(Kept):
    """What FloatFunctional becomes: sums, products and joins of quantised tensors."""

    kind = "functional"
    scale: Tensor
    zero_point: Tensor

    def __init__(self, scale: Any = 1.0, zero_point: Any = 0, dtype: Any = "quint8") -> None:
        super().__init__()
        self.dtype: DType = named(dtype) if isinstance(dtype, str) else dtype
        put_scale(self, scale, zero_point)

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> QFunctional:
        return cls(tensors["scale"], tensors["zero_point"], **options)

    def options(self) -> dict[str, Any]:
        return {"dtype": self.dtype.name}

    @classmethod
    def from_float(cls, mod: Any) -> QFunctional:
        """What an observed FloatFunctional becomes."""
        return cls(*observed(mod))

    def _made(self, real: Tensor) -> QuantizedTensor:
        return rounded(real, self.scale, self.zero_point, HELD[self.dtype])

    def add(self, x: QuantizedTensor, y: QuantizedTensor) -> QuantizedTensor:
        """x + y."""
        return self._made(x.dequantize() + y.dequantize())

    def add_relu(self, x: QuantizedTensor, y: QuantizedTensor) -> QuantizedTensor:
        """max(x + y, 0)."""
        return self._made((x.dequantize() + y.dequantize()).relu())

    def mul(self, x: QuantizedTensor, y: QuantizedTensor) -> QuantizedTensor:
        """x y."""
        return self._made(x.dequantize() * y.dequantize())

    def matmul(self, x: QuantizedTensor, y: QuantizedTensor) -> QuantizedTensor:
        """x @ y."""
        return self._made(x.dequantize() @ y.dequantize())

    def cat(self, x: Any, dim: int = 0) -> QuantizedTensor:
        """Tensors joined."""
        return self._made(ad.cat([part.dequantize() for part in x], dim=dim))

    def add_scalar(self, x: QuantizedTensor, y: float) -> QuantizedTensor:
        """x + a number, by the scale of x moved along."""
        return rounded(x.dequantize() + y, x._scale, x._zero, x._ints.dtype)

    def mul_scalar(self, x: QuantizedTensor, y: float) -> QuantizedTensor:
        """x times a number: the scale alone changes."""
        if y <= 0:
            raise NotImplementedError(f"mul_scalar: expected a positive number, received {y}")
        return QuantizedTensor(x._ints, x._scale * y, x._zero)
