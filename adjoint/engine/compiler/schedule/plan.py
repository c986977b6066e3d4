"""Plans: what an executable is made from."""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.compiler.memory.places import Place, PlannedBuffer
from adjoint.engine.compiler.schedule.lasting import KeptSteps
from adjoint.engine.compiler.schedule.steps import Step, moments
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.passes.recomputation.recompute import Recomputed


@dataclass(slots=True)
class Plan:
    """What an executable is made from."""

    graph: DataflowGraph
    steps: list[Step]
    inputs: list[PlannedBuffer | None]  # by graph input; None for the host's numbers
    targets: list[PlannedBuffer]  # by write
    results: dict[int, PlannedBuffer]  # by output
    places: dict[Value, Place]
    remat: Recomputed
    kept: KeptSteps | None = None  # what it makes of parameters alone (Note [kept for calls])

    @property
    def moments(self) -> list[tuple[str, Step]]:
        """All steps in order, those of loops and branches after them, with their numbers."""
        return list(moments(self.steps))
