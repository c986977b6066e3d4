"""Images: a program as plain data, ready to be given addresses and run, and kept on disk.

What a plan's steps say about buffers has become numbers here: words that are addresses inside the
arena, and lists of words to fill in when an input's, a result's or a target's address is known. An
image knows its functions by name only; `backends.llvm.runtime.library` finds their code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from adjoint.engine.compiler.memory.limits import without_places
from adjoint.engine.compiler.package.status import read_status
from adjoint.engine.core.files.budget import Budget, FileRefusal, read_json
from adjoint.engine.ops.common.checks import failure

Patches = dict[str, list[tuple[int, int]]]  # "input 3" -> words to fill in: (position, shift)
TEST = ""  # in the place of a function: leave out entries where the byte that a word names is 0
# Function, first word, whether all workers run it, entries left out after it (Note [entries]).
Entry = tuple[str, int, bool, int]


class ProgramImage:
    """A program in plain data."""

    # No dataclass: to write one takes as long as to load some modules (Note [loaded fragments]).
    __slots__ = (
        "arena", "details", "faults", "inside", "numbers", "once", "parallel", "patches",
        "results", "segments", "status", "symbols", "words", "work",
    )  # fmt: skip

    def __init__(
        self,
        words: Any,
        arena: int,
        inside: Any,
        patches: Patches,
        numbers: dict[int, list[tuple[int, int]]],
        status: list[tuple[int, int]],
        symbols: list[tuple[int, str]],
        faults: list[tuple[str, str]],
        segments: list[list[Entry] | None],
        results: list[tuple[int, tuple[int, ...], str]],
        parallel: bool,
        work: int,
        once: int,
        details: Callable[[], dict[str, Any]],
    ) -> None:
        self.words = words  # 64-bit words of all launches, one after the other
        self.arena = arena  # bytes
        self.inside = inside  # positions of words that are addresses in the arena
        self.patches = patches
        self.numbers = numbers  # host's graph input -> (position, added to it)
        self.status = status  # (position, segment)
        self.symbols = symbols  # (position, name of an address)
        self.faults = faults  # exception and message, by code - 1
        self.segments = segments  # None: a call of the eager table
        self.results = results  # output, shape, dtype
        self.parallel = parallel
        self.work = work  # rough operations of launches that several workers can share
        # Which word is the address of the byte that has what is kept made (Note [kept for calls]).
        self.once = once  # -1: nothing is kept
        self.details = details  # `report` and `memory`, which calls need not

    @property
    def report(self) -> list[dict[str, Any]]:
        """A line per step, for `explain`."""
        lines: list[dict[str, Any]] = self.details()["report"]
        return lines

    @property
    def memory(self) -> dict[str, Any]:
        """What memory the program takes, and for what (`footprint`)."""
        memory: dict[str, Any] = self.details()["memory"]
        return memory

    @property
    def functions(self) -> set[str]:
        """The names of the functions it calls."""
        return {entry[0] for entries in self.segments for entry in entries or ()} - {TEST}

    def fault(self, status: int) -> Exception:
        """The exception that a status means."""
        return fault_of(self.faults, status)

    def same(self, other: ProgramImage) -> bool:
        """Whether another image is of the same program."""
        return np.array_equal(self.words, other.words) and self._rest() == other._rest()

    def _rest(self) -> tuple[Any, ...]:
        return (
            self.arena, list(self.inside), self.patches, self.numbers, self.status,
            self.symbols, self.faults, self.segments, self.results, self.parallel, self.work,
            self.once,
        )  # fmt: skip


def fault_of(faults: Sequence[tuple[str, str]], status: int) -> Exception:
    """The exception that a status means, of a program that reports these."""
    number, value = read_status(status)
    kind, message = faults[number - 1]
    return failure(message, kind, value)


# -- on disk ------------------------------------------------------------------------------------

FORMAT = "image 6"  # for the names of images
_HEAD = 8  # bytes that say how long the description is


def to_bytes(image: ProgramImage, modules: list[str]) -> bytes:
    """An image as it is kept on disk, and the modules that hold its functions.

    A description in JSON, then all numbers in one block, then the details, which are read when
    somebody asks for them. Reading it makes no more than its bytes say, whatever they are.
    """
    details = {"report": image.report, "memory": without_places(image.memory)}
    functions = sorted(image.functions | {TEST})
    place = {name: i for i, name in enumerate(functions)}
    entries = [e for segment in image.segments for e in segment or ()]
    blocks = [
        image.words,
        image.inside,
        [pair for pairs in (*image.patches.values(), *image.numbers.values()) for pair in pairs],
        image.status,
        [(place[name], first, shared, skipped) for name, first, shared, skipped in entries],
    ]
    numbers = [np.asarray(block, np.int64).reshape(-1) for block in blocks]
    about = {
        "lengths": [len(block) for block in numbers],
        "patches": [[key, len(pairs)] for key, pairs in image.patches.items()],
        "numbers": [[key, len(pairs)] for key, pairs in image.numbers.items()],
        "segments": [None if segment is None else len(segment) for segment in image.segments],
        "functions": functions,
        **{
            name: getattr(image, name)
            for name in ("arena", "symbols", "faults", "results", "parallel", "work", "once")
        },
        "modules": modules,
    }
    head = json.dumps(about).encode()
    head += b" " * (-len(head) % 8)
    body = b"".join(block.tobytes() for block in numbers)
    return len(head).to_bytes(_HEAD, "little") + head + body + json.dumps(details).encode()


class Unfitting(ValueError):
    """Bytes that are no image."""


# What each part is on disk.
def from_bytes(data: bytes) -> tuple[ProgramImage, list[str]]:
    """An image from disk, and the modules that hold its functions."""
    try:
        return _from_bytes(data)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, FileRefusal) as error:
        raise Unfitting(f"an image cannot be read: {error}") from error


def _from_bytes(data: bytes) -> tuple[ProgramImage, list[str]]:
    start = _HEAD + int.from_bytes(data[:_HEAD], "little")
    about = read_json(data[_HEAD:start], Budget(len(data), "a kept program"))
    lengths = [int(n) for n in about["lengths"]]
    if len(lengths) != 5 or min(lengths) < 0 or start + 8 * sum(lengths) > len(data):
        raise ValueError("no image: it is cut off")
    block = np.frombuffer(bytearray(data[start : start + 8 * sum(lengths)]), np.int64)
    words, inside, pairs, status, entries = np.split(block, np.cumsum(lengths)[:-1])
    pairs, status, entries = pairs.reshape(-1, 2), status.reshape(-1, 2), entries.reshape(-1, 4)
    for positions in (inside, pairs[:, 0], status[:, 0]):
        if len(positions) and not 0 <= positions.min() <= positions.max() < len(words):
            raise ValueError("no image: a word outside the words")
    taken = _Queue(list(map(tuple, pairs.tolist())))
    names, listed = about["functions"], entries.tolist()
    called = _Queue([(names[f], first, bool(shared), skip) for f, first, shared, skip in listed])
    image = ProgramImage(
        words=words,
        arena=int(about["arena"]),
        inside=inside,
        patches={str(key): taken.next(count) for key, count in about["patches"]},
        numbers={int(key): taken.next(count) for key, count in about["numbers"]},
        status=[(position, segment) for position, segment in status.tolist()],
        symbols=[(_within(position, words), str(name)) for position, name in about["symbols"]],
        faults=[(str(kind), str(message)) for kind, message in about["faults"]],
        segments=[None if count is None else called.next(count) for count in about["segments"]],
        results=[(int(i), tuple(shape), str(dtype)) for i, shape, dtype in about["results"]],
        parallel=bool(about["parallel"]),
        work=int(about["work"]),
        once=_once(about["once"], inside),
        details=cache(lambda: json.loads(data[start + 8 * sum(lengths) :])),
    )
    return image, [str(module) for module in about["modules"]]


def _within(position: Any, words: Any) -> int:
    """The position of a word that there is."""
    if not 0 <= int(position) < len(words):
        raise ValueError("no image: a word outside the words")
    return int(position)


def _once(position: Any, inside: Any) -> int:
    """The position of the word that names the byte of what is kept, in the arena; -1: none."""
    if int(position) != -1 and int(position) not in inside:
        raise ValueError("no image: a byte outside the arena")
    return int(position)


class _Queue:
    """A list from whose front parts are taken."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.position = 0

    def next(self, count: int) -> list[Any]:
        """The next so many, all there."""
        first, self.position = self.position, self.position + count
        if not first <= self.position <= len(self.items):
            raise ValueError("no image: it says more than it has")
        return self.items[first : self.position]
