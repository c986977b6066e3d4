"""What programs that differ in sizes only have in common, for executors that can make use of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.sizes.extents import Sizes, SizeScope

FILL = "fill"


@dataclass(frozen=True, slots=True)
class Sizing:
    """The sizes of a task, and the graph that it is an instance of.

    An executor may ignore it. One that does not can make what runs tasks of all sizes from `graph`,
    whose sizes are extents (Note [extents]), and put it in `shared_plans`, which the tasks share.
    One whose programs need nothing but sizes puts there, under `FILL`, what makes them: given the
    sizes of the symbols, an executable, or None where it has to be asked for by a task. None in its
    place says that there is no plan for many sizes.
    """

    sizes: Sizes  # of this task; computed symbols too
    scope: SizeScope  # of the extents; its guards hold
    graph: DataflowGraph
    shared_plans: dict[Any, Any]
    examples: tuple[Any, ...] = ()  # the task's, with extents; none where they lie row after row


@dataclass(frozen=True, slots=True)
class Example:
    """What a plan asks of an array: how it lies."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    dtype: Any
    aligned: bool = True  # whether its address is a multiple of 64, and always will be
