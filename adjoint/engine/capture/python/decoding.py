"""Code objects as lists of steps: what to do, with which operand."""

from __future__ import annotations

import dis
import itertools
import sys
import types
import weakref
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.errors import CaptureError

Operand = Callable[
    ["BytecodeDecoder", int, int], Any
]  # of a decoder, the argument, the next offset
Table = dict[str, tuple[Callable[..., Any], Operand]]

_CACHE = 0
_EXTENDED = dis.opmap["EXTENDED_ARG"]
_ADDED_HANDLERS = ("CALL_INTRINSIC_1", "CLEANUP_THROW")
_JUMPS_UNMATCHED = ("POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_FALSE")


class DecodedCode:
    """A code object, decoded."""

    __slots__ = (
        "_added",
        "_handlers",
        "_lines",
        "_names",
        "_offsets",
        "_sends",
        "catches",
        "keeps_receiver",
        "steps",
    )

    def __init__(self, code: types.CodeType, table: Table) -> None:
        decoder = BytecodeDecoder(code)
        self._offsets = decoder.offsets
        self.steps: list[tuple[Any, Any]] = []
        self._sends: set[int] = set()
        for index, (opcode, argument) in enumerate(decoder.instructions):
            name = dis.opname[opcode]
            try:
                do, operand = table[name]
            except KeyError:
                raise CaptureError(
                    f"compile: the recorder does not know the instruction {name} of Python "
                    f"{sys.version_info.major}.{sys.version_info.minor}"
                ) from None
            if name == "SEND":
                self._sends.add(index)
            self.steps.append((do, operand(decoder, argument, decoder.after(index))))
        self.keeps_receiver = sys.version_info >= (3, 12)
        self._handlers = _handlers(code, decoder) if code.co_exceptiontable else []
        self._lines: tuple[list[int], list[int]] | None = None
        self._names = names = [dis.opname[opcode] for opcode, _ in decoder.instructions]
        everything = any(
            a == "PUSH_EXC_INFO" and b == "POP_TOP" for a, b in itertools.pairwise(names)
        )
        # Handlers that the compiler adds around generators' yields do nothing when one is closed.
        self._added = {i for i, name in enumerate(names) if name in _ADDED_HANDLERS}
        # Whether it may end exceptions: by `except`, or as the way out of a `with` statement.
        self.catches = "CHECK_EXC_MATCH" in names or everything or code.co_name == "__exit__"

    def handlers_of_closing(self, index: int) -> list[str] | None:
        """The names that handlers compare with, if a generator that waits at a step is closed.

        None where that runs code of the user's whatever they stand for: `finally`, `with`, a bare
        `except`, or one that computes what it compares with.
        """
        names: list[str] = []
        handler = self.handler(index)
        while handler is not None:
            raises_again = self._compared(handler[0], names)
            if raises_again is None:
                return None
            handler = self.handler(raises_again)
        return names

    def _compared(self, handler: int, names: list[str]) -> int | None:
        """The step at which a handler that matches nothing raises again; what it compares with is
        added to `names`."""
        if handler in self._added or self._is(handler, "COPY", "POP_EXCEPT", "RERAISE"):
            return handler if handler in self._added else handler + 2
        if not self._is(handler, "PUSH_EXC_INFO"):
            return None
        at = handler + 1
        while not self._is(at, "RERAISE"):
            while self._is(at, "LOAD_GLOBAL") or self._is(at, "BUILD_TUPLE"):
                if self._is(at, "LOAD_GLOBAL"):
                    names.append(self.steps[at][1][0])
                at += 1
            if not any(self._is(at, "CHECK_EXC_MATCH", jump) for jump in _JUMPS_UNMATCHED):
                return None
            at = self.steps[at + 1][1]
        return at

    def _is(self, index: int, *names: str) -> bool:
        """Whether the steps from one on are these instructions."""
        return tuple(self._names[index : index + len(names)]) == names

    def sends(self, index: int) -> bool:
        """Whether a step is the one that asks another iterator."""
        return index in self._sends

    def line(self, code: types.CodeType, index: int) -> int:
        """The line of a step."""
        if self._lines is None:
            spans = [(start, line) for start, _, line in code.co_lines()]
            self._lines = [s for s, _ in spans], [n or 0 for _, n in spans]
        starts, lines = self._lines
        where = bisect_right(starts, self._offsets[index]) - 1
        return lines[where] if where >= 0 else code.co_firstlineno

    def handler(self, index: int) -> tuple[int, int, bool] | None:
        """Where exceptions of a step are handled: step, depth of the stack, whether it is told."""
        for start, end, target, depth, keeps_place in self._handlers:
            if start <= index < end:
                return target, depth, keeps_place
        return None


class BytecodeDecoder:
    """The instructions of a code object, their offsets and the operands they name."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.instructions: list[tuple[int, int]] = []
        self.offsets: list[int] = []
        self.index_of: dict[int, int] = {}
        self._after: list[int] = []
        text = code.co_code
        high = 0
        start: int | None = None
        for offset in range(0, len(text), 2):
            opcode, low = text[offset], text[offset + 1]
            if opcode == _CACHE:
                if self._after:
                    self._after[-1] = offset + 2
                continue
            start = offset if start is None else start
            argument = high | low
            if opcode == _EXTENDED:
                high = argument << 8
                continue
            self.index_of[start] = self.index_of[offset] = len(self.instructions)
            self.instructions.append((opcode, argument))
            self.offsets.append(offset)
            self._after.append(offset + 2)
            high, start = 0, None
        self.end = len(text)

    def after(self, index: int) -> int:
        """The offset that jumps of a step are counted from: behind its caches."""
        return self._after[index]

    def step(self, offset: int) -> int:
        """The step at an offset."""
        return self.index_of[offset] if offset < self.end else len(self.instructions)


def _varint(data: Any) -> int:
    byte = next(data)
    value = byte & 63
    while byte & 64:
        byte = next(data)
        value = value << 6 | byte & 63
    return int(value)


def _handlers(
    code: types.CodeType, decoder: BytecodeDecoder
) -> list[tuple[int, int, int, int, bool]]:
    """The exception table; inner entries come first, as they are written."""
    handlers: list[tuple[int, int, int, int, bool]] = []
    data = iter(code.co_exceptiontable)
    offsets = decoder.offsets
    while True:
        try:
            start = _varint(data) * 2
        except StopIteration:
            return handlers
        end = start + _varint(data) * 2
        target = _varint(data) * 2
        depth = _varint(data)
        first = next((i for i, o in enumerate(offsets) if o >= start), len(offsets))
        last = next((i for i, o in enumerate(offsets) if o >= end), len(offsets))
        handlers.append((first, last, decoder.step(target), depth >> 1, bool(depth & 1)))


# This Python's; `observation` fills it, since the tables refer to frames, which have plans.
INSTRUCTIONS: Table = {}
_BY_ID: dict[int, tuple[Any, DecodedCode]] = {}


def plan_of(code: types.CodeType) -> DecodedCode:
    """The steps of a code object; made once. Code is compared by identity: equal code may differ
    in the lines it names."""
    entry = _BY_ID.get(id(code))
    if entry is not None and entry[0]() is code:
        return entry[1]
    plan = DecodedCode(code, INSTRUCTIONS)
    key = id(code)
    _BY_ID[key] = weakref.ref(code, lambda _: _BY_ID.pop(key, None)), plan
    return plan


# -- operands ---------------------------------------------------------------------------------


def raw(decoder: BytecodeDecoder, argument: int, after: int) -> int:
    """The argument as it is."""
    return argument


def const(decoder: BytecodeDecoder, argument: int, after: int) -> Any:
    """A constant of the code."""
    return decoder.code.co_consts[argument]


def name(decoder: BytecodeDecoder, argument: int, after: int) -> str:
    """A name of the code."""
    return decoder.code.co_names[argument]


def name_shifted(decoder: BytecodeDecoder, argument: int, after: int) -> tuple[str, int]:
    """A name and a flag in the lowest bit."""
    return decoder.code.co_names[argument >> 1], argument & 1


def name_shifted_twice(decoder: BytecodeDecoder, argument: int, after: int) -> tuple[str, int]:
    """A name and two flags in the lowest bits."""
    return decoder.code.co_names[argument >> 2], argument & 3


def forward(decoder: BytecodeDecoder, argument: int, after: int) -> int:
    """The step a jump forward leads to."""
    return decoder.step(after + argument * 2)


def backward(decoder: BytecodeDecoder, argument: int, after: int) -> int:
    """The step a jump backward leads to."""
    return decoder.step(after - argument * 2)


def halves(decoder: BytecodeDecoder, argument: int, after: int) -> tuple[int, int]:
    """Two numbers of four bits."""
    return argument >> 4, argument & 15
