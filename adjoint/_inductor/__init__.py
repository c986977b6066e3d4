"""What libraries set and register with PyTorch's own compiler; `compile` here is Adjoint's."""

from typing import Any

from adjoint._inductor import config as config
from adjoint._inductor import decomposition as decomposition
from adjoint.engine.compiler.executors import MODES as _MODES
from adjoint.engine.compiler.marks import cudagraph_mark_step_begin as cudagraph_mark_step_begin


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """What each mode of `compile` sets of PyTorch's options, or one does: nothing.

    >>> list_mode_options("max-autotune")
    {}
    """
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    return {known: {} for known in _MODES} if mode is None else {}
