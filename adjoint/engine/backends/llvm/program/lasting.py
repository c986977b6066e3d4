"""Whether a call makes again what its program keeps (Note [kept for calls])."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.engine.tensor.watching import Watch

if TYPE_CHECKING:
    from adjoint.engine.backends.llvm.program.arena import Arena
    from adjoint.engine.graph.execution import Task


class Lasting:
    """What a program has kept: how its parameters were then, and the byte its test reads.

    All that calls it holds the program's lock.
    """

    __slots__ = ("arena", "byte", "made", "now", "origin", "start", "watch")

    def __init__(self, task: Task, arena: Arena, address: int) -> None:
        self.watch = Watch([task.sources[i].storage(()) for i in sorted(task.lasting)])
        self.arena = arena
        self.start = address - arena.origin  # of the byte, in the arena
        self.origin = -1  # where the arena was when the byte was written
        self.byte = True  # as it was written
        self.made: list[int] | None = None  # the state of what was made; None: nothing is kept
        self.now: list[int] | None = None

    def begin(self) -> None:
        """Before a run: have made what is not known to be as it was.

        Parameters are looked at first, and what is kept counts as nothing until the run has ended:
        a write meanwhile, or an error, has it made again.
        """
        origin = self.arena.origin
        self.now = now = self.watch.state(self.made)
        changed = now is None or now is not self.made or origin != self.origin
        if changed:
            self.made = None
        if changed is not self.byte or origin != self.origin:
            place = origin + self.start - self.arena.array.ctypes.data
            self.arena.array[place] = changed
            self.byte, self.origin = changed, origin

    def end(self) -> None:
        """After a run without an error."""
        self.made = self.now


def lasting_of(task: Any, image: Any, arena: Arena, words: Sequence[int]) -> Lasting | None:
    """What tells whether a program's kept memory is right; None where nothing is kept."""
    return None if image.once < 0 else Lasting(task, arena, int(words[image.once]))
