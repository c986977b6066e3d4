"""What distributions share: broadcasting of parameters, probabilities and logits, triangles."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Number
from typing import Any

from adjoint.engine.autodiff.tape.modes import enable_grad
from adjoint.engine.backends.array.interop import tensor
from adjoint.engine.core.dtype import get_default_dtype
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.core.spec import Size
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.random.random import rand
from adjoint.engine.ops.shape.dims import broadcast_tensors
from adjoint.engine.tensor.tensor import Tensor

euler_constant = 0.57721566490153286060
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def concrete_values() -> bool:
    """Whether elements can be looked at: not in a capture, nor under a transform."""
    return CONTEXT.capture is None and not CONTEXT.levels


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape.

    Numbers take dtype and device of the first tensor, or the default dtype.
    """
    if not all(isinstance(v, (Tensor, Number)) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            f"__torch_function__; received {', '.join(type(v).__name__ for v in values)}"
        )
    first = next((v for v in values if isinstance(v, Tensor)), None)
    options: dict[str, Any] = {
        "dtype": get_default_dtype() if first is None else first.dtype,
        "device": None if first is None else first.device,
    }
    tensors = [v if isinstance(v, Tensor) else tensor(v, **options) for v in values]
    return tuple(broadcast_tensors(*tensors))


def all_numbers(*values: Any) -> bool:
    """Whether no parameter is a tensor, so that the batch shape is ()."""
    return all(isinstance(v, Number) for v in values)


def standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Samples of the standard normal law."""
    return zeros(tuple(shape), dtype=dtype, device=device).normal_()


_standard_normal = standard_normal  # the name other libraries import it by


def uniform_like(shape: Any, like: Tensor) -> Tensor:
    """Uniform numbers on [0, 1) with dtype and device of a tensor."""
    return rand(tuple(shape), dtype=like.dtype, device=like.device)


def open_uniform(shape: Any, like: Tensor) -> Tensor:
    """Uniform numbers of the open interval (0, 1)."""
    limits = finfo(like.dtype)
    return uniform_like(shape, like).clamp(min=limits.tiny, max=1 - limits.eps)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept off 0 and 1 by the dtype's precision."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits (binary), or of unnormalised logarithms along the last dimension."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logits of probabilities, kept finite."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return x.logaddexp(x.new_zeros(()))


def log_of_bernoulli(logits: Tensor, value: Tensor) -> Tensor:
    """The logarithm of the probability of a 0 or 1 (or of anything between, linearly)."""
    # What is likely has a small logarithm, which is not made of two large numbers.
    negative = logits < 0
    size = where(negative, logits, -logits)
    return where(negative, value, value - 1) * logits - softplus(size)


def sum_rightmost(value: Any, dim: int) -> Any:
    """Sum over the last `dim` dimensions."""
    if not dim or not isinstance(value, Tensor):
        return value
    return value.reshape((*value.shape[: value.ndim - dim], -1)).sum(-1)


_sum_rightmost = sum_rightmost


class lazy_property:
    """An attribute computed from the others on first use, then kept."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        if concrete_values():  # a symbolic value must not outlive its trace
            instance.__dict__[self.__name__] = value
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of square matrices, row by row."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    index = _triangle(n, diag)
    return mat.reshape((*mat.shape[:-2], n * n)).index_select(-1, tensor(index, device=mat.device))


def _triangle(n: int, diag: int) -> list[int]:
    return [i * n + j for i in range(n) for j in range(n) if j <= i + diag]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Square matrices whose lower triangle, row by row, is a vector."""
    length = vec.shape[-1]
    inside = (1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)
    exact = (-(1 + 2 * diag) + math.sqrt(inside)) / 2
    n = round(exact)
    if abs(exact - n) > 1e-8 or n < 0:
        raise ShapeValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    index = tensor(_triangle(n, diag), device=vec.device)
    flat = vec.new_zeros((*vec.shape[:-1], n * n)).index_copy(-1, index, vec)
    return flat.reshape((*vec.shape[:-1], n, n))


def size(*parts: Any) -> Size:
    """Shapes joined to one."""
    return Size(n for part in parts for n in part)


__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]
