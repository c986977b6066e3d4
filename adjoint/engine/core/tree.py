"""Nested containers as trees of leaves.

Tuples, lists, deques, dicts, named tuples and dataclasses; of the last two, all an instance holds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import inspect
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MemberDescriptorType
from typing import Any, NamedTuple

from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.instances import ObjectParts, remade, written_in_c
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.structure_version import TrackedDict
from adjoint.engine.core.value import TensorBase

# Containers that programs registered: their children and what else there is, and back.
REGISTERED: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {}


class TreeDef(NamedTuple):
    """The structure of a tree with its leaves taken out; hashable when its keys are."""

    kind: Any  # None for a leaf, else the container's type
    keys: tuple[Any, ...]
    children: tuple[TreeDef, ...]
    extra: Any = None  # a defaultdict's factory, a deque's greatest length
    exact: tuple[Any, ...] = ()  # of keys that are no strings, what equality does not tell apart

    @property
    def num_leaves(self) -> int:
        return 1 if self.kind is None else sum(c.num_leaves for c in self.children)

    @property
    def num_nodes(self) -> int:
        """How many containers and leaves there are."""
        return 1 + sum(c.num_nodes for c in self.children)

    @property
    def num_children(self) -> int:
        """How many children the outermost container has."""
        return len(self.children)

    @property
    def children_specs(self) -> list[TreeDef]:
        """The structures of the outermost container's children."""
        return list(self.children)

    @property
    def type(self) -> Any:
        """The outermost container's class; None for a leaf."""
        return self.kind

    @property
    def context(self) -> Any:
        """What else is needed to make the outermost container: a dict's keys, say."""
        if _by_class(self):
            return self.kind
        return list(self.keys) if self.keys else self.extra

    def is_leaf(self) -> bool:
        """Whether it is that of a leaf."""
        return self.kind is None


LEAF = TreeDef(None, (), ())
DICTS = (dict, OrderedDict, defaultdict)  # one pairs with another, by key
IsLeaf = Callable[[Any], bool]
BY_CLASS = "by its class"  # in the place of `extra`: a named tuple that its class makes of fields
Parts = tuple[Any, tuple[Any, ...], list[Any], Any]  # kind, keys, children, extra of a `TreeDef`


def split_fields(tree: Any) -> Parts | None:
    """As `split`, but a named tuple's own attributes are no leaves, and its class makes another."""
    return split(tree, fields_only=True)


def split(tree: Any, fields_only: bool = False) -> Parts | None:
    """A container's kind, keys, children and what else there is; None of a leaf."""
    if isinstance(tree, TensorBase):  # the most frequent leaf; a sparse one has parts
        parts = None if HOOKS.sparse is None else HOOKS.sparse.split(tree)
        return None if parts is None else (*parts, None)
    kind = type(tree)
    if kind is TrackedDict:  # a module's table is to programs what PyTorch's is: a dict
        kind = dict
    if kind in DICTS:
        return kind, tuple(tree), list(tree.values()), getattr(tree, "default_factory", None)
    if kind in (list, tuple):
        return kind, (), list(tree), None
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        items = list(tuple.__iter__(tree))  # its class may say something else
        if fields_only:
            return kind, (), items, BY_CLASS
        further = getattr(tree, "__dict__", None)
        if not further:
            return kind, (), items, None
        return kind, (*range(len(items)), *further), [*items, *further.values()], None
    if kind is deque:
        return kind, (), list(tree), tree.maxlen
    if kind in REGISTERED:
        registered, context = REGISTERED[kind][0](tree)
        return kind, (), list(registered), context
    if holds_attributes_only(tree):
        named = attributes(tree)
        return kind, tuple(named), list(named.values()), None
    return None


def holds_attributes_only(value: Any) -> bool:
    """Whether a value is an instance of a dataclass that is no container or number besides."""
    if not dataclasses.is_dataclass(value) or isinstance(value, (type, enum.Enum)):
        return False
    return written_in_c(type(value)) is object


def attributes(instance: Any) -> dict[str, Any]:
    """All that an instance of a dataclass holds: fields first, then further slots and names.

    What a descriptor gives is computed of these; a class may answer otherwise than it holds.
    """
    kind = type(instance)
    namespace = getattr(instance, "__dict__", {})
    named: dict[str, Any] = {}
    slots = [n for c in kind.__mro__ for n, v in vars(c).items() if type(v) is MemberDescriptorType]
    for name in (*(f.name for f in dataclasses.fields(instance)), *slots):
        if name in namespace:
            named[name] = namespace[name]
            continue
        descriptor = inspect.getattr_static(kind, name, None)
        if type(descriptor) is not MemberDescriptorType and hasattr(type(descriptor), "__set__"):
            continue
        with contextlib.suppress(AttributeError):  # not set yet
            named[name] = object.__getattribute__(instance, name)
    return named | namespace


def flatten(
    tree: Any, is_leaf: IsLeaf | None = None, split: Callable[[Any], Parts | None] = split
) -> tuple[list[Any], TreeDef]:
    """Leaves in order, and the structure that holds them; `is_leaf` names further leaves.

    Containers are what `split` takes apart.

    >>> leaves, structure = flatten({"a": 1, "b": (2, 3)})
    >>> leaves, unflatten(structure, [4, 5, 6])
    ([1, 2, 3], {'a': 4, 'b': (5, 6)})
    """
    parts = split(tree) if is_leaf is None or not is_leaf(tree) else None
    if parts is None:
        return [tree], LEAF
    kind, keys, children, extra = parts
    leaves: list[Any] = []
    defs: list[TreeDef] = []
    for child in children:
        child_leaves, child_def = flatten(child, is_leaf, split)
        leaves += child_leaves
        defs.append(child_def)
    exact: tuple[Any, ...] = ()
    if keys and not all(type(k) is str for k in keys):
        exact = tuple([number_key(k) for k in keys])
    return leaves, TreeDef(kind, keys, tuple(defs), extra, exact)


_NO_MORE = object()


def unflatten(structure: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of the given structure holding `leaves`, as many as it has."""
    supply = iter(leaves)
    tree = _built(structure, supply, structure)
    if next(supply, _NO_MORE) is not _NO_MORE:
        raise ValueError(f"unflatten: more leaves than the {structure.num_leaves} wanted")
    return tree


# Note [no cycles]
#     A function that is defined inside another and calls itself is held by its own cell: with all
#     that it names, tensors say, it stays until Python looks for cycles, and has it look more
#     often. What every call runs is therefore a function of the module, or a loop.


def _built(node: TreeDef, supply: Iterator[Any], whole: TreeDef) -> Any:
    """The tree of `node`, a part of the structure `whole`, of leaves taken from `supply`."""
    if node.kind is None:
        leaf = next(supply, _NO_MORE)
        if leaf is _NO_MORE:
            raise ValueError(f"unflatten: fewer leaves than the {whole.num_leaves} wanted")
        return leaf
    children = [_built(c, supply, whole) for c in node.children]
    if type(node.extra) is ObjectParts:
        return remade(node.kind, node.keys, children, node.extra)
    if node.kind in (list, tuple):
        return node.kind(children)
    if node.kind in (dict, OrderedDict):
        return node.kind(zip(node.keys, children, strict=True))
    if node.kind is defaultdict:
        return defaultdict(node.extra, zip(node.keys, children, strict=True))
    if node.kind is deque:
        return deque(children, node.extra)
    if node.kind in REGISTERED:
        return REGISTERED[node.kind][1](children, node.extra)
    if _by_class(node):
        return node.kind(*children)
    if isinstance(node.kind, type) and issubclass(node.kind, tuple):
        return _named_tuple(node.kind, node.keys, children)
    if isinstance(node.kind, type) and dataclasses.is_dataclass(node.kind):
        return _instance(node.kind, zip(node.keys, children, strict=True))
    if node.keys:
        return node.kind(**dict(zip(node.keys, children, strict=True)))
    return node.kind(*children)


def _by_class(node: TreeDef) -> bool:
    """Whether a structure is that of a named tuple which its class makes of fields."""
    named = isinstance(node.kind, type) and issubclass(node.kind, tuple)
    return named and node.extra is not None and node.kind not in REGISTERED


def _named_tuple(kind: Any, keys: Sequence[Any], children: Sequence[Any]) -> Any:
    """A named tuple as it was, with the attributes it held; its class may make others."""
    count = sum(type(k) is int for k in keys) if keys else len(children)
    rebuilt = tuple.__new__(kind, children[:count])
    if keys:
        rebuilt.__dict__.update(zip(keys[count:], children[count:], strict=True))
    return rebuilt


def _instance(kind: Any, items: Iterable[tuple[str, Any]]) -> Any:
    """An instance of a dataclass as it was, frozen or not; `__init__` would make another."""
    instance = kind.__new__(kind)
    for name, value in items:
        object.__setattr__(instance, name, value)
    return instance


def matched(
    structure: TreeDef, tree: Any, *, deeper: bool = False, is_leaf: IsLeaf | None = None
) -> list[Any]:
    """The leaves of a tree in the order of a structure that it must have.

    Dicts are paired by key, whatever their order and kind. Where the structure has a leaf there
    must be one; `deeper` takes whatever is there.

    >>> _, structure = flatten({"a": 1, "b": (2, 3)})
    >>> matched(structure, {"b": (20, 30), "a": 10})
    [10, 20, 30]
    >>> matched(structure, {"b": [20, 30], "a": 10})
    Traceback (most recent call last):
    ValueError: trees differ at ['b']: tuple of 2 expected, list of 2 received
    """
    leaves: list[Any] = []
    _match(leaves, structure, tree, "", deeper, is_leaf)
    return leaves


def _match(
    leaves: list[Any], wanted: TreeDef, node: Any, path: str, deeper: bool, is_leaf: IsLeaf | None
) -> None:
    """Append the leaves of `node`, which is at `path`, in the order of the structure `wanted`."""
    stop = (wanted.kind is None and deeper) or (is_leaf is not None and is_leaf(node))
    parts = None if stop else split(node, _by_class(wanted))
    if wanted.kind is None and parts is None:
        leaves.append(node)
        return
    kind, keys, children = (None, (), []) if parts is None else parts[:3]
    alike = kind is wanted.kind or (kind in DICTS and wanted.kind in DICTS)
    if not alike or len(children) != len(wanted.children) or set(keys) != set(wanted.keys):
        raise ValueError(
            f"trees differ at {path or 'the root'}: {_in_words(wanted.kind, wanted)} expected, "
            f"{_in_words(kind, TreeDef(kind, keys, tuple(children)))} received"
        )
    named = dict(zip(keys, children, strict=True)) if keys else dict(enumerate(children))
    for step, child in zip(wanted.keys or range(len(children)), wanted.children, strict=True):
        _match(leaves, child, named[step], path + _step(kind, step), deeper, is_leaf)


def _step(kind: Any, step: Any) -> str:
    """How a child is reached, as Python writes it."""
    fields = getattr(kind, "_fields", None)
    if fields is not None:
        return f".{fields[step] if type(step) is int else step}"
    return f".{step}" if dataclasses.is_dataclass(kind) else f"[{step!r}]"


def _in_words(kind: Any, node: TreeDef) -> str:
    if kind is None:
        return "a leaf"
    name = getattr(kind, "__name__", str(kind))
    return (
        f"{name} with {sorted(map(repr, node.keys))}"
        if node.keys
        else (f"{name} of {len(node.children)}")
    )


def map_tree(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply `fn` to corresponding leaves of trees of one structure.

    >>> map_tree(lambda x, y: x + y, {"a": 1, "b": 2}, {"b": 20, "a": 10})
    {'a': 11, 'b': 22}
    """
    leaves, structure = flatten(tree)
    others = [matched(structure, r) for r in rest]
    return unflatten(structure, [fn(*xs) for xs in zip(leaves, *others, strict=True)])
