"""Shared memory between workers and the main process, without names and without copies.

Note [segments]
    A segment is an anonymous file (memfd, or an unlinked temporary file) that the worker maps and
    the parent maps once, when its descriptor arrives over the worker's socket. It has no name, so
    nothing can be left behind in /dev/shm, whoever dies and however. Descriptors are closed once
    both sides have mapped it: a batch that is held costs memory only. When the last tensor on a
    segment dies in the parent, its number goes back to the worker with the next task; when the
    worker holds no view of it either, the segment is filled again. Pages are therefore faulted in
    once, not once per batch.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EMFILE
from io import BytesIO
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.memory.mapping import Mapping, anonymous_file
from adjoint.engine.core.device import CPU
from adjoint.engine.core.errors import DeviceError
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor, wrap

Array = np.ndarray[Any, Any]
SMALL = 16 * 1024  # bytes; what is smaller travels in the message itself
IDLE = 4  # how many of the largest segments a worker may keep waiting
_PAGE = mmap.PAGESIZE


class Lease:
    """Keeps a mapping in use for as long as an array on it lives."""

    __slots__ = ("__array_interface__", "__weakref__", "mapping")

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.__array_interface__ = mapping.__array_interface__


class SharedSegment:
    """A mapped anonymous file, on either side."""

    __slots__ = ("__weakref__", "address", "fd", "key", "lease", "mapping", "remote", "size")

    def __init__(self, key: int, size: int, fd: int) -> None:
        self.key = key
        self.size = size
        self.fd = fd  # -1 once the other side has it
        self.mapping = Mapping(fd, size)
        self.address = self.mapping.address
        self.lease: weakref.ref[Lease] | None = None
        self.remote = False  # of a worker's segment: the parent may be reading it

    def lend(self, shape: tuple[int, ...], dtype: Any, returned: Any = None) -> Array:
        """An array on the segment; `returned()` is called when nothing refers to it any more."""
        lease = self.lease and self.lease()
        if lease is None:  # else a second array of one message on the same memory
            lease = Lease(self.mapping)
            self.lease = weakref.ref(lease, returned)
        return np.asarray(lease)[: prod(shape) * dtype.itemsize].view(dtype).reshape(shape)

    @property
    def free(self) -> bool:
        """Whether neither side refers to the elements."""
        return not self.remote and (self.lease is None or self.lease() is None)

    def close_descriptor(self) -> None:
        """Close the file; the mapping stays."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class SharedSegments:
    """A worker's segments: lent to collation, sent, and used again when they come back."""

    def __init__(self) -> None:
        self.segments: dict[int, SharedSegment] = {}
        self._next = 0
        self.announce: list[
            SharedSegment
        ] = []  # new segments whose descriptor goes with this message
        self.dropped: list[int] = []  # segments the parent may unmap

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised array; on a segment unless it is small."""
        size = prod(shape) * dtype.itemsize
        if size < SMALL:
            return np.empty(shape, dtype)
        return self._take(size).lend(shape, dtype)

    def _take(self, size: int) -> SharedSegment:
        idle = [s for s in self.segments.values() if s.free]
        fitting = [s for s in idle if size <= s.size <= 2 * size + _PAGE]
        if fitting:
            return min(fitting, key=lambda s: s.size)
        rounded = -(-size // _PAGE) * _PAGE
        limit = IDLE * max([rounded, *(s.size for s in self.segments.values())])
        while idle and (len(idle) > 4 * IDLE or sum(s.size for s in idle) > limit):
            self._drop(idle.pop(0))
        fd = anonymous_file("adjoint-batch", rounded)
        try:
            segment = SharedSegment(self._next, rounded, fd)
        except OSError:
            os.close(fd)
            raise
        self._next += 1
        self.segments[segment.key] = segment
        return segment

    def _drop(self, segment: SharedSegment) -> None:
        segment.close_descriptor()
        del self.segments[segment.key]
        self.dropped.append(segment.key)

    def returned(self, keys: list[int]) -> None:
        """The parent no longer reads these."""
        for key in keys:
            if key in self.segments:
                self.segments[key].remote = False

    def place(self, array: Array) -> SharedSegment:
        """The segment an array begins on, copying the array to one if it is elsewhere."""
        address = array.__array_interface__["data"][0]
        if array.flags.c_contiguous:
            for segment in self.segments.values():
                if segment.address == address and not segment.remote:
                    return segment
        segment = self._take(array.nbytes)
        segment.lend(array.shape, array.dtype)[...] = array
        return segment


class _Sender(pickle.Pickler):
    """Pickles a batch with large CPU tensors replaced by places in shared memory."""

    def __init__(self, file: Any, arena: SharedSegments) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.arena = arena
        self.sent: dict[int, SharedSegment] = {}  # by id of the array, so that shared stays shared
        self.alive: list[Any] = []

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if type(value) is np.ndarray and value.nbytes >= SMALL and value.dtype.kind in "biufc":
            segment = self._segment(value)
            return ("array", segment.key, segment.size, value.shape, value.dtype)
        return None

    def _tensor(self, tensor: Tensor) -> Any:
        array = tensor._array
        if type(array) is Window:
            return None  # refused by pickling, with a reason
        if tensor.device is not CPU:
            raise DeviceError(
                f"DataLoader: a worker made a tensor on {tensor.device}, which cannot be sent "
                "between processes. Return CPU tensors and move the batch in the training loop "
                "(pin_memory=True makes that copy fast)."
            )
        if type(tensor) is not Tensor or tensor.__dict__ or tensor.requires_grad:
            return None  # by value, with all it carries
        if array.nbytes < SMALL:
            # A view is sent as the part it shows; by value it would bring its whole storage.
            return ("small", array) if tensor._chain else None
        segment = self._segment(array)
        return ("tensor", segment.key, segment.size, array.shape, array.dtype)

    def _segment(self, array: Array) -> SharedSegment:
        segment = self.sent.get(id(array))
        if segment is None:
            segment = self.arena.place(array)
            segment.remote = True
            self.sent[id(array)] = segment
            self.alive.append(array)
            if segment.fd >= 0 and segment not in self.arena.announce:
                self.arena.announce.append(segment)
        return segment


@contextmanager
def _socket(connection: Any) -> Iterator[socket.socket]:
    """A connection as a socket, without a descriptor more."""
    plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=connection.fileno())
    try:
        yield plain
    finally:
        plain.detach()


class NoDescriptor(OSError):
    """A descriptor could not be received, because this process may not have one more."""


def descriptor_limit() -> str:
    """What the limit on descriptors is, and what to do about it."""
    import resource  # not on every system, nor needed before

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"this process may have {soft} open files and sockets, and has them. Close some, or raise "
        f"the limit (`ulimit -n`, or resource.setrlimit up to {hard})."
    )


def send(connection: Any, message: Any, arena: SharedSegments) -> None:
    """Send a message over a connection, with large arrays in shared memory."""
    arena.announce = []
    file = BytesIO()
    sender = _Sender(file, arena)
    try:
        sender.dump(message)
    except BaseException:
        for segment in sender.sent.values():
            segment.remote = False
        raise
    fresh = [(s.key, s.size) for s in arena.announce]
    dropped, arena.dropped = arena.dropped, []
    connection.send_bytes(pickle.dumps((fresh, dropped)) + file.getvalue())
    for segment in arena.announce:
        with _socket(connection) as plain:
            socket.send_fds(plain, [b"F"], [segment.fd])
        segment.close_descriptor()


class Inbox:
    """The parent's side of one worker's segments."""

    def __init__(self) -> None:
        self.segments: dict[int, SharedSegment] = {}
        self.returned: list[int] = []  # segments whose tensors have died, to tell the worker

    def receive(self, connection: Any) -> Any:
        """The next message."""
        file = BytesIO(connection.recv_bytes())
        fresh, dropped = pickle.load(file)
        for key, size in fresh:
            with _socket(connection) as plain:
                data, fds, flags, _ = socket.recv_fds(plain, 1, 1)
            if not data:
                raise EOFError
            if not fds or flags & socket.MSG_CTRUNC:
                raise NoDescriptor(EMFILE, "cannot receive a batch: " + descriptor_limit())
            try:
                self.segments[key] = SharedSegment(key, size, fds[0])
            finally:
                os.close(fds[0])
            self.segments[key].fd = -1
        for key in dropped:
            self.segments.pop(key, None)
        return _Receiver(file, self).load()

    def lend(self, key: int, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array on a segment; its death is noted."""
        returned = self.returned
        return self.segments[key].lend(shape, dtype, lambda _: returned.append(key))

    def take_returned(self) -> list[int]:
        """Segments to give back; the list starts anew."""
        keys = self.returned[:]
        del self.returned[: len(keys)]
        return keys


class _Receiver(pickle.Unpickler):
    """Rebuilds a batch on the parent's mapping of the segments."""

    def __init__(self, file: Any, inbox: Inbox) -> None:
        super().__init__(file)
        self.inbox = inbox

    def persistent_load(self, pid: Any) -> Any:
        if pid[0] == "small":
            return wrap(pid[1])
        kind, key, _, shape, dtype = pid
        array = self.inbox.lend(key, shape, dtype)
        return wrap(array) if kind == "tensor" else array
