"""Backward: cotangents flow from results to leaves, latest operation first."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from adjoint.autodiff.node import Edge, Node
from adjoint.core.context import CONTEXT
from adjoint.core.record import is_tensor
from adjoint.tensor.tensor import Tensor, alias, set_grad


def reaching(roots: list[Edge], targets: set[Edge]) -> set[Node]:
    """The nodes through which some target is reached."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack = [r[0] for r in roots if isinstance(r[0], Node)]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        order.append(node)
        stack += [e[0] for e in node.edges if e is not None and isinstance(e[0], Node)]
    order.sort(key=lambda n: n.sequence)  # operands before results
    wanted: set[Node] = {t[0] for t in targets if isinstance(t[0], Node)}
    keep: set[Node] = set()
    for node in order:
        if any(
            e is not None and (e[0] in keep or e in targets or e[0] in wanted) for e in node.edges
        ):
            keep.add(node)
    return keep


class Backward:
    """One run of the engine."""

    def __init__(
        self,
        *,
        retain_graph: bool,
        create_graph: bool,
        targets: dict[Edge, int] | None,
        accumulate: bool,
        level: Any,
    ) -> None:
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.targets = targets  # only these, by edge; None: every leaf reached
        self.accumulate = accumulate
        self.level = level
        self.found: dict[Edge, Any] = {}
        self.buffers: dict[Node, list[Any]] = {}
        self.queue: list[tuple[int, Node]] = []
        self.keep: set[Node] | None = None
        self.leaves: dict[int, tuple[Tensor, Any]] = {}

    def seed(self, edge: Edge, grad: Any) -> None:
        """Send a cotangent along an edge."""
        target, nr = edge
        if is_tensor(target):
            held = self.leaves.get(id(target))
            self.leaves[id(target)] = (target, grad if held is None else held[1] + grad)
            return
        buffer = self.buffers.get(target)
        if buffer is None:
            buffer = self.buffers[target] = [None] * len(target.out_specs)
            heapq.heappush(self.queue, (-target.sequence, target))
        buffer[nr] = grad if buffer[nr] is None else buffer[nr] + grad

    def run(self, roots: Sequence[tuple[Edge, Any]]) -> None:
        """Propagate from the roots."""
        if self.targets is not None:
            self.keep = reaching([e for e, _ in roots], set(self.targets))
        for edge, grad in roots:
            self.seed(edge, grad)
        while self.queue:
            _, node = heapq.heappop(self.queue)
            self.step(node, self.buffers.pop(node))
        for leaf, grad in self.leaves.values():
            self.arrive(leaf, grad)

    def step(self, node: Node, grads: list[Any]) -> None:
        """Run one node and send its operands' cotangents on."""
        if node.prehooks is not None:
            for nr, prehook in node.prehooks.items():
                if grads[nr] is not None:
                    grads[nr] = prehook(grads[nr])
        if self.targets is not None:
            for nr, grad in enumerate(grads):
                if (node, nr) in self.targets and grad is not None:
                    self.found[node, nr] = grad
            if self.keep is not None and node not in self.keep:
                return
        keep = self.keep
        needed = [
            e is not None
            and (keep is None or e[0] in keep or e in self.targets or self._is_target(e[0]))  # type: ignore[operator]
            for e in node.edges
        ]
        results = self.apply(node, grads, needed)
        if node.hooks is not None:
            for hook in tuple(node.hooks.values()):
                replaced = hook(tuple(results), tuple(grads))
                if replaced is not None:
                    results = list(replaced) if isinstance(replaced, tuple) else [replaced]
        if not self.retain_graph:
            node.release()
        for edge, grad in zip(node.edges, results, strict=False):
            if edge is not None and grad is not None:
                self.seed(edge, grad)

    def _is_target(self, node: Any) -> bool:
        return any(t[0] is node for t in self.targets or ())

    def apply(self, node: Node, grads: list[Any], needed: list[bool]) -> list[Any]:
        """The node's vjp; in anomaly mode, errors and NaNs name the forward line."""
        if not CONTEXT.anomaly:
            return node.apply(grads, needed, self.level)
        from adjoint.autodiff.anomaly import guarded

        return guarded(node, grads, needed, self.level)

    def arrive(self, leaf: Tensor, grad: Any) -> None:
        """A leaf's total: hooks, then accumulation or capture."""
        meta = leaf._meta
        if meta is not None and meta.hooks:
            for hook in tuple(meta.hooks.values()):
                replaced = hook(grad)
                grad = grad if replaced is None else replaced
        edge = (leaf, 0)
        if self.targets is not None:
            if edge not in self.targets:
                return
            self.found[edge] = grad
        if self.accumulate:
            accumulate_grad(leaf, grad, keep_graph=self.create_graph)
            if meta is not None and meta.accumulate_hooks:
                for hook in tuple(meta.accumulate_hooks.values()):
                    hook(leaf)


def accumulate_grad(leaf: Tensor, grad: Tensor, *, keep_graph: bool) -> None:
    """Add to `.grad`: in place where the tape does not need the old value."""
    held = leaf.grad
    if held is None:
        shared = grad._base is not None or bool(grad._chain) or not grad.is_contiguous()
        fresh = grad if keep_graph else (grad.clone() if shared else owned(grad))
        set_grad(leaf, fresh)
    elif keep_graph:
        set_grad(leaf, held + grad)
    else:
        with CONTEXT.having(grad_enabled=False):
            held.add_(grad)


def owned(grad: Tensor) -> Tensor:
    """A gradient nobody else will write to, as a tensor of its own."""
    return grad.clone() if _is_shared(grad) else alias(grad)


def _is_shared(grad: Tensor) -> bool:
    # A cotangent may be passed on unchanged (add gives g to both operands), so two leaves could
    # end up with one storage; a storage is claimed by the first.
    claimed = getattr(grad._storage, "claimed", False)
    grad._storage.claimed = True
    return claimed


def claim(grad: Tensor) -> Tensor:
    """Mark a tensor that belongs to the user, so that no leaf takes it as its own gradient."""
    grad._storage.claimed = True
    return grad
