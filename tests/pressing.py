"""Ctrl-C while a test's call runs, never before it and never after; and no garbage collection."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage is looked for in here.

    Python drops what is raised while a collection calls those who asked to be told of it
    (hypothesis does, and so do these tests), so an interrupt must not fall into one.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def interrupted(after: float) -> Iterator[None]:
    """What runs in here is interrupted, so many seconds after it began at the earliest.

    The signal is sent by a thread that waits until the body has begun: however late this thread
    comes to it, the interrupt finds `pytest.raises` around it.
    """
    begun = threading.Event()

    def press() -> None:
        begun.wait()
        time.sleep(after)
        os.kill(os.getpid(), signal.SIGINT)

    # Python leaves the signal ignored if a shell that runs a command in the background did so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=press)
    thread.start()
    try:
        with uncollected(), pytest.raises(KeyboardInterrupt):  # noqa: PT012, or it comes between
            begun.set()
            yield
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
