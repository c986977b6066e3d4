"""Containers among a call's arguments: a recording has its own, a call uses the caller's.

Note [given containers]
    A call is recorded with containers of its own, of the structure that the signature vouches for.
    What the function writes to them (`batch["mask"] = ...`, `batch.pop("label")`) is an effect like
    any other, and each call does it to the caller's; what came to hold one holds the caller's.
    One container given twice, or given and reached by another way as well, is two while a function
    is recorded: if such a function writes to any, the call is refused.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any

from adjoint.engine.core.errors import CaptureError

Path = tuple[tuple[Callable[[Any, Any], Any], Any], ...]  # how to get from the arguments to it


def containers(value: Any, path: Path = ()) -> Iterator[tuple[Any, Path]]:
    """The containers in the arguments of a call that can be written to, and the way to each."""
    parts: list[tuple[Callable[[Any, Any], Any], Any, Any]]
    if isinstance(value, dict):
        yield value, path
        parts = [(operator.getitem, key, held) for key, held in value.items()]
    elif isinstance(value, (list, deque, tuple)):
        if not isinstance(value, tuple):
            yield value, path
        parts = [(operator.getitem, index, held) for index, held in enumerate(value)]
    elif is_dataclass(value) and not isinstance(value, type):
        yield value, path
        own = getattr(value, "__dict__", None)
        if own is not None:
            yield own, (*path, (getattr, "__dict__"))
        parts = [(getattr, name, held) for name, held in (own or {}).items()]
    else:
        return
    for step, key, held in parts:
        yield from containers(held, (*path, (step, key)))


def follow(given: Any, path: Path) -> Any:
    """What a way through the arguments leads to."""
    for step, key in path:
        given = step(given, key)
    return given


def holds_one(value: Any, paths: dict[int, Path]) -> bool:
    """Whether a value is one of the given containers, or holds one."""
    return any(id(held) in paths for held, _ in containers(value))


def check_distinct(given: Any, reached: frozenset[int]) -> None:
    """Refuse arguments in which one container stands twice, or one that is reached elsewhere."""
    seen = set(reached)
    for held, _ in containers(given):
        if id(held) in seen:
            raise CaptureError(
                f"compile: a {type(held).__name__} is given twice, or given and reached by another "
                "way, and the function writes to such containers, which a recording cannot tell "
                "apart. Pass copies, or write to none of them inside the function."
            )
        seen.add(id(held))
