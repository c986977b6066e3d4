"""What a function does to the containers among its arguments, and what it returns them in.

Note [rebinding]
    A call is recorded with containers of its own, of the same structure. If the function puts
    something else into them (`batch["mask"] = ...`, `batch.pop("label")`), they are returned beside
    the result, and each call puts what they came to into the caller's.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from adjoint.engine.capture.surroundings.places import MISSING
from adjoint.engine.capture.surroundings.reach import is_tracked, plain
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.tree import TreeDef, flatten
from adjoint.engine.tensor.storage import Window

_DEPTH = 4


def rebound(structure: TreeDef, given: Sequence[Any], after: Any) -> bool:
    """Whether containers made of a structure and leaves hold something else by now."""
    leaves, now = flatten(after)
    return now != structure or any(a is not b for a, b in zip(leaves, given, strict=True))


def put_back(old: Any, new: Any) -> Any:
    """Make the containers of `old` hold what those of `new` do; what then stands for `new`."""
    if old is new or type(old) is not type(new):
        return new
    if isinstance(old, dict):
        for key in [key for key in old if key not in new]:
            del old[key]
        for key, value in new.items():
            old[key] = put_back(old.get(key, MISSING), value)
    elif isinstance(old, (list, deque)):
        held = [put_back(a, b) for a, b in zip(old, new, strict=False)]
        rest = list(new)[len(held) :]
        old.clear()
        old.extend([*held, *rest])
    elif isinstance(old, tuple):
        if len(old) != len(new):
            return new
        parts = [put_back(a, b) for a, b in zip(old, new, strict=True)]
        if any(a is not b for a, b in zip(old, parts, strict=True)):
            return type(old)(*parts) if hasattr(old, "_fields") else tuple(parts)
    elif is_dataclass(old):
        for name in _names(new):
            held = put_back(getattr(old, name, MISSING), getattr(new, name))
            object.__setattr__(old, name, held)
    else:
        return new
    return old


def _names(instance: Any) -> list[str]:
    """The attributes of a dataclass's instance."""
    return [f.name for f in fields(instance)] + list(getattr(instance, "__dict__", ()))


def check_results(leaves: Iterable[Any], known: set[int]) -> None:
    """Refuse results that hold a traced tensor where no call could put its own.

    `known` are ids of those that were assigned to places calls do fill (`graph.attributes`).
    """
    for leaf in leaves:
        found = None if is_tensor(leaf) else _traced_in(leaf, known, _DEPTH)
        if found is not None:
            raise RuntimeError(
                f"compile: the function returns a {type(leaf).__name__} that holds a traced tensor "
                f"({found._spec}), which later calls could not replace. Return tensors, or tuples, "
                "lists, dicts, named tuples and dataclasses of them, and make the "
                f"{type(leaf).__name__} of what is returned."
            )


def _traced_in(value: Any, known: set[int], depth: int) -> Any:
    if is_tensor(value):
        traced = type(value._array) is Window and id(value) not in known
        return value if traced else None
    if not depth or plain(value) or is_tracked(value) or isinstance(value, _NO_HOLDERS):
        return None
    for part in _parts(value):
        found = _traced_in(part, known, depth - 1)
        if found is not None:
            return found
    return None


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return list(value)
    if isinstance(value, types.FunctionType):
        return [*(value.__defaults__ or ())]
    return list(getattr(value, "__dict__", {}).values())


_NO_HOLDERS = (type, types.ModuleType, types.BuiltinFunctionType)
