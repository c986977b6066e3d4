"""What `check` says: something that looks wrong, and what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that looks wrong: what it is about, and what to do."""

    kind: str  # inputs, labels, mode, unused, gradients, outputs, shapes, loss or dead
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class Findings(list[Finding]):
    """What `check` says; prints as lines."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) if self else "nothing suspicious"

    __repr__ = __str__
