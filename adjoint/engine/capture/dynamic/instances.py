"""Programs whose sizes are extents: instances of them at given sizes, and how programs differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adjoint.engine.capture.program.program import Program
from adjoint.engine.capture.program.python_state import PythonState
from adjoint.engine.capture.program.recipes import OutsideTensor
from adjoint.engine.graph.sizes.extents import Sizes
from adjoint.engine.graph.sizes.resizing import Describe, Rebuild, first_difference, plain_size


def instance(program: Program, sizes: Sizes, static: set[int]) -> Program:
    """The program for given sizes, ready to be prepared.

    `static` collects the ids of its parts that hold no extent, for further instances.
    """
    at = Rebuild(sizes, static)
    conditions, results, effects = program.conditions, program.results, program.effects
    return Program(
        graph=at(program.graph),
        sources=at(program.sources),
        conditions=replace(
            conditions,
            host_tests=at(conditions.host_tests),
            grads_seen=at(conditions.grads_seen),
            looks=at(conditions.looks),
        ),
        results=replace(
            results,
            recipes=at(results.recipes),
            roots=at(results.roots),
            kinds=at(results.kinds),
        ),
        effects=replace(
            effects,
            writes=at(effects.writes),
            moves=at(effects.moves),
            python=None if effects.python is None else effects.python.at(at),
        ),
        derivative=at(program.derivative),
        origin=program.origin,
        pending=program.pending,
    )


def difference(a: Program, b: Program) -> str | None:
    """Where two programs are not the same but for their states' elements; None where nowhere."""
    others = _compared(b)
    for name, part in _compared(a).items():
        reason = first_difference(_DescribePart()(part), _DescribePart()(others[name]), name)
        if reason is not None:
            return reason
    return None


def _compared(program: Program) -> dict[str, Any]:
    """What recordings of one function at the same sizes have in common."""
    conditions, results, effects = program.conditions, program.results, program.effects
    sharing, pending = conditions.sharing, program.pending
    return {
        "graph": program.graph,
        "sources": program.sources,
        "results": (results.leaves, results.recipes, results.roots, results.late),
        "kinds of results": (results.kinds, results.retained),
        "writes": (effects.writes, effects.write_counts),
        "gradients": (effects.grads, effects.result_grads, conditions.grads_seen),
        "places on the tape": (effects.places, effects.flags, effects.detached, effects.joined),
        "memory that tensors show": effects.rebound,
        "random numbers": effects.moves,
        "numbers of effects": _numbers(effects.python),
        "tests of numbers": conditions.host_tests,
        "what tensors are asked": conditions.looks,
        "shared memory": (sharing.pattern, sharing.grad_pattern, sharing.pinned, sharing.bases),
        "tensors from outside": sharing.apart,
        "derivative": program.derivative,
        "modules": program.origin.modules,
        "exceptions": program.origin.catches,
        "nodes from outside": (program.origin.once, [] if pending is None else pending.used_up),
    }


def _numbers(python: PythonState | None) -> list[Any]:
    """The numbers that effects read, but for sizes: at given ones these are constants."""
    late = () if python is None else python.late
    return [n for n, _ in late if n.parts is None or n.parts[0] is not plain_size]


class _DescribePart(Describe):
    """Parts of programs may name tensors from outside."""

    def other(self, x: Any) -> Any:
        if isinstance(x, OutsideTensor):
            return ("tensor", x.position, id(x.tensor))
        return super().other(x)
