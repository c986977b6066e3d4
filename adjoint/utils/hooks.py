"""What registering a hook returns."""

from __future__ import annotations

from typing import Any

from adjoint.engine.autodiff.tape.hooks import Handle as RemovableHandle
from adjoint.engine.core.errors import warn_user
from adjoint.engine.tensor.tensor import Tensor

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Any) -> Any:
    """Mark a hook that is not to be saved with its tensor, without a warning."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn that a tensor's hooks, but for those marked, are not saved with it."""
    meta = tensor._grad_meta
    for hook in (meta.hooks or {}).values() if meta is not None else ():
        if not hasattr(hook, "__torch_unserializable__"):
            warn_user(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, "
                "decorate it with utils.hooks.unserializable_hook to suppress this warning"
            )
