"""Recordings without searches for garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No search for garbage: a recording makes many objects and drops few.

    What it leaves lives as long as the program, so it is put with the old objects at once (frozen
    and thawed, unless somebody has frozen some to stay so) instead of looked through as new ones.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        if not _FrozenObjects.met:
            _FrozenObjects.met = gc.get_freeze_count() > 0
        if not _FrozenObjects.met:
            gc.freeze()
            gc.unfreeze()
    finally:
        gc.enable()


class _FrozenObjects:
    """Whether there are objects that somebody has frozen; to count them takes a while."""

    met = False
