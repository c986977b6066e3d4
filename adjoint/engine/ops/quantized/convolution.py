"""Convolutions of whole numbers."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.annotations import complete
from adjoint.engine.core.dtype import int8, int16
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.ops.image.convolution import Shape
from adjoint.engine.ops.image.convolution_functions import expanded
from adjoint.engine.ops.quantized.products import INTEGER_MATMUL, scaled, signed, without_zero

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

complete(globals())


def _padded(x: Tensor, zero: Tensor, padding: Shape) -> Tensor:
    """x with what stands for zero around it."""
    if not any(padding):
        return x
    widths = [(0, 0), (0, 0), *[(p, p) for p in padding]]
    point = zero.to(int16)
    return ((x.to(int16) - point).constant_pad(widths, 0) + point).to(int8)


def windows(x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Tensor:
    """(N, C, S...) -> (N, C, L..., K...), as views."""
    for d, (k, s, apart) in enumerate(zip(kernel, stride, dilation, strict=True), 2):
        x = x.unfold(d, apart * (k - 1) + 1, s)[..., ::apart]
    return x


def _quantized_convolution(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    scale: Tensor,
    weight_sums: Tensor,
    *rest: Tensor,
    affine: bool,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Tensor:
    x, x_zero = signed(x, x_zero)
    rank, count, channels = len(stride), x.shape[0], weight.shape[0]
    seen = windows(_padded(x, x_zero, padding), weight.shape[2:], stride, dilation)
    places = tuple(seen.shape[2 : 2 + rank])
    depth = prod(weight.shape[1:])
    # (N, G, C/G, L..., K...) -> (G, N L, C/G K)
    seen = seen.reshape((count, groups, weight.shape[1], *seen.shape[2:]))
    order = (1, 0, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank))
    rows = seen.permute(order).reshape((groups, count * prod(places), depth))
    filters = weight.reshape((groups, channels // groups, depth))
    sums = INTEGER_MATMUL(rows, filters)  # (G, N L, O/G)
    bias = rest[1:] if affine else rest
    if affine:
        zero = rest[0].reshape((groups, 1, channels // groups))
        sums = without_zero(sums, rows, x_zero, zero)
    sums = sums.reshape((groups, count, *places, channels // groups))
    sums = sums.permute((1, *range(2, 2 + rank), 0, 2 + rank))
    sums = sums.reshape((count, *places, channels))
    out = scaled(sums, x_scale, x_zero, scale, weight_sums)
    out = out + bias[0] if bias else out
    return out.movedim(-1, 1).contiguous()


# x (N, C, ...) of int8 or uint8, weight (O, C / groups, ...) of int8; x_scale, x_zero ();
# scale, weight_sums (O,); then the weight's zero points (O,) if it is affine, and perhaps a bias.
QUANTIZED_CONVOLUTION = composite(
    "quantized_convolution",
    _quantized_convolution,
    operands=("x", "x_scale", "x_zero", "weight", "scale", "weight_sums", "*rest"),
)


def quantized_convolution(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    scale: Tensor,
    weight_sums: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    zero: Tensor | None = None,
) -> Tensor:
    """A convolution of whole numbers, summed exactly, as the real numbers they stand for.

    >>> import adjoint as ad
    >>> x, w = ad.ones(1, 1, 3, 3, dtype=ad.int8), ad.ones(1, 1, 3, 3, dtype=ad.int8)
    >>> one, none = ad.tensor(1.0), ad.tensor(0)
    >>> quantized_convolution(x, one, none, w, ad.ones(1), ad.tensor([9], dtype=ad.int32))
    tensor([[[[9.]]]])
    """
    name, rank = "quantized_convolution", weight.ndim - 2
    if x.ndim != weight.ndim or x.shape[1] != weight.shape[1] * groups:
        raise ShapeError(
            f"{name}: given groups={groups} and a weight of {tuple(weight.shape)}, expected "
            f"(N, {weight.shape[1] * groups}, ...), received {tuple(x.shape)}"
        )
    geometry = {
        "stride": expanded(name, "stride", stride, rank),
        "padding": expanded(name, "padding", padding, rank),
        "dilation": expanded(name, "dilation", dilation, rank),
    }
    rest = [operand for operand in (zero, bias) if operand is not None]
    return QUANTIZED_CONVOLUTION(
        x,
        x_scale,
        x_zero,
        weight,
        scale,
        weight_sums,
        *rest,
        affine=zero is not None,
        **geometry,
        groups=groups,
    )
