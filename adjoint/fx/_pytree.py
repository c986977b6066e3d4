"""Trees flattened by a structure that is known: PyTorch's `torch.fx._pytree`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.utils._pytree import PyTree as PyTree
from adjoint.utils._pytree import TreeSpec as TreeSpec
from adjoint.utils._pytree import tree_flatten as tree_flatten

FlattenFnSpec = Callable[[Any, Any], list[Any]]
FlattenFnExactMatchSpec = Callable[[Any, Any], bool]
SUPPORTED_NODES: dict[type, FlattenFnSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[type, FlattenFnExactMatchSpec | None] = {}


def register_pytree_flatten_spec(
    cls: type,
    flatten_fn_spec: FlattenFnSpec,
    flatten_fn_exact_match_spec: FlattenFnExactMatchSpec | None = None,
) -> None:
    """Say how containers of a class are taken apart where their structure is known."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(pytree: Any, spec: Any) -> list[Any]:
    """The leaves of a tree that has a structure; an error where it has another.

    >>> tree_flatten_spec({"a": 1, "b": [2, 3]}, tree_flatten({"a": 0, "b": [0, 0]})[1])
    [1, 2, 3]
    """
    if spec.is_leaf():
        return [pytree]
    if spec.type in SUPPORTED_NODES:
        parts = SUPPORTED_NODES[spec.type](pytree, spec)
        leaves: list[Any] = []
        for part, below in zip(parts, spec.children_specs, strict=False):
            leaves += tree_flatten_spec(part, below)
        return leaves
    found, structure = tree_flatten(pytree)
    if structure != spec:
        raise RuntimeError(f"the structure of {pytree} is {structure}, expected {spec}")
    return found
