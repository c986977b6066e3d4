"""The tape's node for a call of a captured program (Note [program nodes])."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.autodiff.node import Edge, TapeNode, placed
from adjoint.autodiff.reverse import grad as gradients
from adjoint.autodiff.saved import freed, stale
from adjoint.core.context import CONTEXT
from adjoint.graph.derivative import Derivative, Target
from adjoint.graph.execution import Task, one_at_a_time
from adjoint.graph.interpreter import evaluate
from adjoint.graph.ir import Graph
from adjoint.graph.sources import Source
from adjoint.ops.creation import zeros
from adjoint.ops.views import scatter
from adjoint.tensor.tensor import Tensor, alias, wrap


class ProgramNode(TapeNode):
    """One call of a program: its backward graph, the residuals, and how to do it all again."""

    __slots__ = ("derivative", "forward", "given", "inputs", "residuals", "sources", "spoiled")

    def __init__(
        self,
        derivative: Derivative,
        forward: Graph,
        sources: list[Source],
        edges: Sequence[Edge | None],
        inputs: list[Any],
    ) -> None:
        super().__init__(edges, len(derivative.seeds))
        self.derivative = derivative
        self.forward = forward
        self.sources = sources
        self.inputs = inputs  # tensors and numbers
        self.versions = []
        self.saved = None
        self.residuals: list[tuple[Tensor, int]] = []
        self.given: set[int] = set()  # the seeds of the backward under way
        self.spoiled: set[int] = set(derivative.refused)  # Note [separate backwards]

    def name(self) -> str:
        return "CompiledBackward"

    def note_versions(self) -> None:
        """Before the program runs: what it writes itself is stale for a second run."""
        self.saved = self.inputs
        self.versions = [x._storage.version if isinstance(x, Tensor) else 0 for x in self.inputs]

    def save(self, results: list[Any], roots: dict[int, Tensor]) -> None:
        """Keep the results that backward needs; `roots` are those that were handed out."""
        for kind, k in self.derivative.residuals:
            if kind == "output":
                kept = alias(roots[k]) if k in roots else wrap(results[k])
                self.residuals.append((kept, kept._storage.version))

    def release(self) -> None:
        self.spoiled.update(*[self.derivative.spoils[i] for i in self.given])
        if len(self.spoiled) == self.outputs:
            self.saved = None
            self.inputs = self.residuals = []

    def apply(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        self.given = {i for i, g in enumerate(grads) if g is not None}
        if not self.given.isdisjoint(self.spoiled):
            raise freed(self.name())
        if CONTEXT.grad_enabled:
            return self._on_the_tape(grads)
        derivative = self.derivative
        kept = iter(self.residuals)
        operands = [self._cotangent(i, g) for i, g in enumerate(grads)]
        operands += [
            self.load(k, None, None) if kind == "input" else self._result(*next(kept))
            for kind, k in derivative.residuals
        ]
        if CONTEXT.capture is not None or CONTEXT.levels:
            found = evaluate(derivative.graph, operands)
        else:
            found = [wrap(array) for array in self._execute(operands)]
        given = self.given
        return [
            g
            if (needed is None or needed[i]) and not given.isdisjoint(derivative.depends[i])
            else None
            for i, g in enumerate(found)
        ]

    def _result(self, tensor: Tensor, version: int) -> Tensor:
        """A result that was kept, provided nobody has written to it since."""
        if tensor._storage.version != version:
            raise stale(tensor, version, self.name())
        return tensor

    def _cotangent(self, i: int, grad: Any) -> Tensor:
        """A cotangent as the backward graph takes it: dense, of the result's dtype."""
        spec = self.derivative.graph.inputs[i].spec
        if grad is None:
            return zeros(spec.shape, dtype=spec.dtype, device=spec.device)
        return (grad if grad.dtype is spec.dtype else grad.to(spec.dtype)).contiguous()

    def _execute(self, operands: list[Any]) -> list[Any]:
        derivative = self.derivative
        arrays = [x._array if isinstance(x, Tensor) else x for x in operands]
        if derivative.executable is None:
            graph = derivative.graph
            task = Task(
                graph=graph,
                sources=tuple(Given(i) for i in range(len(graph.inputs))),
                writes=(),
                returned=frozenset(range(len(graph.outputs))),
                examples=tuple(arrays),
                targets=(),
                sizing=derivative.sizing,
            )
            derivative.executable = one_at_a_time(derivative.factory(task))  # type: ignore[misc]
        return derivative.executable(arrays, [])

    def _on_the_tape(self, grads: Sequence[Any]) -> Sequence[Any]:
        """The same with recording on, for further derivatives: the forward graph is run again."""
        if any(t.source is None for t in self.derivative.targets):
            raise RuntimeError(
                "CompiledBackward: a second derivative of a compiled function needs every tensor "
                "it differentiates to be an argument, or reachable from the function by name. Pass "
                "the tensor as an argument, or call the function uncompiled."
            )
        operands = [self.load(k, None, None) for k in range(len(self.inputs))]
        chosen: list[Tensor] = []
        for target, edge in zip(self.derivative.targets, self.edges, strict=True):
            i = self.sources.index(target.source)  # type: ignore[arg-type]
            chosen.append(self._onto(operands, i, target, edge))
        outs = evaluate(self.forward, operands)
        pairs = [
            (outs[k], g)
            for k, g in zip(self.derivative.seeds, grads, strict=True)
            if g is not None and outs[k].requires_grad
        ]
        if not pairs:
            return [None] * len(chosen)
        return gradients(
            [out for out, _ in pairs],
            chosen,
            [g for _, g in pairs],
            create_graph=True,
            allow_unused=True,
        )

    @staticmethod
    def _onto(operands: list[Any], i: int, target: Target, edge: Any) -> Tensor:
        """Put a tensor that wants a gradient where the forward graph finds it."""
        held = operands[i]
        shown = held
        with CONTEXT.having(grad_enabled=False):
            for record, params in target.chain:
                shown = record(shown, **params)
        tensor = placed(alias(shown), edge)
        operands[i] = scatter(held, tensor, *target.chain) if target.chain else tensor
        return tensor


class Given(Source):
    """An input passed along with each call."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position

    def storage(self, args: Sequence[Any]) -> Any:
        return args[self.position]._storage
