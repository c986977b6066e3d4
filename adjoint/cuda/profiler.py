"""Telling NVIDIA's tools when to look: `nsys profile --capture-range=cudaProfilerApi`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from adjoint.engine.backends.array.devices import cupy


def start() -> None:
    """Have the tools record from here."""
    cupy().cuda.runtime.profilerStart()


def stop() -> None:
    """Have them stop."""
    cupy().cuda.runtime.profilerStop()


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """A block that the tools record."""
    start()
    try:
        yield
    finally:
        stop()
