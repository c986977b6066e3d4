"""Batches in memory that a GPU reads from, under PyTorch's address."""

from __future__ import annotations

import queue
from typing import Any

from adjoint._utils import ExceptionWrapper
from adjoint.data.pin import pin

WAIT = 5.0  # seconds between looks at whether the loop shall end


def pin_memory(data: Any, device: Any = None) -> Any:
    """A batch with its tensors in pinned memory."""
    return pin(data)


def _pin_memory_loop(
    in_queue: Any, out_queue: Any, device_id: int, done_event: Any, device: Any
) -> None:
    """Pin what comes in one queue and pass it on by another, until the event is set."""
    while not done_event.is_set():
        try:
            index, data = in_queue.get(timeout=WAIT)
        except queue.Empty:
            continue
        if not isinstance(data, ExceptionWrapper):
            try:
                data = pin(data)
            except Exception:
                data = ExceptionWrapper(where=f"in pin memory thread for device {device_id}")
        while not done_event.is_set():
            try:
                out_queue.put((index, data), timeout=WAIT)
                break
            except queue.Full:
                continue
