"""The word for how a loss is reduced, from PyTorch's older arguments."""

from __future__ import annotations

import warnings

NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number PyTorch's compiled losses take for a word.

    >>> get_enum("sum")
    2
    """
    if reduction not in NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction; use {sorted(NUMBERS)}")
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Use 'mean'.", stacklevel=2)
    return NUMBERS[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The word for `size_average` and `reduce`, either of which is True where it is None.

    >>> legacy_get_string(False, None, emit_warning=False)
    'sum'
    """
    average = size_average is None or size_average
    word = "none" if reduce is not None and not reduce else "mean" if average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{word}' "
            "instead.",
            stacklevel=2,
        )
    return word


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The number for `size_average` and `reduce`."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
