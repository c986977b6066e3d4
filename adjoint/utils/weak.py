"""Dictionaries whose keys are objects by identity, held weakly."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

from adjoint.engine.tensor.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that equals another one to the very same object."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, theirs = self(), other() if isinstance(other, weakref.ref) else None
        return self is other if mine is None or theirs is None else mine is theirs


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary by identity of its keys, which it does not keep alive.

    Example:
        >>> import adjoint as ad
        >>> x = ad.ones(2)
        >>> seen = WeakIdKeyDictionary({x: "mine"})
        >>> seen[x], ad.ones(2) in seen
        ('mine', False)
        >>> del x
        >>> len(seen)
        0
    """

    def __init__(self, dict: Any = None, ref_type: type[Any] = WeakIdRef) -> None:
        self.ref_type = ref_type
        self.data: dict_of_references = {}
        if dict is not None:
            self.update(dict)

    def _forget(self, reference: Any) -> None:
        self.data.pop(reference, None)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # it takes no weak references
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return sum(reference() is not None for reference in list(self.data))

    def copy(self) -> WeakIdKeyDictionary:
        """Another with the same keys and values."""
        return WeakIdKeyDictionary(self, self.ref_type)


dict_of_references = dict[Any, Any]
WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self.ref = WeakIdRef(tensor)

    def __call__(self) -> Any:
        """The tensor, or None once it is gone."""
        return self.ref()
