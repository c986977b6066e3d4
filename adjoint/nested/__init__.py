"""Nested tensors of jagged layout: PyTorch's `torch.nested`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.layout import jagged, strided
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nested.tensor import NestedTensor as NestedTensor
from adjoint.ops import aten

__all__ = [
    "NestedTensor",
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def as_nested_tensor(
    ts: Any, dtype: Any = None, device: Any = None, layout: Any = None
) -> NestedTensor:
    """Rows as one nested tensor, on the tape where they are.

    Args:
        ts: tensors that differ in their first size only, or a tensor, whose rows they are.
        dtype: of the result; the rows' unless given.
        device: of the result; the rows' unless given.
        layout: `jagged`, whatever is said: rows lie one after the other.
    """
    if layout not in (None, jagged, strided):
        raise RuntimeError(f"nested: the layout is jagged, received {layout}.")
    if isinstance(ts, NestedTensor):
        values = ts._rows.to(device=device or ts.device, dtype=dtype or ts.dtype)
        return ts._like(values)
    rows = list(ts.unbind(0) if isinstance(ts, Tensor) else ts)
    if not rows or not all(isinstance(row, Tensor) and row.ndim for row in rows):
        raise ShapeError("nested: expected tensors of at least one dimension, one or more.")
    if len({tuple(row.shape[1:]) for row in rows}) > 1:
        shapes = [tuple(row.shape) for row in rows]
        raise ShapeError(f"nested: rows may differ in their first size only, received {shapes}.")
    values = aten.cat(rows)
    if dtype is not None or device is not None:
        values = values.to(device=device or values.device, dtype=dtype or values.dtype)
    ends = aten.tensor([0, *(len(row) for row in rows)], device=values.device).cumsum(0)
    return NestedTensor(values, ends)


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """Rows copied into a nested tensor, which is a leaf."""
    rows = [(t if isinstance(t, Tensor) else aten.tensor(t)).detach() for t in tensor_list]
    return as_nested_tensor(rows, dtype, device, layout).requires_grad_(requires_grad)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """Values that lie one after the other, and where each row begins (or how long it is)."""
    if jagged_dim not in (None, 1):
        raise NotImplementedError("nested_tensor_from_jagged: the ragged dimension is 1.")
    if offsets is not None and lengths is not None:
        raise NotImplementedError("nested_tensor_from_jagged: rows with gaps between them.")
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged: give offsets or lengths.")
        offsets = aten.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    if int(offsets[0]) != 0 or int(offsets[-1]) != len(values) or bool((offsets.diff() < 0).any()):
        raise RuntimeError(
            f"nested_tensor_from_jagged: offsets rise from 0 to {len(values)}, the number of "
            f"values; received {offsets.tolist()[:20]}."
        )
    return NestedTensor(values, offsets)


def to_padded_tensor(
    input: NestedTensor, padding: float, output_size: Sequence[int] | None = None, out: Any = None
) -> Tensor:
    """The rows in one tensor, each filled up to the longest (or to a size)."""
    padded = input.to_padded_tensor(padding, output_size)
    if out is None:
        return padded
    out.resize_(padded.shape)
    return out.copy_(padded)


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = strided) -> Any:
    """A part of each row, (B, T, ...) -> (B, *, ...).

    Args:
        tensor: the rows.
        dim: 1.
        start: where each part begins: a number, or one for each row.
        length: how long each is: a number, or one for each row.
        layout: `jagged`; otherwise it is `Tensor.narrow`.

    Example:
        >>> import adjoint as ad
        >>> rows = ad.arange(8).reshape(2, 4)
        >>> parts = narrow(rows, 1, ad.tensor([0, 1]), ad.tensor([2, 3]), layout=ad.jagged)
        >>> [row.tolist() for row in parts.unbind()]
        [[0, 1], [5, 6, 7]]
    """
    whole = isinstance(start, int) and isinstance(length, int)
    if layout is not jagged:
        if not whole:
            raise RuntimeError(
                "nested.narrow: starts and lengths for each row are of the jagged layout"
            )
        return tensor.narrow(dim, start, length)
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    count, size = int(tensor.shape[0]), int(tensor.shape[1])
    starts, lengths = (
        aten.as_tensor(part, device=tensor.device).expand(count).tolist()
        for part in (start, length)
    )
    for first, long in zip(starts, lengths, strict=True):
        if first < 0 or long < 0 or first + long > size:
            raise RuntimeError(
                f"nested.narrow: a part from {first} of length {long} is not in {size} entries"
            )
    rows = zip(tensor.unbind(0), starts, lengths, strict=True)
    return as_nested_tensor([row[first : first + long] for row, first, long in rows])


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """The elements of each row where a mask is True, (..., T) -> (rows, *).

    Example:
        >>> import adjoint as ad
        >>> x = ad.tensor([[1, 2], [3, 4]])
        >>> [row.tolist() for row in masked_select(x, x != 2).unbind()]
        [[1], [3, 4]]
    """
    if mask.dtype is not bool_:
        raise RuntimeError(f"nested.masked_select: expected a mask of bool, received {mask.dtype}")
    if isinstance(tensor, NestedTensor) or isinstance(mask, NestedTensor):
        raise NotImplementedError("nested.masked_select: expected dense tensors")
    tensor, mask = aten.broadcast_tensors(tensor, mask)
    counts = mask.sum(-1).reshape(-1)
    ends = aten.cat([counts.new_zeros(1), counts.cumsum(0)])
    return NestedTensor(tensor.masked_select(mask), ends)
