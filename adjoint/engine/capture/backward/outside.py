"""Backward inside a compiled function that goes on through what was computed outside of it.

Note [tapes from outside]
    A backward in the function may come to nodes that were on the tape before the call: its argument
    is a result, or it reads a tensor that has a history. What those nodes do is recorded with the
    rest, so the recording holds only where the same nodes come again and are as they were. Nodes
    that save something are used up by the call or are new at the next; then the recording stands
    for one call. Where all of them save nothing (`tied = weight.t()`), it stands for every call
    that finds the tensors at the same places on the tape.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.engine.autodiff.tape.node import BackwardNode
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.tensor.tensor import Tensor

_ONCE = (
    "backward inside it went through operations from outside, which are other ones at each call or "
    "used up (compute inside what is differentiated there, or call backward outside)"
)


def tape_outside_holds(trace: Trace, reached: Sequence[Tensor]) -> bool:
    """Whether a recording can stand for further calls; guards say for which.

    `reached` are the tensors the function can see that are no arguments.
    """
    passed = set(trace.passed)
    places = [(t, trace.journal[t][0] if t in trace.journal else t._node) for t in reached]
    passed_by = [(tensor, node) for tensor, node in places if node in passed]
    if (
        not all(node.repeatable for node in passed)
        or any(node in passed for node, _ in trace.edges)
        or not _first(passed) <= {node for _, node in passed_by}
    ):
        trace.guard(lambda: False, _ONCE)
        return False
    if passed:
        trace.guard(lambda: all(node.repeatable for node in passed), "a hook on the tape outside")
    for tensor, node in passed_by:
        trace.guard(lambda t=tensor, n=node: t._node is n, "a tensor's place on the tape")  # type: ignore[misc]
    return True


def _first(nodes: set[BackwardNode]) -> set[BackwardNode]:
    """The nodes that no other of them leads to."""
    later = {edge[0] for node in nodes for edge in node.edges if edge is not None}
    return nodes - later
