"""Matrix products of groups: one matrix for each run of rows, as in mixtures of experts."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import int32
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.ops.nn.common import FUNCTIONAL
from adjoint.engine.ops.shape.join import cat, stack

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _check(mat_a: Tensor, mat_b: Tensor, offs: Any, bias: Any) -> None:
    shapes = f"received {list(mat_a.shape)} and {list(mat_b.shape)}"
    if mat_a.ndim not in (2, 3) or mat_b.ndim not in (2, 3):
        raise ShapeError(f"grouped_mm: operands must be 2D or 3D, {shapes}")
    if (offs is None) != (mat_a.ndim == mat_b.ndim == 3):
        raise ShapeError(
            "grouped_mm: offs must be given if there is a 2D operand, and not if both are 3D, "
            f"{shapes}"
        )
    if offs is not None and (offs.dtype is not int32 or offs.ndim != 1):
        raise DTypeError(
            f"grouped_mm: offs must be a vector of int32, received {offs.dtype.name} of "
            f"{list(offs.shape)}"
        )
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise ShapeError(f"grouped_mm: contraction dimensions must match, {shapes}")
    groups = {m.shape[0] for m in (mat_a, mat_b) if m.ndim == 3}
    groups |= set() if offs is None else {offs.shape[0]}
    if len(groups) > 1:
        raise ShapeError(f"grouped_mm: as many groups as offs must be given, {shapes}")
    if bias is not None:
        raise RuntimeError("grouped_mm: a bias is not supported. Add it to the result.")


@public(namespaces=FUNCTIONAL)
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """Products of groups of rows, columns or slices of two operands.

    Args:
        mat_a, mat_b: (M, K) and (G, K, N): rows of the first in G runs, each with a matrix of its
            own; (G, M, K) and (K, N): columns of the second in runs; (M, K) and (K, N): the
            contraction in runs, which gives (G, M, N); (G, M, K) and (G, K, N): G products.
        offs: (G,) int32, where each run ends. What lies beyond the last gives zeros.

    Example:
        >>> import adjoint as ad
        >>> tokens, experts = ad.ones(3, 2), ad.stack([ad.eye(2), 5 * ad.eye(2)])
        >>> ends = ad.tensor([2, 3], dtype=ad.int32)
        >>> ad.nn.functional.grouped_mm(tokens, experts, offs=ends)
        tensor([[1., 1.],
                [1., 1.],
                [5., 5.]])
    """
    _check(mat_a, mat_b, offs, bias)
    out = mat_a @ mat_b if offs is None else _by_runs(mat_a, mat_b, offs)
    return out if out_dtype is None else out.to(out_dtype)


def _rows(a: Tensor, b: Tensor, ends: tuple[int, ...]) -> Tensor:
    rows = [a[i:j] @ b[g] for g, (i, j) in enumerate(pairwise([0, *ends]))]
    left = a.shape[0] - ends[-1]
    return cat([*rows, a.new_zeros((left, b.shape[2]))] if left else rows, 0)


def _depths(a: Tensor, b: Tensor, ends: tuple[int, ...]) -> Tensor:
    return stack([a[:, i:j] @ b[i:j] for i, j in pairwise([0, *ends])])


# Rows in runs, each with a matrix of its own, and the contraction in runs: each is the other's
# derivative. One node of the tape, since in mixtures of experts the products are often small.
ROWS_BY_RUNS: Record = composite(
    "rows_by_runs",
    _rows,
    lambda g, b, ends: ROWS_BY_RUNS(g, b.transpose(1, 2), ends=ends),
    lambda g, a, ends: DEPTHS_BY_RUNS(a.transpose(0, 1), g, ends=ends),
    operands=("a", "b"),
)
DEPTHS_BY_RUNS: Record = composite(
    "depths_by_runs",
    _depths,
    lambda g, b, ends: ROWS_BY_RUNS(b, g.transpose(1, 2), ends=ends).transpose(0, 1),
    lambda g, a, ends: ROWS_BY_RUNS(a.transpose(0, 1), g, ends=ends),
    operands=("a", "b"),
)


def _by_runs(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    ends = tuple([int(n) for n in offs.tolist()])
    if a.ndim == b.ndim:
        return DEPTHS_BY_RUNS(a, b, ends=ends)
    if a.ndim == 2:
        return ROWS_BY_RUNS(a, b, ends=ends)
    columns = [a[g] @ b[:, i:j] for g, (i, j) in enumerate(pairwise([0, *ends]))]
    return cat([*columns, b.new_zeros((a.shape[1], b.shape[1] - ends[-1]))], 1)
