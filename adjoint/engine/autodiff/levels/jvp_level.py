"""Forward mode as a transform: dual numbers whose parts are values of the level below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from adjoint.engine.autodiff.levels.stack import entered, next_depth
from adjoint.engine.autodiff.levels.steps import (
    attempted,
    computes_alone,
    gives_floats,
    is_disturbed,
)
from adjoint.engine.autodiff.levels.transpose import pull_through, push_by_transposing
from adjoint.engine.core.operations.call import Call
from adjoint.engine.core.operations.levels import Level
from adjoint.engine.core.operations.record import Record, Rule, is_tensor
from adjoint.engine.core.value import TensorBase
from adjoint.engine.ops.shape.views import VIEW_SCATTER
from adjoint.engine.tensor.tensor import Tensor, symbolic_view
from adjoint.engine.tensor.writing.mutation import make_level_tensor, payload, write


class Dual(NamedTuple):
    """A value and its tangent; None is a structural zero."""

    primal: Any
    tangent: Any


class JvpLevel(Level):
    """The payload is a Dual."""

    __slots__ = ("composes", "tangents_on_tape")

    def __init__(self, depth: int, *, composes: bool = False) -> None:
        super().__init__(depth)
        self.tangents_on_tape = False  # whether a tangent that requires grad came from outside
        self.composes = composes  # whether it is a step of its own (Note [steps of levels])

    def process(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if record.is_view:
            source = operands[0]
            return symbolic_view(source, record.infer(source._spec, **params), record, params)
        if not is_disturbed():
            found = self.attempt(record, operands, params)
            if found is not None:
                return found
        if record.part_by_part:
            return record.compose(*operands, **params)  # type: ignore[misc]
        duals = [self.dual(x) for x in operands]
        primals = tuple([d.primal for d in duals])
        tangents = [d.tangent for d in duals]
        if record.push is not None and any(t is not None for t in tangents):
            outs, out_tangents = record.push(primals, tangents, params)
            return self.wrapped(outs, out_tangents, True)
        results = record(*primals, **params)
        if all(t is None for t in tangents) or not record.differentiable:
            return results
        many = isinstance(results, tuple)
        outs = results if many else (results,)
        if not any(o.dtype.is_inexact for o in outs):
            return results
        return self.wrapped(outs, self.tangents(record, primals, tangents, params, outs), many)

    def wrapped(self, outs: Sequence[Any], tangents: Sequence[Any], many: bool) -> Any:
        """Results as duals, those that have a tangent.

        Whole numbers and truths are steps of what they were made of, a conversion's too.
        """
        wrapped = tuple(
            [
                o
                if t is None or not o.dtype.is_inexact
                else make_level_tensor(self, o._spec, Dual(o, t))
                for o, t in zip(outs, tangents, strict=True)
            ]
        )
        return wrapped if many else wrapped[0]

    def attempt(self, record: Record, operands: Any, params: dict[str, Any]) -> Any:
        if self.composes or not record.differentiable:
            return None
        step = record.pushed
        if step is None:
            step = pushed_record(record)
        if not step:
            return None
        values: list[Any] = []
        tangents: list[Any] = []
        there: list[bool] = []
        for x in operands:
            tangent = None
            if isinstance(x, TensorBase) and x._storage.level is self:
                x, tangent = payload(x)  # type: ignore[arg-type]
            values.append(x)
            there.append(tangent is not None)
            if tangent is not None:
                tangents.append(tangent)
        if not tangents:
            return None
        found = attempted(
            step, [*values, *tangents], {**params, "followed": (*there, params.get("followed"))}
        )
        if found is None:
            return None
        half = len(found) // 2
        return self.wrapped(found[:half], found[half:], half > 1 or record.outputs != 1)

    def dual(self, x: Any) -> Dual:
        """An operand as primal and tangent."""
        if is_tensor(x) and x._storage.level is self:
            return payload(x)
        return Dual(x, None)

    def tangents(
        self, record: Record, primals: Any, tangents: list[Any], params: dict[str, Any], outs: Any
    ) -> tuple[Any, ...]:
        """The tangents of the results."""
        call = Call(record, primals, params, outs)
        result = call.push(tangents)
        if result is NotImplemented:
            result = push_by_transposing(call, tangents)
        return result if isinstance(result, tuple) else (result,)

    def lift(self, tensor: Tensor) -> Dual:
        return Dual(tensor, None)

    def window(self, payload: Dual, record: Record, params: dict[str, Any]) -> Dual:
        tangent = payload.tangent
        if not record.differentiable and not params.get("tangents"):
            tangent = None
        return Dual(
            record(payload.primal, **params), None if tangent is None else record(tangent, **params)
        )

    def scatter(self, payload: Dual, chain: tuple[Any, ...], new: Dual) -> Dual:
        primal = VIEW_SCATTER(payload.primal, new.primal, chain=chain)
        if payload.tangent is None and new.tangent is None:
            return Dual(primal, None)
        old = payload.tangent if payload.tangent is not None else zeros_like(payload.primal)
        part = new.tangent if new.tangent is not None else zeros_like(new.primal)
        return Dual(primal, VIEW_SCATTER(old, part, chain=chain))

    def tensors(self, payload: Dual) -> tuple[Any, ...]:
        return payload

    def overwrite(self, payload: Dual, new: Dual) -> Dual:
        # Tangents of other values may be this one (those of sums are), so it is never written to.
        return Dual(write(payload.primal, new.primal), new.tangent)

    def reveal(self, payload: Dual) -> Any:
        return payload.primal

    def wrap_payload(self, payload: Dual) -> Tensor:
        """A tensor of this level for a payload."""
        return make_level_tensor(self, payload.primal._spec, payload)

    def detach(self, tensor: Tensor) -> Any:
        """The primal, constant at this level and all below."""
        return payload(tensor).primal.detach()


def zeros_like(x: Tensor) -> Tensor:
    """Zeros of the spec of x."""
    return x.new_zeros(x.shape)


def pushed_record(record: Record) -> Record | None:
    """An operation with its tangents, as a composite of operands and, after them, tangents.

    Its parameter `followed` says which operands have one; last in it is the same of an operation
    that is such a one itself. Results come first, then their tangents, None where there is none.
    None: it is not for programs, as what it does is more than its results.
    """
    if record.pushed is None:
        record.pushed = made_for_duals(record) if computes_alone(record) else False
    return record.pushed or None


def made_for_duals(record: Record) -> Record:
    """The record of an operation with its tangents."""

    def compose(*xs: Any, followed: Any, **params: Any) -> tuple[Any, ...]:
        *there, inner = followed
        if inner is not None:
            params["followed"] = inner
        primals = xs[: len(there)]
        given = iter(xs[len(there) :])
        tangents = [next(given) if one else None for one in there]
        return _with_tangents(record, primals, tangents, params)

    def joint(xs: Any, gs: Any, needed: Any, params: Any) -> list[Any]:
        return pull_through(compose, xs, gs, needed, params)

    def with_batch(batched: Sequence[bool], params: dict[str, Any]) -> list[bool]:
        *there, inner = params["followed"]
        primals = batched[: len(there)]
        if record.with_batch is None:
            outs = [any(primals)] * record.outputs
        else:
            outs = record.with_batch(primals, {**params, "followed": inner})
        return [*outs, *[any(batched)] * len(outs)]

    return Record(
        f"pushed_{record.name}",
        "composite",
        infer=record.infer,
        operands=("*xs",),
        outputs=0,
        joint=Rule.of(joint) if record.differentiable else None,
        compose=compose,
        part_by_part=True,
        given_a_draw=record.given_a_draw,
        given_floats=gives_floats(record),
        with_batch=with_batch if record.outputs or record.with_batch else None,
        listed=False,
    )


def _with_tangents(
    record: Record, primals: tuple[Any, ...], tangents: list[Any], params: dict[str, Any]
) -> tuple[Any, ...]:
    """The results of an operation, then their tangents."""
    with entered(JvpLevel(next_depth(), composes=True)) as level:
        if record.part_by_part:
            duals = [
                x if t is None else level.wrap_payload(Dual(x, t))
                for x, t in zip(primals, tangents, strict=True)
            ]
            found = record.compose(*duals, **params)  # type: ignore[misc]
            outs = [level.dual(o) for o in (found if isinstance(found, tuple) else (found,))]
            return (*[o.primal for o in outs], *[o.tangent for o in outs])
        results = record(*primals, **params)
        many = results if isinstance(results, tuple) else (results,)
        if not any(o.dtype.is_inexact for o in many):
            return (*many, *[None] * len(many))
        return (*many, *level.tangents(record, primals, tangents, params, many))
