"""What a tensor is, moved to another object: one of a subclass, or one to change places with."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.operations.overrides import having
from adjoint.engine.core.operations.public import method
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.structure_version import STRUCTURE_VERSION
from adjoint.engine.tensor.tensor import AutogradMeta, Tensor, _new, alias_noted

# What a tensor is, apart from who it is.
CONTENT = (
    "_array",
    "_base",
    "_chain",
    "_grad_meta",
    "_node",
    "_nr",
    "_requires_grad",
    "_storage",
)


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange what two tensors are: whoever holds one then holds the other's class and elements.

    Example:
        >>> import adjoint as ad
        >>> a, b = ad.ones(1), ad.zeros(2)
        >>> ad.utils.swap_tensors(a, b)
        >>> a
        tensor([0., 0.])
    """
    for tensor in (t1, t2):
        meta = tensor._grad_meta
        if tensor._node is not None or (meta is not None and meta.accumulator is not None):
            raise RuntimeError(
                "swap_tensors: a tensor that a computation on the tape uses cannot be exchanged"
            )
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for name in CONTENT:
        first, second = getattr(t1, name), getattr(t2, name)
        setattr(t1, name, second)
        setattr(t2, name, first)
    STRUCTURE_VERSION.count += 1  # a captured function knows tensors by their memory


@method
def as_subclass(self: Tensor, cls: type[Any]) -> Any:
    """The same tensor as an instance of a subclass of Tensor; one of a leaf is a view of it.

    Gradients by the leaf, which are asked for by who it is, are then found through the view.
    """
    if not issubclass(cls, Tensor):
        raise TypeError(f"as_subclass: {cls.__name__} is not a subclass of Tensor")
    if self._requires_grad and self._node is None and CONTEXT.grad_enabled:
        with having(functions=False):
            self = self.view(self.shape)
    return recast(self, cls)


def recast(self: Tensor, cls: type[Any]) -> Any:
    """What a tensor is, in another object of a class: also a leaf stays one."""
    converted = _new(cls)
    if self._grad_meta is None and self._requires_grad:
        self._grad_meta = AutogradMeta()  # shared, so that a gradient reaches both
    for slot in CONTENT:
        setattr(converted, slot, getattr(self, slot))
    if CONTEXT.capture is not None:
        CONTEXT.capture.derive(converted, self)
    return converted


@method
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What a module's tensor becomes when `other` is loaded, where parameters are exchanged."""
    return other.detach() if assign else self.copy_(other).detach()


def _make_subclass(cls: type[Any], data: Tensor, require_grad: bool = False) -> Any:
    """A leaf of a subclass on a tensor's elements: how parameters of one's own are made."""
    return alias_noted(data).as_subclass(cls).requires_grad_(require_grad)


def _make_wrapper_subclass(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
    """A tensor of a class with `__torch_dispatch__`, without elements of its own."""
    HOOKS.load_wrappers()
    return HOOKS.wrappers.make(cls, *args, **kwargs)


Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)  # type: ignore[attr-defined]
