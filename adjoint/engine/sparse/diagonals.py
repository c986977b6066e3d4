"""Sparse matrices of diagonals."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.layout import sparse_coo
from adjoint.engine.ops.index.index import INDEX
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.sparse.coo import make
from adjoint.engine.tensor.tensor import Tensor


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Any:
    """A sparse matrix with the rows of `diagonals` as its diagonals.

    Column j of the matrix takes element j of each diagonal that passes through it; an offset counts
    columns to the right of the main diagonal.

    Example:
        >>> import adjoint as ad
        >>> ad.sparse.spdiags(ad.arange(6).reshape(2, 3), ad.tensor([0, -1]), (3, 3)).to_dense()
        tensor([[0, 0, 0],
                [3, 1, 0],
                [0, 4, 2]])
    """
    if diagonals.ndim == 1:
        diagonals = diagonals.unsqueeze(0)
    steps = offsets.reshape((-1,)).tolist()
    if diagonals.ndim != 2 or diagonals.shape[0] != len(steps):
        raise ShapeError(
            f"spdiags: {len(steps)} offsets do not name the diagonals of {list(diagonals.shape)}"
        )
    if len(set(steps)) != len(steps):
        raise RuntimeError(f"spdiags: offsets must differ, received {steps}")
    rows, columns = shape
    places, elements = [], []
    for diagonal, step in zip(diagonals.unbind(0), steps, strict=True):
        start, stop = max(0, step), min(columns, rows + step, diagonal.shape[0])
        at = offsets.new_arange(max(stop, start))[start:]
        places.append(stack([at - step, at]))
        elements.append(INDEX(diagonal, at, dims=(0,)))
    sparse = make(cat(places, 1), cat(elements, 0), (rows, columns), coalesced=False)
    if layout is None or layout is sparse_coo:
        return sparse
    return sparse.coalesce().to_sparse(layout=layout)
