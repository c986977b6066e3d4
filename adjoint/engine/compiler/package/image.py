"""Images: a program as plain data, ready to be given addresses and run, and kept on disk.

What a plan's steps say about buffers has become numbers here: words that are addresses inside the
arena, and lists of words to fill in when an input's, a result's or a target's address is known. An
image knows its functions by name only; their code is found by `backends.llvm.library`.
"""

from __future__ import annotations

import json
import marshal
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.compiler.memory.footprint import without_places
from adjoint.engine.compiler.package.status import read_status
from adjoint.engine.ops.common.checks import failure

Patches = dict[str, list[tuple[int, int]]]  # "input 3" -> words to fill in: (position, shift)
TEST = ""  # in the place of a function: leave out entries where the byte that a word names is 0
# Function, first word, whether all workers run it, entries left out after it (Note [entries]).
Entry = tuple[str, int, bool, int]


@dataclass(slots=True)
class Image:
    """A program in plain data."""

    words: Any  # 64-bit words of all launches, one after the other
    arena: int  # bytes
    inside: Any  # positions of words that are addresses in the arena
    patches: Patches
    numbers: dict[int, list[tuple[int, int]]]  # host's graph input -> (position, added to it)
    status: list[tuple[int, int]]  # (position, segment)
    faults: list[tuple[str, str]]  # exception and message, by code - 1
    segments: list[list[Entry] | None]  # None: a call of the eager table
    results: list[tuple[int, tuple[int, ...], str]]  # output, shape, dtype
    parallel: bool
    details: Callable[[], dict[str, Any]]  # `report` and `memory`, which calls need not

    @property
    def report(self) -> list[dict[str, Any]]:
        """A line per step, for `explain`."""
        lines: list[dict[str, Any]] = self.details()["report"]
        return lines

    @property
    def memory(self) -> dict[str, Any]:
        """What memory the program takes, and for what (`footprint`)."""
        found: dict[str, Any] = self.details()["memory"]
        return found

    @property
    def functions(self) -> set[str]:
        """The names of the functions it calls."""
        return {entry[0] for entries in self.segments for entry in entries or ()} - {TEST}

    def fault(self, status: int) -> Exception:
        """The exception that a status means."""
        number, value = read_status(status)
        kind, message = self.faults[number - 1]
        return failure(message, kind, value)

    def same(self, other: Image) -> bool:
        """Whether another image is of the same program."""
        return np.array_equal(self.words, other.words) and self._rest() == other._rest()

    def _rest(self) -> tuple[Any, ...]:
        return (
            self.arena, list(self.inside), self.patches, self.numbers, self.status,
            self.faults, self.segments, self.results, self.parallel,
        )  # fmt: skip


# -- on disk ------------------------------------------------------------------------------------

ARRAYS = ("words", "inside")
FORMAT = f"marshal {marshal.version}, {sys.implementation.cache_tag}"  # for the names of images


def to_bytes(image: Image, modules: list[str]) -> bytes:
    """An image as it is kept on disk, and the modules that hold its functions.

    By `marshal`, which reads it in half of the time that JSON takes; it trusts what it reads,
    as whoever runs the machine code beside it must. Details are read when somebody asks for them.
    """
    details = {"report": image.report, "memory": without_places(image.memory)}
    kept = {field.name: getattr(image, field.name) for field in fields(image)}
    kept |= {name: kept[name].tobytes() for name in ARRAYS}
    kept |= {"details": json.dumps(details).encode(), "modules": modules}
    return marshal.dumps(kept)


class Unfitting(ValueError):
    """Bytes that are no image."""


# What each part is on disk.
KINDS: dict[str, type] = {
    "words": bytes, "arena": int, "inside": bytes, "patches": dict, "numbers": dict,
    "status": list, "faults": list, "segments": list, "results": list, "parallel": bool,
    "details": bytes, "modules": list,
}  # fmt: skip


def from_bytes(data: bytes) -> tuple[Image, list[str]]:
    """An image from disk, and the modules that hold its functions."""
    try:
        kept = marshal.loads(data)
    except (EOFError, ValueError, TypeError) as error:
        raise Unfitting(f"an image cannot be read: {error}") from None
    kinds = {name: type(part) for name, part in kept.items()} if type(kept) is dict else {}
    if kinds != KINDS or any(len(kept[name]) % 8 for name in ARRAYS):
        raise Unfitting("an image has other parts than those this version writes")
    details, modules = kept.pop("details"), kept.pop("modules")
    kept |= {name: np.frombuffer(bytearray(kept[name]), np.int64) for name in ARRAYS}
    return Image(details=cache(lambda: json.loads(details)), **kept), modules
