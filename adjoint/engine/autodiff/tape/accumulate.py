"""Adding gradients up: between nodes, and into `.grad`; which of those are wanted early."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from numpy import ndarray

from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.late_faults import UNSEEN, settle
from adjoint.engine.ops.elementwise.arithmetic import ADD
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor, alias, alias_noted, meta_of, set_grad

# Leaves, by id, whose gradient is to arrive when it is whole rather than when all are: hooks see it
# then, and what they do with it (a step, sending it to other processes) goes on beside the rest.
EARLY_LEAVES: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
# Nodes whose hooks are to find the gradients of leaves where all that leads there has run.
NODES_AFTER_LEAVES: weakref.WeakSet[Any] = weakref.WeakSet()


def add(total: Any, grad: Any) -> Any:
    """The sum of two cotangents; of a sparse and a dense one, the dense one comes first."""
    if HOOKS.sparse is not None and total.is_sparse:
        return ADD(grad, total)
    return ADD(total, grad)


def add_owned(total: Any, grad: Any) -> bool:
    """Add in place to a sum nobody else has seen, where that is a matter of arrays alone."""
    if not CONTEXT.plain or CONTEXT.grad_enabled:
        return False
    into, array = total._array, grad._array
    if type(into) is Window or into.dtype != array.dtype or into.shape != array.shape:
        return False
    HOOKS.array.add_into(into, array)
    return True


def accumulate_grad(leaf: Tensor, grad: Tensor, *, keep_graph: bool) -> None:
    """Add to `.grad`: in place where the tape does not need the old value."""
    if not keep_graph and grad.__class__ is Tensor and take_as_it_is(leaf, grad):
        return
    total = leaf.grad
    if UNSEEN and total is not None:  # Note [faults of programs]
        settle()
    if HOOKS.sparse is not None and (grad.is_sparse or (total is not None and total.is_sparse)):
        accumulate_sparse(leaf, total, grad, keep_graph=keep_graph)
    elif total is None:
        first = as_first(leaf, grad, keep_graph=keep_graph)
        set_grad(leaf, first if HOOKS.wrappers is None else HOOKS.wrappers.restored(first))
    elif keep_graph:
        set_grad(leaf, total + grad)
    elif not total._requires_grad and add_owned(total, grad):
        total._storage.version += 1
    else:
        with CONTEXT.having(grad_enabled=False):
            total.add_(grad)


def take_as_it_is(leaf: Tensor, grad: Tensor) -> bool:
    """Have a first gradient that nobody else has, in rows as its leaf is, as it came.

    So most are; it is what `as_first` and `set_grad` would do.
    """
    meta = leaf._grad_meta
    if meta is not None and meta.grad is not None:
        return False
    own, array, storage = leaf._array, grad._array, grad._storage
    if own.__class__ is Window or array.__class__ is Window or CONTEXT.capture is not None:
        return False
    if grad._chain or storage.level is not None or getattr(storage, "claimed", False):
        return False
    if not (own.flags.c_contiguous and array.flags.c_contiguous):
        return False
    if HOOKS.wrappers is not None or (HOOKS.sparse is not None and grad.is_sparse):
        return False
    storage.claimed = True
    meta_of(leaf).grad = alias(grad)
    return True


def accumulate_sparse(leaf: Tensor, total: Any, grad: Tensor, *, keep_graph: bool) -> None:
    """The same where either is sparse: sparse as long as both are, dense from then on."""
    if total is None:
        if not keep_graph:
            elements = grad._values()
            shared = (
                bool(elements._chain) or claim_storage(elements) or not elements.is_contiguous()
            )
            grad = grad.with_elements(row_major(elements) if shared else elements)  # type: ignore[attr-defined]
        set_grad(leaf, grad)
    elif keep_graph or (total.is_sparse and not grad.is_sparse):
        set_grad(leaf, add(total, grad))
    else:
        with CONTEXT.having(grad_enabled=False):
            total.add_(grad)


def as_first(leaf: Tensor, grad: Tensor, *, keep_graph: bool) -> Tensor:
    """A gradient nobody else will write to, in the memory layout of the leaf.

    As in PyTorch: the leaf's own strides where they are dense, row-major otherwise.
    """
    order = None if leaf.is_contiguous() else dense_order(leaf)
    if order is not None:
        if not keep_graph and lies_alike(grad, leaf) and not claim_storage(grad):
            return alias_noted(grad)
        inverse = tuple(sorted(range(len(order)), key=order.__getitem__))
        grad = row_major(grad.permute(order)).permute(inverse)
        return grad if keep_graph else alias_noted(grad)
    if keep_graph:
        return row_major(grad)
    shared = bool(grad._chain) or claim_storage(grad) or not grad.is_contiguous()
    return alias_noted(row_major(grad) if shared else grad)


def lies_alike(grad: Tensor, leaf: Tensor) -> bool:
    """Whether a gradient is no view, and an array of the host's that lies as its leaf does."""
    own, array = leaf._array, grad._array
    if own.__class__ is not ndarray or array.__class__ is not ndarray or grad._chain:
        return False
    return own.dtype == array.dtype and own.strides == array.strides and own.shape == array.shape


def row_major(grad: Tensor) -> Tensor:
    """A contiguous copy."""
    return grad.clone() if grad.is_contiguous() else grad.contiguous()


def owned(grad: Tensor) -> Tensor:
    """A kept gradient in memory of its own: the cotangent may be somebody else's too."""
    return grad.clone() if grad.is_sparse else row_major(grad)


def dense_order(leaf: Tensor) -> tuple[int, ...] | None:
    """The dimensions by falling stride, if in that order the elements have no gaps."""
    strides = leaf.stride()
    order = tuple(sorted(range(leaf.ndim), key=lambda d: -strides[d]))
    step = 1
    for d in reversed(order):
        if leaf.shape[d] != 1 and strides[d] != step:
            return None
        step *= leaf.shape[d]
    return order


def claim_storage(grad: Tensor) -> bool:
    """Whether the storage is somebody's already; if not, it is now.

    A cotangent may be passed on unchanged (add gives g to both operands), so two leaves could end
    up with one storage; a storage is claimed by the first.
    """
    storage = grad._storage
    if storage.level is not None:
        return True
    claimed = getattr(storage, "claimed", False)
    storage.claimed = True
    return claimed


def claim(grad: Tensor) -> Tensor:
    """Mark a tensor that belongs to the user, so that no leaf takes it as its own gradient."""
    elements_of(grad)._storage.claimed = True
    return grad


def elements_of(grad: Any) -> Any:
    """The tensor whose memory a cotangent has."""
    return grad._values() if HOOKS.sparse is not None and grad.is_sparse else grad


def claim_shared(results: Sequence[Any]) -> None:
    """Mark cotangents that go several ways, so that a leaf whose gradient arrives first copies it.

    What hooks write to that gradient would otherwise be read by all that has yet to run.
    """
    seen: list[Any] = []
    for grad in results if len(results) > 1 else ():
        if grad is None:
            continue
        storage = elements_of(grad)._storage
        if any(storage is other for other in seen):
            storage.claimed = True
        else:
            seen.append(storage)


def wait_for_leaves(node: Any) -> None:
    """Have a node's hooks find the gradients of leaves where all that leads there has run."""
    NODES_AFTER_LEAVES.add(node)
