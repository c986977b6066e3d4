"""Reverse mode as a transform: a tape of its own, on values of the level below."""

from __future__ import annotations

from typing import Any

from adjoint.engine.autodiff.levels.steps import attempted
from adjoint.engine.autodiff.tape.tape import attach
from adjoint.engine.core.operations.levels import Level
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.shape.views import VIEW_SCATTER
from adjoint.engine.tensor.tensor import Tensor, mark_view, symbolic_view
from adjoint.engine.tensor.writing.mutation import make_level_tensor, payload, write


class GradLevel(Level):
    """The payload is the value itself, one level down."""

    __slots__ = ("always",)

    def __init__(self, depth: int, *, always: bool = False) -> None:
        super().__init__(depth)
        self.always = always  # records under no_grad too: it stands for forward mode

    def process(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if record.is_view:
            source = operands[0]
            out = symbolic_view(source, record.infer(source._spec, **params), record, params)
            mark_view(out, source)
            if (CONTEXT.grad_enabled or self.always) and source.requires_grad:
                attach(record, operands, params, out)
            return out
        inner = tuple(
            payload(x) if is_tensor(x) and x._storage.level is self else x for x in operands
        )
        before = CONTEXT.grad_enabled
        recording = before or self.always
        try:  # not `with`: a KeyboardInterrupt may come where its end is entered
            CONTEXT.grad_enabled = self.outer_grad and before
            results = record(*inner, **params)
        finally:
            CONTEXT.grad_enabled = before
        many = isinstance(results, tuple)
        outs = tuple(
            [
                None if r is None else make_level_tensor(self, r._spec, r)
                for r in (results if many else (results,))
            ]
        )
        if recording and any(is_tensor(x) and x.requires_grad for x in operands):
            attach(record, operands, params, outs)
        return outs if many else outs[0]

    def attempt(self, record: Record, operands: Any, params: dict[str, Any]) -> Any:
        if not record.part_by_part or record.joint is None:
            return None
        inner = [payload(x) if is_tensor(x) and x._storage.level is self else x for x in operands]
        before = CONTEXT.grad_enabled
        recording = before or self.always
        try:  # not `with`: a KeyboardInterrupt may come where its end is entered
            CONTEXT.grad_enabled = self.outer_grad and before
            results = attempted(record, inner, params)
        finally:
            CONTEXT.grad_enabled = before
        if results is None:
            return None
        many = isinstance(results, tuple)
        outs = tuple(
            [
                None if r is None else make_level_tensor(self, r._spec, r)
                for r in (results if many else (results,))
            ]
        )
        if recording and any(is_tensor(x) and x.requires_grad for x in operands):
            attach(record, tuple(operands), params, outs)
        return outs if many else outs[0]

    def lift(self, tensor: Tensor) -> Tensor:
        return tensor

    def window(self, payload: Tensor, record: Record, params: dict[str, Any]) -> Any:
        return record(payload, **params)

    def scatter(self, payload: Tensor, chain: tuple[Any, ...], new: Tensor) -> Any:
        return VIEW_SCATTER(payload, new, chain=chain)

    def reveal(self, payload: Tensor) -> Tensor:
        return payload

    def tensors(self, payload: Tensor) -> tuple[Tensor]:
        return (payload,)

    def overwrite(self, payload: Tensor, new: Tensor) -> Tensor:
        return write(payload, new)

    def wrap_payload(self, payload: Tensor) -> Tensor:
        """A tensor of this level for a payload."""
        return make_level_tensor(self, payload._spec, payload)

    def detach(self, tensor: Tensor) -> Tensor:
        """Constant at this level and all below."""
        return self.wrap_payload(payload(tensor).detach())
