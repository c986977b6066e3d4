"""Custom functions inside transforms: one node, one dual, one batch per level.

A function is performed once, at the bottom; each level above gives it a context of its own whose
saved tensors are the level's. Inputs and results among them are known by identity; anything else
that was saved is a constant to the levels above, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.autodiff.levels.function import (
    Function,
    FunctionCtx,
    NotedOnContext,
    VmapInfo,
    as_tuple,
    attach_function,
    position,
    run_forward,
)
from adjoint.engine.autodiff.levels.grad_level import GradLevel
from adjoint.engine.autodiff.levels.jvp_level import Dual, JvpLevel
from adjoint.engine.autodiff.levels.stack import entered, next_depth
from adjoint.engine.autodiff.levels.vmap_level import VmapLevel
from adjoint.engine.autodiff.tape.node import Edge, edge_of
from adjoint.engine.core.operations.dispatch import highest_level
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.mutation import make_level_tensor, payload

Needs = tuple[bool, ...]


def call(cls: type[Function], args: tuple[Any, ...], needs: Needs) -> tuple[Any, Any]:
    """The result of a custom function and the context it left, at the highest level involved."""
    level = highest_level(args)
    if isinstance(level, GradLevel):
        return _call_grad(cls, level, args, needs)
    if isinstance(level, JvpLevel):
        return _call_jvp(cls, level, args, needs)
    if isinstance(level, VmapLevel):
        return _call_vmap(cls, level, args), None
    return run_forward(cls, args, needs)


def below_level(level: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values, those of a level as they are below it."""
    return tuple(payload(a) if is_tensor(a) and a._storage.level is level else a for a in args)


def _context(
    cls: type[Function], noted: NotedOnContext | None, needs: Needs, args: tuple[Any, ...], out: Any
) -> FunctionCtx:
    """A context for one level, from the values below it."""
    ctx = FunctionCtx(needs)
    if cls.has_setup():
        with CONTEXT.having(grad_enabled=False):
            cls.setup_context(ctx, args, out)
        return ctx
    if noted is None:
        raise RuntimeError(
            f"{cls.__name__}: to use an autograd.Function with vmap, it must override the "
            "setup_context staticmethod and take no ctx in forward."
        )
    ctx.__dict__.update(noted.attributes)
    ctx._materialize = noted.materialize
    ctx._to_save, ctx._dirty = noted.to_save, noted.dirty
    ctx._silent = noted.non_differentiable
    return ctx


def _lifted(values: Any, inner: tuple[Any, ...], outer: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values of the level below, those that are inputs or results replaced by this level's."""
    lifted = []
    for v in values:
        place = position(inner, v)
        lifted.append(v if place is None else outer[place])
    return tuple(lifted)


def _call_grad(
    cls: type[Function], level: GradLevel, args: tuple[Any, ...], needs: Needs
) -> tuple[Any, Any]:
    recording = CONTEXT.grad_enabled
    edges = [edge_of(a) if recording else None for a in args]
    wanted = tuple(e is not None or n for e, n in zip(edges, needs, strict=True))
    inner = below_level(level, args)
    with CONTEXT.having(grad_enabled=level.outer_grad and recording):
        out, noted = call(cls, inner, wanted)
    ctx = _context(cls, noted, wanted, inner, out)
    inner_outs = as_tuple(out)
    outs = tuple(_raised(level, o, inner, args) if is_tensor(o) else o for o in inner_outs)
    for t in ctx._dirty:
        if (place := position(inner, t)) is not None and args[place] is not t:
            args[place]._storage.version += 1
    below, above = (*inner, *inner_outs), (*args, *outs)
    outs, noted = attach_raised(cls, level, ctx, (below, above), args, outs, edges)
    return (outs if isinstance(out, tuple) else outs[0]), noted


def attach_raised(
    cls: type[Function],
    level: GradLevel,
    ctx: FunctionCtx,
    pairs: tuple[tuple[Any, ...], tuple[Any, ...]],
    args: tuple[Any, ...],
    outs: tuple[Any, ...],
    edges: list[Edge | None],
) -> tuple[tuple[Any, ...], NotedOnContext]:
    """Make a level's tensors results of a function, whose context was told of those below.

    `pairs` are arguments and results, as they are below and at the level.
    """
    ctx._level = level
    ctx._to_save = _lifted(ctx._to_save, *pairs)
    ctx._dirty = _lifted(ctx._dirty, *pairs)
    ctx._silent = _lifted(ctx._silent, *pairs)
    return attach_function(cls, ctx, args, outs, edges, {})


def _raised(level: GradLevel, out: Any, inner: tuple[Any, ...], args: tuple[Any, ...]) -> Tensor:
    """A result as a tensor of the level: the argument itself where that was returned."""
    place = position(inner, out)
    return make_level_tensor(level, out._spec, out) if place is None else args[place]


def _call_jvp(
    cls: type[Function], level: JvpLevel, args: tuple[Any, ...], needs: Needs
) -> tuple[Any, Any]:
    duals = [level.dual(a) for a in args]
    primals = tuple(d.primal for d in duals)
    out, noted = call(cls, primals, tuple(True for _ in needs))
    ctx = _context(cls, noted, tuple(d.tangent is not None for d in duals), primals, out)
    ctx._fixed = tuple(ctx._to_save)
    tangents = [
        a.primal.new_zeros(a.primal.shape)
        if a.tangent is None
        and is_tensor(a.primal)
        and a.primal.dtype.is_inexact
        and ctx._materialize
        else a.tangent
        for a in duals
    ]
    pushed = as_tuple(cls.jvp(ctx, *tangents))
    outs = as_tuple(out)
    if len(pushed) != len(outs):
        raise RuntimeError(
            f"{cls.__name__}.jvp returned {len(pushed)} tangents for {len(outs)} outputs"
        )
    wrapped = tuple(
        make_level_tensor(level, o._spec, Dual(o, t)) if is_tensor(o) and t is not None else o
        for o, t in zip(outs, pushed, strict=True)
    )
    below, above = (*primals, *outs), (*args, *wrapped)
    noted = NotedOnContext(
        ctx.__dict__,
        ctx._materialize,
        _lifted(ctx._to_save, below, above),
        _lifted(ctx._dirty, below, above),
        _lifted(ctx._silent, below, above),
    )
    return (wrapped if isinstance(out, tuple) else wrapped[0]), noted


def _call_vmap(cls: type[Function], level: VmapLevel, args: tuple[Any, ...]) -> Any:
    inner = below_level(level, args)
    batched = tuple(is_tensor(a) and a._storage.level is level for a in args)
    if cls.vmap is not Function.vmap:
        in_dims = tuple(0 if b else None for b in batched)
        out, out_dims = cls.vmap(VmapInfo(level.size, level.randomness), in_dims, *inner)
        dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(as_tuple(out))
        outs = tuple(
            o if d is None else level.wrap_payload(o.movedim(d, 0))
            for o, d in zip(as_tuple(out), dims, strict=True)
        )
        return outs if isinstance(out, tuple) else outs[0]
    if not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please "
            "override and implement the vmap staticmethod or set generate_vmap_rule=True."
        )
    if not cls.has_setup():
        raise RuntimeError(
            f"{cls.__name__}: generate_vmap_rule needs the setup_context staticmethod, and a "
            "forward that takes no ctx."
        )
    rule = batched_function(cls, level.size, batched, level.randomness)
    out = call(rule, inner, (False,) * len(inner))[0]
    flags = rule.out_batched  # type: ignore[attr-defined]
    outs = tuple(
        level.wrap_payload(o) if b else o for o, b in zip(as_tuple(out), flags, strict=True)
    )
    return outs if isinstance(out, tuple) else outs[0]


def _wrapped(level: VmapLevel, values: Any, flags: Any) -> tuple[Any, ...]:
    """Values as the level shows them: those that are batched, as flags say, as parts of a batch."""
    return tuple(
        level.wrap_payload(v) if b and v is not None else v
        for v, b in zip(values, flags, strict=True)
    )


def _are_at(level: VmapLevel, values: Any) -> tuple[bool, ...]:
    """Which values are batched at a level."""
    return tuple(is_tensor(v) and v._storage.level is level for v in values)


def _whole(level: VmapLevel, value: Any) -> Any:
    """A value with the batch's dimension, repeated over it where it has none."""
    return payload(value) if _are_at(level, (value,))[0] else level.lift(value)


def _saved_below(level: VmapLevel, ctx: Any, inner: FunctionCtx, pairs: Any) -> None:
    """Keep in a batched function's context what the function itself kept in its own.

    `pairs` are its operands and results, as the level shows them and as they are below.
    """
    ctx.flags = _are_at(level, inner._to_save)
    ctx.plain = {
        k: (payload(v), True) if _are_at(level, (v,))[0] else (v, False)
        for k, v in inner.__dict__.items()
    }
    saved = below_level(level, _lifted(inner._to_save, *pairs))
    ctx.save_for_backward(*saved)
    ctx.set_materialize_grads(inner._materialize)


def _restored(level: VmapLevel, ctx: Any) -> FunctionCtx:
    """The context that the function itself is to see."""
    inner = FunctionCtx(ctx.needs_input_grad)
    inner._fixed = _wrapped(level, ctx.saved_tensors, ctx.flags)
    for k, (v, b) in ctx.plain.items():
        setattr(inner, k, level.wrap_payload(v) if b else v)
    return inner


def batched_function(
    cls: type[Function], size: int, batched: tuple[bool, ...], randomness: str
) -> type[Function]:
    """The function that a custom function is on batched values: forward and backward under vmap."""

    def under_vmap() -> Any:
        return entered(VmapLevel(next_depth(), size, randomness))

    class Batched(Function):
        generate_vmap_rule = True
        out_batched: tuple[bool, ...] = ()

        @staticmethod
        def forward(*args: Any) -> Any:
            with under_vmap() as level:
                out = cls.forward(*_wrapped(level, args, batched))
                outs = as_tuple(out)
                Batched.out_batched = _are_at(level, outs)
                shown = below_level(level, outs)
            return shown if isinstance(out, tuple) else shown[0]

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            with under_vmap() as level:
                outs = as_tuple(output)
                args = _wrapped(level, inputs, batched)
                results = _wrapped(level, outs, Batched.out_batched)
                inner = FunctionCtx(ctx.needs_input_grad)
                cls.setup_context(inner, args, results if isinstance(output, tuple) else results[0])
                _saved_below(level, ctx, inner, ((*args, *results), (*inputs, *outs)))

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            with under_vmap() as level:
                cotangents = _wrapped(level, grads, Batched.out_batched)
                pulled = as_tuple(cls.pull_back(_restored(level, ctx), *cotangents))
                # What the whole batch shares has the sum of the parts' gradients.
                return tuple(
                    g if g is None else _whole(level, g) if b else _whole(level, g).sum(0)
                    for g, b in zip(pulled, batched, strict=True)
                )

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            with under_vmap() as level:
                pushed = as_tuple(
                    cls.jvp(_restored(level, ctx), *_wrapped(level, tangents, batched))
                )
                return tuple(
                    _whole(level, t) if t is not None and (b or _are_at(level, (t,))[0]) else t
                    for t, b in zip(pushed, Batched.out_batched, strict=True)
                )

    Batched.__name__ = f"Batched{cls.__name__}"
    return Batched
