"""How operands of one dtype pattern reach a kernel, and what dtype comes back."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF, accumulator
from adjoint.engine.backends.array.memory.strides import copy_with
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.halves import half_of
from adjoint.engine.core.operations.record import REGISTRY, Record
from adjoint.engine.core.promotion import promote
from adjoint.engine.core.spec import Spec
from adjoint.engine.tensor.tensor import DTYPE_OF


class Casting:
    """How operands of one dtype pattern reach the kernel and what dtype comes back."""

    __slots__ = ("casts", "keeps_layout", "result", "several", "whole")

    def __init__(
        self,
        casts: tuple[Any, ...] | None,
        result: Any,
        whole: tuple[int, ...],
        keeps_layout: bool,
        several: bool,
    ) -> None:
        # Per operand: an array dtype, or two, one after the other; a half of ours, which a number
        # is rounded to; or None to pass it on.
        self.casts = casts
        self.result = result  # the array dtype of the result
        self.whole = whole  # which operands are whole numbers of Python's
        self.keeps_layout = keeps_layout  # whether a result lies as arrays do that it is made of
        self.several = several  # whether these are several


LARGE = 2**63  # from here on a whole number is no int64


def arrays_as_specs(arrays: list[Any]) -> list[Any]:
    """Arrays and numbers as promotion takes them.

    Only whether an operand has dimensions matters to it, so shapes shrink to () or (1,).
    """
    return [
        Spec((1,) if a.shape else (), DTYPE_OF[a.dtype]) if hasattr(a, "dtype") else a
        for a in arrays
    ]


def make_plan(record: Record, arrays: list[Any], params: dict[str, Any]) -> Casting:
    """Work out promotion for operands of this pattern."""
    skip = record.promotes_from
    specs = arrays_as_specs(arrays)
    for spec in specs:
        if (
            isinstance(spec, Spec)
            and spec.dtype in dt.STORAGE_DTYPES
            and record.takes_kept != "all"
            and not (spec.dtype.category == dt.INT and record.takes_kept == "unsigned")
        ):
            raise NotImplementedError(
                f'"{record.name}" not implemented for {spec.dtype.name}: tensors are kept in it '
                "but not computed with. Convert first, x.to(float32) or x.to(int64)."
            )
    result = record.infer(*specs, **params).dtype
    compute, _ = promote(record.promotion, specs[skip:])  # type: ignore[arg-type]
    wide = NUMPY_OF[compute] if record.promotion == "exact" else accumulator(compute)
    given_wide = compute.is_half and any(is_given_wide(record, i, a) for i, a in enumerate(arrays))
    if given_wide:
        wide = accumulator(compute)
    casts: list[Any] = []
    for i, a in enumerate(arrays):
        if i < skip:
            casts.append(None)
        elif hasattr(a, "dtype"):
            is_wide = given_wide and is_given_wide(record, i, a)
            casts.append(wide if is_wide else conversion(a.dtype, NUMPY_OF[compute], wide))
        elif compute.is_half:  # a number stays one, which kernels look at
            casts.append(None if is_given_wide(record, i, a) else compute)
        else:  # a scalar: integers wrap around as PyTorch's do; floats stay weak
            casts.append(wide if wide.kind in "iub" or isinstance(a, bool) else None)
    whole = tuple([i for i in range(skip, len(arrays)) if type(arrays[i]) is int])
    casting = tuple(casts) if any(c is not None for c in casts) else None
    several = sum(hasattr(a, "ndim") for a in arrays) > 1
    return Casting(casting, NUMPY_OF[result], whole, record.family == "elementwise", several)


def is_given_wide(record: Record, position: int, operand: Any) -> bool:
    """Whether halves are not what an operand is rounded to (Note [numbers beside halves])."""
    return position in record.unrounded and not getattr(operand, "shape", ())


def _forget_plans() -> None:
    for record in REGISTRY.values():
        record.plans.clear()


dt.DEFAULT_LISTENERS.append(_forget_plans)  # plans depend on the default dtype


def conversion(have: Any, compute: Any, wide: Any) -> Any:
    """How an array reaches the dtype computed in: rounded to a half first, where that is wider."""
    if have == wide:
        return None if wide == compute else (compute, wide)
    return wide if have in (compute, wide) or wide == compute else (compute, wide)


def cast_operand(x: Any, target: Any) -> Any:
    """An array or scalar in the dtype computed in."""
    if target is None:
        return x
    if target.__class__ is dt.DType:
        return half_of(x, target)
    if target.__class__ is tuple:
        return cast_operand(cast_operand(x, target[0]), target[1])
    if x.__class__ is int and -128 <= x <= 127 and target.kind == "i":
        return x  # fits every signed type, so the library takes it as it is
    if hasattr(x, "astype"):
        if x.ndim < 2 or (0 not in x.strides and 1 not in x.shape):
            return x.astype(target)
        if x.__class__ is not np.ndarray:
            return x.astype(target, "C" if 0 in x.strides else "K")
        if x.ndim < 3 or 0 not in x.strides or not x.size or x.dtype.kind in "biu":
            return copy_with(np, x, "same", target)  # NumPy would have what is repeated innermost
        # Along dimensions that repeat a half, other operands say how a result lies.
        once = x[tuple([slice(0, 1) if step == 0 else slice(None) for step in x.strides])]
        return np.broadcast_to(once.astype(target), x.shape)
    return np.asarray(x).astype(target)[()]  # a NumPy scalar: CuPy refuses NumPy arrays
