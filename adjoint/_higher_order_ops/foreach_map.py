"""A function of tensors, for the tensors of lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def foreach_map(op: Callable[..., Any], *operands: Any, **kwargs: Any) -> Any:
    """`op` for the first elements of all lists, then for the second; other operands go to each.

    Compiled, it is fused as any other code is.

    Example:
        >>> import adjoint as ad
        >>> foreach_map(ad.add, [ad.ones(1), ad.zeros(1)], [ad.ones(1), ad.ones(1)], alpha=3)
        [tensor([4.]), tensor([3.])]
    """
    lengths = {len(x) for x in operands if isinstance(x, (list, tuple))}
    if not lengths:
        return op(*operands, **kwargs)
    if len(lengths) > 1:
        raise RuntimeError(
            f"foreach_map: lists must be of one length, but got lengths {sorted(lengths)}"
        )
    (n,) = lengths
    rows = [x if isinstance(x, (list, tuple)) else [x] * n for x in operands]
    return [op(*row, **kwargs) for row in zip(*rows, strict=True)]
