"""What an operation saved, packed by `saved_tensors_hooks` once it has run."""

from __future__ import annotations

from typing import Any

from adjoint.engine.autodiff.tape.node import edge_of
from adjoint.engine.autodiff.tape.saved import Packed
from adjoint.engine.autodiff.tape.tape import RecordNode
from adjoint.engine.core.value import TensorBase


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
