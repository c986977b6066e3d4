"""Gradients of dual tensors: the gradient, and how it changes along the tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.autodiff.levels.jvp_level import Dual, JvpLevel
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.tensor.writing.mutation import make_level_tensor


def dual_level_of(tensors: list[Any]) -> JvpLevel | None:
    """The innermost level of forward mode that any of the tensors is a dual of."""
    levels = {t._storage.level for t in tensors if is_tensor(t)}
    duals = [level for level in levels if isinstance(level, JvpLevel)]
    return max(duals, key=lambda level: level.depth, default=None)


def dual_gradients(
    grad: Callable[..., Any],
    level: JvpLevel,
    roots: list[Any],
    chosen: list[Any],
    cotangents: list[Any],
    retain_graph: bool,
    create_graph: bool,
) -> list[Any]:
    """The gradients of duals as duals; `grad` is `autograd.grad`.

    With y(x) moving by t(x) and the cotangent g by h, the gradient `vjp(y, g)` moves by
    `vjp(t, g) + vjp(y, h)`: derivatives along the tangents and along x may change places, for
    the tangents handed to `make_dual` are held still. A tangent that may depend on an x is none
    of those, and refused.
    """
    if level.tangents_on_tape:
        raise RuntimeError(
            "grad: a gradient of dual tensors is asked for in a level where make_dual was given a "
            "tangent that requires grad, which is not supported. Detach the tangent."
        )
    outs = [level.dual(y) for y in roots]
    seeds = [level.dual(g) for g in cotangents]
    places = [level.dual(x) for x in chosen]
    if any(x.tangent is not None and x.tangent.requires_grad for x in places):
        raise RuntimeError(
            "grad: a gradient of dual tensors by one whose tangent depends on what requires grad "
            "is not supported. Differentiate by the tensors handed to make_dual."
        )
    wrt = [x.primal for x in places]
    moving = [
        (y.tangent, g.primal)
        for y, g in zip(outs, seeds, strict=True)
        if y.tangent is not None and y.tangent.requires_grad
    ]
    pushed = [
        (y.primal, g.tangent) for y, g in zip(outs, seeds, strict=True) if g.tangent is not None
    ]
    passes = [[(y.primal, g.primal) for y, g in zip(outs, seeds, strict=True)], moving, pushed]
    passes = [pairs for pairs in passes if pairs]
    found = []
    for k, pairs in enumerate(passes):
        ys, gs = zip(*pairs, strict=True)
        keep = retain_graph or k + 1 < len(passes)
        found.append(grad(ys, wrt, gs, keep, create_graph, allow_unused=True))
    return [_dual(level, primal, tangents) for primal, *tangents in zip(*found, strict=True)]


def _dual(level: JvpLevel, primal: Any, tangents: list[Any]) -> Any:
    given = [t for t in tangents if t is not None]
    if primal is None or not given:
        return primal
    return make_level_tensor(level, primal._spec, Dual(primal, sum(given[1:], given[0])))
