"""Products of float8: matrices of few bits, with one scale each or one to every row and column."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from adjoint.engine.core.dtype import (
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
)
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.ops.products.matmul import _need

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

LARGEST = {float8_e4m3fn: 448.0, float8_e5m2: 57344.0}  # by the dtypes of eight bits
FLOATS = (float32, bfloat16, float16, float64)


def _scaled_product(
    x: Tensor, y: Tensor, x_scale: Tensor, y_scale: Tensor, *bias: Tensor, dtype: DType, fast: bool
) -> Tensor:
    out = (x.to(float32) @ y.to(float32).mT) * x_scale * y_scale
    return (out + bias[0].to(float32) if bias else out).to(dtype)


# x (m, k) times y (n, k), whose rows are columns, of float8; x_scale () or (m, 1), y_scale () or
# (1, n), of float32; then perhaps a bias (n,). `fast`: sums may be rounded to fewer digits.
SCALED_PRODUCT = composite(
    "scaled_product",
    _scaled_product,
    operands=("x", "y", "x_scale", "y_scale", "*bias"),
    fragment="device",
    reads_float8=True,
    lies_in_rows=True,
)


@public(out=True)
def _scaled_mm(
    input: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: DType | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """The product of two matrices of float8, times their scales, plus a bias.

    Scales are single numbers, or (m, 1) and (1, n): one to each row of the first matrix and each
    column of the second. Sums are made in float32; a result of float8 is cut off at its range.

    >>> import adjoint as ad
    >>> x = ad.tensor([[1.0, 2.0], [3.0, 4.0]]).to(ad.float8_e4m3fn)
    >>> ad._scaled_mm(x, x.t(), ad.tensor(0.5), ad.tensor(1.0), out_dtype=ad.float32)
    tensor([[ 2.5000,  5.5000],
            [ 5.5000, 12.5000]])
    """
    name = "_scaled_mm"
    _need(name, "input", input, 2)
    _need(name, "mat2", mat2, 2)
    rows, columns = input.shape[0], mat2.shape[1]
    if input.shape[1] != mat2.shape[0]:
        raise ShapeError(
            f"{name}: mat_a and mat_b shapes cannot be multiplied ({rows}x{input.shape[1]} and "
            f"{mat2.shape[0]}x{columns})"
        )
    _check_scales(input, mat2, scale_a, scale_b)
    if bias is not None and tuple(bias.shape) != (columns,):
        raise ShapeError(f"{name}: Bias must be size {columns} but got {tuple(bias.shape)}")
    out = input.dtype if out_dtype is None else out_dtype
    if out not in LARGEST and out not in FLOATS:
        raise DTypeError(f"{name}: out_dtype must be a dtype of floats, received {out.name}")
    if scale_result is not None and out in LARGEST:
        raise NotImplementedError(
            f"{name}: scale_result of a result of float8 is not applied here. Ask for "
            "out_dtype=float32, multiply by it and convert."
        )
    single = scale_a.numel() == 1 and scale_b.numel() == 1
    scales = (s.reshape(()) if single else s for s in (scale_a, scale_b))
    rest = () if bias is None else (bias,)
    computed_in = float32 if out in LARGEST else out
    # Kernels read along rows of both, and no other kernel of a GPU copies float8.
    factors = input.contiguous(), mat2.mT.contiguous()
    result = SCALED_PRODUCT(*factors, *scales, *rest, dtype=computed_in, fast=use_fast_accum)
    return result.clamp(-LARGEST[out], LARGEST[out]).to(out) if out in LARGEST else result


def _check_scales(x: Tensor, y: Tensor, x_scale: Tensor, y_scale: Tensor) -> None:
    """Refuse what are no two matrices of float8 with a scale each, or one to rows and columns."""
    want = (x.shape[0], 1), (1, y.shape[1])
    single = x_scale.numel() == y_scale.numel() == 1
    fitting = single or (tuple(x_scale.shape), tuple(y_scale.shape)) == want
    floats = x_scale.dtype is float32 and y_scale.dtype is float32
    if x.dtype in LARGEST and y.dtype in LARGEST and floats and fitting:
        return
    _refuse(x, y, x_scale, y_scale)


def _refuse(x: Tensor, y: Tensor, x_scale: Tensor, y_scale: Tensor) -> NoReturn:
    raise ValueError(
        "_scaled_mm: Invalid scaling configuration. Both matrices should be of float8, scales of "
        f"float32: single numbers, or ({x.shape[0]}, 1) and (1, {y.shape[1]}). Received matrices "
        f"of {x.dtype.name} and {y.dtype.name}, scales of {x_scale.dtype.name} "
        f"{tuple(x_scale.shape)} and {y_scale.dtype.name} {tuple(y_scale.shape)}"
    )
