"""Programs that are made again, whatever earlier runs have left on disk.

A test needs this where it looks at how a program is planned, or changes what plans hang on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from adjoint.engine.backends.llvm.program import native
from adjoint.engine.core.operations.record import HOOKS


@contextmanager
def recorded_anew() -> Iterator[None]:
    """Eager operations are not found by their kinds (Note [kept kinds]), but recorded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HOOKS, "find_operation", lambda name, shared: None)
        yield


@contextmanager
def compiled_anew() -> Iterator[None]:
    """Nor is any program taken from disk or kept there, compiled functions' or operations'.

    Operations that were met before in this process stay as they are: `FRAGMENTS.forget`.
    """
    with recorded_anew(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "disk_key", lambda task, options: None)
        yield
