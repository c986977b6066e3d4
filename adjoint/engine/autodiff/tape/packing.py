"""What an operation saved, once it has run: packed by `saved_tensors_hooks`, or kept as it was."""

from __future__ import annotations

from typing import Any

from adjoint.engine.autodiff.tape.node import TapeNode, edge_of
from adjoint.engine.autodiff.tape.saved import Packed
from adjoint.engine.autodiff.tape.tape import RecordNode
from adjoint.engine.core.value import TensorBase
from adjoint.engine.tensor.tensor import Tensor, alias


def pack_saved(outs: Any, since: int) -> None:
    """Pack what nodes made after `since` saved (Note [packing afterwards]).

    An operand that was saved knows its place on the tape itself; a result is put back by its node.
    """
    stack = [x._node for x in (outs if isinstance(outs, tuple) else (outs,))]
    seen: list[Any] = []
    while stack:
        node = stack.pop()
        if not isinstance(node, RecordNode) or node.sequence <= since or node in seen:
            continue
        seen.append(node)
        stack += [edge[0] for edge in node.edges if edge is not None]
        saved = node.saved or []
        for k, code in enumerate(node.plan.saves):
            if isinstance(saved[k], TensorBase):
                edge = edge_of(saved[k]) if code >= 0 else None
                saved[k] = Packed(saved[k], edge)
                node.make_extra()  # few nodes are asked whether anything is packed


def keep_overwritten(target: Tensor, result: Tensor, since: int) -> None:
    """Before `result` overwrites `target`: nodes made since then keep the old elements.

    `x.mul_(y)` needs x as it was for the gradient of y; only the operation itself may say so, an
    earlier node that saved x is stale for good.
    """
    stack = [result._node]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if not isinstance(node, TapeNode) or node.sequence <= since or id(node) in seen:
            continue
        seen.add(id(node))
        stack += [e[0] for e in node.edges if e is not None]
        for k, old in enumerate(node.saved or ()):
            if isinstance(old, Tensor) and old._storage is target._storage:
                edge = (old._node, old._nr, old._requires_grad)
                copy = alias(old).clone()
                copy._node, copy._nr, copy._requires_grad = edge
                node.saved[k] = copy  # type: ignore[index]
                versions = [*node.versions]
                versions[k] = copy._storage.version
                node.versions = versions
            elif old.__class__ is Packed:
                source = old.source()
                if source is not None and source._storage is target._storage:
                    # The hook was shown elements that are about to change: show it a copy.
                    node.saved[k] = Packed(alias(source).clone(), old.edge)  # type: ignore[index]
