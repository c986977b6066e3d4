"""Recordings without searches for garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from adjoint.engine.core.state.loading import collecting_later


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No search for garbage: a recording makes many objects and drops few.

    What it leaves lives as long as the program, so it is put with the old objects at once (frozen
    and thawed, unless somebody has frozen some to stay so) instead of looked through as new ones.
    """
    collects = gc.isenabled()
    with collecting_later():
        yield
        if collects and not _FrozenObjects.met:
            _FrozenObjects.met = gc.get_freeze_count() > 0
        if collects and not _FrozenObjects.met:
            gc.freeze()
            gc.unfreeze()


class _FrozenObjects:
    """Whether there are objects that somebody has frozen; to count them takes a while."""

    met = False
