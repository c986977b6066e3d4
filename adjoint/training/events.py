"""TensorBoard's event files, written directly.

A file is a sequence of records: length, its checksum, payload, its checksum. A payload is an Event
message in protocol buffer encoding: wall time, step, and a summary of tagged values, whose forms
are in `summaries`.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from itertools import count
from pathlib import Path

_serial = count()


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    """The checksum as records carry it: rotated and shifted, so that sums of sums stay apart."""
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(payload: bytes) -> bytes:
    """A payload framed with length and checksums."""
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def varint(number: int) -> bytes:
    """An integer in seven-bit groups, lowest first."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def nested(field: int, payload: bytes) -> bytes:
    """A length-delimited field: a string or a message."""
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def number(field: int, value: int) -> bytes:
    """A whole number; 0 is the default and not written."""
    return varint(field << 3) + varint(value) if value else b""


def double(field: int, value: float) -> bytes:
    """A number of eight bytes."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def text(field: int, value: str) -> bytes:
    """A string."""
    return nested(field, value.encode())


def event(wall_time: float, step: int | None = None, content: bytes = b"") -> bytes:
    """An Event: the first of a file names the version, the others hold a summary or a graph."""
    out = double(1, wall_time)
    if step is None:
        return out + text(3, "brain.Event:2")
    return out + b"\x10" + varint(step) + content


class EventFile:
    """A file TensorBoard reads, in a folder of its own or with others."""

    def __init__(self, folder: str | os.PathLike[str], suffix: str = "") -> None:
        where = Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        name = f"{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_serial)}{suffix}"
        self._file = (where / f"events.out.tfevents.{name}").open("ab")
        self._file.write(record(event(time.time())))
        self._file.flush()

    def add(self, content: bytes, step: int | None, walltime: float | None) -> None:
        """Write an event with a summary or a graph."""
        moment = time.time() if walltime is None else walltime
        self._file.write(record(event(moment, int(step or 0), content)))

    def flush(self) -> None:
        """Bring what was added to disk."""
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()
