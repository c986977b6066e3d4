"""Which processes work for a loader, under PyTorch's address.

PyTorch's workers report fatal signals from compiled code. Here a dead worker is noticed by who
waits for it.
"""

from __future__ import annotations

_PIDS: dict[int, tuple[int, ...]] = {}


def _set_worker_signal_handlers() -> None:
    """Nothing: a worker that a signal ends is noticed by its parent."""


def _set_SIGCHLD_handler() -> None:
    """Nothing: likewise."""


def _set_worker_pids(owner: int, pids: tuple[int, ...]) -> None:
    """Note an iterator's workers."""
    _PIDS[owner] = pids


def _remove_worker_pids(owner: int) -> None:
    """Forget them."""
    _PIDS.pop(owner, None)
