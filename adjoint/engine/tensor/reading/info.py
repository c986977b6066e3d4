"""Asking a tensor about itself: sizes, strides, layout, flags."""

from __future__ import annotations

import importlib
from typing import Any

from numpy import ndarray

from adjoint.engine.core.layout import channels_last, contiguous_format, has_format, strided
from adjoint.engine.core.operations.public import method, prop, public
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Size, contiguous_strides, wrap_dim
from adjoint.engine.ops.shape.convert import has_rows_of_channels
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor

_new_tuple = tuple.__new__


@method(aliases=("nelement",))
def numel(self: Tensor) -> int:
    """The number of elements."""
    return self._array.size


@method(aliases=("ndimension",))
def dim(self: Tensor) -> int:
    """The number of dimensions."""
    return self._array.ndim


@method
def size(self: Tensor, dim: int | None = None) -> Any:
    """The shape, or the size of one dimension."""
    shape = self._array.shape
    if dim is None:
        return _new_tuple(Size, shape)
    if dim.__class__ is int and 0 <= dim < len(shape):
        return shape[dim]
    return shape[wrap_dim("size", dim, len(shape))]


@method
def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """Whether elements lie in row-major order without gaps."""
    array = self._array
    if memory_format is not None and memory_format is not contiguous_format:
        if memory_format is channels_last and has_rows_of_channels(array):
            return False
        return has_format(tuple(array.shape), self.stride(), memory_format)
    if type(array) is not Window:
        return bool(array.flags.c_contiguous)
    expected = contiguous_strides(array.shape)
    return (
        array.strides == expected
        or array.size == 0
        or all(
            s == e or n == 1 for s, e, n in zip(array.strides, expected, array.shape, strict=True)
        )
    )


@method
def storage_offset(self: Tensor) -> int:
    """The position of the first element in the storage, in elements."""
    array = self._array
    if array is self._storage.buffer:
        return 0
    if type(array) is Window:
        return int(array.offset)
    return HOOKS.array.offset_in(array, self._storage.buffer)


@public(method=True)
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex."""
    return input.dtype.is_complex


@public(method=True)
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating-point numbers."""
    return input.dtype.is_floating_point


@method
def is_signed(self: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return self.dtype.is_signed


@public(method=True)
def is_conj(input: Tensor) -> bool:
    """Whether conjugation is pending; here it never is."""
    return False


@public(method=True)
def is_neg(input: Tensor) -> bool:
    """Whether negation is pending; here it never is."""
    return False


@public(method=True)
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor with pending conjugation done."""
    return input


@public(method=True)
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor with pending negation done."""
    return input


@public(method=True)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return input.shape == other.shape


@public(method=True)
def is_distributed(input: Tensor) -> bool:
    """Whether the tensor is spread over processes."""
    return False


@public()
def is_tensor(obj: Any) -> bool:
    """Whether an object is a tensor.

    Example:
        >>> import adjoint as ad
        >>> ad.is_tensor(ad.ones(2)), ad.is_tensor([1, 2])
        (True, False)
    """
    return isinstance(obj, Tensor)


@public(name="numel")
def numel_function(input: Tensor) -> int:
    """The number of elements.

    Example:
        >>> import adjoint as ad
        >>> ad.numel(ad.ones(2, 3))
        6
    """
    return input._array.size


@method
def get_device(self: Tensor) -> int:
    """The index of the GPU, or -1 on the CPU."""
    if self._array.__class__ is ndarray:
        return -1
    device = self.device
    return -1 if device.type == "cpu" else int(device.index or 0)


@prop
def is_cpu(self: Tensor) -> bool:
    """Whether the elements are on the CPU."""
    return self.device.type == "cpu"


@prop
def is_cuda(self: Tensor) -> bool:
    """Whether the elements are on an NVIDIA GPU."""
    return self._array.__class__ is not ndarray and self.device.type == "cuda"


@prop
def is_meta(self: Tensor) -> bool:
    """Whether the tensor is on the meta device, where it has a shape and no elements."""
    return self.device.type == "meta"


def _never(name: str, what: str) -> None:
    def flag(self: Tensor) -> bool:
        return False

    flag.__name__ = name
    flag.__doc__ = f"Whether the tensor is {what}; here it never is."
    prop(flag)


for _name, _what in {
    "is_mps": "on an Apple GPU",
    "is_xpu": "on an Intel GPU",
    "is_xla": "on an accelerator that XLA compiles for",
    "is_mtia": "on an accelerator of Meta's",
    "is_maia": "on an accelerator of Microsoft's",
    "is_ipu": "on an accelerator of Graphcore's",
    "is_vulkan": "on a GPU by way of Vulkan",
    "is_nested": "nested",
    "is_quantized": "quantised",
    "is_mkldnn": "in a vendor's layout",
}.items():
    _never(_name, _what)


# Sparse tensors are of classes of their own, which say otherwise.


@prop
def layout(self: Tensor) -> Any:
    """How elements lie in memory: strided, or a sparse layout."""
    return strided


@prop
def is_sparse(self: Tensor) -> bool:
    """Whether the layout is `sparse_coo`."""
    return False


@prop
def is_sparse_csr(self: Tensor) -> bool:
    """Whether the layout is `sparse_csr`."""
    return False


@prop
def name(self: Tensor) -> str | None:
    """A name, which only PyTorch's graph tools set."""
    return None


@prop
def _cdata(self: Tensor) -> int:
    """A number that tells this tensor from others that are there."""
    return id(self)


@prop
def volatile(self: Tensor) -> bool:
    """A flag of old PyTorch; False."""
    return False


# What only other layouts can do is refused as PyTorch refuses it.


@method
def qscheme(self: Tensor) -> Any:
    """Refused: the tensor is not quantised."""
    raise NotImplementedError(f"qscheme: expected a quantised tensor, received {self._spec}")


@method
def to_padded_tensor(self: Tensor, padding: float, output_size: Any = None) -> Tensor:
    """Refused: the tensor is not nested."""
    raise NotImplementedError(f"to_padded_tensor: expected a nested tensor, received {self._spec}")


@method
def smm(self: Tensor, mat: Tensor) -> Tensor:
    """Refused: the tensor is not sparse."""
    raise RuntimeError(f"smm: expected a sparse tensor, received {self._spec}. Use mm.")


@method
def sspaddmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Refused: the tensor is not sparse."""
    raise RuntimeError(f"sspaddmm: expected a sparse tensor, received {self._spec}. Use addmm.")


@method
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself: it is dense."""
    return self if dtype is None else self.to(dtype)


@method(numbers="elements")
def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A copy of `data` with this tensor's dtype and device unless others are given."""
    return HOOKS.array.tensor(
        data,
        dtype=dtype or self.dtype,
        device=device or self.device,
        requires_grad=requires_grad,
    )


@method
def new(self: Tensor, *args: Any) -> Tensor:
    """A tensor of this one's dtype from sizes or data (PyTorch's old form)."""
    return HOOKS.array.legacy_constructor(Tensor, *args, dtype=self.dtype, device=self.device)


@method
def __array_namespace__(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """The array API standard's functions, which take tensors: `adjoint.array_api`."""
    array_api = importlib.import_module(
        "adjoint.array_api"
    )  # above the engine; few programs need it
    return array_api.arrays.namespace(self, api_version=api_version)


@method
def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Any:
    """The tensor on a device, by the array API standard's name for `to`."""
    if stream is not None:
        raise ValueError("to_device: streams are chosen by `adjoint.cuda`; pass stream=None")
    return self.to(device)
