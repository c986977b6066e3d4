"""What a recording draws from generators, and where it moves them.

Note [moved generators]
    While a function is recorded its generators stand still (Note [marks], core.state.rng): numbers
    are counted from where a generator stands when a call begins. Seeding one in the function makes
    them count from the start of that seed's stream instead, and each call leaves the generator
    where the function left it.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.state.host import HostScalar, is_host
from adjoint.engine.core.state.rng import seed_all

Number = int | HostScalar


@dataclass(frozen=True, slots=True)
class Start:
    """Where numbers are counted from: a seed and an offset, each a number of the call."""

    seed: HostScalar
    offset: HostScalar


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a recording had come with a generator."""

    streams: Streams
    generator: Any
    count: int
    start: Start | None


@dataclass(frozen=True, slots=True)
class Moves:
    """Where a call leaves the generators it draws from."""

    counts: tuple[tuple[Any, int], ...]  # moved on by as many blocks
    starts: tuple[tuple[Any, Start, int], ...]  # put at a place, and moved on from there
    everywhere: HostScalar | None  # what the default generators of all devices are seeded with

    @property
    def any(self) -> bool:
        """Whether a call moves any generator."""
        return bool(self.counts or self.starts or self.everywhere is not None)

    def carry_out(self) -> None:
        """Leave generators where the function left them."""
        if not self.starts and self.everywhere is None:
            for generator, count in self.counts:
                generator.advance(count)
            return
        places = [(generator, *generator.position(), count) for generator, count in self.counts]
        places += [(g, start.seed.get(), start.offset.get(), n) for g, start, n in self.starts]
        if self.everywhere is not None:
            seed_all(self.everywhere.get())
        for generator, seed, offset, count in places:
            generator.move(seed, offset + count)


class Streams:
    """The generators of one recording."""

    def __init__(self) -> None:
        self.draws: dict[Any, int] = {}  # generator -> blocks drawn, from where it starts
        self.starts: dict[Any, Start] = {}  # of generators that do not start where they stand
        self.own: set[Any] = set()  # generators made in the recording
        self.everywhere: HostScalar | None = None
        # States that generators gave as tensors, by identity: seed and offset.
        self.taken: dict[int, tuple[Any, tuple[HostScalar, HostScalar]]] = {}

    def random(self, generator: Any, count: int) -> tuple[HostScalar, HostScalar]:
        """Seed and offset of a draw: read at each call, the draw's place in it fixed now."""
        return self.seed(generator), self.place(generator, self.take(generator, count))

    def take(self, generator: Any, count: int) -> int:
        """Count numbers as drawn; where they begin, seen from the generator's start."""
        start = self.draws.get(generator, 0)
        self.draws[generator] = start + count
        return start

    def seed(self, generator: Any) -> HostScalar:
        """A generator's seed, read at each call."""
        start = self.starts.get(generator)
        if start is not None:
            return start.seed
        return HostScalar(lambda: generator.position()[0], "seed", key=("seed", id(generator)))

    def place(self, generator: Any, start: int) -> HostScalar:
        """An offset of a generator, read at each call."""
        moved = self.starts.get(generator)
        if moved is not None:
            offset = moved.offset
        else:
            key = ("offset", id(generator))
            offset = HostScalar(lambda: generator.position()[1], "offset", key=key)
        return HostScalar.computed(operator.add, offset, start)

    def now(self, generator: Any) -> tuple[HostScalar, HostScalar]:
        """Where a generator is: seed and offset."""
        return self.seed(generator), self.place(generator, self.draws.get(generator, 0))

    def restart(self, generator: Any, seed: Number, offset: Number = 0) -> None:
        """Have a generator go on from somewhere else."""
        self.draws.pop(generator, None)
        self.starts[generator] = Start(_host(seed), _host(offset))

    def restart_all(self, generators: Any, seed: Number) -> None:
        """Have the default generators start the stream of a seed."""
        self.everywhere = _host(seed)
        for generator in generators:
            self.restart(generator, seed)

    def appeared(self, generator: Any) -> None:
        """A default generator was first asked for now: it follows what seeded the others."""
        if self.everywhere is not None:
            self.restart(generator, self.everywhere)

    def made(self, generator: Any, seed: Number, offset: Number = 0) -> None:
        """A generator was made in the recording: each call makes one."""
        self.own.add(generator)
        self.restart(generator, seed, offset)

    def cloned(self, generator: Any, other: Any) -> None:
        """Another generator was made at the place of this one."""
        self.made(other, *self.now(generator))

    def mark(self, generator: Any) -> Any:
        """Where a generator is in this recording (Note [marks], core.state.rng)."""
        return Mark(self, generator, self.draws.get(generator, 0), self.starts.get(generator))

    def go_back(self, generator: Any, mark: Any) -> None:
        """Draw from a mark on again."""
        if mark is None or mark.streams is not self or mark.generator is not generator:
            raise CaptureError(
                "compile: a generator is given a state that was not taken in the same recorded "
                "function, loop body or branch; a call reads the generator's own. Take the state "
                "there, or set it before calling the function."
            )
        self.draws[generator] = mark.count
        if mark.start is None:
            self.starts.pop(generator, None)
        else:
            self.starts[generator] = mark.start

    def moves(self) -> Moves:
        """Where a call leaves the generators."""
        outside = [g for g in self.draws.keys() | self.starts.keys() if g not in self.own]
        count, start = self.draws.get, self.starts.get
        return Moves(
            tuple((g, count(g, 0)) for g in outside if start(g) is None),
            tuple((g, s, count(g, 0)) for g in outside if (s := start(g)) is not None),
            self.everywhere,
        )


def _host(number: Number) -> HostScalar:
    """A number of each call."""
    if is_host(number):
        return number  # type: ignore[return-value]
    return HostScalar(lambda: number, "constant", key=("constant", number))  # type: ignore[arg-type,return-value]
