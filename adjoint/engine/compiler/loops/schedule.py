"""Schedules: the loops of a kernel in order, its dimensions, and what is kept between nests.

Note [kept values]
    A value of one loop nest that a later one needs is computed there again, which for most is
    quicker than keeping it. A costly one (the exponentials of a softmax) is written where the
    later nest writes a result made of it, element for element, and read back; the memory is the
    program's own or the result's, so nobody else sees it. Several may be read in the nest whose
    results are written over them: at each element, all reads come before the first write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from adjoint.engine.compiler.loops.ir import (
    LOAD,
    POINT,
    AffineReference,
    Form,
    Kernel,
    LoopKernel,
    Op,
)
from adjoint.engine.compiler.loops.narrowing import narrowed
from adjoint.engine.compiler.loops.nest import host_dtype
from adjoint.engine.compiler.memory.places import OWN
from adjoint.engine.core.dtype import uint8
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.graph.sizes.extents import is_extent, typical

SHORT_ROW, VERY_SHORT_ROW = 16, 8  # elements: no whole vector
# In cycles, roughly: what a row takes besides its elements, an element whose neighbours in memory
# are in its vector too, one that has none there, and a line of memory that serves it alone.
ROW_COST, NEIGHBOUR_COST, APART_COST, LINE_COST = 24, 0.25, 1, 3
LINE = 64  # bytes


def is_costly(name: str) -> bool:
    """Whether an operation takes more than a load and a store: a function, not one instruction."""
    return name in REGISTRY and REGISTRY[name].cost == "function"


def schedule(kernel: LoopKernel, *, reads_backwards: bool = False) -> Kernel:
    """Choose loop order and vector dimension, merge dimensions, and freeze the form.

    A machine that `reads_backwards` does so as quickly as it reads forwards.
    """
    kernel = as_bytes(replace(kernel, ops=narrowed(kernel)))
    kernel = kernel if reads_backwards else read_forwards(kernel)
    refs = kernel.refs + [ref for _, ref in kernel.stores]
    carried = kept_values(kernel)
    vector = outside_short_rows(kernel, vector_atom(kernel, refs), refs)
    vector = along_longer_rows(kernel, refs, vector)
    refs += [ref for _, ref in carried]
    outer = order([a for a in kernel.atoms if a not in kernel.reduced], refs, vector)
    inner = order([a for a in kernel.atoms if a in kernel.reduced], refs, vector)
    rows = vector in kernel.reduced
    outer_dims, inner_dims = merge(outer, refs), merge(inner, refs)
    dims = outer_dims + inner_dims
    last = len(dims) - 1 if rows else len(outer_dims) - 1
    settled = [over_dims(ref, dims) for ref in refs]
    base = len(kernel.refs)
    form = Form(
        rows=rows,
        outer=len(outer_dims),
        inner=len(inner_dims),
        ops=kernel.ops,
        refs=tuple(stride_classes(ref, last) for ref in settled),
        stores=tuple((v, base + i) for i, (v, _) in enumerate(kernel.stores + carried)),
        hosts=tuple(map(host_dtype, kernel.hosts)),
    )
    return Kernel(
        form,
        tuple(prod(a.size for a in g) for g in outer_dims),
        tuple(prod(a.size for a in g) for g in inner_dims),
        tuple(settled),
        kernel.hosts,
        extents=kernel.extents,
        faults=tuple(kernel.faults[k][j] for k, j in form.checks()),
        origin=kernel.origin,
    )


def as_bytes(kernel: LoopKernel) -> LoopKernel:
    """A kernel that only copies truth values, as bytes, which need no test on the way."""
    if not all(map(copies_truth, kernel.ops)):
        return kernel
    ops = [replace(op, compute="uint8", dtype="uint8") for op in kernel.ops]
    return replace(
        kernel,
        ops=tuple(replace(op, name="uint8") if op.kind == LOAD else op for op in ops),
        refs=[replace(ref, dtype=uint8) for ref in kernel.refs],
        stores=[(v, replace(ref, dtype=uint8)) for v, ref in kernel.stores],
    )


def copies_truth(op: Op) -> bool:
    """Whether an operation gives truth values as they lie in memory."""
    if not op.compute == op.dtype == "bool":
        return False
    return op.name == "cast" if op.kind == POINT else op.kind == LOAD and len(op.args) == 1


def read_forwards(kernel: LoopKernel) -> LoopKernel:
    """A pointwise kernel that goes the other way where all that it reads lies backwards.

    To read forwards and write backwards takes some memory half as long as the other way round
    (Neoverse-N1), and some twice as long (x86, which has to put together lines that it writes).
    """
    if kernel.reduced or kernel.columns:
        return kernel
    read = [ref for ref in kernel.refs if ref.buffer is not None]
    for atom in kernel.atoms:
        steps = [ref.strides.get(atom, 0) for ref in read]
        if any(map(is_extent, steps)):
            continue
        if min(steps, default=0) < 0 and max(steps) <= 0:
            kernel = replace(
                kernel,
                refs=[turned(ref, atom) for ref in kernel.refs],
                stores=[(v, turned(ref, atom)) for v, ref in kernel.stores],
            )
            read = [ref for ref in kernel.refs if ref.buffer is not None]
    return kernel


def turned(ref: AffineReference, atom: Any) -> AffineReference:
    """A reference that begins at the other end of a dimension."""
    step = ref.strides.get(atom, 0)
    if not step:
        return ref
    last = ref.offset + step * (atom.size - 1)
    return replace(ref, offset=last, strides={**ref.strides, atom: -step})


# -- kept values ----------------------------------------------------------------------------------


def kept_values(kernel: LoopKernel) -> list[tuple[int, AffineReference]]:
    """Values written for later loop nests, and where: Note [kept values]."""
    room = {
        v: ref
        for v, ref in kernel.stores
        if ref.buffer.kind in OWN and all(ref.strides.get(a, 0) for a in kernel.atoms)
    }
    carried = []
    for k, op in enumerate(kernel.ops):
        if not is_costly(op.name) or not op.full or any(v == k for v, _ in kernel.stores):
            continue
        users = users_of(kernel, k)
        last = max([kernel.ops[m].stage for m in users], default=0)
        for v in sorted(users.intersection(room)):
            fits = kernel.ops[v].dtype == op.dtype
            if fits and op.stage < last <= kernel.ops[v].stage:
                carried.append((k, room.pop(v)))
                break
    return carried


def users_of(kernel: LoopKernel, k: int) -> set[int]:
    """The operations in loop nests that a value is needed for."""
    same_loops = {k}
    users = set()
    for m in range(k + 1, len(kernel.ops)):
        op = kernel.ops[m]
        if any(kind == "v" and x in same_loops for kind, x in op.args):
            users.add(m)
            if op.full:
                same_loops.add(m)
    return users


# -- dimensions -----------------------------------------------------------------------------------


def vector_atom(kernel: LoopKernel, refs: list[AffineReference]) -> Any:
    """The dimension along which most references have neighbouring elements.

    Those that are the same for whole rows (sums that are written, what a loss knows of each row)
    count only where the others decide nothing, however many they are: they are used once where
    others are for each element. Rows that an index picks for each place in a loop nest count as
    others do. Where none has (the parts of complex numbers lie two apart), it is that along which
    they are nearest.
    """
    if not kernel.atoms:
        return None
    score = dict.fromkeys(kernel.atoms, 0)
    of_rows = dict.fromkeys(kernel.atoms, 0)
    apart = dict.fromkeys(kernel.atoms, 0)
    stores = {id(ref) for _, ref in kernel.stores}
    picked = {
        id(kernel.refs[op.args[0][1]])
        for op in kernel.ops
        if op.kind == LOAD and len(op.args) > 1 and (op.full or not kernel.reduced)
    }
    for ref in refs:
        whole = id(ref) in picked or (
            len(ref.strides) > 1
            and (not kernel.reduced or any(a in kernel.reduced for a in ref.strides))
        )
        for atom, stride in ref.strides.items():
            if stride == 1 and ref.buffer is not None and whole:
                score[atom] += 3 if id(ref) in stores else 2
            elif stride == 1 and ref.buffer is not None:
                of_rows[atom] += 1
            if ref.buffer is not None:
                apart[atom] += abs(typical(stride))
    if any(score.values()) or any(of_rows.values()):
        apart = dict.fromkeys(kernel.atoms, 0)

    def rank(atom: Any) -> tuple[Any, ...]:
        size = typical(atom.size)
        known = score[atom], of_rows[atom]
        return *known, atom in kernel.reduced, size > 1, -apart[atom], size

    return max(kernel.atoms, key=rank)


def outside_short_rows(kernel: LoopKernel, vector: Any, refs: list[AffineReference]) -> Any:
    """The vector dimension; where rows are shorter than vectors, one that goes from row to row.

    A function of one element takes as long as of a vector: a softmax over ten classes is made of
    several rows at a time, though their elements lie apart. So are numbers of whole rows (a sum);
    where little is done with each element, to write them apart takes longer than they do in a row,
    unless that is shorter still. Dimensions that all step through as one are one row (the sum of an
    image of 14 by 14).
    """
    reduced = [a for a in kernel.atoms if a in kernel.reduced]
    size = row_length(reduced, refs, vector) if vector in reduced else SHORT_ROW
    outer = [a for a in kernel.atoms if a not in kernel.reduced]
    several = max(outer, key=lambda a: typical(a.size), default=None)
    if size >= SHORT_ROW or several is None or typical(several.size) < SHORT_ROW or kernel.columns:
        return vector
    written = any(kernel.ops[v].full for v, _ in kernel.stores)
    costly = any(is_costly(op.name) for op in kernel.ops)
    return several if costly or not written or size < VERY_SHORT_ROW else vector


def row_length(atoms: Sequence[Any], refs: list[AffineReference], vector: Any) -> int:
    """How many elements come one after another if lanes run along one of some dimensions."""
    innermost = merge(order(list(atoms), refs, vector), refs)[-1]
    return prod(typical(a.size) for a in innermost)


def along_longer_rows(kernel: LoopKernel, refs: list[AffineReference], vector: Any) -> Any:
    """The vector dimension of a pointwise kernel; if its rows are short, the one that costs least.

    Pictures that are given three channels last are written three elements apart, but in long rows.
    """
    if kernel.reduced or kernel.columns or vector is None:
        return vector

    def cost(atom: Any) -> float:
        length = row_length(kernel.atoms, refs, atom)
        return ROW_COST / max(length, 1) + sum(element_cost(ref, atom) for ref in refs)

    if row_length(kernel.atoms, refs, vector) >= SHORT_ROW:
        return vector
    return min([vector, *kernel.atoms], key=cost)


def element_cost(ref: AffineReference, atom: Any) -> float:
    """What it takes to load or store one of the elements along a dimension."""
    step = abs(typical(ref.strides.get(atom, 0)))
    if ref.buffer is None or not step:
        return 0
    if step == 1:
        return NEIGHBOUR_COST
    return APART_COST + LINE_COST * min(step * ref.dtype.itemsize, LINE) / LINE


def over_dims(ref: AffineReference, dims: list[list[Any]]) -> AffineReference:
    """A reference with strides by dimension, each a group of atoms."""
    strides = {d: ref.strides.get(group[-1], 0) for d, group in enumerate(dims)}
    return AffineReference(ref.buffer, ref.dtype, ref.offset, strides, ref.picks)


def stride_classes(ref: AffineReference, vector: int) -> tuple[str, tuple[int, ...]]:
    """What of a reference is in the form: its dtype, and of each stride what is known of it.

    0 and, along the vector dimension, 1 are; there also -1 (class 3) of elements in memory.
    """
    name = ref.dtype.name if ref.buffer is not None else "index"

    def stride_class(d: int, s: Any) -> int:
        if s == 0:
            return 0
        if d != vector:
            return 2
        if s == 1:
            return 1
        return 3 if type(s) is int and s == -1 and ref.buffer is not None else 2

    return name, tuple(stride_class(d, s) for d, s in ref.strides.items())


def order(atoms: list[Any], refs: list[AffineReference], vector: Any) -> list[Any]:
    """Loop order: large strides outside, the vector dimension inside."""
    if len(atoms) < 2:
        return atoms
    weight = dict.fromkeys(atoms, 0)
    main = max(refs, key=lambda r: sum(a in r.strides for a in atoms)) if refs else None
    for a in atoms:
        weight[a] = abs(typical(main.strides.get(a, 0))) if main is not None else 0
    return sorted(atoms, key=lambda a: (a is not vector, weight[a]), reverse=True)


def merge(atoms: list[Any], refs: list[AffineReference]) -> list[list[Any]]:
    """Neighbouring atoms that every reference steps through as one."""
    groups: list[list[Any]] = []
    for atom in atoms:
        if groups and all(
            r.strides.get(groups[-1][-1], 0) == r.strides.get(atom, 0) * atom.size for r in refs
        ):
            groups[-1].append(atom)
        else:
            groups.append([atom])
    return groups
