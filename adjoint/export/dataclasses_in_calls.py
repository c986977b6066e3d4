"""Dataclasses among the arguments and results of exported modules."""

from __future__ import annotations

import dataclasses

from adjoint.utils import _pytree


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Have a dataclass's fields taken apart where modules are given or return one.

    Example:
        >>> import dataclasses
        >>> import adjoint as ad
        >>> @dataclasses.dataclass
        ... class Pair:
        ...     first: ad.Tensor
        ...     second: ad.Tensor
        >>> register_dataclass(Pair)
        >>> ad.utils._pytree.tree_leaves(Pair(1, 2))
        [1, 2]
    """
    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")
    _pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)
