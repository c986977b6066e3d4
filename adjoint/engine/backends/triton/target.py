"""The GPU as a target of the compiler: what its kernels know, and the templates it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adjoint.engine.backends.registers import distributions
from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.triton.functions import computes
from adjoint.engine.backends.triton.half_products import narrow
from adjoint.engine.backends.triton.launch_words import fill_words
from adjoint.engine.backends.triton.reducing import REDUCTIONS
from adjoint.engine.backends.triton.schedule import schedule
from adjoint.engine.backends.triton.templates import attention, product, rows, scans, statistics
from adjoint.engine.compiler.loops.ir import Kernel, LoopKernel
from adjoint.engine.compiler.lower import joins
from adjoint.engine.compiler.memory.memory import ALIGN as ROOM
from adjoint.engine.compiler.memory.places import ARENA, INPUT, OWN, Buffer
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.compiler.target import Target
from adjoint.engine.core.dtype import DType
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.passes.recompute import Costs


class TritonTarget(Target):
    """Kernels in Triton; `unaligned` are the inputs whose addresses are no multiples of 16."""

    name = "triton"
    device = "cuda"
    dtypes = frozenset(KIND)
    widened = frozenset({"index_put"})
    # A byte of memory traffic takes as long as 8 additions; what is kept is written and read.
    costs = Costs(byte=16, lying=8, function=8, draw=64, meeting=64, remade=False)
    # A launch takes as long as writing and reading so much.
    held = 4 << 20
    # Enough results keep all processors busy; fewer are reduced in two steps.
    few = 1 << 14
    long = 2048
    columns = 2048
    part = 32
    absorbs = True
    small = 1 << 16
    kept = frozenset({*attention.TEMPLATES, *statistics.TEMPLATES})
    templates = {
        **joins.TEMPLATES, **attention.TEMPLATES, **product.TEMPLATES, **rows.TEMPLATES,
        **scans.TEMPLATES, **statistics.TEMPLATES,
    }  # fmt: skip

    def __init__(self, unaligned: frozenset[int] = frozenset(), rows: int = 0) -> None:
        self.unaligned = unaligned
        # Of a loop's body: what addresses of its inputs and results are multiples of.
        self.rows = rows
        self.variant = f"rows of {rows}" if rows else ""

    def of_rows(self, alignment: int) -> TritonTarget:
        """The same target for a loop's body."""
        return type(self)(self.unaligned, alignment)

    def alignment(self, buffer: Buffer) -> int:
        """What the address of a buffer is a multiple of, in bytes."""
        if self.rows and buffer.kind != ARENA:
            return self.rows
        known = buffer.kind in OWN or (buffer.kind == INPUT and buffer.number not in self.unaligned)
        return ROOM if known else buffer.dtype.itemsize

    def prepare(self, graph: DataflowGraph) -> DataflowGraph:
        return narrow(graph)

    def computes(self, name: str, compute: DType, params: Mapping[str, Any]) -> bool:
        return computes(name, compute, params)

    def reduces(self, name: str, compute: DType) -> bool:
        return name in REDUCTIONS

    def draws(self, law: str, args: tuple[Any, ...], dtype: DType) -> bool:
        return distributions.supports(law, args, dtype)

    def schedule(self, kernel: LoopKernel) -> Kernel:
        return schedule(kernel)

    def fill_words(self, launch: Launch) -> None:
        fill_words(launch, self)
