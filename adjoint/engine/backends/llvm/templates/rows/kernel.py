"""The kernel that puts or adds rows at indices, in the order of the indices.

There may be several tables, one after another, which have rows of their own for the same indices:
workers take some tables each. Of one table they take parts of PART columns each. Either way they go
through all indices, so that repeated indices add up (or overwrite each other) in one order whatever
the number of workers.

The words: the result, the rows, how many, how long, how many parts, how many tables, whether
indices count from the end, the status; then for each index its array, the size of its dimension and
its fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.blocks import Blocks
from adjoint.engine.backends.llvm.ir.machine import host_features
from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.runtime.faults import store_fault
from adjoint.engine.backends.registers.elementwise import from_memory, stored_kind, to_memory
from adjoint.engine.backends.registers.operations import combine
from adjoint.engine.backends.registers.vector import Code, V, type_text
from adjoint.engine.core.dtype import DType

PART = 64  # columns
LANES = 8


@dataclass(slots=True)
class PutWords(LaunchWords):
    """Rows put or added at indices; `IndexWords` of each dimension follow."""

    out: Any
    values: Any
    count: Any  # of rows for a table
    length: Any
    parts: Any
    tables: Any
    wrap: Any  # whether indices below zero count from the end
    status: Any


@dataclass(slots=True)
class IndexWords(LaunchWords):
    """The indices along one dimension."""

    index: Any
    size: Any
    fault: Any  # what it means that one is out of bounds


class RowsKernel:
    """Writes one kernel."""

    def __init__(self, dtype: DType, indices: int, accumulate: bool) -> None:
        self.dtype, self.indices, self.accumulate = dtype, indices, accumulate
        self.code = Code(features=host_features())
        self.blocks = Blocks(self.code)
        fixed, of_index = PutWords.word_count(), IndexWords.word_count()
        words = [self.fetch("%args", k) for k in range(fixed + of_index * indices)]
        self.word = PutWords.named(words)
        self.places = [IndexWords.named(words[fixed + of_index * k :]) for k in range(indices)]

    def fetch(self, array: str, at: int | str) -> str:
        let = self.code.let
        return let(f"load i64, ptr {let(f'getelementptr i64, ptr {array}, i64 {at}')}")

    def text(self, name: str) -> tuple[str, set[str]]:
        let, word = self.code.let, self.word
        alone = let(f"icmp eq i64 {word.tables}, 1")
        first, last = self.share(word.tables)
        low, high = (let(f"mul i64 {part}, {PART}") for part in self.share(word.parts))
        less = let(f"icmp slt i64 {high}, {word.length}")
        high = let(f"select i1 {less}, i64 {high}, i64 {word.length}")
        first, last, start, stop = (
            let(f"select i1 {alone}, i64 {of_one}, i64 {of_several}")
            for of_one, of_several in (("0", first), ("1", last), (low, "0"), (high, word.length))
        )
        whole = let(f"and i64 {let(f'sub i64 {stop}, {start}')}, {-LANES}")
        self.bounds = (start, let(f"add i64 {start}, {whole}"), stop)
        rows = self.places[0].size
        for place in self.places[1:]:
            rows = let(f"mul i64 {rows}, {place.size}")
        self.blocks.loop(first, last, 1, (), lambda t, _: self.table(t, rows))
        body = "\n".join(self.code.lines)
        return (
            f"define void @{name}(ptr %args, i64 %worker, i64 %workers) {{\n"
            f"entry:\n{body}\nret void\n}}\n"
        ), self.code.declarations

    def share(self, pieces: str) -> tuple[str, str]:
        """This worker's part of so many pieces."""
        let = self.code.let
        low = let(f"udiv i64 {let(f'mul i64 {pieces}, %worker')}, %workers")
        following = let("add i64 %worker, 1")
        return low, let(f"udiv i64 {let(f'mul i64 {pieces}, {following}')}, %workers")

    def table(self, t: str, rows: str) -> list[V]:
        """One table of so many rows."""
        let, word = self.code.let, self.word
        self.arrays = []
        for array, many in ((word.out, rows), (word.values, word.count)):
            before = let(f"mul i64 {t}, {let(f'mul i64 {many}, {word.length}')}")
            self.arrays.append(self.beyond(let(f"inttoptr i64 {array} to ptr"), before))

        start, _, stop = self.bounds
        some = let(f"icmp slt i64 {start}, {stop}")
        short = let(f"and i1 {some}, {let(f'icmp eq i64 {word.length}, 1')}")
        elements = let(f"select i1 {short}, i64 {word.count}, i64 0")
        rest = let(f"select i1 {short}, i64 0, i64 {word.count}")
        # Rows of one element need no loops, which would take longer than what they do.
        self.blocks.loop("0", elements, 1, (), lambda n, _: self.row(n, self.move_element))
        self.blocks.loop("0", rest, 1, (), lambda n, _: self.row(n, self.move))
        return []

    def row(self, n: str, move: Callable[[str, str], None]) -> list[V]:
        """Row n to where its indices say; nowhere if one of them is out of bounds."""
        let = self.code.let
        wraps = let(f"icmp ne i64 {self.word.wrap}, 0")
        to, fine = "", ""
        for place in self.places:
            size, fault = place.size, place.fault
            given = at = self.fetch(let(f"inttoptr i64 {place.index} to ptr"), n)
            negative = let(f"icmp slt i64 {at}, 0")
            turn = let(f"select i1 {let(f'and i1 {negative}, {wraps}')}, i64 {size}, i64 0")
            at = let(f"add i64 {at}, {turn}")
            good = let(f"icmp ult i64 {at}, {size}")
            self.blocks.when(
                let(f"xor i1 {good}, true"),
                lambda fault=fault, given=given: self.report(fault, given),  # type: ignore[misc]
            )
            to = at if not to else let(f"add i64 {let(f'mul i64 {to}, {size}')}, {at}")
            fine = good if not fine else let(f"and i1 {fine}, {good}")
        self.blocks.when(fine, lambda: move(n, to))
        return []

    def report(self, fault: str, index: str) -> None:
        status = self.code.let(f"inttoptr i64 {self.word.status} to ptr")
        store_fault(self.code, status, fault, at=self.code.value(index, "i64", 1))

    def move(self, n: str, to: str) -> None:
        """One row, this worker's columns of it."""
        let = self.code.let
        there, here = (
            self.beyond(p, let(f"mul i64 {r}, {self.word.length}"))
            for p, r in zip(self.arrays, (to, n), strict=True)
        )

        def columns(lanes: int, i: str) -> list[V]:
            self.put(self.beyond(there, i), self.beyond(here, i), lanes)
            return []

        start, middle, stop = self.bounds
        self.blocks.loop(start, middle, LANES, (), lambda i, _: columns(LANES, i))
        self.blocks.loop(middle, stop, 1, (), lambda i, _: columns(1, i))

    def move_element(self, n: str, to: str) -> None:
        """One row of one element."""
        out, values = self.arrays
        self.put(self.beyond(out, to), self.beyond(values, n), 1)

    def beyond(self, pointer: str, elements: str) -> str:
        """Where so many elements later lie."""
        element = type_text(stored_kind(self.dtype), 1)
        return self.code.let(f"getelementptr {element}, ptr {pointer}, i64 {elements}")

    def put(self, there: str, here: str, lanes: int) -> None:
        """Neighbours of a row to where they go."""
        new = self.load(here, lanes)
        if self.accumulate:
            total = combine(
                "sum", from_memory(self.load(there, lanes), self.dtype),
                from_memory(new, self.dtype),
            )  # fmt: skip
            new = to_memory(total, self.dtype)
        align = self.dtype.itemsize
        self.code.lines.append(f"store {new.type} {new.ref}, ptr {there}, align {align}")

    def load(self, pointer: str, lanes: int) -> V:
        kind = stored_kind(self.dtype)
        ref = self.code.let(
            f"load {type_text(kind, lanes)}, ptr {pointer}, align {self.dtype.itemsize}"
        )
        return self.code.value(ref, kind, lanes)


def rows_text(name: str, dtype: DType, indices: int, accumulate: bool) -> tuple[str, set[str]]:
    """The kernel under a given name, and the declarations it needs."""
    return RowsKernel(dtype, indices, accumulate).text(name)
