"""The words of a launch by name: what a template writes down and its kernel reads, stated once.

A template makes the dataclass of addresses and numbers, and its launch is told what is `listed`;
the kernel has registers in the fields of the same class (`read_by`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from adjoint.engine.backends.llvm.ir.writer import CodeWriter

COUNT = "count"


def several(count: int) -> dict[str, int]:
    """The metadata of a field of so many words.

    >>> from dataclasses import field
    >>> @dataclass
    ... class Some(LaunchWords):
    ...     start: Any
    ...     steps: Sequence[Any] = field(metadata=several(2))
    >>> Some.word_count(), Some(7, [1, 2]).listed()
    (3, [7, 1, 2])
    """
    return {COUNT: count}


@dataclass(slots=True)
class LaunchWords:
    """Words in the order of the fields, which a kernel's own class names."""

    @classmethod
    def word_count(cls) -> int:
        """How many words there are; others, without names, may follow."""
        return sum(part.metadata.get(COUNT, 1) for part in fields(cls))

    @classmethod
    def named(cls, words: Sequence[Any]) -> Self:
        """The first words, by name."""
        rest = iter(words)
        counts = [part.metadata.get(COUNT) for part in fields(cls)]
        return cls(*[next(rest) if n is None else [next(rest) for _ in range(n)] for n in counts])

    @classmethod
    def read_by(cls, w: CodeWriter) -> Self:
        """The registers that a kernel has them in."""
        return cls.named(w.words(cls.word_count()))

    def listed(self) -> list[Any]:
        """What a launch is told."""
        words: list[Any] = []
        for part in fields(self):
            word = getattr(self, part.name)
            words += word if COUNT in part.metadata else [word]
        return words
