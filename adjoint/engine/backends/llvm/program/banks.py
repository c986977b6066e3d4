"""Arrays that results go into again and again.

Note [recycled results]
    Results are fresh arrays to whoever receives them. An array that was handed out and that nobody
    holds any more (its reference count says so: views and exported buffers hold it too) is as good
    as a fresh one, and its address is known. So results come from two banks of arrays that take
    turns: the gradients of the call before are usually alive until this call's replace them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.program.filling import Fill, keeps, numpy_of
from adjoint.engine.backends.llvm.runtime.fill_code import FilledInputs, FillTable, can_fill
from adjoint.engine.backends.llvm.runtime.peeking import address_of
from adjoint.engine.compiler.package.image import ProgramImage

UNHELD = 3  # references to an array that only its bank holds: two lists', and the question's own


class Bank:
    """The arrays of one call's results, and the words that say where they are."""

    __slots__ = (
        "arrays", "at", "kinds", "numbers", "puts", "results", "shares", "shifts", "table",
        "values",
    )  # fmt: skip

    def __init__(self, image: ProgramImage, outputs: int) -> None:
        self.table: FillTable | None = None  # the same for native code, which `puts` is
        self.puts: Callable[[list[Any]], bool] | None = None
        reused = [(k, shape, numpy_of(dtype)) for k, shape, dtype in image.results]
        reused = [(k, shape, dtype) for k, shape, dtype in reused if keeps(shape, dtype)]
        self.numbers = [k for k, _, _ in reused]  # of the results that are kept
        self.kinds = [(shape, dtype) for _, shape, dtype in reused]
        patches = [image.patches.get(f"result {k}", []) for k in self.numbers]
        self.at = np.array([at for patch in patches for at, _ in patch], np.int64)
        self.shifts = np.array([shift for patch in patches for _, shift in patch], np.int64)
        self.shares = np.repeat(np.arange(len(patches)), [len(patch) for patch in patches])
        self.arrays = [np.empty(shape, dtype) for shape, dtype in self.kinds]
        self.results: list[Any] = [None] * outputs
        self.put()

    def put(self) -> None:
        """Note where the arrays are."""
        for k, array in zip(self.numbers, self.arrays, strict=True):
            self.results[k] = array
        starts = np.array([address_of(a) for a in self.arrays], np.int64)
        self.values = starts[self.shares] + self.shifts
        if self.table is not None:
            self.table.hold(self.arrays, self.values)

    def renew(self) -> None:
        """Have other arrays in place of those that somebody holds."""
        for i, (shape, dtype) in enumerate(self.kinds):
            if getrefcount(self.arrays[i]) > UNHELD:
                self.arrays[i] = np.empty(shape, dtype)
        self.put()


class Banks:
    """Two banks that take turns."""

    __slots__ = ("both", "unheld")

    def __init__(self, image: ProgramImage, outputs: int) -> None:
        self.both = [Bank(image, outputs), Bank(image, outputs)]
        self.unheld = UNHELD * len(self.both[0].arrays)

    def take(self, words: Any) -> list[Any]:
        """A list of results, with arrays that are nobody's; their addresses go into `words`."""
        both = self.both
        both.reverse()
        bank = both[0]
        if sum(map(getrefcount, bank.arrays)) != self.unheld:
            bank.renew()
        words[bank.at] = bank.values
        return bank.results.copy()

    def quickened(
        self,
        arrays: dict[int, Sequence[tuple[int, int]]],
        floats: dict[int, Sequence[int]],
        slow: Fill,
        words: Any,
    ) -> Fill:
        """`slow`, or what does the same sooner; where inputs' addresses and floats go is given."""
        return self.quick(FilledInputs(arrays, floats), slow, words) if can_fill() else slow

    def quick(self, inputs: FilledInputs, slow: Fill, words: Any) -> Fill:
        """`slow`, done by native code where nobody holds the results of the call before last."""
        both = self.both
        for bank in both:
            bank.table = FillTable(inputs, bank.at, len(bank.arrays), words)
            bank.table.hold(bank.arrays, bank.values)
            bank.puts = bank.table.function()

        def fill(arrays: list[Any], targets: list[Any]) -> list[Any]:
            bank = both[1]
            if bank.puts(arrays):  # type: ignore[misc]
                both.reverse()
                return bank.results.copy()
            return slow(arrays, targets)

        return fill
