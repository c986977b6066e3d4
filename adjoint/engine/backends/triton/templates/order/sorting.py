"""The templates of order: argsort, top-k, the k-th element, medians, modes (Note [items])."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.triton.schedule import power_of_two
from adjoint.engine.backends.triton.templates import lines as along
from adjoint.engine.backends.triton.templates.order import exchange_kernels as exchanges
from adjoint.engine.backends.triton.templates.order import sorting_kernels as kernels
from adjoint.engine.backends.triton.templates.order.sorting_kernels import (
    BEST,
    ELEMENTS,
    HIGH,
    ITEMS,
    LOW,
    MODE,
    PICK,
    PLACES,
    RUNS,
    VALUE,
    LineOrder,
)
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.compiler.target import Setting, Template
from adjoint.engine.core.dtype import int64
from adjoint.engine.graph.ir import Node, Value

LONGEST = 1 << 24  # elements of a line
MOST = 1 << 28  # of all lines together, which take two or three words each
FEW = 64  # of a line that are found without sorting it, if they are a quarter at most


def dims_of(node: Node) -> tuple[int, ...]:
    """The dimensions that are put in order."""
    return node.params["dims"] if node.record.name == "median" else (node.params["dim"],)


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Real numbers on the GPU, along neighbouring dimensions."""
    x, dims = inputs[0], dims_of(node)
    if not isinstance(x, Value) or not dims or not x.spec.shape:
        return False
    known = x.spec.dtype.name in KIND and x.spec.dtype.name != "uint64"
    if not known or x.spec.device.type != setting.target.device:
        return False
    if not along.are_known(*x.spec.shape) or dims != tuple(range(dims[0], dims[-1] + 1)):
        return False
    length = along.sizes_along(x.spec.shape, dims[0], dims[-1] + 1)[1]
    return 0 < length < LONGEST and 0 < prod(x.spec.shape) <= MOST


def accepts_mode(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """The same, of lines that one program puts in order."""
    if not accepts(setting, node, inputs):
        return False
    return bool(inputs[0].spec.shape[node.params["dim"]] <= exchanges.LONGEST)


class Sorting:
    """The launches of a node, one after another."""

    def __init__(
        self,
        name: str,
        what: LineOrder,
        x: Place,
        out: Place,
        sizes: tuple[int, int, int],
        take: int,
    ) -> None:
        self.name, self.what, self.x, self.out, self.take = name, what, x, out, take
        before, self.length, self.after = sizes
        self.count = before * self.after
        self.launches: list[Launch] = []

    def all(self) -> list[Launch]:
        """All of them."""
        if self.take == 0:
            return []
        few = self.take <= FEW and self.take * 4 <= self.length
        if few and self.what.writes == PLACES and not self.what.wide:
            self.best()
        elif self.length <= exchanges.LONGEST:
            self.exchanged(self.what, self.x, self.out)
        else:
            self.sorted()
        return self.launches

    def exchanged(
        self, what: LineOrder, source: Place, out: Place, order: Place | None = None
    ) -> None:
        """A launch of blocks of lines, whose elements are exchanged until they are in order."""
        block = min(block_of(self.length), exchanges.LONGEST)
        rows, stages = exchanges.exchanged_rows(block), block.bit_length()
        self.add(
            exchanges.exchanged_lines(replace(what, block=block)), source, out,
            (-(-self.count // rows) * -(-self.length // block), 1), self.length, self.take,
            warps=exchanges.exchange_warps(block), order=order,
            cost=self.length * stages * stages,
        )  # fmt: skip

    def best(self) -> None:
        """The best of each block, then of those, until they are one block."""
        source, length, what = self.x, self.length, self.what
        while length > kernels.SELECTED:
            blocks = -(-length // kernels.SELECTED)
            room = along.memory(int64, self.count * blocks * self.take, "best")
            self.selected(replace(what, writes=BEST), source, room, length)
            source, length, what = room, blocks * self.take, replace(what, keys=ITEMS)
        self.selected(what, source, self.out, length)

    def selected(self, what: LineOrder, source: Place, out: Place, length: int) -> None:
        """A launch that takes the first few of blocks of lines."""
        block = min(block_of(length), kernels.SELECTED)
        rows = kernels.selected_rows(block)
        self.add(
            kernels.selected_lines(replace(what, block=block)), source, out,
            (-(-self.count // rows) * -(-length // block), 1), length, self.take,
            warps=4, cost=length * self.take,
        )  # fmt: skip

    def sorted(self) -> None:
        """All of each line in order, and what is asked for read off."""
        by_low: Place | None = None
        if self.what.wide:
            by_low = self.merged(replace(self.what, keys=LOW), None)
        order = self.merged(replace(self.what, keys=HIGH if by_low else ELEMENTS), by_low)
        results = self.count * (self.take if self.what.writes == PLACES else 1)
        self.add(
            kernels.finish_lines(self.what), self.x, self.out,
            (-(-results // kernels.FINISHED), 1), self.length, self.take,
            warps=kernels.FINISH_WARPS, order=order, run=by_low, cost=self.take,
        )  # fmt: skip

    def merged(self, what: LineOrder, order: Place | None) -> Place:
        """Sorted items of each line."""
        room = along.memory(int64, self.count * self.length, "items")
        what = replace(what, writes=RUNS, which="take")
        self.exchanged(what, self.x, room, order)
        return self.runs_merged(room)

    def runs_merged(self, items: Place) -> Place:
        """Sorted runs of items, as one of each line."""
        room = [items, along.memory(int64, self.count * self.length, "items")]
        blocks, run = -(-self.length // exchanges.MERGED), exchanges.LONGEST
        while run < self.length:
            self.add(
                exchanges.merge_lines(), room[0], room[1], (self.count * blocks, 1), self.length, 1,
                warps=exchanges.MERGE_WARPS, run=run,
                cost=self.length * exchanges.MERGED.bit_length(),
            )  # fmt: skip
            room.reverse()
            run *= 2
        return room[0]

    def add(
        self,
        lines: list[str],
        source: Place,
        out: Place,
        grid: tuple[int, int],
        length: int,
        take: int,
        *,
        warps: int,
        cost: int,
        order: Place | None = None,
        run: Place | int | None = None,
    ) -> None:
        """A launch, by what its words are (`kernels.SOURCE` and so on)."""
        reads = [p for p in (source, order, run) if isinstance(p, Place)]
        whole_run = run if isinstance(run, int) else 0
        self.launches.append(
            along.launch(
                self.name, lines,
                [
                    along.address(source), along.address(out), along.address(order or source),
                    length, self.after, self.count, take,
                    along.address(run) if isinstance(run, Place) else whole_run,
                    (whole_run or length).bit_length(),
                ],
                reads, [out], grid, warps=warps, cost=cost * self.count, sizes=(self.count, length),
            )
        )  # fmt: skip


def block_of(length: int) -> int:
    """The block that a short line is."""
    return max(2, power_of_two(length))


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """Launches that put lines in order."""
    out, copies = along.own(setting, results[0], node.record.name)
    dims, spec = dims_of(node), node.inputs[0].spec
    sizes = along.sizes_along(spec.shape, dims[0], dims[-1] + 1)
    take = sizes[1] if node.record.name == "argsort" else node.params.get("k", 1)
    sorting = Sorting(node.record.name, described(node), operands[0], out, sizes, take)
    return [*sorting.all(), *copies]


def described(node: Node) -> LineOrder:
    """What a node asks for."""
    name, params = node.record.name, node.params
    down = bool(params.get("descending", params.get("largest", False)))
    what = LineOrder(node.inputs[0].spec.dtype.name, down, ELEMENTS, PLACES)
    if name in ("kthvalue", "argmode"):
        return replace(what, writes=PICK if name == "kthvalue" else MODE)
    if name in ("argmedian", "median"):
        which = "omit" if params["omit"] else "first"
        return replace(what, writes=VALUE if name == "median" else PICK, which=which)
    return what


def sorted_items(name: str, items: Place, count: int) -> tuple[list[Launch], Place]:
    """Launches that sort items, and where they then are."""
    room = along.memory(int64, count, "items")
    sorting = Sorting(name, LineOrder("int64", False, ITEMS, RUNS), items, room, (1, count, 1), 1)
    sorting.exchanged(sorting.what, items, room)
    return sorting.launches, sorting.runs_merged(room)


TEMPLATES = {
    **dict.fromkeys(
        ("argsort", "topk", "kthvalue", "argmedian", "median"),
        Template(accepts, along.packed, steps),
    ),
    "argmode": Template(accepts_mode, along.packed, steps),
}
