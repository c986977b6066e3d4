"""Batching as a transform: the payload has one more dimension, in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.autodiff.levels.stack import entered, next_depth
from adjoint.engine.core.operations.call import Call
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.levels import Level
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.shape.views import VIEW_SCATTER
from adjoint.engine.tensor.tensor import Tensor, symbolic_view
from adjoint.engine.tensor.writing.mutation import make_level_tensor, payload, write


class VmapLevel(Level):
    """The payload is the batched value, its batch in dimension 0."""

    __slots__ = ("randomness", "size")

    def __init__(self, depth: int, size: int, randomness: str) -> None:
        super().__init__(depth)
        self.size = size
        self.randomness = randomness

    def process(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if record.is_view:
            source = operands[0]
            return symbolic_view(source, record.infer(source._spec, **params), record, params)
        batched = [is_tensor(x) and x._storage.level is self for x in operands]
        values = [payload(x) if b else x for x, b in zip(operands, batched, strict=True)]
        if record.compose is not None:
            if not any(map(is_differentiated, values)):
                return record.compose(*operands, **params)
            results = batched_call(self, record, values, batched, params)
        else:
            results = self.apply(record, values, batched, operands, params)
        if isinstance(results, tuple):
            return tuple(self.wrap_payload(r) for r in results)
        return self.wrap_payload(results)

    def apply(
        self, record: Record, values: list[Any], batched: list[bool], operands: Any, params: Any
    ) -> Any:
        """The operation on batched values."""
        if record.family == "elementwise" and record.batch is None:
            return record(*self.align(values, batched), **params)
        if record.batch_mixed is not None and not all(batched):
            return record.batch_mixed(self.size, values, batched, **params)
        full = [
            v if b or not is_tensor(v) else v.expand((self.size, *v.shape))
            for v, b in zip(values, batched, strict=True)
        ]
        if record.batch is not None:
            return record.batch(self.size, *full, **params)
        if record.batched_params is not None:
            return record(*full, **record.batched_params(params, self.size))
        return self.loop(record, full, params)

    def align(self, values: list[Any], batched: list[bool]) -> list[Any]:
        """Give batched operands one rank, so that their batches meet when broadcasting."""
        rank = max(
            (v.ndim - b for v, b in zip(values, batched, strict=True) if is_tensor(v)), default=0
        )
        aligned = []
        for v, b in zip(values, batched, strict=True):
            if b and v.ndim - 1 < rank:
                v = v.reshape((self.size, *(1,) * (rank - v.ndim + 1), *v.shape[1:]))
            aligned.append(v)
        return aligned

    def loop(self, record: Record, full: list[Any], params: dict[str, Any]) -> Any:
        """One call per element, for operations that state no batching."""
        from adjoint.engine.ops.shape.join import stack

        rows = [
            record(*[v.select(0, i) if is_tensor(v) else v for v in full], **params)
            for i in range(self.size)
        ]
        if rows and isinstance(rows[0], tuple):
            return tuple(stack(column) for column in zip(*rows, strict=True))
        return stack(rows)

    def lift(self, tensor: Tensor) -> Any:
        return tensor.expand((self.size, *tensor.shape))

    def window(self, payload: Tensor, record: Record, params: dict[str, Any]) -> Any:
        if record.batch is not None:
            return record.batch(self.size, payload, **params)
        return record(payload, **record.batched_params(params, self.size))  # type: ignore[misc]

    def scatter(self, payload: Tensor, chain: tuple[Any, ...], new: Tensor) -> Any:
        return VIEW_SCATTER.batch(self.size, payload, new, chain=chain)  # type: ignore[misc]

    def tensors(self, payload: Tensor) -> tuple[Tensor]:
        return (payload,)

    def overwrite(self, payload: Tensor, new: Tensor) -> Tensor:
        return write(payload, new)

    def wrap_payload(self, payload: Tensor) -> Tensor:
        """A tensor of this level for a batched value."""
        spec = payload._spec
        return make_level_tensor(self, Spec(spec.shape[1:], spec.dtype, spec.device), payload)

    def detach(self, tensor: Tensor) -> Tensor:
        """Constant at all levels below."""
        return self.wrap_payload(payload(tensor).detach())


# -- composites ---------------------------------------------------------------------------------
#
# The composition of a composite batches by itself. But where a tape or a transform beneath the
# batching differentiates, the batched composite must be one operation still, whose derivative is
# the stated one, batched; that of its composition would be another.


def is_differentiated(x: Any) -> bool:
    """Whether a tape or a transform may differentiate by this operand."""
    if not is_tensor(x):
        return False
    return x._storage.level is not None or (CONTEXT.grad_enabled and x.requires_grad)


def batched_call(
    level: VmapLevel, record: Record, values: list[Any], batched: list[bool], params: dict[str, Any]
) -> Any:
    """A composite with a stated derivative, as one operation on the batch."""
    layer = level.size, tuple(batched), level.randomness
    if record is BATCHED:
        return BATCHED(*values, **{**params, "layers": (layer, *params["layers"])})
    outs = BATCHED(*values, record=record, layers=(layer,), **params)
    return outs if record.outputs != 1 else outs[0]


def _within(params: dict[str, Any]) -> tuple[Any, Record, dict[str, Any]]:
    """The first layer, and the operation and parameters it batches."""
    rest = dict(params)
    record, (layer, *layers) = rest.pop("record"), rest.pop("layers")
    if layers:
        return layer, BATCHED, {"record": record, "layers": tuple(layers), **rest}
    return layer, record, rest


def _raise(level: VmapLevel, values: Sequence[Any], batched: Sequence[bool]) -> tuple[Any, ...]:
    """Values at the level, those that have its batch."""
    return tuple(
        level.wrap_payload(v) if b and v is not None else v
        for v, b in zip(values, batched, strict=True)
    )


def _lower(level: VmapLevel, value: Any) -> Any:
    """A value of the level with its batch in front, expanded where it has none."""
    return payload(value) if value._storage.level is level else level.lift(value)


def _compose(*xs: Any, **params: Any) -> tuple[Any, ...]:
    (size, batched, randomness), record, inner = _within(params)
    with entered(VmapLevel(next_depth(), size, randomness)) as level:
        outs = record.compose(*_raise(level, xs, batched), **inner)  # type: ignore[misc]
        return tuple(_lower(level, o) for o in (outs if isinstance(outs, tuple) else (outs,)))


def _joint(
    xs: Sequence[Any], outs: Any, gs: Sequence[Any], needed: Sequence[bool], params: Any
) -> list[Any]:
    """The stated rules, batched; the cotangents of what the batch shares add up."""
    (size, batched, randomness), record, inner = _within(params)
    with entered(VmapLevel(next_depth(), size, randomness)) as level:
        everything = [True] * len(outs)
        call = Call(record, _raise(level, xs, batched), inner, _raise(level, outs, everything))
        pulled = call.pull(_raise(level, gs, everything), needed)
        whole = [None if g is None else _lower(level, g) for g in pulled]
    return [g if g is None or b else g.sum(0) for g, b in zip(whole, batched, strict=True)]


# BATCHED(xs..., record=, layers=, parameters of the record...): a composite for each element of
# batches in front of operands. A layer is (size, which operands have the batch, randomness); that
# of the outermost batch comes first.
BATCHED = composite("batched", _compose, operands=("*xs",), outputs=0, joint=_joint)
