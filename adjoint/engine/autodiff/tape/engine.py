"""Backward: cotangents flow from results to leaves, latest operation first.

Note [backward under autocast]
    The forward settled each operation's precision, and its derivative follows: rules run without
    autocast, whether or not `backward()` is called inside its region (where PyTorch casts once
    more, which changes no dtype of a gradient). What users wrote, hooks and the backward of a
    `Function`, runs under the autocast that `backward()` was called in.

Note [no cotangent]
    A `Function` may return None for an input, and all that lies behind runs all the same, as in
    PyTorch: hooks are shown None, another `Function` is given zeros (None, where it wants none
    made), and what it makes of them goes on. Operations of ours make None of None.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

from adjoint.engine.autodiff.tape.accumulate import (
    EARLY_LEAVES,
    NODES_AFTER_LEAVES,
    accumulate_grad,
    add,
    add_owned,
    claim,
    claim_shared,
)
from adjoint.engine.autodiff.tape.changes import replacement, replacing
from adjoint.engine.autodiff.tape.kinks import KINKS, KinkNode, edges_behind, zeros_behind
from adjoint.engine.autodiff.tape.node import BackwardNode, Edge, ErrorNode
from adjoint.engine.autodiff.tape.pieces import Pieces, piece_of
from adjoint.engine.core.operations.large import EXPECTED
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.core.value import TensorBase
from adjoint.engine.tensor.tensor import Tensor


def reaching(roots: list[Edge], targets: set[Edge], nodes: set[Any]) -> set[BackwardNode]:
    """The nodes through which some target is reached; `nodes` are those targets belong to."""
    order: list[BackwardNode] = []
    seen: set[BackwardNode] = set()
    stack = [r[0] for r in roots if isinstance(r[0], BackwardNode)]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        order.append(node)
        stack += [e[0] for e in node.edges if e is not None and isinstance(e[0], BackwardNode)]
    order.sort(key=attrgetter("sequence"))  # operands before results
    keep: set[BackwardNode] = set()
    for node in order:
        if isinstance(node, ErrorNode) and not node.edges:
            keep.add(node)  # nobody knows where it led: asked for anything, it refuses
        for e in node.edges:
            if e is not None and (e[0] in keep or e[0] in nodes or e in targets):
                keep.add(node)
                break
    return keep


def places_behind(roots: Sequence[Any]) -> set[Any]:
    """The nodes and leaves that a run from these comes to."""
    seen: set[Any] = set()
    stack = list(roots)
    while stack:
        place = stack.pop()
        if place in seen:
            continue
        seen.add(place)
        if isinstance(place, BackwardNode):
            stack += [e[0] for e in place.edges if e is not None]
    return seen


class _Active(threading.local):
    """How many runs this thread is inside of, and what is to be called after the outermost."""

    runs = 0
    depth = 0  # those for chosen targets
    innermost: Backward | None = None

    def __init__(self) -> None:
        self.after: list[Callable[[], None]] = []


_ACTIVE = _Active()


def queue_callback(call: Callable[[], None]) -> None:
    """Have something called once, when the backward that is under way has ended."""
    if not _ACTIVE.runs:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    _ACTIVE.after.append(call)


def in_backward() -> bool:
    """Whether a backward is under way in this thread."""
    return _ACTIVE.runs > 0


def innermost_run() -> Backward | None:
    """The backward that is under way in this thread: the innermost, where hooks began others."""
    return _ACTIVE.innermost


def running_for_targets() -> bool:
    """Whether the current backward is for chosen tensors only."""
    return _ACTIVE.depth > 0


def edges_before_leaves(
    roots: Sequence[tuple[Edge, Any]], keep: set[BackwardNode] | None
) -> dict[Any, int]:
    """How many edges lead to each leaf that wants its gradient early (by id), and to each node.

    Where a run is for chosen tensors, `keep` has the nodes on the ways to them, which alone run.
    Empty where no leaf does.
    """
    leaves: dict[int, int] = {}
    nodes: dict[Any, int] = {}
    seen: set[BackwardNode] = set()
    every_leaf = False
    stack = [e[0] for e, _ in roots if isinstance(e[0], BackwardNode)]
    while stack:
        node = stack.pop()
        if node in seen or (keep is not None and node not in keep):
            continue
        seen.add(node)
        every_leaf = every_leaf or (bool(NODES_AFTER_LEAVES) and node in NODES_AFTER_LEAVES)
        for edge in node.edges:
            if edge is None:
                continue
            target = edge[0]
            if not isinstance(target, BackwardNode):
                leaves[id(target)] = leaves.get(id(target), 0) + 1
            elif keep is None or target in keep:
                nodes[target] = nodes.get(target, 0) + 1
                stack.append(target)
    if not every_leaf:
        leaves = {leaf: count for leaf, count in leaves.items() if leaf in EARLY_LEAVES}
    return {**leaves, **nodes} if leaves else {}


class Backward:
    """One run of the engine."""

    # A run that stops at chosen edges takes cotangents there itself, each of them whole.
    joins_pieces = True
    # One that ends where nobody knows the shapes sends zeros along all that lies behind a kink.
    sends_zeros = False

    def __init__(
        self,
        *,
        retain_graph: bool,
        create_graph: bool,
        targets: Sequence[Edge] | None,
        accumulate: bool,
        level: Any,
    ) -> None:
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.targets = None if targets is None else set(targets)  # None: every leaf reached
        self.nodes = {e[0] for e in targets or () if isinstance(e[0], BackwardNode)}
        self.accumulate = accumulate
        self.level = level
        self.gradients: dict[Edge, Any] = {}
        self.buffers: dict[BackwardNode, list[Any]] = {}
        self.queue: list[tuple[int, BackwardNode]] = []
        self.keep: set[BackwardNode] = set()
        self.seen_by_hooks: set[Any] = set()  # nodes whose cotangents hooks are shown
        self.autocast = CONTEXT.autocast
        # By id: the leaf, its gradient so far, whether that is a sum made here.
        self.leaves: dict[int, tuple[Tensor, Any, bool]] = {}
        # Leaves, by id, that have their gradient; None where there are no kinks to look behind.
        self.arrived: set[int] | None = set() if KINKS else None
        self.kinks: list[KinkNode] = []  # that have run
        self.zeros: dict[Edge, bool] = {}  # edges behind them: Note [kinks]
        self.roots: Sequence[tuple[Edge, Any]] = ()
        self.reached: set[int] | None = None  # nodes and leaves, by id, once somebody asked

    def run(self, roots: Sequence[tuple[Edge, Any]]) -> None:
        """Propagate from the roots; then what was to be called after the outermost run."""
        outer, _ACTIVE.innermost, self.roots = _ACTIVE.innermost, self, roots
        _ACTIVE.runs += 1
        try:
            if self.autocast is None:
                self.run_to(self.targets, roots)
            else:
                with CONTEXT.having(autocast=None):  # Note [backward under autocast]
                    self.run_to(self.targets, roots)
            while _ACTIVE.runs == 1 and _ACTIVE.after:
                _ACTIVE.after.pop(0)()
        finally:
            _ACTIVE.innermost = outer
            _ACTIVE.runs -= 1
            if not _ACTIVE.runs:
                _ACTIVE.after.clear()  # after an error

    def comes_by(self, place: Any) -> bool:
        """Whether the gradients of a node's results, or of a leaf, have their turn in this run."""
        if self.targets is not None:
            return place in self.seen_by_hooks or (place, 0) in self.targets
        if self.reached is None:
            self.reached = {id(p) for p in places_behind([e[0] for e, _ in self.roots])}
        return id(place) in self.reached

    def run_to(self, targets: set[Edge] | None, roots: Sequence[tuple[Edge, Any]]) -> None:
        """Propagate to every leaf, or on the ways to the targets only."""
        if targets is None:
            self.propagate(roots)
            return
        self.keep = reaching([e for e, _ in roots], targets, self.nodes)
        self.seen_by_hooks = self.keep | self.nodes | {e[0] for e, _ in roots}
        _ACTIVE.depth += 1
        try:
            self.propagate(roots)
        finally:
            _ACTIVE.depth -= 1

    def propagate(self, roots: Sequence[tuple[Edge, Any]]) -> None:
        """Node after node, then the leaves."""
        self.send([e for e, _ in roots], [g for _, g in roots])
        queue, buffers, level, retain = self.queue, self.buffers, self.level, self.retain_graph
        simple, looks = self.is_simple(), self.arrived is not None
        early: dict[Any, int] = {}
        if EARLY_LEAVES or NODES_AFTER_LEAVES:
            early = edges_before_leaves(roots, None if self.targets is None else self.keep)
        capture = CONTEXT.capture
        apart = self.targets is None and not CONTEXT.anomaly and self.joins_pieces
        apart = apart and capture is None and level is None
        apart = apart and not (CONTEXT.grad_enabled or CONTEXT.levels)
        quiet = CONTEXT.plain and not CONTEXT.grad_enabled and level is None
        pull = HOOKS.pull if quiet else None  # Note [pulled nodes]
        if EXPECTED and quiet and simple and not LISTENERS:
            HOOKS.fragments.make_expected()  # Note [rules ahead]
        while queue:
            node = heappop(queue)[1]
            if early and node not in buffers:
                self.count_edges(node, early)
                continue
            if capture is not None:
                capture.passes(node)
            grads = buffers.pop(node)
            if grads[0] is None and is_nothing(grads):
                self.send(node.edges, self.step(node, grads))
                if early:
                    self.count_edges(node, early)
                continue
            if looks and node.__class__ is KinkNode:
                if self.sends_zeros:
                    self.send(node.edges, (grads[0], grads[0].new_zeros(grads[0].shape)))
                    continue
                self.kinks.append(node)
            if apart:
                for grad in grads:
                    if grad.__class__ is Pieces:
                        grads = [self.whole(g) if g.__class__ is Pieces else g for g in grads]
                        break
                if node.fills_zeros and node.extra is None:
                    piece = piece_of(node, grads[0])
                    if piece is not None:
                        self.send(node.edges, (piece,))
                        if early:
                            self.count_edges(node, early)
                        continue
            results: Any
            if LISTENERS and capture is None:
                results = self.run_heard(node, grads)
            elif simple and node.extra is None:
                results = None if pull is None else pull(node, grads)
                if results is None:
                    results = node.apply(grads, None, level)
                if not retain:
                    if node.keeps_saved_alone:
                        node.saved = None  # type: ignore[attr-defined]  # `release`, inline
                    else:
                        node.release()
            else:
                results = self.step(node, grads)
            if early:
                claim_shared(results)
            edges = node.edges if not node.leads_by_results else led(node.edges, results)
            self.send(edges, results)
            if early:
                self.count_edges(node, early)
        self.reach_leaves()

    def reach_leaves(self) -> None:
        """Give the leaves what has come to them, and zeros to those behind kinks."""
        alone = self.targets is None and self.accumulate and self.arrived is None
        alone = alone and not self.create_graph
        while self.leaves:  # a hook may have put new ones there
            leaf, grad, _ = self.leaves.pop(next(iter(self.leaves)))
            if alone and grad.__class__ is Tensor and leaf._requires_grad and not is_watched(leaf):
                accumulate_grad(leaf, grad, keep_graph=False)  # what `arrive` comes to
            else:
                self.arrive(leaf, grad)
        if self.arrived is not None:
            self.zeros = edges_behind(self.kinks)
            for edge, lasting in self.zeros.items():
                leaf = edge[0]
                if is_tensor(leaf) and id(leaf) not in self.arrived:
                    self.arrive(leaf, zeros_behind(leaf, edge, lasting and CONTEXT.grad_enabled))

    def is_simple(self) -> bool:
        """Whether a node without hooks is asked for all its results as it is."""
        return self.targets is None and self.autocast is None and not CONTEXT.anomaly

    def ask(self, written: Callable[..., Any], *args: Any) -> Any:
        """Call what a user wrote: Note [backward under autocast]."""
        if self.autocast is None:
            return written(*args)
        with CONTEXT.having(autocast=self.autocast):
            return written(*args)

    def whole(self, pieces: Pieces) -> Any:
        """The cotangent that slices have pieces of."""
        first = pieces.parts[0]
        if len(pieces.parts) > 1:
            return pieces.joined()
        if LISTENERS:
            return self.run_heard(first.node, [first.grad])[0]
        return first.node.apply([first.grad], None, None)[0]

    def sum(self, total: Any, grad: Any) -> Any:
        """The sum of two cotangents, of which slices may have pieces."""
        if total.__class__ is Pieces:
            if total.take(grad):
                return total
            total = self.whole(total)
        return add(total, self.whole(grad) if grad.__class__ is Pieces else grad)

    def run_heard(self, node: BackwardNode, grads: list[Any]) -> Sequence[Any]:
        """Run a node while somebody listens."""
        name, number = node.name(), node.sequence
        events = [(listener, listener.open(name, "cpu_op", number)) for listener in LISTENERS]
        try:
            if node.extra is None and self.is_simple():
                results = node.apply(grads, None, self.level)
                if not self.retain_graph:
                    node.release()
            else:
                results = self.step(node, grads)
            for listener, event in events:
                listener.made(event, results)
        finally:
            for listener, event in events:
                listener.close(event)
        return results

    def send(self, edges: Sequence[Edge | None], grads: Sequence[Any]) -> None:
        """Send cotangents along edges."""
        buffers, leaves = self.buffers, self.leaves
        left: Any = False
        if HOOKS.pass_on is not None:  # Note [pulled nodes]
            left = HOOKS.pass_on(buffers, self.queue, edges, grads)
            if left is None:
                return
        for edge, grad in left or zip(edges, grads, strict=False):
            if edge is None:
                continue
            if grad is None:
                self.send_nothing(edge)
                continue
            target, nr = edge
            if isinstance(target, TensorBase):
                if id(target) in leaves:
                    self.send_leaf(target, grad)
                else:
                    leaves[id(target)] = (target, grad, False)  # type: ignore[assignment]
                continue
            buffer = buffers.get(target)
            if buffer is None:
                heappush(self.queue, (-target.sequence, target))
                if target.outputs == 1:
                    buffers[target] = [grad]
                    continue
                buffer = buffers[target] = [None] * target.outputs
            total = buffer[nr]
            buffer[nr] = grad if total is None else self.sum(total, grad)

    def send_nothing(self, edge: Edge) -> None:
        """Have the turn of what an edge leads to come, though this way brings it no cotangent."""
        target: Any = edge[0]
        if self.targets is not None and not self.wanted(edge):
            return
        if isinstance(target, BackwardNode):
            if target not in self.buffers:
                heappush(self.queue, (-target.sequence, target))
                self.buffers[target] = [None] * target.outputs
        elif id(target) not in self.leaves and is_watched(target):
            self.leaves[id(target)] = (target, None, False)

    def count_edges(self, node: BackwardNode, left: dict[Any, int]) -> None:
        """Count the edges of a node that has run; a leaf with none left has its whole gradient.

        A node that has none left and no cotangent does not run; its turn comes all the same, for
        its edges to be counted.
        """
        for edge in node.edges:
            if edge is None:
                continue
            target = edge[0]
            key: Any = target if isinstance(target, BackwardNode) else id(target)
            count = left.get(key)
            if count is None:
                continue
            left[key] = count - 1
            if count != 1:
                continue
            if key is target:
                if target not in self.buffers:
                    heappush(self.queue, (-target.sequence, target))
            elif key in self.leaves:
                leaf, grad, _ = self.leaves.pop(key)
                self.arrive(leaf, grad)

    def send_leaf(self, leaf: Any, grad: Any) -> None:
        """Add to a leaf's total. The order of last contributions is the order of arrival."""
        entry = self.leaves.pop(id(leaf), None)
        if entry is None or entry[1] is None:
            self.leaves[id(leaf)] = (leaf, grad, False)
        elif Pieces in (entry[1].__class__, grad.__class__):
            self.leaves[id(leaf)] = (leaf, self.sum(entry[1], grad), False)
        elif entry[2] and add_owned(entry[1], grad):
            self.leaves[id(leaf)] = entry
        else:
            self.leaves[id(leaf)] = (leaf, add(entry[1], grad), not CONTEXT.grad_enabled)

    def step(self, node: BackwardNode, grads: list[Any]) -> Sequence[Any]:
        """Run a node that has hooks, or of which only some results are wanted."""
        extra = node.extra
        needed = None
        if self.targets is not None and node not in self.seen_by_hooks:
            return ()  # a `Function` gave more than was wanted
        # As in PyTorch: a target on the way to another is seen before its hooks change it.
        if self.targets is not None and node in self.keep:
            self.capture(node, grads)
        if extra is not None:
            for nr, hooks in tuple(extra.tensor_hooks.items()):
                grads[nr] = self.ask(hooks, grads[nr])
        if self.targets is not None:
            if node not in self.keep:
                self.capture(node, grads)
                return ()
            needed = [e is not None and self.wanted(e) for e in node.edges]
        if extra is not None:
            for prehook in tuple(extra.node_prehooks.values()):
                replaced = self.ask(prehook, tuple(grads))
                if replaced is not None:
                    grads = replacing(prehook, grads, claimed(replaced))
        results = self.apply(node, grads, needed)
        if extra is not None:
            for hook in tuple(extra.hooks.values()):
                replaced = self.ask(hook, tuple(results), tuple(grads))
                if replaced is not None:
                    results = replacing(hook, results, claimed(replaced))
        if not self.retain_graph:
            node.release()
        return results

    def capture(self, node: BackwardNode, grads: list[Any]) -> None:
        """Keep the cotangents that were asked for."""
        for nr, grad in enumerate(grads):
            if grad is not None and (node, nr) in self.targets:  # type: ignore[operator]
                self.gradients[node, nr] = grad

    def wanted(self, edge: Edge) -> bool:
        """Whether some target is reached along an edge."""
        return edge[0] in self.keep or edge[0] in self.nodes or edge in self.targets  # type: ignore[operator]

    def apply(
        self, node: BackwardNode, grads: list[Any], needed: list[bool] | None
    ) -> Sequence[Any]:
        """The node's vjp; in anomaly mode, errors and NaNs name the forward line."""
        if not node.is_written_by_users and is_nothing(grads):
            return [None] * len(node.edges)
        run = node.apply
        if CONTEXT.anomaly:
            from adjoint.engine.autodiff.tape.anomaly import guarded

            run = partial(guarded, node)
        if node.is_written_by_users:
            run = partial(self.ask, run)
        return run(grads, needed, self.level)

    def arrive(self, leaf: Tensor, grad: Any) -> None:
        """A leaf's total, None if it has none: hooks, then accumulation or capture."""
        if self.arrived is not None and grad is not None:
            self.arrived.add(id(leaf))
        if grad.__class__ is Pieces:
            grad = self.whole(grad)
        edge = (leaf, 0)
        if self.targets is not None and edge not in self.targets:
            return
        meta = leaf._grad_meta
        if meta is not None and meta.hooks:
            for hook in tuple(meta.hooks.values()):
                replaced = self.ask(hook, grad)
                grad = grad if replaced is None else replacement(hook, grad, replaced)
            grad = claimed(grad)[0]  # a hook may have kept it
        if self.targets is not None and grad is not None:
            self.gradients[edge] = grad
        if not self.accumulate:
            return
        extra = None if meta is None else meta.leaf_extra
        if extra is not None:
            for prehook in tuple(extra.node_prehooks.values()):
                replaced = self.ask(prehook, (grad,))
                if replaced is not None:
                    grad = replacing(prehook, [grad], claimed(replaced))[0]
            grad = claimed(grad)[0]  # a hook may have kept it
        if grad is not None and leaf._requires_grad:  # else it was frozen since it was used
            accumulate_grad(leaf, grad, keep_graph=self.create_graph)
        meta = leaf._grad_meta
        if meta is not None and meta.accumulate_hooks:
            for hook in tuple(meta.accumulate_hooks.values()):
                if self.ask(hook, leaf) is not None:
                    raise RuntimeError("Tensor post accumulate grad hooks should return None.")
        if extra is not None:
            for hook in tuple(extra.hooks.values()):
                self.ask(hook, (), (grad,))


def led(edges: Sequence[Edge | None], results: Sequence[Any]) -> list[Edge | None]:
    """The edges along which something comes."""
    return [None if g is None else e for e, g in zip(edges, results, strict=False)]


def is_nothing(grads: Sequence[Any]) -> bool:
    """Whether none of several cotangents is there: Note [no cotangent]."""
    return all(g is None for g in grads)


def is_watched(leaf: Any) -> bool:
    """Whether somebody is told when the gradient of a leaf arrives."""
    meta = leaf._grad_meta
    return meta is not None and bool(meta.hooks or meta.accumulate_hooks or meta.leaf_extra)


def claimed(replaced: Any) -> list[Any]:
    """What a node's hook returned in place of cotangents, which it may have elsewhere too."""
    grads = list(replaced) if isinstance(replaced, (tuple, list)) else [replaced]
    return [claim(g) if is_tensor(g) else g for g in grads]
