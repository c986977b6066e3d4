"""Nested containers as trees of leaves, under PyTorch's names."""

from collections.abc import Callable
from typing import Any

from adjoint.engine.core.tree import TreeDef as TreeSpec
from adjoint.engine.core.tree import flatten, map_tree, unflatten

__all__ = ["TreeSpec", "tree_flatten", "tree_leaves", "tree_map", "tree_unflatten"]


def tree_flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """Leaves in order, and the structure that holds them."""
    return flatten(tree)


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """The tree of a structure, holding `leaves`."""
    return unflatten(treespec, leaves)


def tree_leaves(tree: Any) -> list[Any]:
    """Leaves in order."""
    return flatten(tree)[0]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """Apply a function to the leaves."""
    return map_tree(func, tree, *rests)


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to the leaves of one type."""
    return map_tree(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree)


def tree_structure(tree: Any) -> TreeSpec:
    """The structure alone."""
    return flatten(tree)[1]
