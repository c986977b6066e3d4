"""Random changes to files: of bytes, of numbers, of the operations of a pickle, of JSON."""

from __future__ import annotations

import copy
import json
import pickletools
import random
import struct
from collections.abc import Callable
from typing import Any

from tests.hostile.parts import Reader

ABSURD = (0, 1, 2, 7, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)
LEAVES: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63, -(2**63), 10**30, 1.5, 1e300, "", "x", "float32", "../x",
    [], {}, [[]], {"a": 1}, [1] * 50, "y" * 1000,
]  # fmt: skip
OPCODES = [code.code.encode("latin1") for code in pickletools.opcodes]


def flip(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def replace(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 2, 16))):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def splice(data: bytes, rng: random.Random) -> bytes:
    """A piece moved, doubled or taken out."""
    start, stop = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    place = rng.randrange(len(data) + 1)
    piece = data[start:stop] * rng.choice((0, 1, 2, 3))
    return data[:place] + piece + data[place if rng.random() < 0.5 else min(len(data), stop) :]


def number(data: bytes, rng: random.Random) -> bytes:
    """A length, count or offset that is absurd."""
    form = rng.choice(("<H", ">H", "<I", ">I", "<Q", ">Q", "<B"))
    size = struct.calcsize(form)
    if len(data) < size:
        return data
    place = rng.randrange(len(data) - size + 1)
    value = rng.choice(ABSURD) % (1 << 8 * size)
    return data[:place] + struct.pack(form, value) + data[place + size :]


def operations(data: bytes, rng: random.Random) -> bytes:
    """Operations of a pickle left out, doubled, exchanged or replaced."""
    try:
        places = [place for _, _, place in pickletools.genops(data)]
    except Exception:
        return flip(data, rng)
    pieces = [data[a:b] for a, b in zip(places, [*places[1:], len(data)], strict=True)]
    for _ in range(rng.choice((1, 1, 2, 4))):
        i, j = rng.randrange(len(pieces)), rng.randrange(len(pieces))
        match rng.randrange(5):
            case 0:
                pieces[i] = b""
            case 1:
                pieces[i] *= rng.choice((2, 2, 50))
            case 2:
                pieces[i], pieces[j] = pieces[j], pieces[i]
            case 3:
                pieces[i] = rng.choice(OPCODES) + pieces[i][1:]
            case 4:
                pieces.insert(i, rng.choice(OPCODES))
    return b"".join(pieces)


def tree(data: bytes, rng: random.Random) -> bytes:
    """A place in a JSON text given another value."""
    try:
        value = json.loads(data)
    except ValueError:
        return flip(data, rng)
    for _ in range(rng.choice((1, 1, 3))):
        holder, key = [value], 0
        node: Any = value
        while isinstance(node, (dict, list)) and node and rng.random() < 0.85:
            key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
            holder, node = node, node[key]
        if holder is not None and isinstance(holder, dict) and rng.random() < 0.2:
            holder.pop(key)
        else:
            holder[key] = copy.deepcopy(rng.choice(LEAVES))  # a later change may be in it
    return json.dumps(value).encode()


BYTES: list[Callable[[bytes, random.Random], bytes]] = [flip, replace, truncate, splice, number]
ALL = [*BYTES, operations, tree]


def mutated(reader: Reader, seed: str) -> bytes:
    """A file that was changed: as a whole, or in one of its parts and put together again."""
    rng = random.Random(seed)
    data = reader.sample()
    parts = reader.parts(data)
    if parts and rng.random() < 0.6:
        part, around = rng.choice(parts)
        change = tree if part[:1] in b"{[" and rng.random() < 0.6 else rng.choice(ALL)
        return around(change(part, rng)) if part else data
    return rng.choice(BYTES)(data, rng)
