"""Asking how dtypes combine: result_type, promote_types, can_cast."""

from __future__ import annotations

from typing import Any

from numpy import generic

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.tensor.tensor import Tensor


@public()
def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype an operation on two tensors or numbers gives.

    >>> import adjoint as ad
    >>> ad.result_type(ad.tensor([1], dtype=ad.uint8), 1.5)
    adjoint.float32
    """
    if isinstance(tensor1, generic):  # NumPy's
        tensor1 = tensor1.item()
    if isinstance(tensor2, generic):
        tensor2 = tensor2.item()
    return common_dtype((tensor1, tensor2))


@public()
def promote_types(type1: DType, type2: DType) -> DType:
    """The smallest dtype both convert to."""
    if type1.__class__ is DType is type2.__class__:
        known = dt.PROMOTED.get((type1, type2))
        if known is not None:
            return known
    name = "promote_types"
    return dt.promote_types(dt.as_dtype(name, type1), dt.as_dtype(name, type2))


@public()
def can_cast(from_: DType, to: DType) -> bool:
    """Whether promotion rules allow writing a result of one dtype into another."""
    return dt.can_cast(dt.as_dtype("can_cast", from_), dt.as_dtype("can_cast", to))


def typename(obj: Any, /) -> str:
    """The name of a value's type, of a tensor such as "torch.FloatTensor".

    >>> import adjoint as ad
    >>> ad.typename(ad.ones(1)), ad.typename(3)
    ('torch.FloatTensor', 'int')
    """
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"
