"""Nodes of the tape: what backward needs of one operation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core.context import CONTEXT
from adjoint.core.families import pull
from adjoint.core.record import Record, Rule, is_tensor
from adjoint.core.spec import Spec
from adjoint.tensor.mutation import payload
from adjoint.tensor.tensor import Tensor, alias

_sequence = itertools.count(1)
Edge = tuple[Any, int]  # (a Node, which of its results) or (a leaf Tensor, 0)


class Saved:
    """A tensor kept for backward, with the version it had."""

    __slots__ = ("output", "packed", "tensor", "unpack", "version")

    def __init__(self, tensor: Tensor, output: int | None) -> None:
        # An output is kept off the tape, else the node and its result would hold each other.
        self.tensor = tensor if output is None else alias(tensor)
        self.output = output
        self.version = tensor._storage.version

    def load(self, node: Node) -> Tensor:
        """The tensor, provided nobody has written to it since."""
        now = self.tensor._storage.version
        if now != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: {self.tensor._spec}, saved by {node.name()} at version "
                f"{self.version}, is now at version {now}. Clone it before writing, or write "
                "before it is used."
            )
        if self.output is None:
            return self.tensor
        tensor = alias(self.tensor)
        tensor._node, tensor._nr, tensor._requires_grad = node, self.output, True
        return tensor


class Node:
    """One recorded operation. Subclasses say how cotangents of results become operands'."""

    __slots__ = (
        "__weakref__",
        "edges",
        "hooks",
        "metadata",
        "out_specs",
        "prehooks",
        "released",
        "sequence",
        "trace",
    )

    def __init__(self, edges: tuple[Edge | None, ...], out_specs: tuple[Spec, ...]) -> None:
        self.edges = edges
        self.out_specs = out_specs
        self.sequence = next(_sequence)
        self.released = False
        self.hooks: dict[int, Callable[..., Any]] | None = None
        self.prehooks: dict[int, Any] | None = None  # by result: tensor hooks and retained grads
        self.trace: str | None = None  # anomaly mode: where the forward operation was called
        self.metadata: dict[Any, Any] | None = None

    def name(self) -> str:
        """The operation, as PyTorch spells it."""
        raise NotImplementedError

    def apply(self, grads: Sequence[Any], needed: Sequence[bool], level: Any) -> list[Any]:
        """Cotangents of the operands, None where not needed or structurally zero."""
        raise NotImplementedError

    def release(self) -> None:
        """Forget what was saved."""
        self.released = True

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes this one passes gradients to."""
        return tuple(
            (None, 0) if e is None else (AccumulateGrad(e[0]), 0) if is_tensor(e[0]) else e
            for e in self.edges
        )

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad_inputs, grad_outputs)` after this node runs in backward."""
        from adjoint.autodiff.hooks import Handle

        if self.hooks is None:
            self.hooks = {}
        return Handle(self.hooks, hook)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class AccumulateGrad:
    """Stands for a leaf in `next_functions`."""

    __slots__ = ("variable",)

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    next_functions: tuple[Any, ...] = ()

    def name(self) -> str:
        """The name PyTorch gives it."""
        return "torch::autograd::AccumulateGrad"

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


class RecordNode(Node):
    """A recorded primitive or composite: its vjp comes from the record."""

    __slots__ = ("params", "record", "saved", "specs")

    def __init__(
        self,
        record: Record,
        operands: tuple[Any, ...],
        params: dict[str, Any],
        outs: tuple[Tensor, ...],
        edges: tuple[Edge | None, ...],
    ) -> None:
        super().__init__(edges, tuple([o._spec for o in outs]))
        self.record = record
        self.params = params
        self.specs = [x._spec if is_tensor(x) else None for x in operands]
        self.saved: dict[str, Any] = {}
        for position, edge in enumerate(edges):
            if edge is not None:
                rule = record.rule_at(position)
                if isinstance(rule, Rule):
                    for name in rule.names:
                        if name not in self.saved:
                            self._save(name, operands, outs)

    def _save(self, name: str, operands: tuple[Any, ...], outs: tuple[Tensor, ...]) -> None:
        record = self.record
        if name == "out":
            self.saved[name] = Saved(outs[0], 0)
        elif name == "outs":
            self.saved[name] = [Saved(o, i) for i, o in enumerate(outs)]
        elif record.has_operand(name):
            value = record.operand(operands, name)
            if isinstance(value, tuple):
                self.saved[name] = [Saved(v, None) if is_tensor(v) else v for v in value]
            else:
                self.saved[name] = Saved(value, None) if is_tensor(value) else value

    def name(self) -> str:
        base = "".join(part.capitalize() for part in self.record.name.split("_"))
        return f"{base}Backward0"

    def apply(self, grads: Sequence[Any], needed: Sequence[bool], level: Any) -> list[Any]:
        if self.released and self.saved:
            raise RuntimeError(
                f"Trying to backward through the graph a second time ({self.name()}): its saved "
                "values have already been freed. Specify retain_graph=True the first time."
            )
        position = 0

        def load(value: Any) -> Any:
            if isinstance(value, list):
                return [load(v) for v in value]
            if not isinstance(value, Saved):
                return value
            tensor = value.load(self)
            if level is not None and tensor._storage.level is level:
                return payload(tensor)
            return tensor

        def look_up(name: str) -> Any:
            if name == "g":
                return grads[0]
            if name in self.saved:
                return load(self.saved[name])
            if name == "spec":
                return self.specs[position]
            if name == "position":
                return position
            return static_look_up(name, self.record, self.specs, self.out_specs, grads, self.params)

        results: list[Any] = []
        for position, need in enumerate(needed):
            results.append(pull(self.record, position, look_up) if need else None)
        return results

    def release(self) -> None:
        self.released = True
        for name in self.saved:
            self.saved[name] = None


def static_look_up(
    name: str, record: Record, specs: Any, out_specs: Any, grads: Any, params: dict[str, Any]
) -> Any:
    """What a rule may ask for beside saved tensors."""
    if name == "gs":
        return grads
    if name == "x_specs":
        return specs
    if name == "out_spec":
        return out_specs[0]
    if name == "out_specs":
        return out_specs
    if name.endswith("_spec") and record.has_operand(name[:-5]):
        return record.operand(specs, name[:-5])
    return params[name]


class ConstantNode(Node):
    """A tracked tensor overwritten by a constant: gradients end here."""

    __slots__ = ()

    def name(self) -> str:
        return "ConstantBackward0"

    def apply(self, grads: Sequence[Any], needed: Sequence[bool], level: Any) -> list[Any]:
        return []


def edge_of(x: Any) -> Edge | None:
    """Where the gradient of an operand goes."""
    if not is_tensor(x) or not x.requires_grad:
        return None
    return (x, 0) if x._node is None else (x._node, x._nr)


def attach(record: Record, operands: tuple[Any, ...], params: dict[str, Any], outs: Any) -> None:
    """Record an operation on the tape if any operand's gradient is wanted."""
    if not record.rules:
        return
    edges = tuple(
        [edge_of(x) if record.rule_at(i) is not None else None for i, x in enumerate(operands)]
    )
    if not any(edges):
        return
    results = outs if isinstance(outs, tuple) else (outs,)
    node = RecordNode(record, operands, params, results, edges)
    if CONTEXT.anomaly:
        from adjoint.autodiff.anomaly import call_site

        node.trace = call_site()
    attach_node(node, results)


def attach_node(node: Node, results: tuple[Tensor, ...]) -> None:
    """Make `results` the node's outputs."""
    for i, out in enumerate(results):
        if out.dtype.is_inexact:
            if CONTEXT.capture is not None:
                CONTEXT.capture.touch(out)
            out._node, out._nr, out._requires_grad = node, i, True


def attach_constant(target: Tensor) -> None:
    """A tracked tensor now holds a constant; it stays tracked, with nothing behind it."""
    target._node, target._nr = ConstantNode((), (target._spec,)), 0


def sequence_now() -> int:
    """A number larger than that of every node so far."""
    return next(_sequence)


def preserve(target: Tensor, result: Tensor, since: int) -> None:
    """Before `result` overwrites `target`: nodes made since then keep the old elements.

    `x.mul_(y)` needs x as it was for the gradient of y; only the operation itself may say so, an
    earlier node that saved x is stale for good.
    """
    stack = [result._node]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if not isinstance(node, RecordNode) or node.sequence <= since or id(node) in seen:
            continue
        seen.add(id(node))
        stack += [e[0] for e in node.edges if e is not None]
        for saved in node.saved.values():
            for item in saved if isinstance(saved, list) else (saved,):
                if isinstance(item, Saved) and item.tensor._storage is target._storage:
                    old = item.tensor
                    copy = old.clone()
                    copy._node, copy._nr, copy._requires_grad = (
                        old._node,
                        old._nr,
                        old._requires_grad,
                    )
                    item.tensor, item.version = copy, copy._storage.version
