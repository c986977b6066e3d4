"""Object files as ELF has them: sections, symbols, relocations of 64 bits, little-endian.

Whatever is not read here is refused: LLVM's own linker then does it.
"""

from __future__ import annotations

import struct

_HEADER = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, the only version
_RELOCATABLE = 1
_SYMBOLS, _RELOCATIONS, _EMPTY = 2, 4, 8  # kinds of sections
_PLAIN = frozenset({1, 8, 0x70000001})  # that hold bytes, no bytes, or x86's tables of unwinding
WRITTEN, ALLOCATED, EXECUTED, _THREADS = 1, 2, 4, 0x400
_UNDEFINED, _ABSOLUTE, _RESERVED = 0, 0xFFF1, 0xFF00
_ORDINARY = frozenset({0, 1, 2, 3, 4})  # symbols: unknown, data, function, section, file
LARGEST = 1 << 28  # bytes of a section that has none in the file
_UNWINDING = b".eh_frame"  # nobody unwinds through kernels
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


class Unplaceable(Exception):
    """An object file that is not all understood."""


# Plain classes: to make a named tuple takes as long as to load a module (Note [loaded fragments]).
class ObjectSection:
    """Bytes that go into memory."""

    __slots__ = ("align", "data", "flags")

    def __init__(self, data: bytes, flags: int, align: int) -> None:
        self.data, self.flags, self.align = data, flags, align

    @property
    def is_written(self) -> bool:
        return bool(self.flags & WRITTEN)


class ObjectSymbol:
    """A name; where it is, or None where others have it. One object for each of a file."""

    __slots__ = ("name", "section", "value")

    def __init__(self, name: str, section: int | None, value: int) -> None:
        self.name, self.section, self.value = name, section, value


class Relocation:
    """A place in a section that depends on where a symbol is."""

    __slots__ = ("addend", "kind", "offset", "section", "symbol")

    def __init__(
        self, section: int, offset: int, kind: int, symbol: ObjectSymbol, addend: int
    ) -> None:
        self.section, self.offset, self.kind = section, offset, kind
        self.symbol, self.addend = symbol, addend


class ObjectFile:
    """What a linker needs of an object file."""

    __slots__ = ("machine", "relocations", "sections", "symbols")

    def __init__(
        self,
        machine: int,
        sections: dict[int, ObjectSection],
        symbols: list[ObjectSymbol],
        relocations: list[Relocation],
    ) -> None:
        self.machine, self.sections = machine, sections
        self.symbols, self.relocations = symbols, relocations


def read_object(data: bytes) -> ObjectFile:
    """The parts of an object file; `Unplaceable` where one is not known."""
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError, UnicodeDecodeError) as error:
        raise Unplaceable(f"an object file that is cut short: {error}") from None


def _read(data: bytes) -> ObjectFile:
    kind, machine = struct.unpack_from("<HH", data, 16)
    if not data.startswith(_HEADER) or kind != _RELOCATABLE:
        raise Unplaceable("no object file of 64 bits, little-endian")
    (start,) = struct.unpack_from("<Q", data, 40)
    each, count, names_at = struct.unpack_from("<HHH", data, 58)
    if each != _SECTION.size:
        raise Unplaceable("sections of another size")
    headers = [_SECTION.unpack_from(data, start + each * k) for k in range(count)]

    def content(k: int) -> bytes:
        _, kind, _, _, at, size, *_ = headers[k]
        if kind == _EMPTY and size < LARGEST:
            return bytes(size)
        if at + size > len(data):
            raise Unplaceable("a section beyond the end")
        return data[at : at + size]

    titles = content(names_at)
    sections: dict[int, ObjectSection] = {}
    for k, (title, kind, flags, _, _, _, _, _, align, _) in enumerate(headers):
        if not flags & ALLOCATED or _text(titles, title) == _UNWINDING:
            continue
        if kind not in _PLAIN or flags & _THREADS:
            raise Unplaceable(f"a section of kind {kind}")
        sections[k] = ObjectSection(content(k), flags, max(align, 1))
    tables = [k for k, header in enumerate(headers) if header[1] == _SYMBOLS]
    if len(tables) != 1:
        raise Unplaceable(f"{len(tables)} tables of symbols")
    table, strings = content(tables[0]), content(headers[tables[0]][6])
    symbols = [_symbol(row, strings) for row in _SYMBOL.iter_unpack(table)]
    relocations: list[Relocation] = []
    for k, header in enumerate(headers):
        if header[1] == _RELOCATIONS and header[7] in sections:
            room = len(sections[header[7]].data)
            for offset, info, addend in _RELOCATION.iter_unpack(content(k)):
                if offset + 4 > room:
                    raise Unplaceable("a relocation beyond the end")
                symbol = symbols[info >> 32]
                relocations.append(Relocation(header[7], offset, info & 0xFFFFFFFF, symbol, addend))
        elif header[1] == 9 and header[7] in sections:
            raise Unplaceable("relocations without addends")
    return ObjectFile(machine, sections, symbols, relocations)


def _symbol(row: tuple[int, ...], strings: bytes) -> ObjectSymbol:
    title, info, _, section, value, _ = row
    name = _text(strings, title).decode()
    if info & 15 not in _ORDINARY:
        raise Unplaceable(f"the symbol {name!r} of kind {info & 15}")
    if section == _UNDEFINED:
        return ObjectSymbol(name, None, 0)
    if section >= _RESERVED and section != _ABSOLUTE:
        raise Unplaceable(f"the symbol {name!r} in no section of its own")
    return ObjectSymbol(name, section, value)


def _text(strings: bytes, at: int) -> bytes:
    return strings[at : strings.index(b"\0", at)]
