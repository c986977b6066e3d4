"""The family of reductions: elements over dimensions combined, two at a time, into one.

What combines them must be associative and not mind their order, so that a compiler may go by parts:
    out = x[0] . x[1] . ... . x[n - 1]
A reduction has the parameters `dims` and `keepdim`. How two elements are combined is a row of each
backend's table, as the lowering of an elementwise operation is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.core.operations.record import Record, Rule
from adjoint.engine.core.spec import Spec

Fn = Callable[..., Any]
Dims = tuple[int, ...]


def reduced_shape(shape: Sequence[int], dims: Dims, keepdim: bool) -> Dims:
    """The shape after reducing over `dims`."""
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)


def infer_reduction(x: Spec, dims: Dims, keepdim: bool) -> Spec:
    """The spec of a reduction that keeps the dtype."""
    return Spec(reduced_shape(x.shape, dims, keepdim), x.dtype, x.device)


def shift_reduction(params: dict[str, Any], size: int) -> dict[str, Any]:
    """The same reduction with a batch dimension in front."""
    return {**params, "dims": tuple(d + 1 for d in params["dims"])}


def reduction(
    name: str,
    vjp: Fn | None = None,
    *,
    jvp: Fn | None = None,
    linear: bool = False,
    infer: Fn = infer_reduction,
    **options: Any,
) -> Record:
    """A reduction over `dims`: its derivative is all that it states, batching follows.

    Args:
        name: of the operation.
        vjp: the operand's cotangent, of g and whatever else its parameter names ask for; None
            where there is no gradient.
        jvp: the result's tangent; without it the vjp is transposed, or the reduction applied to
            the tangent where it is linear.
        linear: whether it is linear in its operand; the vjp is then its transpose.
        infer: the result's spec; by default of the operand's dtype.
        options: further fields of the record.
    """
    return Record(
        name,
        "reduction",
        infer,
        vjp=(Rule.of(vjp),),
        jvp=Rule.of(jvp),
        linear=linear,
        batched_params=shift_reduction,
        native_check=True,
        in_any_order=True,
        **options,
    )
