"""Dynamic sizes: what a user says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adjoint.engine.core.errors import ShapeIndexError
from adjoint.export.errors import ExportError
from adjoint.export.interface import DynamicSize, c_name
from adjoint.export.recording import ExampleCall

MOST = 4096  # combinations of sizes
Dims = dict[int, dict[int, str]]  # leaf -> dimension -> name


def dynamic_sizes(dynamic: Any, call: ExampleCall) -> tuple[list[DynamicSize], Dims]:
    """The sizes that may change, and where they are."""
    if not dynamic:
        return [], {}
    tensors = {call.names[k]: k for k in call.tensors}
    entries = (
        dynamic.items()
        if isinstance(dynamic, Mapping)
        else zip([call.names[k] for k in call.tensors], dynamic, strict=False)
    )
    sizes: dict[str, DynamicSize] = {}
    dims_of: Dims = {}
    for name, dims in entries:
        if name not in tensors:
            raise ValueError(
                f"export.aot: dynamic sizes of {name!r}; the tensors are {sorted(tensors)}."
            )
        leaf = tensors[name]
        rank = call.leaves[leaf].ndim
        listed = dims.items() if isinstance(dims, Mapping) else enumerate(dims or ())
        for dim, said in listed:
            if said is None:
                continue
            if not -rank <= dim < rank:
                raise ShapeIndexError(f"export.aot: dimension {dim} of {name!r}, which has {rank}.")
            size = _size(said)
            if sizes.setdefault(size.name, size) != size:
                raise ValueError(f"export.aot: two ranges for the size {size.name!r}.")
            dims_of.setdefault(leaf, {})[dim % rank] = size.name
    return list(sizes.values()), dims_of


def _size(said: Any) -> DynamicSize:
    """A name and a range, from a triple or from an object that has them."""
    if isinstance(said, (tuple, list)) and len(said) == 3:
        name, low, high = said
    else:
        name = getattr(said, "__name__", None) or getattr(said, "name", None)
        low, high = getattr(said, "min", None), getattr(said, "max", None)
    if not isinstance(name, str) or not isinstance(high, int):
        raise ExportError(
            f"export.aot: a dynamic size is a name and a range, ('batch', 1, 64); received {said!r}"
        )
    low = 1 if low is None else int(low)
    if not 1 <= low <= high:
        raise ValueError(f"export.aot: the size {name!r} has no range from {low} to {high}.")
    return DynamicSize(c_name(name, set()), low, high)


def shapes_at(
    call: ExampleCall, sizes: Sequence[DynamicSize], dims: Dims, point: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """The shapes of the tensors with dynamic sizes, at a point."""
    known = {size.name: n for size, n in zip(sizes, point, strict=True)}
    return {
        leaf: tuple(known[own[d]] if d in own else n for d, n in enumerate(call.leaves[leaf].shape))
        for leaf, own in dims.items()
    }
