"""Hooks of optimizers: tables of callbacks and the handles that take them out again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from adjoint.engine.autodiff.tape.hooks import Handle
from adjoint.engine.core.state.structure_version import STRUCTURE_VERSION

Table = OrderedDict[int, Callable[..., Any]]

BEFORE_EVERY_STEP: Table = OrderedDict()
AFTER_EVERY_STEP: Table = OrderedDict()


def register(table: Table, hook: Callable[..., Any], *, prepend: bool = False) -> Handle:
    """Add a hook to a table."""
    handle = Handle(table, hook)
    STRUCTURE_VERSION.count += 1
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> Handle:
    """Call `hook(optimizer, args, kwargs)` before every optimizer's step."""
    return register(BEFORE_EVERY_STEP, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> Handle:
    """Call `hook(optimizer, args, kwargs)` after every optimizer's step."""
    return register(AFTER_EVERY_STEP, hook)
