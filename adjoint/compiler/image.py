"""Images: a plan as plain data, ready to be given addresses and run, and kept on disk.

What a plan's steps say about buffers has become numbers here: words that are addresses inside the
arena, and lists of words to fill in when an input's, a result's or a target's address is known. An
image knows its functions by name only; their code is found by `backends.llvm.library`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adjoint.backends.llvm.faults import read_status
from adjoint.backends.llvm.library import Text
from adjoint.compiler.footprint import footprint, without_places
from adjoint.compiler.indexed import Fault
from adjoint.compiler.memory import blocks, lifetimes, pack
from adjoint.compiler.naming import name_of
from adjoint.compiler.places import ARENA
from adjoint.compiler.plan import Plan
from adjoint.compiler.steps import (
    Address,
    Call,
    Launch,
    Number,
    Repeat,
    Status,
    Step,
    Symbol,
    launches_of,
)
from adjoint.ops.checks import failure

# Rough operations, of which a processor does one or two a nanosecond.
SERIAL = 10_000.0  # a launch of less is done by one worker: others would come too late
ALONE = 40_000.0  # so is a program whose larger launches together are less

Patches = dict[str, list[tuple[int, int]]]  # "input 3" -> words to fill in: (position, shift)
Entry = tuple[str, int, bool]  # function, first word, whether all workers run it


@dataclass(slots=True)
class Image:
    """A program in plain data."""

    words: Any  # 64-bit words of all launches, one after the other
    arena: int  # bytes
    inside: list[int]  # positions of words that are addresses in the arena
    patches: Patches
    numbers: dict[int, list[tuple[int, int]]]  # host's graph input -> (position, added to it)
    status: list[tuple[int, int]]  # (position, segment)
    symbols: list[tuple[int, str]]  # (position, function of another library)
    faults: list[tuple[str, str]]  # exception and message, by code - 1
    segments: list[list[Entry] | None]  # None: a call of the eager table
    results: list[tuple[int, tuple[int, ...], str]]  # output, shape, dtype
    parallel: bool
    report: list[dict[str, Any]] = field(default_factory=list)  # a line per step, for `explain`
    memory: dict[str, Any] = field(default_factory=dict)  # `footprint`

    def fault(self, status: int) -> Exception:
        """The exception that a status means."""
        number, value = read_status(status)
        kind, message = self.faults[number - 1]
        return failure(message, kind, value)


class Layout:
    """Makes an image of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        found = blocks(plan, lifetimes(plan))
        arena = pack(found)
        self.hosts = {v: i for i, v in enumerate(plan.graph.inputs)}
        self.words: list[int] = []
        self.image = Image(
            words=None,
            arena=arena,
            inside=[],
            patches={},
            numbers={},
            status=[],
            symbols=[],
            faults=[],
            segments=[],
            results=[
                (k, place_shape(plan, k), b.dtype.name) for k, b in sorted(plan.results.items())
            ],
            parallel=sum(s.cost for s in shared(plan)) > ALONE,
            memory=footprint(plan, found, arena),
        )

    def make(self) -> Image:
        image = self.image
        for step in self.plan.steps:
            image.report.append(describe(step))
            if isinstance(step, Call):
                image.segments.append(None)
                continue
            if not image.segments or image.segments[-1] is None:
                image.segments.append([])
            segment = image.segments[-1]
            assert segment is not None
            for launch in launches_of(step):
                everyone = image.parallel and worth_sharing(launch)
                segment.append((name_of(launch), len(self.words), everyone))
                for word in launch.words:
                    self.words.append(self.word(word, len(self.words), len(image.segments) - 1))
        image.words = np.array(self.words or [0], np.int64)
        return image

    def word(self, word: Any, at: int, segment: int) -> int:
        image = self.image
        if word.__class__ is int:
            return word
        if isinstance(word, Address):
            buffer = word.buffer
            if buffer.kind == ARENA:
                image.inside.append(at)
                return buffer.start + word.shift
            key = f"{buffer.kind} {buffer.number}"
            image.patches.setdefault(key, []).append((at, word.shift))
            return 0
        if isinstance(word, Number):
            image.numbers.setdefault(self.hosts[word.value], []).append((at, word.plus))
            return 0
        if isinstance(word, Symbol):
            image.symbols.append((at, word.name))
            return 0
        if isinstance(word, Status):
            image.status.append((at, segment))
            return 0
        if isinstance(word, Fault):
            image.faults.append((word.kind.__name__, word.message))
            return len(image.faults)
        return int(word)


def worth_sharing(launch: Launch) -> bool:
    """Whether a launch is divided among workers."""
    return launch.pieces > 1 and launch.cost > SERIAL


def shared(plan: Plan) -> list[Launch]:
    """The launches that would be divided."""
    return [x for step in plan.steps for x in launches_of(step) if worth_sharing(x)]


def place_shape(plan: Plan, output: int) -> tuple[int, ...]:
    """The shape of an output."""
    return tuple(plan.graph.outputs[output].spec.shape)


def describe(step: Step) -> dict[str, Any]:
    """What `explain` says of a step."""
    if isinstance(step, Repeat):
        return {
            "kind": "loop",
            "what": step.label,
            "times": step.turns,
            "work": round(step.cost),
            "reason": step.reason,
            "bytes": 0,
        }
    if isinstance(step, Call):
        return {"kind": "call", "what": step.label, "reason": step.reason}
    kind = "kernel" if step.form is not None else "template"
    return {
        "kind": kind,
        "what": step.label,
        "times": max(len(step.kernels), 1),
        "work": round(step.cost),
        "reason": step.reason,
        "bytes": sum(
            (t.high - t.low) * t.buffer.dtype.itemsize for t in (*step.reads, *step.writes)
        ),
    }


def functions_of(plan: Plan, emit: Callable[..., Text]) -> dict[str, Callable[[], Text]]:
    """How each function of a plan is written, by name."""
    wanted: dict[str, Callable[[], Text]] = {}
    for step in (launch for each in plan.steps for launch in launches_of(each)):
        name = name_of(step)
        if name in wanted:
            continue
        if step.form is not None:
            wanted[name] = lambda form=step.form, name=name: emit(form, name)  # type: ignore[misc]
        else:
            assert step.text is not None
            wanted[name] = lambda text=step.text, name=name: text(name)  # type: ignore[misc]
    return wanted


# -- on disk ------------------------------------------------------------------------------------


def to_bytes(image: Image) -> bytes:
    """An image as it is kept on disk."""
    head = {
        "arena": image.arena,
        "inside": image.inside,
        "patches": image.patches,
        "numbers": {str(k): v for k, v in image.numbers.items()},
        "status": image.status,
        "symbols": image.symbols,
        "faults": image.faults,
        "segments": image.segments,
        "results": image.results,
        "parallel": image.parallel,
        "report": image.report,
        "memory": without_places(image.memory),
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + image.words.tobytes()


def from_bytes(data: bytes) -> Image:
    """An image from disk."""
    (size,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + size])
    head["numbers"] = {int(k): v for k, v in head["numbers"].items()}
    head["results"] = [(k, tuple(shape), dtype) for k, shape, dtype in head["results"]]
    return Image(words=np.frombuffer(data, np.int64, offset=8 + size).copy(), **head)
