"""Operations whose results are of a wider dtype than their operands."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.tensor.tensor import Tensor


def out_dtype(op: Any, output_dtype: DType, /, *args: Any) -> Any:
    """The operation on its operands in the dtype of the result.

    Example:
        >>> import adjoint as ad
        >>> x = ad.tensor([[100, 100]], dtype=ad.int8)
        >>> out_dtype(ad.ops.aten.mm.default, ad.int32, x, x.t())
        tensor([[20000]], dtype=adjoint.int32)
    """
    return op(*(x.to(output_dtype) if isinstance(x, Tensor) else x for x in args))
