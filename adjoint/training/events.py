"""TensorBoard's event files, scalars only, written directly.

A file is a sequence of records: length, its checksum, payload, its checksum. A payload is an Event
message in protocol buffer encoding: wall time, step, and a summary of tagged numbers.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from itertools import count
from pathlib import Path
from typing import Any

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


def event(wall_time: float, step: int | None = None, tag: str = "", value: float = 0.0) -> bytes:
    """An Event: the first of a file names the version, the others one scalar each."""
    out = b"\x09" + struct.pack("<d", wall_time)
    if step is None:
        return out + nested(3, b"brain.Event:2")
    scalar = nested(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
    return out + b"\x10" + varint(step) + nested(5, nested(1, scalar))


class SummaryWriter:
    """Writes scalars where TensorBoard finds them.

    Args:
        log_dir: the folder; `runs/<time>_<host>` by default.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     writer.add_scalar("loss", 0.25, 3)
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = None, comment: str = "") -> None:
        if log_dir is None:
            log_dir = f"runs/{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}"
        self.log_dir = str(log_dir)
        folder = Path(log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_serial)}"
        self._file = (folder / f"events.out.tfevents.{name}").open("ab")
        self._file.write(record(event(time.time())))
        self._file.flush()

    def get_logdir(self) -> str:
        """The folder written to."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """One number under a name at a step."""
        moment = time.time() if walltime is None else walltime
        self._file.write(record(event(moment, global_step or 0, tag, float(scalar_value))))

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Several numbers under one name."""
        for tag, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{tag}", value, global_step, walltime)

    def flush(self) -> None:
        """Bring what was added to disk."""
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
