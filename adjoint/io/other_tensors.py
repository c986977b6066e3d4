"""Quantised and nested tensors, in files as PyTorch writes them."""

from __future__ import annotations

from typing import Any

from adjoint.engine import assembly
from adjoint.engine.backends.array.interop import as_tensor, tensor
from adjoint.engine.backends.array.memory.strides import span
from adjoint.engine.core.dtype import DType, float32, float64, int8, int32, int64, uint8
from adjoint.engine.tensor.tensor import Tensor
from adjoint.io.storages import require_elements

# Storages of quantised tensors, by the whole numbers they hold.
QUANTIZED_STORAGES: dict[DType, str] = {
    int8: "QInt8Storage",
    uint8: "QUInt8Storage",
    int32: "QInt32Storage",
}
SCHEMES = ("per_tensor_affine", "per_channel_affine")  # those that tensors have
NAMED_SCHEMES = frozenset(
    (*SCHEMES, "per_tensor_symmetric", "per_channel_symmetric", "per_channel_affine_float_qparams")
)


def scheme(name: str) -> Any:
    """A scheme by its name: files know it, this layer does not."""
    return assembly.find(name)


def is_quantized(value: Any) -> bool:
    """Whether a value is a quantised tensor, which is no `Tensor`."""
    return getattr(type(value), "is_quantized", None) is True


def steps_of(quantised: Any) -> tuple[Any, ...]:
    """What a file says of a quantised tensor's steps: the scheme, scales, zero points, the axis."""
    named = quantised.qscheme()
    if not named.per_channel:
        return named, quantised.q_scale(), quantised.q_zero_point()
    scales, zeros = quantised.q_per_channel_scales(), quantised.q_per_channel_zero_points()
    return named, scales.to(float64), zeros.to(int64), quantised.q_per_channel_axis()


def quantized(ints: Tensor, steps: Any) -> Any:
    """A quantised tensor of whole numbers and what its file says of their steps."""
    if not isinstance(steps, tuple) or len(steps) < 3 or ints.dtype not in QUANTIZED_STORAGES:
        raise TypeError("expected whole numbers and a scheme with scales and zero points")
    known = {scheme(name): name for name in SCHEMES}
    name = known.get(steps[0]) if isinstance(steps[0], type(scheme(SCHEMES[0]))) else None
    if name is None:
        raise TypeError(f"tensors quantised otherwise than {' or '.join(SCHEMES)} are not loaded")
    library, device = assembly.find("quantization"), ints.device
    if name == "per_tensor_affine":
        scale, zero, axis = *steps[1:], None
        if type(scale) not in (int, float) or type(zero) is not int or abs(zero) >= 1 << 31:
            raise TypeError("expected a number as scale and a whole number as zero point")
    else:
        scale, zero, axis = steps[1:]
        parts = [part for part in (scale, zero) if isinstance(part, Tensor)]
        require_elements("a tensor quantised by channels", *parts)
        if type(axis) is not int or not 0 <= axis < ints.ndim:
            raise ValueError(f"channels along a dimension that {ints.ndim} dimensions have not")
    scale = as_tensor(scale, dtype=float32, device=device)
    zero = as_tensor(zero, dtype=int32, device=device)
    wanted = () if axis is None else (ints.shape[axis],)
    if tuple(scale.shape) != wanted or tuple(zero.shape) != wanted:
        raise ValueError(
            f"scales {tuple(scale.shape)} and zero points {tuple(zero.shape)} do not fit "
            f"{tuple(ints.shape)}"
        )
    return library.QuantizedTensor(ints, scale, zero, axis)


# -- nested tensors -------------------------------------------------------------------------------


def parts_of(nested: Any) -> tuple[Tensor, ...]:
    """What a file says of a nested tensor: elements, and shape, strides and place of each row."""
    values = nested.detach().values().contiguous()
    rows = nested.unbind()
    if any(row.shape[1:] != values.shape[1:] for row in rows):
        raise TypeError(
            "save: cannot save a nested tensor whose ragged dimension is not the second. Save it "
            "transposed back."
        )
    shapes = tensor([tuple(row.shape) for row in rows], dtype=int64)
    strides = tensor([tuple(values.stride())] * len(rows), dtype=int64)
    places = nested.offsets()[:-1].to("cpu") * values.stride(0)
    return values.reshape(-1), shapes, strides, places


def rebuild_nested_tensor(buffer: Tensor, sizes: Any, strides: Any, storage_offsets: Any) -> Any:
    """A nested tensor whose rows lie in a buffer, each within its bounds."""
    require_elements("a nested tensor", sizes, strides, storage_offsets)
    shapes, steps = ([tuple(row) for row in x.tolist()] for x in (sizes, strides))
    places, room = storage_offsets.tolist(), buffer.numel()
    if buffer.ndim != 1 or not len(shapes) == len(steps) == len(places) > 0:
        raise ValueError("expected elements in a row, and shape, strides and place of each part")
    for shape, step, place in zip(shapes, steps, places, strict=True):
        if min(*shape, *step, place) < 0 or place + span(shape, step) > room:
            raise ValueError(f"a part {shape} at {place} exceeds {room} elements")
    rows = [
        buffer.as_strided(shape, step, place)
        for shape, step, place in zip(shapes, steps, places, strict=True)
    ]
    return assembly.find("nested").as_nested_tensor(rows)
