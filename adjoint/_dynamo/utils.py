"""Helpers of PyTorch's compiler that libraries use by themselves."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter, defaultdict

from adjoint.engine.core.errors import warn_user

# What PyTorch's compiler counts, by subject; Adjoint's counts nothing here.
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


@functools.cache
def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warn, unless that was said before."""
    warn_user(msg)


def disable_cache_limit() -> contextlib.AbstractContextManager[None]:
    """A `with` block without a limit on recordings: there is none anywhere."""
    return contextlib.nullcontext()
