"""Hooks on tensors and nodes."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from adjoint.engine.autodiff.tape.accumulate import EARLY_LEAVES, claim, owned
from adjoint.engine.autodiff.tape.changes import replacement
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.public import PROPERTIES, method, prop
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.structure_version import STRUCTURE_VERSION, where_tracked
from adjoint.engine.tensor.tensor import OWN_DTYPE, Tensor, meta_of, set_grad

_ids = itertools.count()


_LATER = object()


class Handle:
    """Returned by a registration; `remove()` undoes it. Also a context manager.

    Args:
        hooks_dict: the table that the hook is in, by the handle's `id`.
        hook: what is put there; unless given, whoever makes the handle does so.
        extra_dict: a table, or several, of what else is noted under the same number.

    Example:
        >>> import adjoint as ad
        >>> mine = {}
        >>> handle = ad.utils.hooks.RemovableHandle(mine)
        >>> mine[handle.id] = print
        >>> handle.remove()
        >>> mine
        {}
    """

    __slots__ = ("id", "notes", "table")

    def __init__(
        self, hooks_dict: dict[int, Any], hook: Any = _LATER, *, extra_dict: Any = None
    ) -> None:
        self.table = hooks_dict
        several = isinstance(extra_dict, (list, tuple))
        # tables of what is noted about the hook
        self.notes: list[dict[int, Any]] = list(extra_dict) if several else []
        if extra_dict is not None and not several:
            self.notes.append(extra_dict)
        self.id = next(_ids)
        while self.id in hooks_dict:  # those that came from a file have another process's numbers
            self.id = next(_ids)
        if hook is not _LATER:
            hooks_dict[self.id] = hook

    def remove(self) -> None:
        """Take the hook away."""
        for table in (self.table, *self.notes):
            where_tracked(table).pop(self.id, None)
        STRUCTURE_VERSION.count += 1

    def __getstate__(self) -> tuple[Any, ...]:
        """As PyTorch's are pickled: the table, the number in it, further tables."""
        return self.table, self.id, tuple(self.notes)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        table, self.id, *notes = state
        self.table = {} if table is None else table  # None where the module is gone
        self.notes = list(notes[0] or ()) if notes else []

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Prehook:
    """Runs a non-leaf's hooks on its cotangent and keeps its gradient, if asked to."""

    __slots__ = ("hooks", "retain")

    def __init__(self) -> None:
        self.hooks: dict[int, Callable[[Any], Any]] = {}
        self.retain: weakref.ref[Tensor] | None = None  # weak: the tensor holds the node

    def __call__(self, grad: Any) -> Any:
        for hook in tuple(self.hooks.values()):
            replaced = hook(grad)
            if replaced is not None:
                grad = replacement(hook, grad, replaced)
            if grad is not None:
                grad = claim(grad)  # the hook may have kept it
        if grad is None:  # Note [no cotangent]
            return None
        tensor = None if self.retain is None else self.retain()
        if tensor is not None:
            total = tensor.grad
            # Its own memory: others may have the cotangent, and the user may write to `.grad`.
            set_grad(tensor, owned(grad) if total is None else total + grad)
        return grad


def _prehook(tensor: Tensor) -> Prehook:
    tensor.grad_fn.route_through(tensor)
    prehook: Prehook = tensor.grad_fn.make_extra().tensor_hooks.setdefault(tensor._nr, Prehook())
    return prehook


@method
def register_hook(self: Tensor, hook: Callable[[Any], Any]) -> Handle:
    """Call `hook(grad)` when the gradient of this tensor is computed; it may return another."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        return Handle(_prehook(self).hooks, hook)
    STRUCTURE_VERSION.count += 1  # a captured function depends on the hooks of leaves
    meta = meta_of(self)
    if meta.hooks is None:
        meta.hooks = {}
    EARLY_LEAVES[id(self)] = self
    return Handle(meta.hooks, hook)


@method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> Handle:
    """Call `hook(tensor)` after a leaf's `.grad` has been accumulated.

    That is as soon as it is whole, while backward goes on: a step made there, and `.grad` set to
    None, and no two gradients need be there at a time.
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    STRUCTURE_VERSION.count += 1
    meta = meta_of(self)
    if meta.accumulate_hooks is None:
        meta.accumulate_hooks = {}
    EARLY_LEAVES[id(self)] = self
    return Handle(meta.accumulate_hooks, hook)


@method
def retain_grad(self: Tensor) -> None:
    """Keep the gradient of a non-leaf in `.grad`."""
    if not self.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self.grad_fn is not None:
        keep_retaining(self)


def keep_retaining(tensor: Tensor) -> None:
    """Retain at the tensor's present node; an in-place write gives it a new one."""
    meta = meta_of(tensor)
    if meta.retains_grad is not None:
        meta.retains_grad.retain = None
    meta.retains_grad = _prehook(tensor)
    meta.retains_grad.retain = weakref.ref(tensor)


HOOKS.keep_retaining = keep_retaining


@dataclass(frozen=True, slots=True)
class _InDtype:
    """The hook of a leaf whose gradients have a dtype of their own."""

    dtype: DType
    changes_dtype: ClassVar[bool] = True

    def __call__(self, grad: Any) -> Any:
        return grad if grad is None or grad.dtype is self.dtype else grad.to(self.dtype)


def _grad_dtype(self: Tensor) -> Any:
    """The dtype gradients of this leaf have: its own, unless set; None takes them as they come."""
    if self.grad_fn is not None:
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    meta = self._grad_meta
    return self.dtype if meta is None or meta.grad_dtype is OWN_DTYPE else meta.grad_dtype


def _set_grad_dtype(self: Tensor, dtype: DType | None) -> None:
    if self.grad_fn is not None:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if dtype is not None and not isinstance(dtype, DType):
        raise RuntimeError(
            f"grad_dtype must be a torch.dtype or None, but got {type(dtype).__name__}"
        )
    if dtype is not None and not dtype.is_inexact:  # gradients would be cut to whole numbers
        raise RuntimeError(
            f"grad_dtype must be of floating-point or complex numbers, but got {dtype.name}"
        )
    meta = meta_of(self)
    if dtype is not None and meta.grad is not None and meta.grad.dtype is not dtype:
        raise RuntimeError(
            f"Cannot set grad_dtype to {dtype.name}: there is already a gradient of "
            f"{meta.grad.dtype.name}. Clear it (.grad = None) first."
        )
    STRUCTURE_VERSION.count += 1
    meta.grad_dtype = dtype
    others = {} if meta.hooks is None else dict(meta.hooks)
    meta.hooks = {} if meta.hooks is None else meta.hooks  # handles keep the table
    meta.hooks.clear()
    if dtype is not None:
        meta.hooks[_FIRST] = _InDtype(dtype)
    meta.hooks.update({key: hook for key, hook in others.items() if key != _FIRST})


_FIRST = -1  # the key of the hook that other hooks come after
PROPERTIES["grad_dtype"] = property(_grad_dtype, _set_grad_dtype)


@prop
def retains_grad(self: Tensor) -> bool:
    """Whether this non-leaf keeps its gradient."""
    return self._grad_meta is not None and self._grad_meta.retains_grad is not None
