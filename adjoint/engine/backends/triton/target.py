"""The GPU as a target of the compiler: what its kernels know, and the templates it has."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from adjoint.engine.backends.registers import distributions
from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.triton import reducing
from adjoint.engine.backends.triton.added_rows import add_rows
from adjoint.engine.backends.triton.choices import choose_parts
from adjoint.engine.backends.triton.flat_rows import flatten_rows
from adjoint.engine.backends.triton.functions import computes
from adjoint.engine.backends.triton.half_products import narrow
from adjoint.engine.backends.triton.launch_words import fill_words
from adjoint.engine.backends.triton.pixel_products import pixel_products
from adjoint.engine.backends.triton.remake import Levels, remade
from adjoint.engine.backends.triton.schedule import schedule
from adjoint.engine.backends.triton.searches import with_searches
from adjoint.engine.backends.triton.spread import spread
from adjoint.engine.backends.triton.templates import (
    attention,
    convolution,
    integers,
    joining,
    long_attention,
    moments,
    product,
    rows,
    running,
    scaled,
    scans,
    scatter,
    statistics,
)
from adjoint.engine.backends.triton.templates.convolution import Convolver
from adjoint.engine.backends.triton.templates.groups import template as groups
from adjoint.engine.backends.triton.templates.long_attention import Attender, LongAttention
from adjoint.engine.backends.triton.templates.order import sorting
from adjoint.engine.backends.triton.templates.windows import padding, pooling, resampling, sliding
from adjoint.engine.compiler.loops.ir import Kernel, LoopKernel
from adjoint.engine.compiler.lower import joins, pair_functions, pairs
from adjoint.engine.compiler.lower.made import made
from adjoint.engine.compiler.memory.places import ALIGN as ROOM
from adjoint.engine.compiler.memory.places import ARENA, INPUT, OWN, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Launch, Step
from adjoint.engine.compiler.target import Target
from adjoint.engine.core.dtype import DType
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.passes.loop_casts import loop_casts
from adjoint.engine.graph.passes.recomputation.recompute import Costs

FEW = 4  # kernels of a step that eager mode launches one by one
SUMMED_ALONE = 1 << 20  # elements that are worth a launch of their own
# Kernels of the eager table.
CALLED = frozenset(
    {"ctc_loss_small", "ctc_loss_gradient", "recurrent_network", "recurrent_network_gradient"}
)


class TritonTarget(Target):
    """Kernels in Triton; `unaligned` are the inputs whose addresses are no multiples of 16, and
    `convolver` runs convolutions, `attender` attention over long sequences."""

    name = "triton"
    device = "cuda"
    dtypes = frozenset(KIND)
    widened = frozenset({"index_put", "scatter", "scatter_reduce"})
    # A byte of memory traffic takes as long as 8 additions; what is kept is written and read.
    costs = Costs(byte=16, lying=8, function=8, draw=64, meeting=64, remade=False)
    # A launch takes as long as writing and reading so much.
    waiting_bytes = 4 << 20
    early_bytes = 1 << 16
    # Enough results keep all processors busy; fewer are reduced in two steps.
    few = 1 << 14
    few_rows, long_rows = 512, 1 << 15
    together = True
    long = 2048
    columns = 8192
    part = 32
    absorbs = True
    reads_rows = True
    permutes = True
    reads_parts = True
    small = 1 << 16
    kept_whole = frozenset[str]().union(
        attention.TEMPLATES, groups.TEMPLATES, moments.TEMPLATES, padding.TEMPLATES,
        pooling.TEMPLATES, resampling.TEMPLATES, scaled.TEMPLATES, statistics.TEMPLATES,
    )  # fmt: skip
    plain = {
        **joins.TEMPLATES, **attention.TEMPLATES, **groups.TEMPLATES, **integers.TEMPLATES,
        **moments.TEMPLATES, **padding.TEMPLATES, **pairs.TEMPLATES, **pooling.TEMPLATES,
        **product.TEMPLATES, **resampling.TEMPLATES, **rows.TEMPLATES, **running.TEMPLATES,
        **scaled.TEMPLATES, **scans.TEMPLATES, **scatter.TEMPLATES, **sliding.TEMPLATES,
        **sorting.TEMPLATES, **statistics.TEMPLATES,
    }  # fmt: skip

    def __init__(
        self,
        unaligned: frozenset[int] = frozenset(),
        rows: int = 0,
        convolver: Convolver | None = None,
        attender: Attender | None = None,
    ) -> None:
        self.unaligned, self.convolver, self.attender = unaligned, convolver, attender
        # Of a loop's body: what addresses of its inputs and results are multiples of.
        self.rows = rows
        self.variant = f"rows of {rows}" if rows else ""
        # What is a loop of launches else; a loop's body and a fragment cannot call them.
        self.called = CALLED if self.sized and not rows else frozenset()
        self.ordered_images: frozenset[tuple[int, ...]] = frozenset()  # shapes with channels last
        self.levels: Levels = {}
        self.templates = {**self.plain, **convolution.templates(self, convolver)}
        self.long_attention = None if attender is None else LongAttention(self, attender)
        if self.long_attention is not None:
            self.templates |= long_attention.templates(self.long_attention)

    def of_rows(self, alignment: int) -> TritonTarget:
        """The same target for a loop's body."""
        return type(self)(self.unaligned, alignment, self.convolver, self.attender)

    def alignment(self, buffer: PlannedBuffer) -> int:
        """What the address of a buffer is a multiple of, in bytes."""
        if self.rows and buffer.kind != ARENA:
            return self.rows
        known = buffer.kind in OWN or (buffer.kind == INPUT and buffer.number not in self.unaligned)
        return ROOM if known else buffer.dtype.itemsize

    def prepare(self, graph: DataflowGraph) -> DataflowGraph:
        graph = pair_functions.paired(with_searches(made(graph)), self.dtypes)
        self.ordered_images |= convolution.shapes_in_order(graph)
        graph = loop_casts(spread(pixel_products(graph), self.beside_each_other))
        graph = pooling.with_taps(narrow(add_rows(choose_parts(graph))), self.device)
        if self.long_attention is not None:
            graph = self.long_attention.with_results(graph)
        remade_graph, levels = remade(flatten_rows(graph, self.part), self.costs)
        self.levels |= levels
        return remade_graph

    def level(self, value: Value) -> int | None:
        return self.levels.get(value.name)

    def order(self, value: Value) -> tuple[int, ...] | None:
        shape = value.spec.shape
        return convolution.channels_last(len(shape)) if shape in self.ordered_images else None

    def computes(self, name: str, compute: DType, params: Mapping[str, Any]) -> bool:
        return computes(name, compute, params)

    def reduces(self, name: str, compute: DType) -> bool:
        return reducing.reduces(name, compute)

    def draws(self, law: str, args: tuple[Any, ...], dtype: DType) -> bool:
        return distributions.supports(law, args, dtype)

    def schedule(self, kernel: LoopKernel) -> Kernel:
        return schedule(kernel)

    def beside(self, kernel: Kernel) -> Hashable:
        # Tiles are those of the largest sums of a launch: long ones and many want others.
        large = kernel.form.inner and prod((*kernel.outer, *kernel.inner)) >= SUMMED_ALONE
        return (kernel.outer, kernel.inner) if large else None

    def fill_words(self, launch: Launch) -> None:
        fill_words(launch, self, self.sized)


class EagerTarget(TritonTarget):
    """The same for fragments, whose kernels are for operands of any size."""

    sized = False
    long = 8192  # a second launch takes the host longer than a row takes the GPU
    beside_each_other = True
    plain = {**TritonTarget.plain, **joining.TEMPLATES}

    def apart(self, steps: Sequence[Step]) -> list[Step]:
        return [single for step in steps for single in self.one_by_one(step)]

    def one_by_one(self, step: Step) -> list[Step]:
        """A step of few kernels as a launch for each: that costs less than to copy a table."""
        if not isinstance(step, Launch) or not 1 < len(step.kernels) <= FEW or step.form is None:
            return [step]
        singles = [
            replace(step, function="", words=[], text=None, kernels=[k]) for k in step.kernels
        ]
        for single in singles:
            self.fill_words(single)
        return [*singles]
