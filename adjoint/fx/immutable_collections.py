"""Lists and dicts that cannot be changed: what a node's arguments are kept in.

A list changed in place would leave the graph's record of who uses what behind; these refuse.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from adjoint.utils._pytree import MappingKey, SequenceKey, register_pytree_node

_CHANGES_OF_LISTS = (
    "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort"
)
_CHANGES_OF_DICTS = "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update"


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"'{type(self).__name__}' object does not support mutation. A node's arguments are changed "
        "by assigning new ones: copy them, change the copy, and set node.args or node.kwargs."
    )


class immutable_list(list[Any]):
    """A list that cannot be changed, and has a hash.

    Example:
        >>> immutable_list([1, 2]) == [1, 2]
        True
    """

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


class immutable_dict(dict[Any, Any]):
    """A dict that cannot be changed, and has a hash.

    Example:
        >>> immutable_dict(a=1)
        {'a': 1}
    """

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self.items()),)


for _name in _CHANGES_OF_LISTS.split():
    setattr(immutable_list, _name, _refuse)
for _name in _CHANGES_OF_DICTS.split():
    setattr(immutable_dict, _name, _refuse)


def _items(x: Any) -> tuple[list[Any], Any]:
    return list(x), None


def _numbered(x: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(SequenceKey(place), item) for place, item in enumerate(x)], None


def _values(x: Any) -> tuple[list[Any], Any]:
    return list(x.values()), list(x)


def _named(x: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(MappingKey(key), item) for key, item in x.items()], list(x)


def _list_of(items: Iterable[Any], context: Any) -> immutable_list:
    return immutable_list(items)


def _dict_of(items: Iterable[Any], context: Any) -> immutable_dict:
    return immutable_dict(zip(context, items, strict=True))


register_pytree_node(
    immutable_list,
    _items,
    _list_of,
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=_numbered,
)
register_pytree_node(
    immutable_dict,
    _values,
    _dict_of,
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=_named,
)
