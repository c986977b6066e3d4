"""Object code put into memory: sections side by side, relocations filled in, pages made executable.

Note [placed code]
    LLVM and its binding take longer to load than everything else that a kept program needs. Its
    object files hold little that has to be linked: calls, addresses of constants, and entries of a
    table through which other addresses are reached. So those files are placed here, and LLVM loads
    when there is something to assemble, or a file has anything in it that is not known here (then
    `Unplaceable` is raised before anything is run). `jit.link_by_llvm` is what tests compare with.

    Code is written to a file in memory that is then mapped for execution, never writable: so the
    system itself sees to it that processors do not execute what their caches held before.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from adjoint.engine.backends.llvm.linking.elf import (
    EXECUTED,
    LARGEST,
    ObjectFile,
    ObjectSection,
    ObjectSymbol,
    Relocation,
    Unplaceable,
    read_object,
)

WORD = 8
STUB = 16  # bytes of code that jumps to an address of the table
_MAP_FIXED = 0x10
_FAILED = ctypes.c_void_p(-1).value
Fill = Callable[[bytearray, int, int, int], None]  # (bytes, at, that place, where it points)


class Processor:
    """How a processor's relocations are filled in."""

    __slots__ = ("behind", "by_entry", "calls", "fills", "stub")

    def __init__(
        self,
        fills: Mapping[int, Fill],
        by_entry: frozenset[int],
        calls: frozenset[int],
        stub: Callable[[int, int], bytes],
        behind: int,
    ) -> None:
        self.fills = fills
        self.by_entry = by_entry  # those that want the address of an entry of the table
        self.calls = calls  # those that may go to a stub
        self.stub = stub  # code at a place that jumps to what an entry holds
        self.behind = behind  # what is added to a symbol's own address where nothing else is


class PlacedCode:
    """Code in memory; `close` gives the memory back."""

    def __init__(self, base: int, size: int, addresses: dict[str, int]) -> None:
        self.base, self.size, self.addresses = base, size, addresses

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]

    def close(self) -> None:
        base, self.base = self.base, 0
        if base:
            _library().munmap(base, self.size)


def is_able() -> bool:
    """Whether code can be placed here at all."""
    return sys.platform == "linux" and struct.calcsize("P") == WORD and hasattr(os, "memfd_create")


def place(data: bytes, names: list[str], symbols: Mapping[str, int]) -> PlacedCode:
    """The functions of an object file, callable; what it lacks is looked for in the process."""
    if not is_able():
        raise Unplaceable("this system")
    found = read_object(data)
    machine = MACHINES.get(found.machine)
    if machine is None or found.machine != _here():
        raise Unplaceable(f"the processor {found.machine}")
    return CodeLayout(found, machine, symbols).placed(names)


class CodeLayout:
    """Where everything goes, counted from the first byte."""

    def __init__(self, found: ObjectFile, machine: Processor, symbols: Mapping[str, int]) -> None:
        self.found, self.machine = found, machine
        self.starts: dict[int, int] = {}
        page, at = mmap.PAGESIZE, 0
        outside = {r.symbol.name for r in found.relocations if r.symbol.section is None}
        wanted = [
            r.symbol
            for r in found.relocations
            if r.kind in machine.by_entry or r.symbol.section is None
        ]
        self.outside = {name: _address(name, symbols) for name in sorted(outside)}
        at = self.lay_out(at, written=False)
        self.stubs = {name: at + STUB * k for k, name in enumerate(self.outside)}
        self.fixed = _up(at + STUB * len(self.stubs), page)  # what is never written
        at = _up(self.lay_out(self.fixed, written=True), WORD)
        self.entries = {s: at + WORD * k for k, s in enumerate(dict.fromkeys(wanted))}
        self.size = _up(at + WORD * len(self.entries), page)
        if self.size > LARGEST:
            raise Unplaceable(f"{self.size} bytes")

    def lay_out(self, at: int, *, written: bool) -> int:
        """Give places to sections; where the last of them ends."""
        at = _up(at, STUB)
        for number, section in self.found.sections.items():
            if section.is_written == written:
                if section.align > mmap.PAGESIZE or (written and section.flags & EXECUTED):
                    raise Unplaceable("a section that is aligned or used in another way")
                at = self.starts[number] = _up(at, section.align)
                at += len(section.data)
        return _up(at, STUB)

    def address(self, symbol: ObjectSymbol, base: int) -> int:
        """Where a symbol is."""
        if symbol.section is None:
            return self.outside[symbol.name]
        if symbol.section not in self.starts:
            raise Unplaceable(f"the symbol {symbol.name!r} in a section that is left out")
        return base + self.starts[symbol.section] + symbol.value

    def filled(self, base: int) -> bytearray:
        """All bytes, as they are to be at an address."""
        memory = bytearray(self.size)
        for number, start in self.starts.items():
            section: ObjectSection = self.found.sections[number]
            memory[start : start + len(section.data)] = section.data
        for symbol, at in self.entries.items():
            struct.pack_into("<Q", memory, at, self.address(symbol, base))
        for symbol, at in self.entries.items():
            if symbol.section is None:
                stub = self.stubs[symbol.name]
                code = self.machine.stub(base + stub, base + at)
                memory[stub : stub + len(code)] = code
        for relocation in self.found.relocations:
            self.fill(memory, relocation, base)
        return memory

    def fill(self, memory: bytearray, relocation: Relocation, base: int) -> None:
        """One place that depends on an address."""
        kind, symbol, addend = relocation.kind, relocation.symbol, relocation.addend
        fill = self.machine.fills.get(kind)
        if fill is None:
            raise Unplaceable(f"a relocation of kind {kind}")
        at = self.starts[relocation.section] + relocation.offset
        is_call = kind in self.machine.calls and symbol.section is None
        if (is_call or kind in self.machine.by_entry) and addend != self.machine.behind:
            raise Unplaceable("a place beside a symbol of others")
        if kind in self.machine.by_entry:
            target = base + self.entries[symbol]
        elif is_call:
            target = base + self.stubs[symbol.name]
        else:
            target = self.address(symbol, base)
        fill(memory, at, base + at, target + addend)

    def placed(self, names: list[str]) -> PlacedCode:
        """The code in memory of its own."""
        own = {s.name: s for s in self.found.symbols if s.section is not None and s.name}
        missing = [name for name in names if name not in own]
        if missing:
            raise Unplaceable(f"no symbol {missing[0]!r}")
        base = _reserve(self.size)
        try:
            memory = self.filled(base)
            _write(base, memory, self.fixed)
            return PlacedCode(base, self.size, {n: self.address(own[n], base) for n in names})
        except BaseException:
            _library().munmap(base, self.size)
            raise


# -- memory ---------------------------------------------------------------------------------------


@cache
def _library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def _map(at: int | None, size: int, access: int, flags: int, file: int) -> int:
    address = _library().mmap(at, size, access, flags, file, 0)
    if address in (None, _FAILED):
        number = ctypes.get_errno()
        if number == errno.ENOMEM:
            raise MemoryError("no memory for code")
        raise Unplaceable(f"the system does not map memory: {os.strerror(number)}")
    return int(address)


def _reserve(size: int) -> int:
    access = mmap.PROT_READ | mmap.PROT_WRITE
    return _map(None, size, access, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)


def _write(base: int, memory: bytearray, fixed: int) -> None:
    """Put bytes where they belong: the first `fixed` to be executed, the others to be written."""
    try:
        _write_to_file(base, memory, fixed)
    except OSError as error:  # no more files, or none so large: limits hold for those in memory too
        raise Unplaceable(f"no file in memory: {error}") from None
    rest = bytes(memoryview(memory)[fixed:])
    if rest:
        ctypes.memmove(base + fixed, rest, len(rest))


def _write_to_file(base: int, memory: bytearray, fixed: int) -> None:
    file = os.memfd_create("adjoint")
    try:
        code, written = memoryview(memory)[:fixed], 0
        while written < fixed:
            written += os.write(file, code[written:])
        if fixed:
            access = mmap.PROT_READ | mmap.PROT_EXEC
            _map(base, fixed, access, mmap.MAP_PRIVATE | _MAP_FIXED, file)
    finally:
        os.close(file)


def _address(name: str, symbols: Mapping[str, int]) -> int:
    """Where a symbol of others is."""
    if name in symbols:
        return symbols[name]
    found = getattr(_library(), name, None)
    if found is None:
        raise Unplaceable(f"no symbol {name!r} in the process")
    return int(ctypes.cast(found, ctypes.c_void_p).value or 0)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


# -- processors -----------------------------------------------------------------------------------

ARM, X86 = 183, 62
NAMES = {"aarch64": ARM, "arm64": ARM, "x86_64": X86, "AMD64": X86}


@cache
def _here() -> int | None:
    return NAMES.get(os.uname().machine) if sys.byteorder == "little" else None


def _put(memory: bytearray, at: int, value: int, bits: int) -> None:
    """A signed number of so many bits."""
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise Unplaceable("an address out of reach")
    memory[at : at + bits // 8] = (value & (1 << bits) - 1).to_bytes(bits // 8, "little")


def _absolute(memory: bytearray, at: int, place: int, target: int) -> None:
    memory[at : at + WORD] = (target & (1 << 64) - 1).to_bytes(WORD, "little")


def _relative32(memory: bytearray, at: int, place: int, target: int) -> None:
    _put(memory, at, target - place, 32)


def _relative64(memory: bytearray, at: int, place: int, target: int) -> None:
    _put(memory, at, target - place, 64)


def _instruction(memory: bytearray, at: int, mask: int, bits: int) -> None:
    """Bits of an instruction that were zero."""
    (code,) = struct.unpack_from("<I", memory, at)
    struct.pack_into("<I", memory, at, (code & ~mask) | bits)


def _arm_call(memory: bytearray, at: int, place: int, target: int) -> None:
    far = target - place
    if far & 3 or not -(1 << 27) <= far < 1 << 27:
        raise Unplaceable("a call out of reach")
    _instruction(memory, at, 0x03FFFFFF, far >> 2 & 0x03FFFFFF)


def _page_bits(place: int, target: int) -> int:
    """The immediate of `adrp`."""
    pages = (target >> 12) - (place >> 12)
    if not -(1 << 20) <= pages < 1 << 20:
        raise Unplaceable("a page out of reach")
    return (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5


def _arm_page(memory: bytearray, at: int, place: int, target: int) -> None:
    _instruction(memory, at, 0x60FFFFE0, _page_bits(place, target))


def _arm_low(scale: int) -> Fill:
    """The place in a page, of what is so many bytes (as a power of two)."""

    def fill(memory: bytearray, at: int, place: int, target: int) -> None:
        low = target & 0xFFF
        if low & (1 << scale) - 1:
            raise Unplaceable("an address that is not aligned")
        _instruction(memory, at, 0x003FFC00, low >> scale << 10)

    return fill


def _arm_stub(place: int, entry: int) -> bytes:
    """adrp x16, entry; ldr x16, [x16, entry]; br x16"""
    load = 0xF9400210 | (entry & 0xFFF) >> 3 << 10
    return struct.pack("<III", 0x90000010 | _page_bits(place, entry), load, 0xD61F0200)


def _x86_stub(place: int, entry: int) -> bytes:
    """jmp [rip + entry]"""
    return b"\xff\x25" + struct.pack("<i", entry - place - 6)


MACHINES = {
    ARM: Processor(
        {
            257: _absolute, 260: _relative64, 261: _relative32, 275: _arm_page, 277: _arm_low(0),
            278: _arm_low(0), 284: _arm_low(1), 285: _arm_low(2), 286: _arm_low(3),
            299: _arm_low(4), 282: _arm_call, 283: _arm_call, 311: _arm_page, 312: _arm_low(3),
        },
        by_entry=frozenset({311, 312}),
        calls=frozenset({282, 283}),
        stub=_arm_stub,
        behind=0,
    ),
    X86: Processor(
        {
            1: _absolute, 2: _relative32, 4: _relative32, 9: _relative32, 24: _relative64,
            41: _relative32, 42: _relative32,
        },
        by_entry=frozenset({9, 41, 42}),
        calls=frozenset({4}),
        stub=_x86_stub,
        behind=-4,
    ),
}  # fmt: skip
