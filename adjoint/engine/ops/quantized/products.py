"""Products of whole numbers, and the layers that are made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import float32, int8, int16, int32, uint8
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import composite, device_of, primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec, broadcast_shapes
from adjoint.engine.ops.products.linear import linear
from adjoint.engine.ops.products.matmul import _need
from adjoint.engine.ops.shape.join import stack

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _infer(x: Spec, y: Spec) -> Spec:
    if x.dtype is not int8 or y.dtype is not int8:
        raise DTypeError(
            f"integer_matmul: expected two operands of int8, received {x.dtype.name} and "
            f"{y.dtype.name}"
        )
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            f"integer_matmul: rows of {x.shape} cannot be multiplied with columns of "
            f"{(*y.shape[:-2], y.shape[-1], y.shape[-2])}: {x.shape[-1]} != {y.shape[-1]}"
        )
    batch = broadcast_shapes("integer_matmul", x.shape[:-2], y.shape[:-2])
    return Spec((*batch, x.shape[-2], y.shape[-2]), int32, device_of("integer_matmul", (x, y)))


def _batched(size: int, x: Tensor, y: Tensor) -> Tensor:
    rank = max(x.ndim, y.ndim)

    def pad(t: Tensor) -> Tensor:
        return t.reshape((t.shape[0], *(1,) * (rank - t.ndim), *t.shape[1:]))

    return INTEGER_MATMUL(pad(x), pad(y))


# (..., m, k) times (..., n, k), the second's rows being columns: as weights lie, and as dot
# instructions want them. Of int8, summed in int32 (which wraps beyond a depth of 131,071).
INTEGER_MATMUL: Record = primitive(
    "integer_matmul", _infer, None, None, batch=_batched, fragment="device"
)


def integer_matmul(x: Tensor, y: Tensor) -> Tensor:
    """The product of matrices of int8, in int32; batch dimensions broadcast.

    >>> import adjoint as ad
    >>> x = ad.full((1, 3), 100, dtype=ad.int8)
    >>> integer_matmul(x, x.t())
    tensor([[30000]], dtype=adjoint.int32)
    """
    if x.ndim < 2 or y.ndim < 2:
        raise ShapeError(
            f"integer_matmul: expected two matrices or batches of them, received "
            f"{tuple(x.shape)} and {tuple(y.shape)}"
        )
    return INTEGER_MATMUL(x, y.transpose(-2, -1))


@public(out=True)
def _int_mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices of int8, in int32."""
    _need("_int_mm", "input", input, 2)
    _need("_int_mm", "mat2", mat2, 2)
    return INTEGER_MATMUL(input, mat2.transpose(0, 1))


# -- layers -------------------------------------------------------------------------------------


def scaled(
    sums: Tensor, x_scale: Tensor, x_zero: Tensor, scale: Tensor, weight_sums: Tensor
) -> Tensor:
    """What sums of products stand for, once the zero point's share is taken off."""
    exact = sums - x_zero.to(int32) * weight_sums
    return exact.to(float32) * (x_scale * scale)


def signed(x: Tensor, zero: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers of int8 or uint8 as int8, and their zero point."""
    if x.dtype is uint8:
        return (x.to(int16) - 128).to(int8), zero - 128
    return x, zero


def without_zero(sums: Tensor, rows: Tensor, x_zero: Tensor, zero: Tensor) -> Tensor:
    """Sums of products with the share of the weight's zero points taken off."""
    of_rows = rows.sum(-1, keepdim=True, dtype=int32) - x_zero.to(int32) * rows.shape[-1]
    return sums - of_rows * zero.to(int32)


def _quantized_linear(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    scale: Tensor,
    weight_sums: Tensor,
    *rest: Tensor,
    affine: bool,
) -> Tensor:
    x, x_zero = signed(x, x_zero)
    rows = x.reshape((-1, x.shape[-1])) if x.ndim != 2 else x
    sums = INTEGER_MATMUL(rows, weight)
    if x.ndim != 2:
        sums = sums.reshape((*x.shape[:-1], weight.shape[0]))
    bias = rest[1:] if affine else rest
    if affine:
        sums = without_zero(sums, x, x_zero, rest[0])
    out = scaled(sums, x_scale, x_zero, scale, weight_sums)
    return out + bias[0] if bias else out


# x (..., in) of int8 or uint8 and weight (out, in) of int8; x_scale, x_zero (..., 1) or ();
# scale, weight_sums (out,); then the weight's zero points (out,) if it is affine, and perhaps a
# bias (out,).
QUANTIZED_LINEAR = composite(
    "quantized_linear",
    _quantized_linear,
    operands=("x", "x_scale", "x_zero", "weight", "scale", "weight_sums", "*rest"),
)


def quantized_linear(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    scale: Tensor,
    weight_sums: Tensor,
    bias: Tensor | None = None,
    zero: Tensor | None = None,
) -> Tensor:
    """A linear layer of whole numbers, summed exactly.

    (x - x_zero) (W - zero)^T x_scale scale + bias; `weight_sums` are the sums of the weight's rows,
    in int32.

    >>> import adjoint as ad
    >>> x, w = ad.tensor([[2, 4]], dtype=ad.int8), ad.tensor([[1, 1]], dtype=ad.int8)
    >>> half, one = ad.tensor(0.5), ad.tensor(1)
    >>> quantized_linear(x, half, one, w, ad.ones(1), w.sum(1, dtype=ad.int32))
    tensor([[2.]])
    """
    if x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"quantized_linear: input {tuple(x.shape)} has {x.shape[-1]} features, weight "
            f"{tuple(weight.shape)} wants {weight.shape[-1]}"
        )
    rest = [operand for operand in (zero, bias) if operand is not None]
    return QUANTIZED_LINEAR(
        x, x_scale, x_zero, weight, scale, weight_sums, *rest, affine=zero is not None
    )


# -- packed weights -----------------------------------------------------------------------------


def unpacked(weight: Tensor) -> Tensor:
    """Two numbers of four bits from each byte, the lower half first."""
    low, high = weight & 15, weight >> 4
    return stack([low, high], -1).reshape((*weight.shape[:-1], 2 * weight.shape[-1]))


def _dequantize_groups(
    weight: Tensor, scale: Tensor, *zero: Tensor, bits: int, group: int
) -> Tensor:
    steps = unpacked(weight) if bits == 4 else weight
    shape = tuple(steps.shape)
    parts = steps.reshape((*shape[:-1], shape[-1] // group, group)).to(float32)
    if zero:
        parts = parts - zero[0].to(float32).unsqueeze(-1)
    return (parts * scale.to(float32).unsqueeze(-1)).reshape(shape).contiguous()


# weight (..., in) of int8, or (..., in / 2) bytes of two; scale and zero (..., in / group)
DEQUANTIZE_GROUPS = composite(
    "dequantize_groups",
    _dequantize_groups,
    operands=("weight", "scale", "*zero"),
    fragment="device",
)


def dequantize_groups(
    weight: Tensor, scale: Tensor, zero: Tensor | None, bits: int, group: int
) -> Tensor:
    """The real weights: (q - zero) scale, where each `group` of a row has its own two.

    >>> import adjoint as ad
    >>> packed = ad.tensor([[0x98, 0x0F]], dtype=ad.uint8)
    >>> dequantize_groups(packed, ad.tensor([[0.5, 1.0]]), ad.full((1, 2), 8), 4, 2)
    tensor([[ 0.0000,  0.5000,  7.0000, -8.0000]])
    """
    check_groups("dequantize_groups", weight, scale, zero, bits, group)
    rest = () if zero is None else (zero,)
    return DEQUANTIZE_GROUPS(weight, scale, *rest, bits=bits, group=group)


def check_groups(
    name: str, weight: Tensor, scale: Tensor, zero: Tensor | None, bits: int, group: int
) -> None:
    """Refuse weights, scales and groups that do not fit together."""
    kinds = {4: (uint8,), 8: (int8,)}
    if bits not in kinds or weight.dtype not in kinds[bits]:
        raise DTypeError(
            f"{name}: weights of 4 bits are packed in uint8, those of 8 are int8; received "
            f"{bits} bits in {weight.dtype.name}"
        )
    features = weight.shape[-1] * (8 // bits)
    want = (*weight.shape[:-1], features // group if group else 0)
    if group < 1 or features % group or tuple(scale.shape) != want:
        raise ShapeError(
            f"{name}: {features} features in groups of {group} need scales of {want}, received "
            f"{tuple(scale.shape)}"
        )
    if zero is not None and tuple(zero.shape) != want:
        raise ShapeError(f"{name}: zero points must be {want}, received {tuple(zero.shape)}")


def _grouped_linear(
    x: Tensor, weight: Tensor, scale: Tensor, *rest: Tensor, bits: int, group: int, biased: bool
) -> Tensor:
    zero, bias = (rest[:-1], rest[-1]) if biased else (rest, None)
    real = DEQUANTIZE_GROUPS(weight, scale, *zero, bits=bits, group=group).to(x.dtype)
    return linear(x, real, None if bias is None else bias.to(x.dtype))


# x (..., in); weight, scale and zero as above; then perhaps a bias.
GROUPED_LINEAR = composite(
    "grouped_linear",
    _grouped_linear,
    operands=("x", "weight", "scale", "*rest"),
    fragment="device",
    lies_in_rows=True,
)


def grouped_linear(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    bias: Tensor | None,
    bits: int,
    group: int,
) -> Tensor:
    """A linear layer whose weight is kept in 4 or 8 bits, its groups scaled: x W^T + bias.

    >>> import adjoint as ad
    >>> w, s = ad.tensor([[1, 2]], dtype=ad.int8), ad.tensor([[0.5]])
    >>> grouped_linear(ad.ones(1, 2), w, s, None, None, 8, 2)
    tensor([[1.5000]])
    """
    check_groups("grouped_linear", weight, scale, zero, bits, group)
    features = weight.shape[-1] * (8 // bits)
    if x.shape[-1] != features:
        raise ShapeError(
            f"grouped_linear: input {tuple(x.shape)} has {x.shape[-1]} features, the weight wants "
            f"{features}"
        )
    rest: list[Any] = [operand for operand in (zero, bias) if operand is not None]
    return GROUPED_LINEAR(x, weight, scale, *rest, bits=bits, group=group, biased=bias is not None)
