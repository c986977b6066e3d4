"""How much of a GPU's memory there is and was, in words that native code counts on too."""

from __future__ import annotations

from array import array
from typing import Any

from adjoint.engine.core.origins import Where

# A block that somebody has: its bytes, those asked for, the line, if lines are noted. A plain
# tuple: one is made for every piece.
Piece = tuple[int, int, Where | None]
# What a block is made of: CuPy's memory, its address, bytes and device, who counts it, where it
# is kept when nobody has it (Note [kept pieces]) or None, and the address of the counts' words.
Room = tuple[Any, int, int, int, "DeviceCounts", "list[Any] | None", int]

# The words: of pieces and of their bytes how many there are, the most there were, and all that
# ever were; then the same of segments and of their bytes.
CURRENT_PIECES, TOP_PIECES, TOTAL_PIECES, CURRENT_BYTES, TOP_BYTES, TOTAL_BYTES = range(6)
SEGMENTS, RESERVED, WORDS = 6, 9, 12


class MemoryCount:
    """How much of something there is and was.

    >>> count = MemoryCount(array("q", [0, 0, 0]), 0)
    >>> count.add(3)
    >>> count.less(1)
    >>> count.current, count.peak, count.allocated, count.freed
    (2, 3, 3, 1)
    """

    __slots__ = ("at", "words")

    def __init__(self, words: array[int], at: int) -> None:
        self.words, self.at = words, at

    @property
    def current(self) -> int:
        """What there is."""
        return self.words[self.at]

    @current.setter
    def current(self, n: int) -> None:
        self.words[self.at] = n

    @property
    def peak(self) -> int:
        """The most there was."""
        return self.words[self.at + 1]

    @peak.setter
    def peak(self, n: int) -> None:
        self.words[self.at + 1] = n

    @property
    def allocated(self) -> int:
        """All that ever was."""
        return self.words[self.at + 2]

    @allocated.setter
    def allocated(self, n: int) -> None:
        self.words[self.at + 2] = n

    def add(self, n: int) -> None:
        """More of it."""
        words, at = self.words, self.at
        words[at + 2] += n
        words[at] += n
        if words[at] > words[at + 1]:
            words[at + 1] = words[at]

    def less(self, n: int) -> None:
        """So much less of it: at once, which a change of `current` is not."""
        self.words[self.at] -= n

    @property
    def freed(self) -> int:
        """What went again."""
        return self.allocated - self.current

    def reset_peak(self) -> None:
        """Begin to look for the peak anew."""
        self.peak = self.current

    def reset_accumulated(self) -> None:
        """Forget what is no longer there."""
        self.allocated = self.current


class DeviceCounts:
    """What one GPU's pools hold."""

    __slots__ = (
        "address", "blocks", "failures", "limit", "live", "reserved", "retries", "segment_sizes",
        "segments", "used", "words",
    )  # fmt: skip

    def __init__(self) -> None:
        self.words = array("q", [0] * WORDS)  # which never grows, and so stays where it is
        self.address = self.words.buffer_info()[0]
        self.blocks = MemoryCount(self.words, CURRENT_PIECES)
        self.used = MemoryCount(self.words, CURRENT_BYTES)  # bytes of blocks
        self.segments = MemoryCount(self.words, SEGMENTS)
        self.reserved = MemoryCount(self.words, RESERVED)  # bytes taken from the driver
        self.retries = self.failures = 0
        self.limit = 0  # bytes that may be taken from the driver; 0: all there is
        self.live: dict[int, Piece] = {}  # blocks, by address
        self.segment_sizes: dict[int, int] = {}  # sizes of segments, by address

    def counts(self) -> dict[str, MemoryCount]:
        """All counts, by PyTorch's names."""
        return {
            "active": self.blocks, "active_bytes": self.used, "allocated_bytes": self.used,
            "allocation": self.blocks, "reserved_bytes": self.reserved, "segment": self.segments,
        }  # fmt: skip

    def asked(self) -> int:
        """Bytes that were asked for, of the blocks there are."""
        return sum(asked for _, asked, _ in list(self.live.values()))
