"""The GPU engine: NCCL."""

from __future__ import annotations

INSTALL = "pip install nccl4py nvidia-nccl-cu13"


def is_usable() -> bool:
    """Whether NCCL and a CUDA device are there."""
    return False
