"""Process-wide settings that are neither per-thread nor per-tensor."""

from __future__ import annotations

# The module name shown in reprs: "torch" while a PyTorch script runs under `adjoint run`.
display_name = "adjoint"
# Whether `compile` takes a function that cannot be recorded for an error unless told otherwise;
# a PyTorch script expects it to run all the same.
fullgraph = True

_warn_always = False


def set_warn_always(b: bool) -> None:
    """Whether warnings are repeated; Python's `warnings` filters decide which are shown."""
    global _warn_always
    _warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was told."""
    return _warn_always
