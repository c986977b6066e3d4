"""Zip archives read with suspicion: every size checked before it is believed.

The standard library's reader believes what a directory says until the data disagrees, and its
checks differ between versions. Entries here lie one after another, once each, inside the file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from adjoint.engine.core.files.budget import Budget, FileRefusal, inflate

_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_DIRECTORY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s22xHH")
_FULL = 0xFFFFFFFF  # the number stands in the extra field
_LONGEST_COMMENT = 65535
STORED, DEFLATED = 0, 8


class BadZip(ValueError):
    """An archive whose bytes contradict each other."""


@dataclass(slots=True)
class ZipEntry:
    """A file in an archive."""

    name: str
    method: int
    crc: int
    packed: int  # bytes in the archive
    size: int  # bytes when unpacked
    header: int  # where its local header is
    limit: int  # where the next entry or the directory begins


class Archive:
    """The entries of a zip file.

    Args:
        file: a seekable binary file.
        budget: of the file.
    """

    def __init__(self, file: Any, budget: Budget) -> None:
        self.file = file
        self.budget = budget
        self.entries: dict[str, ZipEntry] = {}
        start, data, count = self._directory()
        for entry in _parse(data, count):
            budget.spend(512, "the archive's directory")
            if entry.name in self.entries:
                raise FileRefusal(f"{budget.what}: refused: the archive has {entry.name!r} twice")
            self.entries[entry.name] = entry
        self._check_places(start)

    def _read(self, position: int, count: int, what: str) -> bytes:
        if position < 0 or position + count > self.budget.size:
            raise BadZip(f"{what} at {position} is outside the file of {self.budget.size} bytes")
        self.file.seek(position)
        data: bytes = self.file.read(count)
        if len(data) != count:
            raise BadZip(f"{what} at {position} is cut off")
        return data

    def _directory(self) -> tuple[int, bytes, int]:
        """Where the directory is, its bytes, and how many entries it has."""
        size = self.budget.size
        tail = self._read(max(0, size - _LONGEST_COMMENT - _END.size),
                          min(size, _LONGEST_COMMENT + _END.size), "the end")  # fmt: skip
        place = tail.rfind(b"PK\5\6")
        if place < 0 or len(tail) - place < _END.size:
            raise BadZip("the directory at its end is missing")
        end = size - len(tail) + place
        _, disk, first_disk, _, count, length, start, _ = _END.unpack_from(tail, place)
        if disk or first_disk:
            raise BadZip("it is a part of an archive of several files")
        if end >= _LOCATOR.size:
            where = end - _LOCATOR.size
            mark, _, where_64, _ = _LOCATOR.unpack(self._read(where, _LOCATOR.size, "a locator"))
            if mark == b"PK\6\7":
                short = (count, 0xFFFF), (length, _FULL), (start, _FULL)
                end, long = where_64, self._end_64(where_64)
                count, length, start = long
                for (own, full), other in zip(short, long, strict=True):
                    if own not in (full, other):
                        raise BadZip(f"its two ends disagree: {own} and {other}")
        if start + length != end or count * _DIRECTORY.size > length:
            raise BadZip(f"{count} entries in {length} bytes from {start} do not end at {end}")
        return start, self._read(start, length, "the directory"), count

    def _end_64(self, where: int) -> tuple[int, int, int]:
        """Entries, length and start of the directory, as the larger end has them."""
        record = _END_64.unpack(self._read(where, _END_64.size, "the end of zip64"))
        if record[0] != b"PK\6\6":
            raise BadZip(f"there is no end of zip64 at {where}")
        return record[7], record[8], record[9]

    def _check_places(self, directory: int) -> None:
        """Entries may not share bytes."""
        ordered = sorted(self.entries.values(), key=lambda entry: entry.header)
        for entry, after in zip(ordered, [*ordered[1:], None], strict=True):
            entry.limit = directory if after is None else after.header
            least = entry.header + _LOCAL.size + len(entry.name) + entry.packed
            if least > entry.limit:
                raise FileRefusal(
                    f"{self.budget.what}: refused: the entry {entry.name!r} of the archive "
                    f"overlaps with {'the directory' if after is None else repr(after.name)}"
                )

    def start(self, entry: ZipEntry) -> int:
        """Where an entry's bytes begin; they are all there."""
        what = f"the header of {entry.name!r}"
        mark, name, extra = _LOCAL.unpack(self._read(entry.header, _LOCAL.size, what))
        start: int = entry.header + _LOCAL.size + name + extra
        if mark != b"PK\3\4" or start + entry.packed > entry.limit:
            raise BadZip(f"{what} is damaged")
        return start

    def read_into(self, entry: ZipEntry, out: Any) -> None:
        """Fill a writable buffer of the entry's size with its bytes, checked by their sum."""
        view = memoryview(out)
        self.file.seek(self.start(entry))
        if entry.method == DEFLATED:
            try:
                view[:] = inflate(self.file.read(entry.packed), entry.size, -zlib.MAX_WBITS)
            except (zlib.error, ValueError) as error:
                raise BadZip(f"{entry.name!r}: {error}") from error
        else:
            done = 0
            while done < entry.size:
                read = self.file.readinto(view[done:])
                if not read:
                    raise BadZip(f"{entry.name!r} is cut off")
                done += read
        if zlib.crc32(view) != entry.crc:
            raise BadZip(f"the checksum of {entry.name!r} is wrong")

    def read(self, name: str) -> bytearray:
        """The bytes of an entry."""
        entry = self.entries[name]
        self.spend(entry)
        out = bytearray(entry.size)
        self.read_into(entry, out)
        return out

    def spend(self, entry: ZipEntry) -> None:
        """Take from the budget what reading an entry takes."""
        copies = 2 if entry.method == DEFLATED else 1
        self.budget.spend(copies * entry.size, f"the entry {entry.name!r}")


def _parse(data: bytes, count: int) -> Iterator[ZipEntry]:
    position = 0
    for _ in range(count):
        if position + _DIRECTORY.size > len(data):
            raise BadZip("its directory has fewer entries than it says")
        (mark, _, _, flags, method, _, _, crc, packed, size, name_length, extra_length,
         comment_length, disk, _, _, header) = _DIRECTORY.unpack_from(data, position)  # fmt: skip
        position += _DIRECTORY.size
        stop = position + name_length + extra_length + comment_length
        if mark != b"PK\1\2" or stop > len(data):
            raise BadZip(f"its directory is damaged at byte {position - _DIRECTORY.size}")
        name = _name(data[position : position + name_length])
        extra = data[position + name_length : position + name_length + extra_length]
        packed, size, header = _long(extra, size, packed, header)
        if flags & 0x61 or disk:  # encrypted, a patch
            raise BadZip(f"{name!r} is encrypted, or in another file")
        if method not in (STORED, DEFLATED):
            raise BadZip(f"{name!r} is packed by method {method}, which is not read")
        if method == STORED and packed != size:
            raise BadZip(f"{name!r} is stored, but {packed} bytes are to become {size}")
        position = stop
        yield ZipEntry(name, method, crc, packed, size, header, 0)
    if position != len(data):
        raise BadZip("its directory has more bytes than entries")


def _name(raw: bytes) -> str:
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        name = raw.decode("cp437")
    if name.startswith("/") or "\0" in name or ".." in name.replace("\\", "/").split("/"):
        raise BadZip(f"refused: an entry is called {name[:80]!r}, outside the archive")
    return name


def _long(extra: bytes, size: int, packed: int, header: int) -> tuple[int, int, int]:
    """Sizes and place, from the extra field where they are too large for their own."""
    numbers = [size, packed, header]
    wanted = [i for i, number in enumerate(numbers) if number == _FULL]
    position = 0
    while wanted and position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        body = extra[position + 4 : position + 4 + length]
        if kind == 1:
            if len(body) < 8 * len(wanted):
                raise BadZip("an entry's zip64 field is too short")
            for i, number in zip(
                wanted, struct.iter_unpack("<Q", body[: 8 * len(wanted)]), strict=True
            ):
                numbers[i] = number[0]
            wanted = []
        position += 4 + length
    return numbers[1], numbers[0], numbers[2]
