"""Batching as a transform: the payload has one more dimension, in front."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.operations.levels import Level
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.shape.views import VIEW_SCATTER
from adjoint.engine.tensor.mutation import make_level_tensor, payload
from adjoint.engine.tensor.tensor import Tensor, symbolic_view


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
        if record.share is not None and not all(batched):
            return record.share(self.size, values, batched, **params)
        full = [
            v if b or not is_tensor(v) else v.expand((self.size, *v.shape))
            for v, b in zip(values, batched, strict=True)
        ]
        if record.batch is not None:
            return record.batch(self.size, *full, **params)
        if record.shift is not None:
            return record(*full, **record.shift(params, self.size))
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
        return record(payload, **record.shift(params, self.size))  # type: ignore[misc]

    def scatter(self, payload: Tensor, chain: tuple[Any, ...], new: Tensor) -> Any:
        return VIEW_SCATTER.batch(self.size, payload, new, chain=chain)  # type: ignore[misc]

    def wrap_payload(self, payload: Tensor) -> Tensor:
        """A tensor of this level for a batched value."""
        spec = payload._spec
        return make_level_tensor(self, Spec(spec.shape[1:], spec.dtype, spec.device), payload)

    def detach(self, tensor: Tensor) -> Tensor:
        """Constant at all levels below."""
        return self.wrap_payload(payload(tensor).detach())
