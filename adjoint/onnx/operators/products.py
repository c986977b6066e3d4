"""Operators of matrices: products, Einstein sums, determinants."""

from __future__ import annotations

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.table import operator
from adjoint.onnx.types import Value


def matmul_any(a: Tensor, b: Tensor) -> Tensor:
    """A matrix product, of integers too."""
    return ad.matmul(a, b)


@operator("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Matrix product, batched over leading dimensions."""
    return matmul_any(a, b)


@operator("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Value = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 0,
) -> Tensor:
    """alpha A B + beta C."""
    a = a.transpose(0, 1) if transA else a
    b = b.transpose(0, 1) if transB else b
    out = ad.matmul(a, b)
    out = out if alpha == 1.0 else (alpha * out).to(out.dtype)
    if c is None:
        return out
    return out + (c if beta == 1.0 else (beta * c).to(c.dtype))


@operator("Einsum")
def einsum(*inputs: Tensor, equation: str) -> Tensor:
    """Products and sums over named dimensions."""
    return ad.einsum(equation.replace(" ", ""), *inputs)


@operator("Det")
def det(x: Tensor) -> Tensor:
    """Determinants of the last two dimensions."""
    return ad.det(x)
