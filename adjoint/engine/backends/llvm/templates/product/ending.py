"""Epilogues in registers: what a product's last write does with its elements (Note [epilogues])."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.registers.elementwise import from_memory, round_to, to_memory
from adjoint.engine.backends.registers.operations import KIND, lower
from adjoint.engine.backends.registers.vector import V
from adjoint.engine.compiler.loops.epilogues import Epilogue, MatrixReference
from adjoint.engine.compiler.loops.ir import LOAD
from adjoint.engine.compiler.schedule.steps import Address
from adjoint.engine.core.dtype import named


@dataclass(frozen=True, slots=True)
class Ending:
    """What the last write of a product does: an epilogue, and whether the product is written."""

    epilogue: Epilogue
    writes_product: bool

    @property
    def words(self) -> list[Any]:
        """The words of its references: where each begins, and how far rows are apart."""
        words: list[Any] = []
        for ref in self.epilogue.references:
            words += [Address(ref.buffer, ref.offset * ref.dtype.itemsize), ref.row]
        return words


class EndingWriter:
    """Writes an epilogue's code; its words are two for each reference, from `first` on."""

    def __init__(self, w: CodeWriter, epilogue: Epilogue, first: int) -> None:
        self.w, self.epilogue = w, epilogue
        loads = [k for k, r in enumerate(epilogue.refs) if r is not None]
        words = [w.word(first + k) for k in range(2 * len(epilogue.references))]
        pairs = list(zip(words[::2], words[1::2], strict=True))
        self.load_words = dict(zip(loads, pairs, strict=False))
        self.store_words = pairs[len(loads) :]

    def at(self, ref: MatrixReference, words: tuple[V, V], row: V, column: V) -> tuple[str, V]:
        """A reference's pointer, and the element's number."""
        base, apart = words
        index = row * apart
        return self.w.pointer(base), index + column if ref.column else index

    def load(self, k: int, row: V, column: V, lanes: int, mask: V | None) -> V:
        """What the epilogue reads beside a vector of elements."""
        ref = self.epilogue.refs[k]
        assert ref is not None
        pointer, index = self.at(ref, self.load_words[k], row, column)
        kind = KIND[ref.dtype.name][1]
        if ref.column and mask is not None:
            found = self.w.load_some(mask, kind, pointer, index)
        else:
            found = self.w.load(pointer, kind, index, lanes if ref.column else 1)
        return self.w.code.splat(from_memory(found, ref.dtype), lanes)

    def write(self, element: V, row: V, column: V, mask: V | None = None) -> None:
        """Neighbouring elements of a row, as far as the product goes, to all they lead to.

        Where a mask is given, only its lanes exist.
        """
        lanes = element.lanes
        values: list[V] = []
        for op in self.epilogue.ops:
            if op.kind == LOAD:
                k = op.args[0][1]
                own = k == self.epilogue.element
                values.append(element if own else self.load(k, row, column, lanes, mask))
                continue
            operands: list[Any] = [values[x] if tag == "v" else x for tag, x in op.args]
            values.append(round_to(lower(self.w.code, op, operands, lanes), named(op.dtype)))
        for (v, ref), words in zip(self.epilogue.stores, self.store_words, strict=True):
            pointer, index = self.at(ref, words, row, column)
            value = self.w.code.splat(values[v].convert(KIND[ref.dtype.name][0]), lanes)
            stored = to_memory(value, ref.dtype)
            if mask is None:
                self.w.store(stored, pointer, index)
            else:
                self.w.store_some(mask, stored, pointer, index)
