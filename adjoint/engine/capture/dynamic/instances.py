"""Programs whose sizes are extents: instances of them at given sizes, and how programs differ."""

from __future__ import annotations

import dataclasses
from typing import Any

from adjoint.engine.capture.program.program import Program
from adjoint.engine.capture.program.recipes import OutsideTensor
from adjoint.engine.graph.sizes.extents import Sizes
from adjoint.engine.graph.sizes.resizing import Describe, Rebuild, differ

_LEFT_OUT = frozenset(
    "dependence python executable plan guards structure counters states numbers sizing restore "
    "used".split()
)


def instance(program: Program, sizes: Sizes, static: set[int]) -> Program:
    """The program for given sizes, ready to be prepared.

    `static` collects the ids of its parts that hold no extent, for further instances.
    """
    rebuild = Rebuild(sizes, static)
    fields = {
        f.name: rebuild(getattr(program, f.name))
        for f in dataclasses.fields(program)
        if f.name not in _LEFT_OUT
    }
    return dataclasses.replace(program, **fields, executable=None, plan=None)


def difference(a: Program, b: Program) -> str | None:
    """Where two programs are not the same but for their states' elements; None where nowhere."""
    for f in dataclasses.fields(a):
        if f.name in _LEFT_OUT:
            continue
        one, other = _DescribePart()(getattr(a, f.name)), _DescribePart()(getattr(b, f.name))
        found = differ(one, other, f.name)
        if found is not None:
            return found
    return None


class _DescribePart(Describe):
    """Parts of programs may name tensors from outside."""

    def __call__(self, x: Any) -> Any:
        if isinstance(x, OutsideTensor):
            return ("tensor", x.position, id(x.tensor))
        return super().__call__(x)
