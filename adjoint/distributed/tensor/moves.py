"""Changing how a tensor lies on processes, with the derivative that belongs to it.

Every process computes the same loss, so what is whole everywhere has the same cotangent
everywhere, which is not summed; what a process has a part of has the part's own.

    copied      whole -> whole        its cotangents are of parts of the work, and are summed
    summed      sum to be made -> whole     the cotangent as it is
    gathered    parts -> whole        this process's part of the cotangent
    divided     whole -> parts        the cotangents gathered
"""

from __future__ import annotations

from typing import Any

from adjoint.distributed.communication import kernels
from adjoint.distributed.groups.group import resolve
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import linear
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec


def _part(x: Any, dim: int, group: str) -> Any:
    chosen = resolve(group)
    return x.chunk(chosen.size(), dim)[chosen.rank()]


def _gathered_spec(x: Spec, dim: int, group: str) -> Spec:
    shape = list(x.shape)
    shape[dim] *= resolve(group).size()
    return Spec(tuple(shape), x.dtype, x.device)


def _part_spec(x: Spec, dim: int, group: str) -> Spec:
    shape, size = list(x.shape), resolve(group).size()
    if shape[dim] % size:
        raise ShapeError(
            f"tensor parallel: dimension {dim} of {tuple(shape)} cannot be divided among {size}"
        )
    shape[dim] //= size
    return Spec(tuple(shape), x.dtype, x.device)


def _move(name: str, infer: Any, transpose: Any) -> Record:
    """One of them; each communicates, or its transpose does."""
    return linear(name, infer, transpose, communicates=True)


COPIED: Record = _move("copied", lambda x, group: x, lambda g, group: SUMMED(g, group=group))
SUMMED: Record = _move("summed", lambda x, group: x, lambda g, group: COPIED(g, group=group))
GATHERED: Record = _move(
    "gathered", _gathered_spec, lambda g, dim, group: DIVIDED(g, dim=dim, group=group)
)
DIVIDED: Record = _move(
    "divided", _part_spec, lambda g, dim, group: GATHERED(g, dim=dim, group=group)
)


@lowers(COPIED)
def copied(xp: Any, x: Any, group: str) -> Any:
    """The same elements."""
    return x.copy()


@lowers(SUMMED)
def summed(xp: Any, x: Any, group: str) -> Any:
    """The sum over the group."""
    return kernels.all_reduce(xp, x, "sum", group)


@lowers(GATHERED)
def gathered(xp: Any, x: Any, dim: int, group: str) -> Any:
    """Everybody's parts, joined."""
    return xp.concatenate(list(kernels.all_gather(xp, x, group)), axis=dim)


@lowers(DIVIDED)
def divided(xp: Any, x: Any, dim: int, group: str) -> Any:
    """This process's part."""
    chosen = resolve(group)
    return xp.split(x, chosen.size(), axis=dim)[chosen.rank()].copy()
