"""Whose a callable is: the framework's, which runs as it is, or a user's, which is followed."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.python.calling import entered
from adjoint.engine.capture.python.plain import PLAIN, has
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT

_ENGINE = __name__.partition(".")[0]
_FOLLOWED = tuple(
    f"{_ENGINE}.{name}"
    for name in (
        "nn.modules", "nn.utils", "nn.attention", "nn.parallel", "models", "training", "metrics",
        "distributions", "vision", "optim.lr_scheduler", "optim.swa_utils", "data", "datasets",
        "quantization", "utils.data", "utils.weak", "fx",
        "distributed.data_parallel.module", "distributed.algorithms.model_averaging",
        "distributed.optim.post_localSGD_optimizer", "export.graphs.arguments",
        "engine.compiler.modules", "engine.autodiff.transforms.modules",
        "engine.core.state.structure_version",
    )
)  # fmt: skip
# Of the same folders, what reads nothing but the tensors it is given: most of it would be loops
# over all parameters.
_RUN = (f"{_ENGINE}.nn.utils.clip_grad",)
_OF_FILES = tuple(
    f"{_ENGINE}.{name}"
    for name in ("io", "hub", "onnx.loading", "onnx.exporting.export", "utils.tensorboard")
)
_MACHINERY = tuple(
    f"{_ENGINE}.{name}."
    for name in (
        "engine", "library", "distributed.communication", "distributed.data_parallel",
        "distributed.engines", "distributed.groups", "distributed.placement",
        "distributed.sharded", "distributed.store", "distributed.tensor",
    )
)  # fmt: skip
_TAKE = (f"{_ENGINE}.engine.", *_RUN)
_PASS_ON = tuple(f"{_ENGINE}.engine.{name}." for name in ("autodiff", "graph", "capture"))
_CONTAINERS = (list, tuple, dict)
PLAIN_CALLS = (types.FunctionType, types.MethodType, functools.partial)


def is_of_the_framework(module: str) -> bool:
    """Whether a module is one of this package's."""
    return module.partition(".")[0] == _ENGINE


@functools.lru_cache(maxsize=4096)
def is_native(module: str) -> bool:
    """Whether code of a module is the framework's and not followed."""
    if not is_of_the_framework(module):
        return False
    return not module.startswith(_FOLLOWED) or module.startswith(_RUN)


@functools.lru_cache(maxsize=4096)
def is_of_files(module: str) -> bool:
    """Whether functions of a module read or write files."""
    return module.startswith(_OF_FILES)


@functools.lru_cache(maxsize=4096)
def keeps_state(module: str) -> bool:
    """Whether objects of a module's classes, as optimizers, have attributes that a user may set.

    What moves gradients between processes counts natively how far it is, in recordings too; an
    operation of one's own learns from its first call what it returns.
    """
    return is_native(module) and not module.startswith(_MACHINERY)


def goes_through(fn: Any) -> bool:
    """Whether a function takes what is in sequences, as operations do; others pass them on."""
    module = getattr(fn, "__module__", None) or ""
    return not module.startswith(_PASS_ON) and (
        module.startswith(_TAKE) or "." not in module  # Python's own operators
    )


def is_module(value: Any) -> bool:
    """Whether this is an nn.Module (a layer above this one)."""
    return has(type(value), "_call_impl")


def is_captured(value: Any) -> bool:
    """Whether this is a compiled function."""
    return has(type(value), "capture_children") and has(type(value), "recordings")


def calls_hooks(fn: Any, optimizer: Any) -> bool:
    """Whether a function is the step of an optimizer that calls hooks before or after it."""
    if not isinstance(fn, types.FunctionType) or fn.__code__.co_name != "hooked":
        return False
    return has(type(optimizer), "has_step_hooks") and bool(optimizer.has_step_hooks())


def clears_for_users(fn: Any, optimizer: Any) -> bool:
    """Whether a function is `zero_grad` of an optimizer whose step is a user's, so followed.

    Run natively, it would have the recording depend on all that such an optimizer keeps: what its
    step puts there (a count, a ratio of trust) is another object at each call.
    """
    kind = type(optimizer)
    if getattr(fn, "__name__", "") != "zero_grad" or not has(kind, "capture_keep"):
        return False
    step = getattr(kind, "step", None)
    return isinstance(step, types.FunctionType) and not is_native(step.__module__ or "")


def entry_to(recorder: Any, fn: Any, note: Callable[[Any], Any]) -> Any:
    """A function that has `fn` followed, and looks like it; `note` is told what it is given."""
    entry = entered(recorder, fn, note)
    if isinstance(fn, PLAIN_CALLS):
        functools.update_wrapper(entry, fn, updated=())
    return entry


def is_users(cell: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Whether a variable holds a user's function, one that holds such, or a module."""
    try:
        item = cell.cell_contents
    except ValueError:  # not there yet
        return False
    if isinstance(item, types.MethodType):
        item = item.__func__
    if isinstance(item, types.FunctionType):
        return not is_native(item.__globals__.get("__name__") or "") or has_user_cells(item, seen)
    return holds_users(item)


def holds_users(value: Any) -> bool:
    """Whether a value is a module, or a container of modules or of a user's functions."""
    if type(value) not in _CONTAINERS:
        return is_module(value) and not isinstance(value, type)
    for part in value.values() if type(value) is dict else value:
        kind = type(part)
        if kind in PLAIN_CALLS:
            if is_users(types.CellType(part)) or kind is functools.partial:
                return True
        elif kind not in PLAIN and not is_tensor(part) and holds_users(part):
            return True
    return False


def has_lists_of_users(fn: Any) -> bool:
    """Whether a function of the framework's has such a container among its variables."""
    contents = (cell for cell in fn.__closure__ or () if _is_set(cell))
    return any(
        type(cell.cell_contents) in _CONTAINERS and holds_users(cell.cell_contents)
        for cell in contents
    )


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def has_user_cells(fn: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Whether a function's variables from outside are a user's; a function may hold itself."""
    if not isinstance(fn, types.FunctionType) or id(fn) in seen:
        return False
    inside = seen | {id(fn)}
    return any(is_users(cell, inside) for cell in fn.__closure__ or ())


def wraps_users(fn: Any) -> bool:
    """Whether a function of the framework only surrounds a user's, as decorators do.

    There may be several around one another: `no_grad` around an optimizer's step, and its hooks.
    """
    inner = fn.__dict__.get("__wrapped__")
    while isinstance(inner, types.FunctionType):
        if not is_native(inner.__globals__.get("__name__") or ""):
            return True
        inner = inner.__dict__.get("__wrapped__")
    return False


def saved_hooks_around(engine: Any) -> tuple[Any, ...]:
    """What stands for hooks that are entered around the call and see what the tape saves."""

    def refuse(_: Any) -> Any:
        raise engine.recorder.refuse(
            "saved-tensor hooks around a compiled call",
            "they see each tensor that an operation saves, which a recording does not",
            "Enter them (checkpoint, save_on_cpu) inside the compiled function.",
        )

    return ((refuse, refuse),) if CONTEXT.saved_hooks else ()
