"""Process-wide settings that are neither per-thread nor per-tensor.

Those that programs set under PyTorch's names are in `core.state.switches`.
"""

from __future__ import annotations

# The module name shown in reprs: "torch" while a PyTorch script runs under `adjoint run`.
display_name = "adjoint"
# Whether `compile` takes a function that cannot be recorded for an error unless told otherwise;
# a PyTorch script expects it to run all the same.
fullgraph = True

# Whether `save` writes objects of a program's own unless told otherwise, as PyTorch's does.
pickles = False

# How many recordings a compiled function keeps: each may hold memory of its own.
recording_limit = 64
