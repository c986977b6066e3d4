"""A jvp for operations that state only a vjp, and a vjp for those that state neither.

The vjp is linear, so transpose it again: with v(u) the vjp at cotangent u, v is linear in u and its
own vjp at t is the jvp at t. What states no vjp is followed through its composition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.autodiff.levels.grad_level import GradLevel
from adjoint.engine.autodiff.levels.stack import entered, next_depth
from adjoint.engine.autodiff.tape.engine import Backward
from adjoint.engine.autodiff.tape.node import edge_of
from adjoint.engine.core.operations.call import Call
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.mutation import make_argument, make_level_tensor


def push_by_transposing(call: Call, tangents: list[Any]) -> tuple[Any, ...]:
    """Tangents of the results, by transposing the vjp."""
    depth = CONTEXT.levels[-1].depth + 1 if CONTEXT.levels else 1
    level = GradLevel(depth)
    level.outer_grad = CONTEXT.grad_enabled
    with CONTEXT.having(levels=(*CONTEXT.levels, level), grad_enabled=True):
        seeds: list[Any] = []
        for out in call.outs:
            if not out.dtype.is_inexact:
                seeds.append(None)
                continue
            seed = make_level_tensor(level, out._spec, out.new_zeros(out.shape))
            seed._requires_grad = True
            seeds.append(seed)
        pulled = call.pull(seeds, [t is not None for t in tangents])
        roots: list[Any] = [
            (edge_of(p), t)
            for p, t in zip(pulled, tangents, strict=True)
            if t is not None and p is not None and is_tensor(p) and edge_of(p) is not None
        ]
        targets = [(s, 0) for s in seeds if s is not None]
        run = Backward(
            retain_graph=False, create_graph=False, targets=targets, accumulate=False, level=level
        )
        with CONTEXT.having(grad_enabled=level.outer_grad):
            run.run(roots)
    level.active = False
    return tuple(None if s is None else run.gradients.get((s, 0)) for s in seeds)


def pull_through(
    compose: Callable[..., Any],
    values: Sequence[Any],
    gs: Sequence[Any],
    needed: Sequence[bool],
    params: dict[str, Any],
) -> list[Any]:
    """The cotangents of a composition's operands that are needed, by a tape of its own."""
    with entered(GradLevel(next_depth()), grad_enabled=True) as level:
        watched = [
            watched_by(level, x) if asked else x for x, asked in zip(values, needed, strict=True)
        ]
        outs = compose(*watched, **params)
        roots: list[Any] = []
        for out, g in zip(outs if outs.__class__ is tuple else (outs,), gs, strict=True):
            edge = edge_of(out) if is_tensor(out) and out._storage.level is level else None
            if edge is not None and g is not None:
                roots.append((edge, g))
        run = Backward(
            retain_graph=False,
            create_graph=False,
            targets=[(x, 0) for x, asked in zip(watched, needed, strict=True) if asked],
            accumulate=False,
            level=level,
        )
        with CONTEXT.having(grad_enabled=level.outer_grad):
            run.run(roots)
            return [run.gradients.get((x, 0)) for x in watched]


def watched_by(level: GradLevel, x: Tensor) -> Tensor:
    """A tensor as an argument of a level, which follows it."""
    watched = make_argument(level, make_level_tensor(level, x._spec, x))
    watched._requires_grad = True
    return watched
