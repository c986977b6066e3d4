"""Distinct elements. How many there are depends on values, so these run eagerly only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import ShapeError, ShapeIndexError
from adjoint.engine.core.operations.families import (
    depends_on_values,
    no_derivative,
    primitive,
    sized_by_values,
)
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.spec import Spec, wrap_dim
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.reduce.extremes import refuse_complex

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


_refuse = depends_on_values("unique", "Call it outside, or compare sorted neighbours.")


def _infer(size: Any, x: Spec, dim: int | None) -> tuple[Spec, Spec, Spec]:
    count = size()
    values = (count,) if dim is None else (*x.shape[:dim], count, *x.shape[dim + 1 :])
    inverse = x.shape if dim is None else (x.shape[dim],)
    return (
        Spec(values, x.dtype, x.device),
        Spec(inverse, int64, x.device),
        Spec((count,), int64, x.device),
    )


# Each gives (values, inverse, counts); dim None means the flattened elements.
UNIQUE = primitive(
    "unique",
    sized_by_values(_refuse, _infer),
    no_derivative("unique"),
    outputs=3,
    batch=_refuse,
    native_check=True,
)
# The values alone, of all elements: found without the order that they are sorted by. Of
# `neighbours` alone, as unique_consecutive has it.
UNIQUE_VALUES = primitive(
    "unique_values",
    sized_by_values(_refuse, lambda size, x, **_: Spec((size(),), x.dtype, x.device)),
    no_derivative("unique"),
    batch=_refuse,
    native_check=True,
)
UNIQUE_CONSECUTIVE = primitive(
    "unique_consecutive",
    _refuse,
    no_derivative("unique_consecutive"),
    outputs=3,
    batch=_refuse,
    native_check=True,
)


def _wanted(results: Any, inverse: bool, counts: bool) -> Any:
    picked = (results[0], *([results[1]] if inverse else []), *([results[2]] if counts else []))
    return picked if len(picked) > 1 else picked[0]


def _run(name: str, record: Any, x: Tensor, dim: int | None) -> Any:
    refuse_complex(name, x)
    if dim is None:
        return record(x, dim=None)
    d = wrap_dim(name, dim, x.ndim)
    if x.ndim == 0:
        raise ShapeIndexError(f"{name}: dimension specified as {dim} but tensor has no dimensions")
    if 0 in (*x.shape[:d], *x.shape[d + 1 :]):
        raise ShapeError(
            f"{name}: there are 0 sized dimensions, and they aren't selected, so the operation "
            "cannot be applied"
        )
    return record(x, dim=d)


@public(method=True)
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements (or slices along `dim`), in order.

    >>> import adjoint as ad
    >>> ad.unique(ad.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    if sorted.__class__ is not bool:  # mostly a dimension that was meant for `dim`
        raise TypeError(f"unique: sorted must be bool, received {sorted!r}. Give dim by its name.")
    if dim is None and not (return_inverse or return_counts) and CONTEXT.plain:
        where = input.device.type
        if where == "cuda" or (where == "cpu" and not input.dtype.is_complex):
            refuse_complex("unique", input)
            return UNIQUE_VALUES(input)
    return _wanted(_run("unique", UNIQUE, input, dim), return_inverse, return_counts)


@public(method=True)
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The elements (or slices along `dim`) with repetitions of the one before left out."""
    alone = dim is None and not (return_inverse or return_counts) and CONTEXT.plain
    if alone and input.device.type in ("cpu", "cuda") and not input.dtype.is_complex:
        return UNIQUE_VALUES(input, neighbours=True)
    results = _run("unique_consecutive", UNIQUE_CONSECUTIVE, input, dim)
    return _wanted(results, return_inverse, return_counts)
