"""Groups of tensors that one call can serve."""

from __future__ import annotations

from typing import Any


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Lists of tensors, split by device and dtype of the first list's."""
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for index, first in enumerate(tensorlistlist[0]):
        if first is None:
            continue
        lists, indices = groups.setdefault(
            (first.device, first.dtype), ([[] for _ in tensorlistlist], [])
        )
        for target, source in zip(lists, tensorlistlist, strict=True):
            if source:
                target.append(source[index])
        if with_indices:
            indices.append(index)
    return groups


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Where a list of tensors is updated at once."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Where an optimizer is one kernel."""
    return ["cuda", "cpu"]
