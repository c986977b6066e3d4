"""Nested containers: tuples, lists, dicts, named tuples and dataclasses as trees of leaves."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from adjoint.core.record import HOOKS
from adjoint.core.value import TensorBase


class TreeDef(NamedTuple):
    """The structure of a tree with its leaves taken out; hashable when its keys are."""

    kind: Any  # None for a leaf, else the container's type
    keys: tuple[Any, ...]
    children: tuple[TreeDef, ...]

    @property
    def num_leaves(self) -> int:
        return 1 if self.kind is None else sum(c.num_leaves for c in self.children)


LEAF = TreeDef(None, (), ())


def _split(tree: Any) -> tuple[Any, tuple[Any, ...], list[Any]] | None:
    if isinstance(tree, TensorBase):  # the most frequent leaf; a sparse one has parts
        return None if HOOKS.sparse is None else HOOKS.sparse.split(tree)
    kind = type(tree)
    if kind in (dict, OrderedDict):
        return kind, tuple(tree), list(tree.values())
    if kind in (list, tuple) or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return kind, (), list(tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = tuple(f.name for f in dataclasses.fields(tree))
        return kind, names, [getattr(tree, n) for n in names]
    return None


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """Leaves in order, and the structure that holds them.

    >>> leaves, structure = flatten({"a": 1, "b": (2, 3)})
    >>> leaves, unflatten(structure, [4, 5, 6])
    ([1, 2, 3], {'a': 4, 'b': (5, 6)})
    """
    parts = _split(tree)
    if parts is None:
        return [tree], LEAF
    kind, keys, children = parts
    leaves: list[Any] = []
    defs: list[TreeDef] = []
    for child in children:
        child_leaves, child_def = flatten(child)
        leaves += child_leaves
        defs.append(child_def)
    return leaves, TreeDef(kind, keys, tuple(defs))


def unflatten(structure: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of the given structure holding `leaves`."""
    supply = iter(leaves)

    def build(node: TreeDef) -> Any:
        if node.kind is None:
            return next(supply)
        children = [build(c) for c in node.children]
        if node.kind in (dict, OrderedDict):
            return node.kind(zip(node.keys, children, strict=True))
        if node.kind in (list, tuple):
            return node.kind(children)
        if node.keys:
            return node.kind(**dict(zip(node.keys, children, strict=True)))
        return node.kind(*children)

    return build(structure)


def map_tree(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply `fn` to corresponding leaves of trees of one structure."""
    leaves, structure = flatten(tree)
    others = [flatten(r)[0] for r in rest]
    return unflatten(structure, [fn(*xs) for xs in zip(leaves, *others, strict=True)])
