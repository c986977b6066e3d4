"""Pushing a transform's level, and taking values out of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from adjoint.engine.core.operations.levels import Level
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import map_tree
from adjoint.engine.tensor.writing.mutation import payload

L = TypeVar("L", bound=Level)


@contextmanager
def entered(level: L, *, grad_enabled: bool | None = None) -> Iterator[L]:
    """The level on top of the stack, for a block."""
    level.outer_grad = CONTEXT.grad_enabled
    mode = CONTEXT.grad_enabled if grad_enabled is None else grad_enabled
    try:
        with CONTEXT.having(levels=(*CONTEXT.levels, level), grad_enabled=mode):
            yield level
    finally:
        level.active = False


def next_depth() -> int:
    """The depth of a level pushed now."""
    return CONTEXT.levels[-1].depth + 1 if CONTEXT.levels else 1


def leave(level: Level, tree: Any) -> Any:
    """Outputs as the level below sees them."""
    return map_tree(lambda x: payload(x) if is_tensor(x) and x._storage.level is level else x, tree)


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """What a tensor inside a transform stands for, for looking at while debugging."""
    while is_tensor(tensor) and tensor._storage.level is not None:
        value = payload(tensor)
        tensor = value[0] if isinstance(value, tuple) else value
        if not recurse:
            break
    return tensor


def functionalize(func: Any, *, remove: str = "mutations") -> Any:
    """The function itself: writes inside transforms and captures are functional already."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            "functionalize(f, remove='mutations'): received invalid argument for remove="
            f"{remove}. Valid options are: 'mutations', 'mutations_and_views'"
        )
    return func
