"""The templates of order: argsort, top-k, the k-th element, medians."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.backends.array.kernels.order import ties
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.sorting import kernel as sorting
from adjoint.engine.backends.llvm.templates.sorting.as_pytorch import (
    KthKernel,
    OrderedKernel,
    TopKernel,
)
from adjoint.engine.backends.llvm.templates.sorting.items import PLACE_BITS, Items
from adjoint.engine.backends.llvm.templates.sorting.kernel import (
    HELD,
    BestKernel,
    GatherKernel,
    SelectKernel,
    SortKernel,
)
from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.dtype import int64
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import computed

PIECES = 32  # lines are dealt out in so many pieces, at most, each with scratch memory
BEST = 32  # of a line are found without sorting it, if they are a quarter of it at most


def dims_of(node: Node) -> tuple[int, ...]:
    """The dimensions that are put in order, next to each other."""
    return node.params["dims"] if node.record.name == "median" else (node.params["dim"],)


def sizes_of(node: Node) -> tuple[int, int, int]:
    """Elements before the dimensions that are put in order, in them, after them."""
    shape, dims = node.inputs[0].spec.shape, dims_of(node)
    first, last = dims[0], dims[-1] + 1
    return prod(shape[:first]), prod(shape[first:last]), prod(shape[last:])


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Real numbers on the CPU."""
    x, dims = inputs[0], dims_of(node)
    if not isinstance(x, Value) or x.spec.dtype.name not in KIND or not dims:
        return False
    if x.spec.device.type != "cpu" or not x.spec.shape:
        return False
    if dims != tuple(range(dims[0], dims[-1] + 1)):
        return False
    return 0 < sizes_of(node)[1] < 1 << PLACE_BITS


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """The operand is read in row-major order."""
    return set() if layout(inputs[0]).contiguous else {0}


@dataclass(frozen=True, slots=True)
class Ordering:
    """What decides a kernel's text."""

    kernel: type[sorting.LineKernel]
    items: Items
    options: tuple[Any, ...] = ()  # what else the kernel is told

    @property
    def function(self) -> str:
        """The name of the kernel."""
        words = [self.kernel.__name__.removesuffix("Kernel").lower(), self.items.name]
        return "_".join([*words, *map(str, self.options)])

    def text(self, name: str) -> Text:
        """The kernel under a given name."""
        return self.kernel(self.items, *self.options).text(name)


def described(node: Node) -> tuple[Ordering, int]:
    """The kernel a node needs, and how many elements of a line it writes."""
    spec, params = node.inputs[0].spec, node.params
    size, length = prod(spec.shape), sizes_of(node)[1]
    up = Items(spec.dtype, descending=False)
    match node.record.name:
        case "argsort":
            items = Items(spec.dtype, bool(params["descending"]))
            tied = ties.in_sort(size, length, bool(params.get("stable", True)))
            return Ordering(OrderedKernel if tied else SortKernel, items), length
        case "topk":
            items, k = Items(spec.dtype, bool(params["largest"])), params["k"]
            if ties.in_topk(size, length, k):
                return Ordering(TopKernel, items, (bool(params["in_order"]),)), k
            return Ordering(kernel_of_best(k, length), items), k
        case "kthvalue":
            if ties.in_kthvalue(size):
                return Ordering(KthKernel, up), 1
            return Ordering(SelectKernel, up, ("kth", False)), 1
    median = "omit" if params["omit"] else "first"
    return Ordering(SelectKernel, up, (median, node.record.name == "median")), 1


def kernel_of_best(k: int, length: int) -> type[sorting.LineKernel]:
    """What finds the best k of lines of a length."""
    if 0 < k <= BEST and k * 4 <= length:
        return BestKernel
    return GatherKernel if k > BEST and k * 2 * HELD <= length else SortKernel


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; lines are dealt out among the workers."""
    what, count = described(node)
    source, out = operands[0], results[0]
    before, length, after = sizes_of(node)
    lines = before * after
    pieces = computed(min, lines, PIECES)
    piece = sorting.scratch_bytes(what.items, length, what.kernel.arrays)
    scratch = PlannedBuffer(ARENA, int64, pieces * (piece // 8), name="items")
    words = sorting.SortingWords(
        out=Address(out.buffer, out.offset * out.buffer.dtype.itemsize),
        source=Address(source.buffer, source.offset * source.buffer.dtype.itemsize),
        scratch=Address(scratch), length=length, after=after, lines=lines, pieces=pieces,
        count=count, which=node.params.get("k", 1) - 1, piece=piece,
    )  # fmt: skip
    return [
        Launch(
            function=what.function,
            text=what.text,
            words=words.listed(),
            reads=(whole(source.buffer),),
            writes=(whole(out.buffer), whole(scratch)),
            pieces=pieces,
            cost=8 * lines * length,
            label=sized(node.record.name, before, length, after),
        )
    ]


TEMPLATES = dict.fromkeys(
    ("argsort", "topk", "kthvalue", "argmedian", "median"), Template(accepts, packed, steps)
)
