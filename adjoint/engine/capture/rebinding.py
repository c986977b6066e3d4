"""What a function does to the containers among its arguments, and what it returns them in.

Note [rebinding]
    A call is recorded with containers of its own, of the same structure. If the function puts
    something else into them (`batch["mask"] = ...`, `batch.pop("label")`), they are returned beside
    the result, and each call puts what they came to into the caller's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from adjoint.engine.capture.python.plain import MISSING
from adjoint.engine.core.tree import TreeDef, flatten


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
