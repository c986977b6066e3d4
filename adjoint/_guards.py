"""What libraries ask about a trace that is under way: PyTorch's `torch._guards`."""

from __future__ import annotations

from typing import Any

from adjoint._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from adjoint.engine.core.tree import flatten
from adjoint.utils._python_dispatch import _get_current_dispatch_mode_stack


def active_fake_mode() -> FakeTensorMode | None:
    """The innermost `FakeTensorMode` that is entered, or None."""
    modes = _get_current_dispatch_mode_stack()
    return next((mode for mode in reversed(modes) if isinstance(mode, FakeTensorMode)), None)


def detect_fake_mode(inputs: Any = None) -> FakeTensorMode | None:
    """The mode that is entered, or that fake tensors among some values are of; or None."""
    mode = active_fake_mode()
    if mode is None:
        fakes = [x for x in flatten(inputs)[0] if isinstance(x, FakeTensor)]
        mode = fakes[0].fake_mode if fakes else None
    return mode


class TracingContext:
    """A trace of PyTorch's own compiler; there is none under way."""

    @staticmethod
    def try_get() -> None:
        """None."""

    @staticmethod
    def get() -> None:
        """Refused: there is none."""
        raise RuntimeError("TracingContext.get() must be called within an ongoing trace.")
