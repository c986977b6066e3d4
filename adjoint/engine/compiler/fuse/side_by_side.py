"""Kernels of few elements that have nothing to do with each other, as one.

Note [side by side]
    The mean and the variance of a norm move towards new ones: two kernels over as many elements,
    neither of which reads anything of the other. Where a launch costs more than such a kernel, both
    are one that computes two results for each element. Where many kernels of one form are launched
    by a table (`loops.joint_launches`), they stay apart.
"""

from __future__ import annotations

from math import prod

from adjoint.engine.compiler.fuse.fuse import LARGEST, Fusion, Unit, apart
from adjoint.engine.compiler.fuse.spaces import settle, unify
from adjoint.engine.core.spec import is_known

FEW = 8  # kernels of a program: of more, some may be one launch by a table
MOST = 1 << 20  # elements: of more, what a kernel reads at once counts too


def put_side_by_side(fusion: Fusion) -> None:
    """Have kernels over the same ranges that do not wait for each other be one."""
    loops = [unit for unit in fusion.units if unit.kind == "loop"]
    if not 1 < len(loops) <= FEW:
        return
    for k, unit in enumerate(loops):
        for other in loops[k + 1 :]:
            if unit.kind == other.kind == "loop" and goes_beside(unit, other):
                put_beside(fusion, unit, other)


def goes_beside(unit: Unit, other: Unit) -> bool:
    """Whether neither of two kernels waits for the other, and both go over the same ranges."""
    if unit.needs >> other.index & 1 or other.needs >> unit.index & 1:
        return False
    if unit.columns is not None or other.columns is not None or apart(unit.level, other.level):
        return False
    if len(unit.nodes) + len(other.nodes) > LARGEST:
        return False
    sizes = [[atom.size for atom in settle(each.atoms)] for each in (unit, other)]
    if not all(map(is_known, sizes[0] + sizes[1])) or prod(sizes[0]) > MOST:
        return False
    return sizes[0] == sizes[1] and which_reduced(unit) == which_reduced(other)


def which_reduced(unit: Unit) -> list[bool]:
    """Of each range, whether a kernel reduces over it."""
    reduced = set(settle(unit.reduced or ()))
    return [atom in reduced for atom in settle(unit.atoms)]


def put_beside(fusion: Fusion, unit: Unit, other: Unit) -> None:
    """Move a kernel into another, its ranges being the other's."""
    ranges = settle(other.atoms)
    linked = unify(settle(unit.atoms), ranges, frozenset(ranges))
    assert linked, "ranges of the same sizes"
    unit.sources.update(other.sources)
    other.sources = {}
    fusion.join(unit, other)
