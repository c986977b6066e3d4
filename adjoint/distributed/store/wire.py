"""Messages on a line: a list of byte strings in one frame."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from multiprocessing.connection import Connection

from adjoint.distributed.errors import DistNetworkError

LONGEST = 1 << 30  # bytes of a message


def send(line: Connection, *fields: str | bytes) -> None:
    """Send the fields of a message."""
    raw = [f.encode() if isinstance(f, str) else f for f in fields]
    head = struct.pack(f"<I{len(raw)}Q", len(raw), *map(len, raw))
    line.send_bytes(head + b"".join(raw))


def receive(line: Connection) -> list[bytes]:
    """The fields of the next message; EOFError where the line was cut."""
    data = line.recv_bytes(LONGEST)
    (count,) = struct.unpack_from("<I", data)
    lengths = struct.unpack_from(f"<{count}Q", data, 4)
    at, fields = 4 + 8 * count, []
    for length in lengths:
        fields.append(data[at : at + length])
        at += length
    if at != len(data):
        raise DistNetworkError(f"a message of {len(data)} bytes has fields of {at}")
    return fields


def texts(fields: Sequence[bytes]) -> list[str]:
    """Fields as text."""
    return [f.decode() for f in fields]
