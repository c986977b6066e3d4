"""What the text of a kernel knows of sizes: as numbers of its own, or as words of its table."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.triton.code import Words
from adjoint.engine.backends.triton.schedule import Tiles, same_sizes, tiles_of
from adjoint.engine.compiler.loops.ir import Form, Kernel

LARGE = 1 << 31  # elements that 32 bits cannot count


class TileSizes:
    """Sizes, strides and words of the kernels of one form that are launched together."""

    head: list[str]  # lines at the start of the kernel

    def __init__(self, form: Form, kernels: list[Kernel], sized: bool) -> None:
        self.form, self.kernels = form, kernels
        self.example = kernels[0]
        self.fixed = same_sizes(kernels)  # sizes are part of the text
        self.tiles: Tiles = tiles_of(form, kernels)
        self.words = Words()
        self.flat = not (form.inner or form.columns)
        self.many = len(kernels) > 1
        # Whether the size of the first dimension is left out of the text.
        self.open = not (sized or self.many or form.columns or not form.outer)
        self.index = "tl.int64" if self.is_large() else "tl.int32"
        self.extents = self.extent_numbers()

    def is_large(self) -> bool:
        """Whether places in memory, or combinations, need 64 bits to count."""
        for k in self.kernels:
            sizes = (*k.outer, *k.inner)
            reach = [
                sum(abs(r.strides[d]) * (n - 1) for d, n in enumerate(sizes))
                + sum(abs(s) * n for s, n in r.picks)
                for r in k.refs
            ]
            room = self.tiles.x * max(self.tiles.r, 1)
            if max([*reach, prod(k.outer) + room, prod(k.inner) + room]) >= LARGE:
                return True
        return False

    def word(self, *what: Any) -> str:
        """A word as an integer."""
        return f"tl.load(w + {self.words.of(*what)})"

    def size(self, d: int) -> str:
        """The size of a dimension."""
        if self.fixed:
            return str((*self.example.outer, *self.example.inner)[d])
        even = all((*k.outer, *k.inner)[d] % 16 == 0 for k in self.kernels)
        return self.settled(f"n{d}", "size", d, even=even)

    def settled(self, name: str, *what: Any, even: bool = False) -> str:
        """A word that is loaded at the start, under a name; `even`: a multiple of 16."""
        if what not in self.words.at:
            word = f"{self.word(*what)}.to({self.index})"
            self.head.append(f"    {name} = {f'tl.multiple_of({word}, 16)' if even else word}")
        return name

    def stride(self, r: int, d: int) -> str:
        """A stride, as text; "" where it is 0 and "1" where it is 1."""
        if self.form.refs[r][1][d] == 0:
            return ""
        if self.fixed:
            return str(self.example.refs[r].strides[d])
        if self.form.refs[r][1][d] == 1:
            return "1"
        # Rows that begin at multiples of 16 bytes are loaded so many at once.
        even = all(k.refs[r].strides[d] % 16 == 0 for k in self.kernels)
        return self.settled(f"s{r}_{d}", "stride", r, d, even=even)

    def pick(self, r: int, j: int) -> tuple[str, str]:
        """Stride and size of a dimension that values index."""
        if self.fixed:
            stride, size = self.example.refs[r].picks[j]
            return str(stride), str(size)
        return (
            self.settled(f"p{r}_{j}", "pick", r, j),
            self.settled(f"l{r}_{j}", "limit", r, j),
        )

    def extent_numbers(self) -> dict[int, int]:
        """Which extent each scatter's index must be below."""
        scatters = [k for k, op in enumerate(self.form.ops) if op.name == "scatter"]
        return {k: i for i, k in enumerate(scatters)}

    def total(self, which: str) -> str:
        """The number of outer or of inner combinations."""
        f = self.form
        dims = range(f.outer) if which == "x" else range(f.outer, f.outer + f.inner)
        if self.open and which == "x":
            more = prod(self.example.outer[1:])
            return f"{self.settled('n0', 'size', 0)} * {more}"
        return self.combinations(dims)

    def count(self, dims: range) -> int:
        """The same as a number, where sizes are fixed."""
        sizes = (*self.example.outer, *self.example.inner)
        return prod(sizes[d] for d in dims)

    def combinations(self, dims: range) -> str:
        """The number of combinations along dimensions."""
        if self.fixed:
            return str(self.count(dims))
        return " * ".join(self.size(d) for d in dims) or "1"
