"""Forward mode as a transform: dual numbers whose parts are values of the level below."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.engine.autodiff.levels.transpose import push_by_transposing
from adjoint.engine.core.operations.call import Call
from adjoint.engine.core.operations.levels import Level
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.ops.shape.views import VIEW_SCATTER
from adjoint.engine.tensor.tensor import Tensor, symbolic_view
from adjoint.engine.tensor.writing.mutation import make_level_tensor, payload, write


class Dual(NamedTuple):
    """A value and its tangent; None is a structural zero."""

    primal: Any
    tangent: Any


class JvpLevel(Level):
    """The payload is a Dual."""

    __slots__ = ("tangents_on_tape",)

    def __init__(self, depth: int) -> None:
        super().__init__(depth)
        self.tangents_on_tape = False  # whether a tangent that requires grad came from outside

    def process(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if record.is_view:
            source = operands[0]
            return symbolic_view(source, record.infer(source._spec, **params), record, params)
        duals = [self.dual(x) for x in operands]
        primals = tuple(d.primal for d in duals)
        tangents = [d.tangent for d in duals]
        if record.push is not None and any(t is not None for t in tangents):
            outs, out_tangents = record.push(primals, tangents, params)
            many = True
        else:
            results = record(*primals, **params)
            if all(t is None for t in tangents) or not record.differentiable:
                return results
            many = isinstance(results, tuple)
            outs = results if many else (results,)
            if not any(o.dtype.is_inexact for o in outs):
                return results
            out_tangents = self.tangents(record, primals, tangents, params, outs)
        # Whole numbers and truths are steps of what they were made of, a conversion's too.
        wrapped = tuple(
            o
            if t is None or not o.dtype.is_inexact
            else make_level_tensor(self, o._spec, Dual(o, t))
            for o, t in zip(outs, out_tangents, strict=True)
        )
        return wrapped if many else wrapped[0]

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
