"""The GPU engine: NCCL, which is not connected yet."""

from __future__ import annotations

REASON = (
    "this version has no engine for it. Use backend='gloo': MPI carries the messages (`pip install "
    "'adjoint[mpi]'`), and tensors on GPUs go through the host."
)


def is_usable() -> bool:
    """Whether messages between GPUs can be carried by NCCL: not in this version."""
    return False
