"""Epilogues: what is done with a product's elements before they are first written.

Note [epilogues]
    A product is followed by a bias, an activation, a residual, a cast: a kernel that reads every
    element once, where it was just written. A template that says so (`Template.epilogue`) takes
    such a kernel into its last write. The result is then a matrix of rows, whatever its dimensions
    are, and everything else the kernel reads or writes must be affine in row and column, columns
    being neighbours or all the same.

    Functions (exp, erf) stay in kernels of their own, whose loops hide their latency better: in
    tiles a gelu took 4 to 12% longer than after them (`python -m benchmarks.epilogues`).

    A template whose places are so that a tile ends in whole vectors of a matrix's row, where what
    follows costs nothing, takes epilogues at any size (`Template.ends`): images whose channels lie
    innermost are such matrices, whose rows are pixels.

    To add another matrix, or a row of one (a bias), costs nothing where a template's sums may begin
    with it (`Template.adds`): it is taken at any size, where nothing else reads the product.

    A pair is chosen by how values would lie (`attach`); what it becomes is decided when they have
    places. If the template then declines, product and kernel are two steps after all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.compiler.fuse.fuse import Fusion, Unit
from adjoint.engine.compiler.loops.ir import LOAD, POINT, AffineReference, LoopKernel, Op, can_fail
from adjoint.engine.compiler.loops.nest import PLACED, Nest
from adjoint.engine.compiler.loops.schedule import is_costly
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer, in_order, row_major
from adjoint.engine.compiler.target import Setting
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.spec import is_known
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.sizes.extents import is_extent

# Bytes of a result from which on it is worth another function of machine code, which takes 0.1 s
# the first time. Smaller results stay in a cache, where reading them again costs nothing.
LARGE = 1 << 22
LONGEST = 12  # operations: they are written out for every vector of a tile


@dataclass(frozen=True, slots=True)
class MatrixReference:
    """Elements by row and column: so many apart from row to row; columns are neighbours or one."""

    buffer: PlannedBuffer
    dtype: DType
    offset: int
    row: int
    column: int  # 0 or 1


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What becomes of each element of a matrix: operations, and what they read and write."""

    ops: tuple[Op, ...]  # a load's argument is ("r", number)
    element: int  # the reference that means the matrix's own element
    refs: tuple[MatrixReference | None, ...]  # None: the element
    stores: tuple[tuple[int, MatrixReference], ...]  # (operation, where)
    origin: tuple[str, ...]

    def key(self) -> str:
        """A name for what its code depends on: all but addresses and strides of rows."""
        constants = [x for op in self.ops for kind, x in op.args if kind == "c"]
        params = [op.params for op in self.ops if op.params]
        shown = [None if r is None else (r.dtype.name, r.column) for r in self.refs]
        stored = [(v, r.dtype.name) for v, r in self.stores]
        exact = number_key((*constants, *params))
        return key_of(repr((self.ops, shown, stored, exact)))[:16]

    @property
    def added(self) -> MatrixReference | None:
        """The matrix, or the row, that is added to the product, if that is all that is done."""
        others = [ref for k, ref in enumerate(self.refs) if k != self.element]
        if len(self.ops) != 3 or len(self.stores) != 1 or len(others) != 1:
            return None
        ((value, store),), other = self.stores, others[0]
        op = self.ops[value]
        if op.kind != POINT or op.name != "add" or op.params or other is None or not other.column:
            return None
        if {tag for tag, _ in op.args} != {"v"} or {x for _, x in op.args} | {value} != {0, 1, 2}:
            return None
        names = {one.compute for one in self.ops} | {one.dtype for one in self.ops}
        return other if names == {other.dtype.name} == {store.dtype.name} else None

    @property
    def references(self) -> list[MatrixReference]:
        """All that it touches, in the order of its words."""
        return [r for r in self.refs if r is not None] + [r for _, r in self.stores]


def columns_of(place: Place) -> int | None:
    """The columns of a place as a matrix: its last dimension, or the second where that one lies
    innermost; None where rows are not one after the other."""
    if place.contiguous:
        return place.shape[-1]
    moved = (0, *range(2, len(place.shape)), 1)
    in_turn = len(place.shape) > 2 and not any(map(is_extent, place.shape))
    if in_turn and in_order(place.buffer, place.shape, moved).strides == place.strides:
        return place.shape[1]
    return None


def epilogue_of(kernel: LoopKernel, matrix: PlannedBuffer, columns: int) -> Epilogue | None:
    """A kernel as an epilogue of a row-major matrix with so many columns, if it can be one."""
    if kernel.reduced or kernel.hosts or kernel.extents or kernel.faults or not kernel.stores:
        return None
    if len(kernel.ops) > LONGEST or not all(map(_is_simple, kernel.ops)):
        return None
    reads = [k for k, ref in enumerate(kernel.refs) if ref.buffer is matrix]
    if len(reads) != 1:
        return None
    along = _atoms_of(kernel, kernel.refs[reads[0]], columns)
    if along is None:
        return None
    refs = [None if k == reads[0] else _in_rows(r, *along) for k, r in enumerate(kernel.refs)]
    stores = [(v, _in_rows(r, *along)) for v, r in kernel.stores]
    if any(r is None for k, r in enumerate(refs) if k != reads[0]):
        return None
    if any(r is None or r.column != 1 for _, r in stores):
        return None
    return Epilogue(kernel.ops, reads[0], tuple(refs), tuple(stores), kernel.origin)  # type: ignore[arg-type]


def _is_simple(op: Op) -> bool:
    if op.kind == LOAD:
        return len(op.args) == 1
    if op.kind != POINT or op.name in PLACED or can_fail(op.name, op.compute):
        return False
    return not is_costly(op.name)


Along = tuple[dict[Any, int], dict[Any, int]]  # of columns and rows: elements from one to the next


def _atoms_of(kernel: LoopKernel, ref: AffineReference, columns: int) -> Along | None:
    """The ranges that columns and rows of the matrix are made of, if it is read in order."""
    if ref.offset or ref.picks:
        return None
    atoms = [a for a in kernel.atoms if a.size != 1]
    if any(ref.strides.get(a, 0) <= 0 for a in atoms):
        return None
    within: dict[Any, int] = {}
    across: dict[Any, int] = {}
    step = 1
    for atom in sorted(atoms, key=lambda a: ref.strides[a]):
        if ref.strides[atom] != step:
            return None
        if step < columns:
            within[atom] = step
        else:
            across[atom] = step // columns
        step *= atom.size
    return (within, across) if prod(a.size for a in within) == columns else None


def _in_rows(
    ref: AffineReference, within: dict[Any, int], across: dict[Any, int]
) -> MatrixReference | None:
    """A reference by row and column."""
    if ref.picks or ref.buffer is None:
        return None
    steps = []
    for atoms in (within, across):
        apart = [(ref.strides.get(a, 0), s) for a, s in atoms.items()]
        step = apart[0][0] // apart[0][1] if apart else 0
        if any(own != step * s for own, s in apart):
            return None
        steps.append(step)
    if steps[0] not in (0, 1) or steps[1] < 0:
        return None
    return MatrixReference(ref.buffer, ref.dtype, ref.offset, steps[1], steps[0])


# -- which pairs ----------------------------------------------------------------------------------


def attach(
    fusion: Fusion, graph: DataflowGraph, setting: Setting, layout: Callable[[Value], Place]
) -> None:
    """Have templates that can take a kernel into their last write do so (Note [epilogues])."""
    shown = {fusion.rooted(v)[0] for v in graph.outputs}
    readers: dict[Value, list[Unit]] = {}
    for unit in fusion.units:
        for node in unit.nodes:
            for x in node.inputs:
                if isinstance(x, Value) and not x.host:
                    base = fusion.rooted(x)[0]
                    if fusion.unit_of.get(base) is not unit:
                        readers.setdefault(base, []).append(unit)
    for unit in list(fusion.units):
        if unit.kind != "template" or not unit.nodes:
            continue
        node, value = unit.nodes[0], unit.nodes[0].outputs[0]
        template, shape = setting.template(node.record.name), value.spec.shape
        if template.epilogue is None or len(shape) < 2 or not all(map(is_known, shape)):
            continue
        behind = list(dict.fromkeys(readers.get(value, ())))
        alone = len(behind) == 1 and value not in shown
        large = is_large(shape, value.spec.dtype)
        adds = alone and template.adds is not None and template.adds(node)
        ends = alone and template.ends is not None and template.ends(setting, node, layout)
        if not ends and (template.ends is not None or not (large or adds)):
            continue
        for other in behind:
            if other.kind != "loop":
                continue
            epilogue = _fitting(fusion, unit, other, value, setting, layout)
            if epilogue is not None and (large or ends or epilogue.added is not None):
                _take(fusion, unit, other)
                unit.hidden = value if alone else None
                break


def is_large(shape: Sequence[int], dtype: DType) -> bool:
    """Whether a result is worth a function of machine code that ends in its epilogue."""
    return prod(shape) * dtype.itemsize >= LARGE


def _fitting(
    fusion: Fusion,
    unit: Unit,
    other: Unit,
    value: Value,
    setting: Setting,
    layout: Callable[[Value], Place],
) -> Epilogue | None:
    """A kernel as the epilogue of a template's result, if it can be that."""
    if other.reduced is not None or any(node in fusion.updates for node in other.nodes):
        return None
    bit = 1 << unit.index
    for node in other.nodes:
        if any(u not in (unit, other) and u.needs & bit for u in fusion.producers(node)):
            return None
    matrix = layout(value)
    columns = columns_of(matrix)
    if columns is None:
        return None
    nest = Nest(other, fusion, layout)
    for node in other.nodes:
        nest.visit(node)
    for node in other.nodes:
        result = node.outputs[0]
        buffer = PlannedBuffer(ARENA, result.spec.dtype, prod(result.spec.shape))
        nest.store(result, setting.laid_out(row_major(buffer, result.spec.shape), result))
    return epilogue_of(nest.finish(), matrix.buffer, columns)


def _take(fusion: Fusion, unit: Unit, other: Unit) -> None:
    """Make a kernel part of a template's unit."""
    unit.epilogue = Unit(
        "loop", other.index, other.nodes, other.maps, other.atoms, None, reason=other.reason
    )
    unit.nodes = unit.nodes + other.nodes
    for node in other.nodes:
        for value in node.outputs:
            fusion.unit_of[value] = unit
    gone, bit = 1 << other.index, 1 << unit.index
    unit.needs = (unit.needs | other.needs) & ~gone & ~bit
    other.nodes, other.maps, other.kind = [], {}, "gone"
    for third in fusion.units:
        if third.needs & gone:
            third.needs = (third.needs & ~gone) | bit | unit.needs
        elif third.needs & bit:
            third.needs |= unit.needs
