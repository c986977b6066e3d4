"""Kernels of linear algebra on pairs of reals: those of complex matrices, seen otherwise."""

from __future__ import annotations

from functools import partial
from typing import Any

from adjoint.engine.backends.array.table import kernel_for, lowers
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.ops.linalg.pairs import OF_PAIRS

Array = Any


def of_pairs(
    xp: Any, *arrays: Array, results: int, function: str, pairs: tuple[bool, ...], **params: Any
) -> Any:
    kernel = kernel_for(REGISTRY[function], xp)
    if kernel is None:
        raise NotImplementedError(f"{function}: no kernel")
    given = [as_complex(xp, x) if paired else x for x, paired in zip(arrays, pairs, strict=True)]
    found = kernel(*given, **params)
    if results == 1:
        return as_pairs(xp, found)
    return tuple(as_pairs(xp, x) for x in found)


def as_complex(xp: Any, x: Array) -> Array:
    """Pairs as the complex numbers they are."""
    return xp.ascontiguousarray(x).view(xp.result_type(x, xp.complex64))[..., 0]


def as_pairs(xp: Any, x: Array) -> Array:
    """Complex numbers as pairs; others as they are."""
    return xp.stack([x.real, x.imag], axis=-1) if x.dtype.kind == "c" else x


for _results, _record in OF_PAIRS.items():
    lowers(_record)(partial(of_pairs, results=_results))
