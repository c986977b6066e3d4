"""Nested containers as trees of leaves, under PyTorch's names.

As there, a dataclass and a sparse tensor are leaves (to Adjoint's transforms they are containers).
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from types import UnionType
from typing import Any

from adjoint.engine.core.tree import TreeDef as TreeSpec
from adjoint.engine.core.tree import flatten, matched, unflatten
from adjoint.engine.core.value import TensorBase

__all__ = ["TreeSpec", "tree_flatten", "tree_leaves", "tree_map", "tree_unflatten"]

IsLeaf = Callable[[Any], bool] | None


def _stops(is_leaf: IsLeaf) -> Callable[[Any], bool]:
    def stops(node: Any) -> bool:
        return (
            isinstance(node, TensorBase)
            or is_dataclass(node)
            or (is_leaf is not None and is_leaf(node))
        )

    return stops


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Leaves in order, and the structure that holds them."""
    return flatten(tree, _stops(is_leaf))


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """The tree of a structure, holding `leaves`."""
    return unflatten(treespec, leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to the leaves, and to what the other trees have in their places.

    >>> tree_map(lambda x, y: (x, y), {"a": 1, "b": 2}, {"b": [3, 4], "a": 5})
    {'a': (1, 5), 'b': (2, [3, 4])}
    """
    leaves, structure = tree_flatten(tree, is_leaf)
    others = [matched(structure, rest, deeper=True) for rest in rests]
    return unflatten(structure, [func(*row) for row in zip(leaves, *others, strict=True)])


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to the leaves of one type or several, or that a predicate accepts."""
    if isinstance(kind, (type, tuple, UnionType)):
        return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree, is_leaf=is_leaf)
    return tree_map(lambda x: func(x) if kind(x) else x, tree, is_leaf=is_leaf)


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure alone."""
    return tree_flatten(tree, is_leaf)[1]
