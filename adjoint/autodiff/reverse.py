"""backward and grad: asking the tape for gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.autodiff.accumulate import claim
from adjoint.autodiff.engine import Backward
from adjoint.autodiff.node import Edge, attach_constant, edge_of, sequence_now
from adjoint.autodiff.tape import attach, preserve
from adjoint.core.context import CONTEXT
from adjoint.core.public import method
from adjoint.core.record import HOOKS, is_tensor
from adjoint.tensor.tensor import Tensor

HOOKS.attach = attach
HOOKS.attach_constant = attach_constant
HOOKS.preserve = preserve
HOOKS.sequence_now = sequence_now


def listed(x: Any) -> list[Any]:
    """One tensor or a sequence of them, as a list."""
    return [x] if x is None or is_tensor(x) else list(x)


def _roots(tensors: list[Tensor], grads: list[Any]) -> list[tuple[Edge, Any]]:
    roots: list[tuple[Edge, Any]] = []
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    for i, (tensor, grad) in enumerate(zip(tensors, grads, strict=True)):
        edge = edge_of(tensor)
        if edge is None:
            raise RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn"
            )
        if grad is None:
            if tensor._array.size != 1:
                raise RuntimeError(
                    "grad can be implicitly created only for scalar outputs; this one has shape "
                    f"{tuple(tensor.shape)}. Pass `gradient`, or reduce it first."
                )
            if not tensor.dtype.is_floating_point:
                raise RuntimeError(
                    "grad can be implicitly created only for real scalar outputs but got "
                    f"{tensor.dtype.name}"
                )
            grad = tensor.new_ones(tensor.shape)
        else:
            if grad.shape != tensor.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] has a shape of {tuple(grad.shape)} and "
                    f"output[{i}] has a shape of {tuple(tensor.shape)}."
                )
            grad = claim(grad)
        roots.append((edge, grad))
    return roots


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` in the leaves' `.grad`."""
    roots = listed(tensors)
    grads = [None] * len(roots) if grad_tensors is None else listed(grad_tensors)
    targets = None
    if inputs is not None:
        chosen = listed(inputs)
        if not chosen:
            raise RuntimeError("backward: `inputs` argument cannot be empty")
        targets = []
        for i, t in enumerate(chosen):
            edge = edge_of(t)
            if edge is None:
                raise RuntimeError(f"backward: input {i} does not require grad")
            targets.append(edge)
    run = Backward(
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        targets=targets,
        accumulate=True,
        level=None,
    )
    with CONTEXT.having(grad_enabled=create_graph):
        run.run(_roots(roots, grads))


@method(name="backward")
def backward_method(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradient of this tensor in the leaves' `.grad`."""
    backward(self, gradient, retain_graph, create_graph, inputs)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs`, returned rather than accumulated.

    >>> import adjoint as ad
    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> ad.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    roots = listed(outputs)
    chosen = listed(inputs)
    grads = [None] * len(roots) if grad_outputs is None else listed(grad_outputs)
    edges = []
    for i, t in enumerate(chosen):
        edge = edge_of(t)
        if edge is None:
            raise RuntimeError(
                f"One of the differentiated Tensors (input {i}) does not require grad"
            )
        edges.append(edge)
    run = Backward(
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        targets=edges,
        accumulate=False,
        level=None,
    )
    with CONTEXT.having(grad_enabled=create_graph):
        run.run(_roots(roots, grads))
    found: list[Any] = [run.found.get(e) for e in edges]
    if materialize_grads:
        found = [
            t.new_zeros(t.shape) if g is None else g for t, g in zip(chosen, found, strict=True)
        ]
    elif not allow_unused and any(g is None for g in found):
        raise RuntimeError(
            f"One of the differentiated Tensors (input {found.index(None)}) appears to not have "
            "been used in the graph. Set allow_unused=True if this is the desired behavior."
        )
    return tuple(found)


def as_sequence(x: Any) -> Sequence[Any]:
    """A tuple of one, or the sequence itself."""
    return (x,) if is_tensor(x) else tuple(x)
