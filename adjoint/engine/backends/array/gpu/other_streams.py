"""Memory of a GPU that other streams use than the one it was taken on.

Note [other streams]
    Memory is used again in the order of the stream that it was taken on. What another stream was
    asked to do with it is not in that order: `record_stream` says so. When nobody has such memory
    any longer, each of those streams gets a mark, and the memory is kept until all have come to it.
    A mark in a stream that is being captured would be part of the graph, and could not be asked
    about: marks are made when the capture is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE

Use = tuple[int, Any]  # a device, and a stream on it
# A mark that a stream will come to, or None as long as there is none; the memory; whose mark.
Waiting = tuple[Any, Any, Use]


class OtherStreams:
    """Who uses which memory."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.uses: dict[int, list[Use]] = {}  # by the address of a block
        self.waiting: deque[Waiting] = deque()  # memory that nobody has

    def add(self, address: int, device: int, stream: Any) -> None:
        """A stream uses a block."""
        uses = self.uses.setdefault(address, [])
        if all((device, stream.ptr) != (other, s.ptr) for other, s in uses):
            uses.append((device, stream))

    def keep(self, address: int, memory: Any) -> None:
        """Nobody has a block any longer: its memory stays until its streams are done with it."""
        for use in self.uses.pop(address):
            mark = None if STREAM_CAPTURE.graph is not None else self.mark(use)
            self.waiting.append((mark, memory, use))

    def follow(self, address: int, device: int, stream: Any) -> None:
        """Have a stream of the current device, which is to write to a block, wait for the others.

        From then on it is the only one that uses it.
        """
        uses = self.uses.get(address)
        if not uses:
            return
        for use in uses:
            if (use[0], use[1].ptr) != (device, stream.ptr):
                stream.wait_event(self.mark(use))
        self.uses[address] = [(device, stream)]

    def mark(self, use: Use) -> Any:
        """A mark after what a stream was asked for so far."""
        device, stream = use
        with self.on(device):
            event = self.cupy.cuda.Event(disable_timing=True)
            event.record(stream)
        return event

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """A block in which a device is the current one: marks are of the device that makes them."""
        runtime = self.cupy.cuda.runtime
        before = runtime.getDevice()
        if before != device:
            runtime.setDevice(device)
        try:
            yield
        finally:
            if before != device:
                runtime.setDevice(before)

    def release(self) -> None:
        """Let go of memory that other streams are done with.

        What is looked at stays on the list meanwhile: another thread may look at it too, and
        neither may take the next one for it.
        """
        waiting = self.waiting
        while waiting:
            try:
                first = waiting[0]
            except IndexError:  # another thread has let go of the last
                return
            if first[0] is None:
                if STREAM_CAPTURE.graph is not None:
                    return
                waiting.append((self.mark(first[2]), *first[1:]))
            elif not first[0].done:
                return
            with suppress(ValueError):  # another thread has
                waiting.remove(first)

    def finish(self) -> None:
        """Wait for all of them."""
        for mark, _, _ in list(self.waiting):
            if mark is not None:
                mark.synchronize()
        self.release()
