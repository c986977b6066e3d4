"""A tensor's relation to the tape: asking for gradients, leaving the tape, versions."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.public import method, prop, public
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.structure_version import STRUCTURE_VERSION
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import LONG, Tensor, alias_noted, meta_of, sync_view, wrap
from adjoint.engine.tensor.watching import counts_data, join


@method
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Ask for this tensor's gradient (or stop asking); returns the tensor."""
    if self._base is not None:
        sync_view(self)
    if self._node is not None:
        if not requires_grad:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        return self
    if requires_grad and not self.dtype.is_inexact:
        raise DTypeError(
            "only Tensors of floating point and complex dtype can require gradients, received "
            f"{self.dtype.name}"
        )
    if requires_grad and self._storage.version < 0 and not CONTEXT.inference:
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        )
    if CONTEXT.capture is not None:
        CONTEXT.capture.touch(self)
    self._requires_grad = bool(requires_grad)
    return self


@public(method=True)
def detach(input: Tensor) -> Tensor:
    """The same elements, off the tape; writes to it are seen by the original's version."""
    if CONTEXT.capture is not None and CONTEXT.capture.closes:
        return CONTEXT.capture.detach(input)
    if CONTEXT.levels and input._storage.level is not None:
        return input._storage.level.detach(input)
    out = alias_noted(input)
    if len(out._chain) >= LONG:
        out._chain = HOOKS.shortened(input, out._array, out._chain, detached=True)
    return out


@public(method=True, name="detach_")
def detach_(input: Tensor) -> Tensor:
    """Take this tensor off the tape: it becomes a leaf. Views of it stay on the tape."""
    if input._base is not None and input.requires_grad:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
            "True, gradients are views of DDP buckets."
        )
    if CONTEXT.capture is not None:
        CONTEXT.capture.touch(input)
    if input._node is not None:
        meta_of(input).detached = (id(input._node), input._storage.version)
    input._node, input._nr, input._requires_grad, input._base = None, 0, False, None
    return input


@prop
def output_nr(self: Tensor) -> int:
    """Which result of its `grad_fn` this tensor is."""
    return self._nr if self.grad_fn is not None else 0


@prop
def _version(self: Tensor) -> int:
    """How often the storage was written to."""
    if self._storage.version < 0:
        raise RuntimeError("Inference tensors do not track version counter.")
    return self._storage.version


@public(method=True)
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    return input._storage.version < 0


@method
def _is_view(self: Tensor) -> bool:
    """Whether the tensor is a view that the tape follows."""
    return self._base is not None


def _get_data(self: Tensor) -> Tensor:
    """The same elements, off the tape and with a version of its own: writes go unseen."""
    storage = self._storage
    if HOOKS.wrappers is not None and HOOKS.wrappers.among((self,)):
        return HOOKS.wrappers.restored(self).detach()
    if CONTEXT.capture is not None or storage.level is not None or storage.trace is not None:
        return self.detach()
    if counts_data(storage):
        return self.detach()
    out = wrap(self._array)
    out._chain = self._chain if len(self._chain) < LONG else self.detach()._chain
    # A second cell on one buffer; a capture tells by the buffer that they are one.
    own = out._storage
    own.buffer, own.birth = storage.buffer, storage.birth
    own.version = min(0, storage.version)  # one for inference stays one
    join(storage, own)
    return out


def _set_data(self: Tensor, value: Any) -> None:
    """Show `value`'s elements from now on, keeping this tensor's place on the tape."""
    if not isinstance(value, Tensor):
        raise TypeError(f"data: expected a Tensor, received {type(value).__name__}")
    if CONTEXT.capture is not None:
        CONTEXT.capture.rebinds(self, alias_noted(value), "data")
        CONTEXT.capture.touch(self)
    storage = value._storage
    # A tensor saved before is stale: the new cell's version must not look like the old one's.
    version = max(self._storage.version, value._storage.version) + 1
    if storage.level is None and storage.trace is None:
        storage = Storage(storage.buffer)
        join(value._storage, storage)
    if storage.level is None:
        storage.version = version
    self._array, self._storage, self._chain = value._array, storage, value._chain
    self._base = None
    STRUCTURE_VERSION.count += 1


Tensor.data = property(_get_data, _set_data)  # type: ignore[assignment]
