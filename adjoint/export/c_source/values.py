"""Operands of LLVM's text as expressions of C."""

from __future__ import annotations

import re
import struct

from adjoint.export.c_source.types import Type, parse_type
from adjoint.export.errors import ExportError

_NAME = re.compile(r'[%@](?:"[^"]*"|[\w.$-]+)')
_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def c_name(name: str) -> str:
    """A name of LLVM's as one of C's; %x and @x differ."""
    mark, body = name[0], name[1:].strip('"')
    return ("l_" if mark == "%" else "g_") + re.sub(r"\W", "_", body, flags=re.ASCII)


def skip(text: str, at: int) -> int:
    """The first position that is no space."""
    while at < len(text) and text[at] == " ":
        at += 1
    return at


def parse_value(of: Type, text: str, at: int) -> tuple[str, int]:
    """The expression of an operand of a type, and where it ends."""
    at = skip(text, at)
    if text[at] in "%@":
        match = _NAME.match(text, at)
        assert match is not None
        name = c_name(match[0])
        return (f"(uintptr_t){_global(match[0])}" if text[at] == "@" else name), match.end()
    for word in ("zeroinitializer", "poison", "undef", "null"):
        if text.startswith(word, at):
            return zero(of), at + len(word)
    if text.startswith("splat (", at):
        inner, end = parse_type(text, at + 7)
        value, end = parse_value(inner, text, end)
        return splat(of, value), text.index(")", end) + 1
    if text[at] == "<":
        values, at = [], at + 1
        while True:
            inner, at = parse_type(text, at)
            value, at = parse_value(inner, text, at)
            values.append(_mask(value) if inner.kind == "i1" else value)
            if text[at] == ",":
                at += 2
                continue
            return f"({of.name}){{{', '.join(values)}}}", at + 1
    for word, value in (("true", "1"), ("false", "0")):
        if text.startswith(word, at):
            return value, at + len(word)
    match = _NUMBER.match(text, at)
    if match is None:
        raise ExportError(f"export: {text[at : at + 60]!r} is no operand that C has.")
    return number(of, match[0]), match.end()


def _global(name: str) -> str:
    return f"&{c_name(name)}"


def _mask(value: str) -> str:
    return "255" if value == "1" else "0"


def zero(of: Type) -> str:
    """Zeros."""
    return f"({of.name}){{0}}" if of.is_vector or of.kind == "struct" else f"(({of.name})0)"


def splat(of: Type, value: str) -> str:
    """A number in every lane."""
    item = _mask(value) if of.scalar == "i1" else value
    return f"({of.name}){{{', '.join([item] * of.count)}}}"


def number(of: Type, text: str) -> str:
    """A literal."""
    if of.is_float:
        value = (
            struct.unpack("<d", int(text, 16).to_bytes(8, "little"))[0]
            if text.startswith("0x")
            else float(text)
        )
        if value != value or value in (float("inf"), float("-inf")):
            sign = "-" if str(value).startswith("-") else ""
            return f"({sign}({of.kind})__builtin_{'nan' if value != value else 'inf'}" + (
                '(""))' if value != value else "())"
            )
        return f"({float.hex(value)}{'f' if of.kind == 'float' else ''})"
    value = int(text)
    bits = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "ptr": 64}[of.kind]
    return f"(({of.name}){value & ((1 << bits) - 1)}{'u' if bits < 64 else 'ull'})"
