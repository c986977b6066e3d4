"""Functions that a `__torch_function__` of the user's takes over: it would run unseen."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.errors import is_ours
from adjoint.engine.core.operations.overrides import OVERRIDES, QUESTIONS, THREAD, overriding
from adjoint.engine.core.ownership import module_of
from adjoint.engine.tensor.overriding import INWARD

_NOT_ASKED = QUESTIONS | INWARD


def may_be_overridden(fn: Any) -> bool:
    """Whether a function may be taken over, or enters what takes functions over."""
    return OVERRIDES.active or module_of(fn) == "adjoint.overrides"


def check_overrides(recorder: Any, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a function of the framework's that code of the user's would take over."""
    name = getattr(fn, "__name__", "a function")
    if not THREAD.functions or name in _NOT_ASKED:
        return
    enters = name == "__enter__" and module_of(fn) == "adjoint.overrides"
    if (
        enters
        or THREAD.modes
        or (THREAD.subclasses and any(map(_is_users, overriding(args, kwargs))))
    ):
        raise recorder.refuse(
            name,
            "a __torch_function__ takes it over, which a recording does not see",
            "Give it plain tensors, x.as_subclass(Tensor), or enter the mode outside.",
        )


def _is_users(value: Any) -> bool:
    method = type(value).__torch_function__
    code = getattr(getattr(method, "__func__", method), "__code__", None)
    return code is None or not is_ours(code)
