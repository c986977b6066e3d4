"""Gradients that do not change with what they were computed from, and yet lead back to it.

Note [kinks]
    The gradient of a `relu` by its input is a constant on either side of the kink: differentiated
    once more by that input it is zero, which the rules say by computing nothing. PyTorch hands out
    zeros there: `autograd.grad` of a gradient penalty by an input or a bias that only activations
    come between must not be told that it was not used. So a gradient made for a further derivative
    is put behind a `KinkNode`, which has an edge to the operand along which nothing is sent. Once
    a run is over, what is reached along such edges and along no others is given zeros: none are
    made, added or multiplied on the way there, and hooks of what lies on it are not called.
    Behind a `relu`, which tells by its result which side it was on, they lead back as the gradient
    did: in PyTorch they have come through that result, and a third derivative is zeros again.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from adjoint.engine.autodiff.tape.node import BackwardNode, Edge, ErrorNode, IdentityNode, edge_of
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.tensor import Tensor, alias


class KinkNode(IdentityNode):
    """Passes a cotangent on as it is; its second edge leads to what has a derivative of zeros."""

    __slots__ = ("lasting",)

    def __init__(self, edges: Sequence[Edge | None], outputs: int, lasting: bool) -> None:
        super().__init__(edges, outputs)
        self.lasting = lasting  # whether the zeros lead back, too

    def apply(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        return grads[0], None


# All there are: without any, no run looks for them.
KINKS: weakref.WeakSet[KinkNode] = weakref.WeakSet()


def behind_kink(grad: Tensor, operand: Edge, lasting: bool) -> Tensor:
    """A gradient that leads back to the operand it belongs to."""
    node = KinkNode((edge_of(grad), operand), 1, lasting)
    KINKS.add(node)
    out = alias(grad)
    out._node, out._nr, out._requires_grad = node, 0, True
    return out


def zeros_behind(tensor: Tensor, edge: Edge, lasting: bool) -> Tensor:
    """The gradient of a tensor that is reached along kinks alone; one that lasts leads back."""
    zeros = tensor.new_zeros(tensor.shape)
    return behind_kink(zeros, edge, True) if lasting and not CONTEXT.levels else zeros


def edges_behind(kinks: Sequence[KinkNode]) -> dict[Edge, bool]:
    """The edges that lie behind kinks, in order, and whether behind one that lasts."""
    found: dict[Edge, bool] = {}
    for lasting in (False, True):
        _walk_behind([node.edges[1] for node in kinks if node.lasting is lasting], lasting, found)
    return found


def _walk_behind(edges: Sequence[Any], lasting: bool, found: dict[Edge, bool]) -> None:
    found.update(dict.fromkeys(edges, lasting))
    stack = [edge for edge in edges if isinstance(edge[0], BackwardNode)]
    seen: set[Any] = set()
    while stack:
        node, nr = stack.pop()
        place = (node, nr if node.leads_by_results else 0)
        if place in seen or isinstance(node, ErrorNode):
            continue
        seen.add(place)
        for edge in derived(node, nr):
            found[edge] = lasting
            if isinstance(edge[0], BackwardNode):
                stack.append(edge)


def derived(node: BackwardNode, nr: int) -> list[Edge]:
    """A node's edges to operands that its result has a derivative by."""
    plan = getattr(node, "plan", None)
    edges = node.edges
    if plan is not None and plan.joint is None:
        edges = [edges[step.position] for step in plan.steps]
    elif plan is not None and plan.led is not None:
        edges = [edges[position] for position in plan.led[nr]]
    return [edge for edge in edges if edge is not None]
