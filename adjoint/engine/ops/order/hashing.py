"""A fingerprint of a tensor's elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import float64, int64
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.reductions import Dims, reduced_shape, shift_reduction
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.reduce.extremes import refuse_complex, refuse_empty
from adjoint.engine.ops.reduce.reduction import all_dims

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _infer(x: Spec, dims: Dims, keepdim: bool) -> Spec:
    return Spec(reduced_shape(x.shape, dims, keepdim), int64, x.device)


# The exclusive or of the bits of int64 or float64 elements.
HASH_TENSOR = primitive(
    "hash_tensor", _infer, None, batched_params=shift_reduction, native_check=True
)


@public(method=True, out=True)
def hash_tensor(input: Tensor, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """The exclusive or over `dim` of the elements' bits, as 64-bit integers or floats.

    PyTorch gives the same bits as uint64, a type Adjoint does not have.
    """
    if mode != 0:
        raise RuntimeError(f"hash_tensor: unknown mode {mode}; only 0, exclusive or, is known")
    refuse_complex("hash_tensor", input)
    dims = all_dims("hash_tensor", dim, input.ndim)
    if 0 in input.shape and len(dims) == input.ndim:
        refuse_empty("hash_tensor", input.shape)
    x = input.to(float64 if input.dtype.is_floating_point else int64)
    return HASH_TENSOR(x, dims=dims, keepdim=keepdim)
