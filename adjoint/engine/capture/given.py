"""Containers among a call's arguments: a recording has its own, a call uses the caller's.

Note [given containers]
    A call is recorded with containers of its own, of the structure that the signature vouches for.
    What the function writes to them (`batch["mask"] = ...`, `batch.pop("label")`) is an effect like
    any other, and each call does it to the caller's; what came to hold one holds the caller's.
    Objects without a hash, and of classes that were registered, are containers of what they hold
    (`core.instances`). Which object one is, is not known: asking is refused.
    One container given twice, or given and reached by another way as well, is two while a function
    is recorded: if such a function writes to any, the call is refused.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.instances import reached, taken_apart
from adjoint.engine.core.ownership import module_of
from adjoint.engine.core.tree import (
    DICTS,
    REGISTERED,
    Parts,
    TreeDef,
    flatten,
    holds_attributes_only,
    split,
)
from adjoint.engine.core.value import TensorBase
from adjoint.engine.tensor.storage import FOREIGN
from adjoint.engine.tensor.tensor import DTYPE_OF, wrap
from adjoint.engine.tensor.watching import show

ARRAYS = "<arrays>"  # the name under which the places of NumPy's arrays are given as well
Path = tuple[tuple[Callable[[Any, Any], Any], Any], ...]  # how to get from the arguments to it
ATTRIBUTES: tuple[Callable[[Any, Any], Any], Any] = (object.__getattribute__, "__dict__")
Classes = frozenset[type]
NONE: Classes = frozenset()
_FRAMEWORK = __name__.partition(".")[0]
_WHOLE = frozenset({*DICTS, list, tuple, deque})


def is_taken_apart(value: Any, changed: Classes = NONE) -> bool:
    """Whether an object is known by what it holds: it has no identity to be told apart by.

    Instances of dataclasses, of classes that programs registered, and of all that have no hash:
    heirs of list and dict, `SimpleNamespace`, `UserDict`. For one function, also of the classes
    `changed` (`changed_objects`).
    """
    kind = type(value)
    if kind in _WHOLE:
        return False
    if kind in changed:
        return True
    if kind.__hash__ is None:  # of the framework's own, what stands for numbers of each call
        return module_of(kind).partition(".")[0] != _FRAMEWORK
    return kind in REGISTERED or holds_attributes_only(value)


def containers(value: Any, changed: Classes = NONE, path: Path = ()) -> Iterator[tuple[Any, Path]]:
    """The containers in the arguments of a call that can be written to, and the way to each."""
    parts: list[tuple[Path, Any]]
    own = None
    apart = reached(value) if is_taken_apart(value, changed) else None
    if apart is not None:
        own, parts = apart
    elif isinstance(value, tuple):
        own = getattr(value, "__dict__", None)
        members = enumerate(tuple.__iter__(value))
        parts = [(((tuple.__getitem__, index),), part) for index, part in members]
        parts += [(((getattr, name),), part) for name, part in (own or {}).items()]
    elif isinstance(value, dict):
        parts = [(((operator.getitem, key),), part) for key, part in value.items()]
    elif isinstance(value, (list, deque)):
        parts = [(((operator.getitem, index),), part) for index, part in enumerate(value)]
    else:
        return
    if own is not None or not isinstance(value, tuple):
        yield value, path
    if own is not None:
        yield own, (*path, ATTRIBUTES)
    for steps, part in parts:
        yield from containers(part, changed, (*path, *steps))


def follow(given: Any, path: Path) -> Any:
    """What a way through the arguments leads to."""
    for step, key in path:
        given = step(given, key)
    return given


def given_leaves(
    args: tuple[Any, ...], kwargs: dict[str, Any], changed: Classes = NONE
) -> tuple[list[Any], TreeDef]:
    """The leaves of a call's arguments; arrays of NumPy's become tensors on the same memory."""
    leaves, structure = _flattened((args, kwargs), changed)
    places = [i for i, x in enumerate(leaves) if type(x) is np.ndarray and _is_tensors(x)]
    if places:
        leaves, structure = _flattened((args, {**kwargs, ARRAYS: tuple(places)}), changed)
        FOREIGN.seen = True
        for place in places:
            leaves[place] = wrap(leaves[place])
            show(leaves[place]._storage)
    return leaves, structure


def _split(value: Any, changed: Classes = NONE) -> Parts | None:
    """The parts of an argument."""
    if not isinstance(value, TensorBase) and is_taken_apart(value, changed):
        return taken_apart(value)
    return split(value)


def _flattened(given: Any, changed: Classes) -> tuple[list[Any], TreeDef]:
    """The leaves of arguments; objects that hold themselves are leaves, by their identity."""
    parts = partial(_split, changed=changed) if changed else _split
    try:
        return flatten(given, None, parts)
    except RecursionError:
        return flatten(given, is_taken_apart)


def _is_tensors(array: Any) -> bool:
    """Whether an array can be the memory of a tensor."""
    steps = array.strides
    return array.dtype in DTYPE_OF and all(s >= 0 and s % array.itemsize == 0 for s in steps)


def array_places(structure: TreeDef, leaves: Sequence[Any]) -> list[int]:
    """Which of a call's leaves stand for arrays of NumPy's."""
    named = structure.children[1]
    if not named.keys or named.keys[-1] != ARRAYS:
        return []
    return list(leaves[-named.children[-1].num_leaves :])


def holds_one(value: Any, paths: dict[int, Path], changed: Classes) -> bool:
    """Whether a value is one of the given containers, or holds one."""
    return any(id(container) in paths for container, _ in containers(value, changed))


def check_distinct(given: Any, reached: frozenset[int], changed: Classes) -> None:
    """Refuse arguments in which one container stands twice, or one that is reached elsewhere."""
    seen = set(reached)
    for container, _ in containers(given, changed):
        if id(container) in seen:
            raise CaptureError(
                f"compile: a {type(container).__name__} is given twice, or given and reached by "
                "another way, and the function writes to such containers, which a recording cannot "
                "tell apart. Pass copies, or write to none of them inside the function."
            )
        seen.add(id(container))
