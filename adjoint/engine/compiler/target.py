"""Targets: what a plan is made for.

Note [targets]
    The compiler names no backend. A target says which dtypes its kernels compute in, which
    operations they know, which nodes have templates, what composites it wants whole, how values
    should lie, and how a loop kernel is scheduled into a launch; everything else, from passes to
    the arrangement of memory, is the compiler's and the same for all. A target stands above the
    compiler and is loaded when somebody asks for it (`executors`).

    A `Setting` goes through all stages: the target, the options of `compile`, and the planner
    itself, by which bodies of loops are planned as programs are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from adjoint.engine.compiler.loops.ir import Kernel, LoopKernel
from adjoint.engine.compiler.memory.places import INPUT, Place, PlannedBuffer, in_order
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.schedule.plan import Plan
from adjoint.engine.compiler.schedule.steps import Launch, Step
from adjoint.engine.core.dtype import DType
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.recomputation.recompute import CPU, Costs

LayoutOf = Callable[[Value], Place]


@dataclass(frozen=True, slots=True)
class Template:
    """How a node becomes launches of a kernel of its own instead of generated loops."""

    accepts: Callable[[Setting, Node, tuple[Any, ...]], bool]
    packed: Callable[[LayoutOf, tuple[Any, ...]], set[int]]  # operands that must be copied first
    steps: Callable[..., list[Any]]  # (setting, node, places of operands, places of results)
    # Where in the result each operand lies, if the result is nothing but its operands.
    parts: Callable[[Node, Place], list[Place]] | None = None
    # The operand that its result begins as: it is made where the result lies, if it can be.
    begins: int | None = None
    # Operands that may be zeros nobody has written: their places are then None.
    zeros: frozenset[int] = frozenset()
    # Results that it need not make: their places are None where nobody reads them.
    optional: frozenset[int] = frozenset()
    # Places other than row-major ones that it can write its result to.
    writes_to: Callable[[Place], bool] | None = None
    # Parts of another value that it can write its result to, its `parts` among them.
    writes_part: Callable[[Place], bool] | None = None
    # Its steps with a kernel in their last write, or None where that cannot be (Note [epilogues]):
    # (setting, node, places of operands, the result's, the epilogue, whether the result is kept).
    epilogue: Callable[..., list[Any] | None] | None = None
    # Whether the sums of a node may begin with another matrix, so that to add one costs nothing.
    adds: Callable[[Node], bool] | None = None
    # Whether it takes an epilogue at any size: (setting, node, places as they would lie).
    ends: Callable[[Setting, Node, LayoutOf], bool] | None = None
    # Whether it accepts a node once its indexed dimensions are brought to the front.
    accepts_moved: Callable[[Setting, Node, tuple[Any, ...]], bool] | None = None
    # Whether its result, and operands that are copied first, lie as the target prefers.
    ordered: bool = False
    # Whether it reads matrices by rows or by columns: those that are copied first stay as they lie.
    by_lines: bool = False


class Target(ABC):
    """A kind of machine that programs are made for (Note [targets])."""

    name: ClassVar[str]
    variant: str = ""  # which of several ways a target of this name is set
    device: ClassVar[str]  # the type of device whose memory its kernels read and write
    dtypes: ClassVar[frozenset[str]]  # that its kernels load, compute in and store
    # Records that its templates compute in float32 where operands are halves.
    widened: ClassVar[frozenset[str]] = frozenset()
    # Composites that reach its templates whole, if those take them.
    kept_whole: ClassVar[frozenset[str]] = frozenset()
    called: frozenset[str] = frozenset()  # composites that a kernel of the eager table does best
    # A reduction to fewer results than `few` over more elements than `long` goes in two steps.
    long: ClassVar[int] = 8192
    few: ClassVar[int] = 16
    # The same of rows, a reduction over the last dimensions, where a program takes a row's elements
    # side by side: few programs keep all processors busy. 0: rows are as all else.
    long_rows: ClassVar[int] = 0
    few_rows: ClassVar[int] = 0
    # So does a sum down columns, of which there are fewer than `few_columns`, that are longer than
    # `long_columns`: its pieces are strips of columns, and workers are many.
    long_columns: ClassVar[int] = 512
    few_columns: ClassVar[int] = 0
    blocks: ClassVar[bool] = False  # of which fragments make such reductions (Note [blocks])
    # Whether the first step takes all last dimensions that leave `few` results, or the very last.
    together: ClassVar[bool] = False
    # Whether a kernel that reduces rows can also sum columns: the longest row of such a kernel, and
    # how many rows it sums up at once (Note [column sums], compiler.fuse).
    columns: ClassVar[int] = 0
    part: ClassVar[int] = 1024
    # Multiplications of a product that is done by loops, if it is of float32; 0: none is, nor those
    # of one row.
    small: ClassVar[int] = 0
    # Whether a kernel that reduces takes in elementwise ones that it meets.
    absorbs: ClassVar[bool] = False
    # Whether kernels of few elements that have nothing in common become one (Note [side by side]).
    beside_each_other: ClassVar[bool] = False
    # Whether kernels write results and state whose dimensions lie in any order as fast as others.
    permutes: ClassVar[bool] = False
    # Whether positions that fit are found in 32 bits: half as wide, twice as many at once.
    narrow_positions: ClassVar[bool] = False
    # Whether loops read the parts of complex inputs where they lie (Note [pairs]).
    reads_parts: ClassVar[bool] = False
    sized: ClassVar[bool] = True  # whether sizes are part of a kernel's text
    # Whether a scan's turns read what is carried from where it is stacked: launches cost more there
    # than words that lie further apart.
    reads_rows: ClassVar[bool] = False
    # Whether executables keep what is made of parameters alone (Note [kept for calls]).
    keeps: ClassVar[bool] = False
    costs: ClassVar[Costs] = CPU  # what computing something again costs
    # Bytes kept longer so that kernels are launched together.
    waiting_bytes: ClassVar[int] = 1 << 17
    # Bytes made earlier so that kernels are launched together (Note [put off, brought forward]).
    early_bytes: ClassVar[int] = 0
    templates: Mapping[str, Template]  # by record

    def prepare(self, graph: DataflowGraph) -> DataflowGraph:
        """The graph as its templates want it; after the passes, before anything is planned."""
        return graph

    def order(self, value: Value) -> tuple[int, ...] | None:
        """How a value that loops make should lie: its dimensions, outermost first; None: in order.

        Results and state lie as their users see them, copies and what templates make in row-major
        order, unless the template is `ordered`; a template's operands are copied where it does not
        take them.
        """
        return None

    def images(self, graph: DataflowGraph, setting: Setting) -> frozenset[tuple[int, ...]]:
        """Shapes of values of a graph of which channels, their second dimension, lie innermost."""
        return frozenset()

    def level(self, value: Value) -> int | None:
        """Values of different levels are made by different kernels; None: by any."""
        return None

    def apart(self, steps: Sequence[Step]) -> list[Step]:
        """The steps of a plan, or of a loop's body, as they are launched."""
        return list(steps)

    def advances(self) -> bool:
        """Whether it has launches that advance the words of others (Note [advancing words])."""
        return False

    def advancing(
        self, moves: list[tuple[int, Any, Any]], count: int, turns: int, goes_on: Any
    ) -> tuple[Launch, Launch]:
        """What begins a loop of so many turns, and what ends each of its turns.

        `moves` are words among the `count` of the entries between the two (after a test's): where
        one is, what it is at first, and by how much it advances. Both write the byte at `goes_on`.
        """
        raise NotImplementedError(f"{self.name} does not advance words")

    @abstractmethod
    def computes(self, name: str, compute: DType, params: Mapping[str, Any]) -> bool:
        """Whether kernels know an elementwise operation in a dtype."""

    @abstractmethod
    def reduces(self, name: str, compute: DType) -> bool:
        """Whether kernels know a reduction of a dtype."""

    @abstractmethod
    def draws(self, law: str, args: tuple[Any, ...], dtype: DType) -> bool:
        """Whether kernels can draw from a law."""

    @abstractmethod
    def schedule(self, kernel: LoopKernel) -> Kernel:
        """The order of a kernel's loops, and which of them run as one."""

    def beside(self, kernel: Kernel) -> Hashable:
        """What kernels of one form must have in common to be launched together."""
        return None

    @abstractmethod
    def fill_words(self, launch: Launch) -> None:
        """Write down what a launch of scheduled kernels tells them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a plan is made for."""

    target: Target
    options: Options
    planner: Callable[[Task, Setting], Plan]
    # Inputs of the task that are the same in all turns of a loop, of which it is the body (Note
    # [made once]), or at most calls (Note [kept for calls]).
    lasting: frozenset[int] = frozenset()
    turns: bool = False  # whether it is for a loop's body
    in_blocks: bool = False  # whether parts of long reductions fit any length (Note [blocks])
    # Shapes of images whose channels are to lie innermost (`Target.images`).
    images: frozenset[tuple[int, ...]] = frozenset()

    def lasts(self, buffer: PlannedBuffer) -> bool:
        """Whether a buffer is an input that is the same in all turns of a loop, or most calls."""
        return buffer.kind == INPUT and buffer.number in self.lasting

    def template_for(self, node: Node, inputs: tuple[Any, ...]) -> Template | None:
        """The template that takes a node, if any."""
        template = self.target.templates.get(node.record.name)
        accepted = template is not None and template.accepts(self, node, inputs)
        return template if accepted else None

    def keeps(self, node: Node, inputs: tuple[Any, ...]) -> bool:
        """Whether a composite stays whole, for a template that takes it or for the eager table."""
        name = node.record.name
        if name in self.target.called:
            return True
        return name in self.target.kept_whole and self.template_for(node, inputs) is not None

    def template(self, name: str) -> Template:
        """The template of a record that has one."""
        return self.target.templates[name]

    def laid_out(self, place: Place, value: Value) -> Place:
        """The row-major place of a value that loops make, in the order that the target prefers."""
        copied = value.node is not None and value.node.record.name == "clone"
        order = None if copied else self.order(value)
        return place if order is None else in_order(place.buffer, place.shape, order)

    def order(self, value: Value) -> tuple[int, ...] | None:
        """How a value that loops make should lie, if not in row-major order."""
        if value.spec.shape in self.images:
            return (0, *range(2, len(value.spec.shape)), 1)
        return self.target.order(value)

    def is_laid_out(self, kind: str, node: Node) -> bool:
        """Whether results of a node, of this kind, lie as the target prefers."""
        template = self.target.templates.get(node.record.name) if kind == "template" else None
        return template.ordered if template is not None else kind not in ("template", "call")

    def knows(self, value: Value) -> bool:
        """Whether kernels can load and store a value, or be told it where it is the host's."""
        here = value.host or value.spec.device.type == self.target.device
        return here and value.spec.dtype.name in self.target.dtypes


def all_but_first(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """`packed` of a template that reads all operands but its first in row-major order."""
    return {i for i, x in enumerate(inputs) if i > 0 and not layout(x).contiguous}


def knows_all(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether kernels can load and store all that a node reads and writes."""
    return all(map(setting.knows, node.outputs)) and all(
        setting.knows(x) for x in inputs if isinstance(x, Value)
    )
