"""Nested containers as trees of leaves, under PyTorch's names.

As there, a dataclass and a sparse tensor are leaves, and of a named tuple the fields alone (to
Adjoint's transforms they are containers, of all that they hold).
"""

import dataclasses
import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.tree import (
    BY_CLASS,
    LEAF,
    REGISTERED,
    TreeDef,
    flatten,
    matched,
    split_fields,
    unflatten,
)
from adjoint.engine.core.value import TensorBase

__all__ = ["TreeSpec", "tree_flatten", "tree_leaves", "tree_map", "tree_unflatten"]

IsLeaf = Callable[[Any], bool] | None

if TYPE_CHECKING:
    TreeSpec = TreeDef
else:

    class _SpecOfContext(type):
        """Makes a structure of what PyTorch says of one; structures are its instances."""

        def __call__(cls, type: Any, context: Any, children_specs: Any) -> TreeDef:
            return _spec_of(type, context, children_specs)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, TreeDef)

    class TreeSpec(metaclass=_SpecOfContext):
        """The structure of a tree: a container's class, what else makes it, its children's.

        >>> spec = TreeSpec(dict, ["a", "b"], [LeafSpec(), LeafSpec()])
        >>> tree_unflatten([1, 2], spec), isinstance(tree_structure([3]), TreeSpec)
        ({'a': 1, 'b': 2}, True)
        """


def _spec_of(kind: Any, context: Any, children: Iterable[TreeDef]) -> TreeDef:
    """A structure of a container's class, its context as PyTorch has it, and its children's."""
    keys: tuple[Any, ...] = ()
    match kind:
        case None:
            return LEAF
        case _ if kind in (dict, OrderedDict):
            keys, extra = tuple(context), None
        case _ if kind is defaultdict:
            extra, keys = context[0], tuple(context[1])
        case _ if kind is namedtuple:
            kind, extra = context, BY_CLASS
        case _:
            extra = context
    texts = all(type(key) is str for key in keys)
    exact = () if texts else tuple([number_key(key) for key in keys])
    return TreeDef(kind, keys, tuple(children), extra, exact)


def _context_of(spec: TreeDef) -> Any:
    """What PyTorch says of a container beside its class and its children."""
    if spec.kind in (dict, OrderedDict):
        return list(spec.keys)
    if spec.kind is defaultdict:
        return [spec.extra, list(spec.keys)]
    return spec.kind if spec.extra is BY_CLASS else spec.extra


def _stops(is_leaf: IsLeaf) -> Callable[[Any], bool]:
    def stops(node: Any) -> bool:
        return (
            isinstance(node, TensorBase)
            or (dataclasses.is_dataclass(node) and type(node) not in REGISTERED)
            or (is_leaf is not None and is_leaf(node))
        )

    return stops


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Leaves in order, and the structure that holds them."""
    return flatten(tree, _stops(is_leaf), split_fields)


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
    chosen = _of_kind(kind)
    return tree_map(lambda x: func(x) if chosen(x) else x, tree, is_leaf=is_leaf)


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure alone."""
    return tree_flatten(tree, is_leaf)[1]


PyTree = Any
Context = Any
BUILTIN = (list, tuple, dict, OrderedDict, defaultdict, deque, namedtuple)
# Registered classes that say by which keys their children are found.
WITH_KEYS: dict[type, Callable[[Any], tuple[list[tuple[Any, Any]], Any]]] = {}


class NodeDef(NamedTuple):
    """How instances of a class are taken apart and put together again."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Any, Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None


class _Supported(MutableMapping[Any, NodeDef]):
    """The classes that are taken apart: Python's containers, and those registered."""

    def __getitem__(self, cls: Any) -> NodeDef:
        if cls in REGISTERED:
            return NodeDef(cls, *REGISTERED[cls], WITH_KEYS.get(cls))
        if cls not in BUILTIN:
            raise KeyError(cls)

        def together(children: Iterable[Any], context: Any) -> Any:
            parts = list(children)
            return unflatten(_spec_of(cls, context, [LEAF] * len(parts)), parts)

        return NodeDef(cls, _parts, together, _keyed_parts)

    def __setitem__(self, cls: Any, node: NodeDef) -> None:
        REGISTERED[cls] = (node.flatten_fn, node.unflatten_fn)

    def __delitem__(self, cls: Any) -> None:
        del REGISTERED[cls]
        WITH_KEYS.pop(cls, None)

    def __iter__(self) -> Iterator[Any]:
        return iter((*BUILTIN, *REGISTERED))

    def __len__(self) -> int:
        return len(BUILTIN) + len(REGISTERED)


SUPPORTED_NODES = _Supported()


def _parts(tree: Any) -> tuple[list[Any], Any]:
    """The children of a container, and what else makes it."""
    children, spec = flatten(tree, lambda x: x is not tree, split_fields)
    return children, _context_of(spec)


def LeafSpec() -> TreeSpec:
    """The structure of a leaf."""
    return LEAF


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    *,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None,
    **_: Any,
) -> None:
    """Have instances of a class taken apart and put together again.

    Args:
        cls: the class.
        flatten_fn: its children, and what else is needed to make it again.
        unflatten_fn: an instance, from children and the rest.
        flatten_with_keys_fn: the same with the key of each child.
        _: accepted as PyTorch has them: names for files.
    """
    if cls in REGISTERED:
        raise ValueError(f"{cls} is already registered as pytree node.")
    REGISTERED[cls] = (flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        WITH_KEYS[cls] = flatten_with_keys_fn


_register_pytree_node = register_pytree_node


def register_dataclass(
    cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:  # fmt: skip
    """Have a dataclass's fields taken apart: all of them, those named, or all but those dropped."""
    every = [field.name for field in dataclasses.fields(cls) if field.init]
    names = every if field_names is None else list(field_names)
    names = [name for name in names if name not in (drop_field_names or ())]

    def take(value: Any) -> tuple[list[Any], Any]:
        return [getattr(value, name) for name in names], tuple(names)

    def with_keys(value: Any) -> tuple[list[tuple[Any, Any]], Any]:
        return [(GetAttrKey(name), getattr(value, name)) for name in names], tuple(names)

    def make(values: Any, context: Any) -> Any:
        return cls(**dict(zip(context, values, strict=True)))

    register_pytree_node(cls, take, make, flatten_with_keys_fn=with_keys)


class _Constant:
    """A value that is part of a structure, compared by `==`."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Constant) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def register_constant(cls: type) -> None:
    """Have instances of a class be part of the structure, and no leaves."""
    register_pytree_node(cls, lambda x: ([], _Constant(x)), lambda _, constant: constant.value)


# Containers whose structure a file can name.
_WRITTEN = {kind.__name__: kind for kind in (list, tuple, dict, OrderedDict)}


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple of such parts."""
    return _spec_of(tuple, None, list(iterable))


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The structure of a dict of such parts."""
    parts = dict(mapping, **kwargs)
    return _spec_of(dict, list(parts), list(parts.values()))


def treespec_leaf() -> TreeSpec:
    """The structure of a leaf."""
    return LEAF


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure of lists, tuples and dicts as text."""

    def written(spec: TreeSpec) -> Any:
        if spec.is_leaf():
            return None
        if spec.kind not in _WRITTEN.values():
            raise NotImplementedError(f"treespec_dumps: no text stands for {spec.kind}")
        return [spec.kind.__name__, list(spec.keys), [written(child) for child in spec.children]]

    return json.dumps([1, written(treespec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote.

    >>> spec = tree_structure([1, {"a": (2, 3)}])
    >>> treespec_loads(treespec_dumps(spec)) == spec
    True
    """

    def read(entry: Any) -> Any:
        if entry is None:
            return 0
        kind, keys, children = _WRITTEN[entry[0]], entry[1], [read(child) for child in entry[2]]
        return kind(zip(keys, children, strict=True)) if issubclass(kind, dict) else kind(children)

    version, entry = json.loads(serialized)
    if version != 1:
        raise ValueError(f"treespec_loads: unknown version {version}")
    return tree_structure(read(entry))


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether a value is no container."""
    return tree_flatten(tree, is_leaf)[1] is LEAF


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """Call a function on the leaves; the tree itself."""
    tree_map(func, tree, *rests)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether something is true of all leaves."""
    return all(pred(leaf) for leaf in tree_leaves(tree))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether something is true of a leaf."""
    return any(pred(leaf) for leaf in tree_leaves(tree))


def _of_kind(kind: Any) -> Callable[[Any], bool]:
    return (lambda x: isinstance(x, kind)) if isinstance(kind, (type, tuple, UnionType)) else kind


def tree_all_only(
    kind: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether something is true of all leaves of a class."""
    chosen = _of_kind(kind)
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if chosen(leaf))


def tree_any_only(
    kind: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether something is true of a leaf of a class."""
    chosen = _of_kind(kind)
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if chosen(leaf))


def tree_map_only_(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Call a function on the leaves of a class; the tree itself."""
    tree_map_only(kind, func, tree, is_leaf)
    return tree


def map_only(kind: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Decorates a function so that it leaves alone what is of no such class."""
    chosen = _of_kind(kind)
    return lambda func: lambda x: func(x) if chosen(x) else x


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of arguments.

    >>> arg_tree_leaves(1, [2], a=3)
    [1, 2, 3]
    """
    return tree_leaves((args, kwargs))


def tree_iter(tree: Any) -> Any:
    """The leaves, one by one."""
    return iter(tree_leaves(tree))


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


class MappingKey(NamedTuple):
    """The step from a mapping to one of its values."""

    key: Any

    def get(self, parent: Any) -> Any:
        """The value it leads to."""
        return parent[self.key]


class SequenceKey(NamedTuple):
    """The step from a sequence to one of its elements."""

    idx: int

    def get(self, parent: Any) -> Any:
        """The element it leads to."""
        return parent[self.idx]


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Any]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _list_flatten_with_keys(d: list[Any]) -> tuple[list[tuple[Any, Any]], Any]:
    return [(SequenceKey(place), value) for place, value in enumerate(d)], None


def _dict_unflatten(values: Any, context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), type(d)


def _namedtuple_unflatten(values: Any, context: Any) -> Any:
    return context(*values)


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Any]:
    return list(d), None


def _tuple_unflatten(values: Any, context: Any) -> tuple[Any, ...]:
    return tuple(values)


def _list_flatten(d: list[Any]) -> tuple[list[Any], Any]:
    return d, None


def _list_unflatten(values: Any, context: Any) -> list[Any]:
    return list(values)


def _get_node_type(tree: Any) -> Any:
    """The class a value is taken apart as."""
    return namedtuple if is_namedtuple_instance(tree) else type(tree)


class GetAttrKey(NamedTuple):
    """The step from an object to one of its attributes."""

    name: str

    def get(self, parent: Any) -> Any:
        """The attribute it leads to."""
        return getattr(parent, self.name)


KeyEntry = MappingKey | SequenceKey | GetAttrKey


def key_get(obj: Any, kp: Iterable[Any]) -> Any:
    """What a path leads to.

    >>> key_get({"a": [1, 2]}, (MappingKey("a"), SequenceKey(1)))
    2
    """
    for step in kp:
        obj = step.get(obj)
    return obj


def _keyed_parts(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The children of one of Python's containers with their keys, and what else makes it."""
    children, context = _parts(tree)
    keys: Iterable[Any] = map(SequenceKey, range(len(children)))
    if isinstance(tree, dict):
        keys = map(MappingKey, tree)
    elif is_namedtuple_instance(tree):
        keys = map(GetAttrKey, tree._fields)
    return list(zip(keys, children, strict=True)), context


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """Leaves in order, each with the keys that lead to it, and the structure.

    >>> tree_flatten_with_path({"a": (1, 2)})[0]
    [((MappingKey(key='a'), SequenceKey(idx=0)), 1), ((MappingKey(key='a'), SequenceKey(idx=1)), 2)]
    """
    leaves: list[tuple[tuple[Any, ...], Any]] = []
    _walk_keyed(leaves, tree, (), _stops(is_leaf))
    return leaves, tree_flatten(tree, is_leaf)[1]


def _walk_keyed(
    leaves: list[tuple[tuple[Any, ...], Any]],
    node: Any,
    path: tuple[Any, ...],
    stops: Callable[[Any], bool],
) -> None:
    """Append the leaves of `node`, which is at `path`, each with its keys (Note [no cycles])."""
    kind = _get_node_type(node)
    if stops(node) or kind not in SUPPORTED_NODES:
        leaves.append((path, node))
        return
    keyed = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if keyed is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Pass one to "
            "register_pytree_node."
        )
    for key, child in keyed(node)[0]:
        _walk_keyed(leaves, child, (*path, key), stops)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[tuple[Any, ...], Any]]:
    """Leaves in order, each with the keys that lead to it."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None
) -> Any:
    """`tree_map` of a function that is given the keys first."""
    paths, structure = tree_flatten_with_path(tree, is_leaf)
    others = [matched(structure, rest, deeper=True) for rest in rests]
    rows = zip([p for p, _ in paths], [x for _, x in paths], *others, strict=True)
    return unflatten(structure, [func(*row) for row in rows])


def keystr(kp: tuple[Any, ...]) -> str:
    """Keys as a program would write them.

    >>> keystr((MappingKey("a"), SequenceKey(0), GetAttrKey("b")))
    "['a'][0].b"
    """
    return "".join(f".{k.name}" if isinstance(k, GetAttrKey) else f"[{k[0]!r}]" for k in kp)


def _is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    return tree_is_leaf(tree, is_leaf)


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """One value per leaf of a structure from a tree that is a beginning of it; None if it is not.

    Example:
        >>> _broadcast_to_and_flatten((0, None), tree_structure(("a", ["b", "c"])))
        [0, None, None]
    """
    if treespec.kind is None or _is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves if _is_leaf(tree, is_leaf) else None
    given = tree_structure(tree)
    if given.kind is not treespec.kind or len(given.children) != len(treespec.children):
        return None
    if given.keys != treespec.keys:
        return None
    parts = tree.values() if isinstance(tree, dict) else tree
    flat: list[Any] = []
    for part, child in zip(parts, treespec.children, strict=True):
        part_values = _broadcast_to_and_flatten(part, child, is_leaf)
        if part_values is None:
            return None
        flat += part_values
    return flat


def is_namedtuple_class(cls: type) -> bool:
    """Whether a class is one that `namedtuple` made."""
    fields = getattr(cls, "_fields", None)
    return issubclass(cls, tuple) and isinstance(fields, tuple) and hasattr(cls, "_make")


def is_namedtuple_instance(obj: object) -> bool:
    """Whether a value is of such a class."""
    return is_namedtuple_class(type(obj))


is_namedtuple = is_namedtuple_instance


def is_structseq_class(cls: type) -> bool:
    """Whether a class is one of Python's tuples with named fields, such as `time.struct_time`."""
    return cls.__bases__ == (tuple,) and all(
        isinstance(getattr(cls, name, None), int)
        for name in ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    )


def is_structseq_instance(obj: object) -> bool:
    """Whether a value is of such a class.

    Example:
        >>> import time
        >>> is_structseq_instance(time.gmtime()), is_structseq_instance((1, 2))
        (True, False)
    """
    return is_structseq_class(type(obj))


is_structseq = is_structseq_instance
