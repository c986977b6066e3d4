"""Arguments of an exported module, put together of tensors in code that recordings follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from adjoint.engine.core.tree import TreeDef, flatten, unflatten
from adjoint.fx.captured import fresh


def rebuilt(structure: TreeDef, leaves: Iterator[Any]) -> Any:
    """`unflatten`, followed by recordings: they know its lists and dicts as made by the call.

    A tensor in a dict that native code made would be one that the function reaches by itself, of
    a fixed size.
    """
    if structure.kind is None:
        return next(leaves)
    if structure.kind not in (tuple, list, dict):
        return unflatten(structure, [next(leaves) for _ in range(structure.num_leaves)])
    children = [rebuilt(child, leaves) for child in structure.children]
    if structure.kind is dict:
        return dict(zip(structure.keys, children, strict=True))
    return children if structure.kind is list else tuple(children)


def forward_of(
    mod: Any, leaves: list[Any], places: list[int], structure: TreeDef
) -> Callable[..., Any]:
    """A module's call as a function of its tensors, at these places: all else is fixed."""

    def forward(*tensors: Any) -> Any:
        given = list(leaves)
        for k, tensor in zip(places, tensors, strict=True):
            given[k] = tensor
        args, kwargs = rebuilt(structure, iter(given))
        results, result = flatten(mod(*args, **kwargs))
        return unflatten(result, fresh(results))

    return forward
