"""Nested containers as trees of leaves.

Tuples, lists, deques, dicts, named tuples and dataclasses; of a dataclass, all an instance holds.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.value import TensorBase


class TreeDef(NamedTuple):
    """The structure of a tree with its leaves taken out; hashable when its keys are."""

    kind: Any  # None for a leaf, else the container's type
    keys: tuple[Any, ...]
    children: tuple[TreeDef, ...]
    extra: Any = None  # a defaultdict's factory, a deque's greatest length

    @property
    def num_leaves(self) -> int:
        return 1 if self.kind is None else sum(c.num_leaves for c in self.children)


LEAF = TreeDef(None, (), ())


def _split(tree: Any) -> tuple[Any, tuple[Any, ...], list[Any], Any] | None:
    if isinstance(tree, TensorBase):  # the most frequent leaf; a sparse one has parts
        parts = None if HOOKS.sparse is None else HOOKS.sparse.split(tree)
        return None if parts is None else (*parts, None)
    kind = type(tree)
    if kind in (dict, OrderedDict, defaultdict):
        return kind, tuple(tree), list(tree.values()), getattr(tree, "default_factory", None)
    if kind in (list, tuple) or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return kind, (), list(tree), None
    if kind is deque:
        return kind, (), list(tree), tree.maxlen
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        held = getattr(tree, "__dict__", {})
        names = [f.name for f in dataclasses.fields(tree) if hasattr(tree, f.name)]
        names += [name for name in held if name not in names]
        return kind, tuple(names), [getattr(tree, n) for n in names], None
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
    kind, keys, children, extra = parts
    leaves: list[Any] = []
    defs: list[TreeDef] = []
    for child in children:
        child_leaves, child_def = flatten(child)
        leaves += child_leaves
        defs.append(child_def)
    return leaves, TreeDef(kind, keys, tuple(defs), extra)


def unflatten(structure: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of the given structure holding `leaves`."""
    supply = iter(leaves)

    def build(node: TreeDef) -> Any:
        if node.kind is None:
            return next(supply)
        children = [build(c) for c in node.children]
        if node.kind in (dict, OrderedDict):
            return node.kind(zip(node.keys, children, strict=True))
        if node.kind is defaultdict:
            return defaultdict(node.extra, zip(node.keys, children, strict=True))
        if node.kind is deque:
            return deque(children, node.extra)
        if node.kind in (list, tuple):
            return node.kind(children)
        if isinstance(node.kind, type) and dataclasses.is_dataclass(node.kind):
            return _instance(node.kind, zip(node.keys, children, strict=True))
        if node.keys:
            return node.kind(**dict(zip(node.keys, children, strict=True)))
        return node.kind(*children)

    return build(structure)


def _instance(kind: Any, held: Iterable[tuple[str, Any]]) -> Any:
    """An instance of a dataclass as it was, frozen or not; `__init__` would make another."""
    made = kind.__new__(kind)
    for name, value in held:
        object.__setattr__(made, name, value)
    return made


def map_tree(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply `fn` to corresponding leaves of trees of one structure."""
    leaves, structure = flatten(tree)
    others = [flatten(r)[0] for r in rest]
    return unflatten(structure, [fn(*xs) for xs in zip(leaves, *others, strict=True)])
