"""`memory_report`: which tensors hold memory now; `track_memory`: which lines made them."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

from adjoint.debug.operations import where_now
from adjoint.engine.backends.array.gpu.device_memory import TRACKING
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.holders import MADE_BY, holders_text, largest_storages


def memory_report(count: int = 10) -> str:
    """The largest tensors there are, and how much all of them take.

    Those made under `track_memory` have the line that made them; memory over time
    `profiler.profile(profile_memory=True)` tells.

    Example:
        >>> import adjoint as ad
        >>> big = ad.zeros(1000, 1000)
        >>> "float32[1000, 1000]" in ad.debug.memory_report()
        True
    """
    return holders_text(largest_storages(), count)


class track_memory:
    """Note the lines of operations whose results take memory, in a block or until `stop()`.

    `memory_report` and out-of-memory errors tell them then, on the CPU and on GPUs.

    Example:
        >>> import adjoint as ad
        >>> with ad.debug.track_memory():
        ...     big = ad.zeros(1000, 1000)
        >>> "made at" in ad.debug.memory_report(1)
        True
    """

    def __init__(self) -> None:
        self._before: dict[str, Any] = {}

    def start(self) -> track_memory:
        """Begin."""
        self._before = CONTEXT.set(observers=(*CONTEXT.observers, self.observe))
        TRACKING.start(history=None)
        return self

    def stop(self) -> None:
        """End; what was noted stays until its tensors go."""
        CONTEXT.set(**self._before)
        TRACKING.stop()

    def __enter__(self) -> track_memory:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def observe(self, record: Any, operands: Any, params: Any, outs: Any) -> None:
        """An operation was performed."""
        for out in outs if isinstance(outs, tuple) else (outs,):
            buffer = out._storage.buffer if is_tensor(out) else None
            if buffer is None or id(buffer) in MADE_BY:
                continue
            where, key = where_now(), id(buffer)
            if where is None:
                continue
            # Forgotten with the buffer, whose identity another one may get.
            MADE_BY[key] = where, weakref.ref(buffer, partial(_forget, key))


def _forget(key: int, _: Any) -> None:
    MADE_BY.pop(key, None)
