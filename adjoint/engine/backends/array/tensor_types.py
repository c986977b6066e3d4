"""PyTorch's tensor types of old: `FloatTensor(2, 3)`, `x.type(FloatTensor)`, isinstance."""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.array.interop import OF_TYPE, legacy_constructor
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.public import PUBLIC, Public
from adjoint.engine.core.state.placement import set_default_device
from adjoint.engine.tensor.tensor import Tensor

NAMES = {
    "FloatTensor": dt.float32,
    "DoubleTensor": dt.float64,
    "HalfTensor": dt.float16,
    "BFloat16Tensor": dt.bfloat16,
    "ByteTensor": dt.uint8,
    "CharTensor": dt.int8,
    "ShortTensor": dt.int16,
    "IntTensor": dt.int32,
    "LongTensor": dt.int64,
    "BoolTensor": dt.bool_,
}


class TensorKind(type):
    """The type of `FloatTensor` and the like: makes tensors, knows them by dtype and device."""

    dtype: DType
    device_type: str

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        where = cls.device_type if device is None else device
        return legacy_constructor(Tensor, *args, dtype=cls.dtype, device=where)

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.dtype is cls.dtype
            and instance.device.type == cls.device_type
        )


def tensor_kinds(device_type: str) -> dict[str, TensorKind]:
    """The tensor types of a device, by name."""
    prefix = "torch" if device_type == "cpu" else f"torch.{device_type}"
    return {
        name: TensorKind(
            name,
            (),
            {
                "dtype": dtype,
                "device_type": device_type,
                "__module__": prefix,
                "__doc__": f"{dtype.name} tensors of given sizes or data (PyTorch's old form).",
            },
        )
        for name, dtype in NAMES.items()
    }


for _name, _kind in tensor_kinds("cpu").items():
    PUBLIC["", _name] = Public(_name, _kind, ("",), False, False, False)


def set_default_tensor_type(t: Any) -> None:
    """Set the dtype and device of new tensors by a tensor type; `set_default_dtype` is the new way.

    Example:
        >>> import adjoint as ad
        >>> ad.set_default_tensor_type(ad.DoubleTensor)
        >>> ad.tensor(1.5).dtype
        adjoint.float64
        >>> ad.set_default_tensor_type("torch.FloatTensor")
    """
    if isinstance(t, str):
        head, _, name = t.rpartition(".")
        device_type = "cuda" if head.endswith("cuda") else "cpu"
        dtype = NAMES.get(name)
    else:
        dtype, device_type = getattr(t, "dtype", None), getattr(t, "device_type", "cpu")
    if not isinstance(dtype, DType) or not dtype.is_floating_point:
        raise TypeError(
            f"set_default_tensor_type: expected a floating-point tensor type such as FloatTensor, "
            f"received {t!r}"
        )
    dt.set_default_dtype(dtype)
    OF_TYPE["device"] = device_type
    if device_type == "cuda":
        set_default_device("cuda")
