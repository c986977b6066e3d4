"""How long processes wait for one another unless told otherwise."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

default_pg_timeout = timedelta(minutes=30)
default_pg_nccl_timeout = timedelta(minutes=10)


def seconds_of(timeout: Any, default: timedelta = default_pg_timeout) -> float:
    """A time limit in seconds: a timedelta, a number of seconds, or None for the default.

    >>> seconds_of(timedelta(minutes=1)), seconds_of(None)
    (60.0, 1800.0)
    """
    if timeout is None:
        timeout = default
    length = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if length <= 0:
        raise ValueError(f"timeout: expected a positive length of time, received {timeout!r}")
    return length
