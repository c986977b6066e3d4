"""What copies of PyTorch's layers call inside its `nn.functional`, by those names."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import warn_user
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.nn import multi_head
from adjoint.engine.ops.nn.softmax_functions import implicit_dim
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import _reduction as _Reduction  # noqa: F401


def _mha_shape_check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Whether the inputs of attention have a batch; masks of other shapes are refused."""
    return multi_head.check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)


def _none_or_dtype(input: Tensor | None) -> DType | None:
    """The dtype of a tensor that may be left out."""
    if input is None or isinstance(input, Tensor):
        return None if input is None else input.dtype
    raise RuntimeError(f"_none_or_dtype: expected a tensor or None, received {type(input)}")


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: DType | None,
    other_name: str,
    target_type: DType,
    check_other: bool = True,
) -> Tensor | None:
    """A mask as numbers to add, of a dtype; says so where two masks are of different kinds."""
    if mask is None:
        return None
    if check_other and other_type is not None and mask.dtype is not other_type:
        warn_user(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type "
            "for both instead."
        )
    return multi_head.additive(mask, mask_name, zeros((), dtype=target_type, device=mask.device))


def _in_projection_packed(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None
) -> list[Tensor]:
    """Queries, keys and values by one weight (3E, E)."""
    return multi_head.project_packed(q, k, v, w, b)


def _in_projection(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    b_q: Tensor | None = None,
    b_k: Tensor | None = None,
    b_v: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Queries, keys and values, each by a weight of its own."""
    return tuple(multi_head.project_apart((q, k, v), (w_q, w_k, w_v), (b_q, b_k, b_v)))


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dimension softmax goes along where a call says none, with a warning."""
    return implicit_dim(name, None, ndim)


def _verify_batch_size(size: Any) -> None:
    """Refuse what leaves one value in each channel, of which there is no variance."""
    count = size[0]
    for length in size[2:]:
        count *= length
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )
