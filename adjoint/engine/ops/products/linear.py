"""The affine map of a linear layer, as one node."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.autocast import LOWERED
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Shape, is_tensor
from adjoint.engine.core.spec import Spec, same_shape
from adjoint.engine.ops.common.arguments import require_within
from adjoint.engine.ops.products.matmul import product

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _conj(x: Tensor) -> Tensor:
    return x.conj() if x.dtype.is_complex else x


def _weight_gradient(g: Tensor, x: Tensor, y_spec: Any) -> Tensor:
    if len(y_spec.shape) == 1:
        return (g.unsqueeze(-1) * _conj(x)).sum_to_size(y_spec.shape)
    # -1 says nothing where there are no features.
    count = prod(g.shape[:-1]) if 0 in y_spec.shape else -1
    rows = g.reshape((count, y_spec.shape[0]))
    return product(rows.transpose(0, 1), _conj(x).reshape((count, y_spec.shape[1])))


def _input_gradient(g: Tensor, y: Tensor, spec: Spec | None = None) -> Tensor:
    """The cotangent of x; where the dtype of x may be another one, `spec` is that of x."""
    if spec is not None and y.ndim == 2 and spec.shape and 0 not in spec.shape:
        rows = product(g.reshape((-1, g.shape[-1])), y)  # converted while it is one product
        return rows.to(spec.dtype).reshape(spec.shape)
    out = g.unsqueeze(-1) * _conj(y) if y.ndim == 1 else product(g, _conj(y))
    return out if spec is None else out.to(spec.dtype)


def _flops(shapes: Sequence[Shape], out: Shape) -> int:
    return 2 * prod(out) * shapes[1][-1] + (prod(out) if len(shapes) > 2 else 0)


# x (..., in), weight (out, in) or (in,), bias (out,) or ().
LINEAR = composite(
    "linear",
    lambda x, y, z=None: _compose(x, y, z),
    lambda g, y: _input_gradient(g, y),
    _weight_gradient,
    lambda g, z_spec: g.sum_to_size(z_spec.shape),
    native_check=True,  # `linear` checks shapes, the kernel dtypes
    infer_specs=lambda x, y, z=None: _spec(x, y, z),
    fragment="computed",
    of_rows=True,
    flops=_flops,
)


# The same under autocast: operands in any precision, computed in `dtype`.
LOW_LINEAR = composite(
    "autocast_linear",
    lambda x, y, z=None, *, dtype: _compose(*_lowered((x, y, z), dtype)),
    lambda g, y, x_spec, dtype: _input_gradient(g, y.to(dtype), x_spec),
    lambda g, x, y_spec, dtype: _weight_gradient(g, x.to(dtype), y_spec).to(y_spec.dtype),
    lambda g, z_spec: g.sum_to_size(z_spec.shape).to(z_spec.dtype),
    native_check=True,
    fragment="device",
    of_rows=True,
    flops=_flops,
)
LOWERED["linear"] = LOW_LINEAR


def _lowered(operands: tuple[Any, ...], dtype: Any) -> list[Any]:
    return [None if x is None else x.to(dtype) for x in operands]


def _spec(x: Spec, weight: Spec, bias: Spec | None) -> Spec | None:
    """What the usual case looks like."""
    if len(weight.shape) != 2 or 0 in x.shape or x[1:] != weight[1:]:
        return None
    if bias is not None and bias != weight._replace(shape=weight.shape[:1]):
        return None
    return x._replace(shape=(*x.shape[:-1], weight.shape[0]))


def bias_of_another_dtype(product: Any, bias: Any) -> str:
    """What is wrong with a bias whose dtype is not the product's."""
    return (
        f"linear: input and bias must have the same dtype, but got {product} and {bias}. "
        "Convert one with .to(...)."
    )


def _compose(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if bias is not None and bias.dtype is not x.dtype:
        raise DTypeError(bias_of_another_dtype(x.dtype, bias.dtype))
    plain = bias is None or bias.ndim < 2
    if x.ndim > 2 and weight.ndim == 2 and plain and x.device.type == "cuda" and 0 not in x.shape:
        # One product of rows, which adds the bias itself.
        rows = _compose(x.reshape((-1, x.shape[-1])), weight, bias)
        return rows.reshape((*x.shape[:-1], weight.shape[0]))
    out = product(x, weight.t())
    return out if bias is None else out + bias


@public(namespaces=("nn.functional",), out=True)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""An affine map of the last dimension: $y = x A^T + b$.

    Args:
        input: (..., in).
        weight: (out, in), or (in,).
        bias: (out,), or none.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.functional.linear(ad.ones(2, 3), ad.ones(1, 3), ad.ones(1))
        tensor([[4.],
                [4.]])
    """
    for name, value in (("input", input), ("weight", weight)):
        if not is_tensor(value):
            raise TypeError(
                f"linear(): argument '{name}' must be Tensor, not {type(value).__name__}"
            )
    if weight.ndim not in (1, 2) or not input.ndim:
        raise ShapeError(
            f"linear: expected an input with at least one dimension and a weight of one or two, "
            f"received {tuple(input.shape)} and {tuple(weight.shape)}"
        )
    if input.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: mat1 and mat2 shapes cannot be multiplied: input {tuple(input.shape)} has "
            f"{input.shape[-1]} features, weight {tuple(weight.shape)} wants {weight.shape[-1]}"
        )
    if bias is None:
        return LINEAR(input, weight)
    if not is_tensor(bias):
        raise TypeError(f"linear(): argument 'bias' must be Tensor, not {type(bias).__name__}")
    if not same_shape(bias.shape, weight.shape[:-1]):
        require_within("linear", "a bias", bias, (*input.shape[:-1], *weight.shape[:-1]))
    return LINEAR(input, weight, bias)
