"""Process-wide settings that are neither per-thread nor per-tensor."""

from __future__ import annotations

# The module name shown in reprs: "torch" while a PyTorch script runs under `adjoint run`.
display_name = "adjoint"
