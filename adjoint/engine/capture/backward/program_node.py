"""The tape's node for a call of a captured program (Note [program nodes])."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adjoint.engine.autodiff.tape.node import Edge, TapeNode, edge_of, placed
from adjoint.engine.autodiff.tape.saved import freed, stale
from adjoint.engine.capture.backward.derivative import Derivative, GradientTarget
from adjoint.engine.capture.backward.gradient_strides import (
    LAYOUTS,
    cotangent_strides,
    lay_out,
)
from adjoint.engine.capture.backward.lifting import GradientProgram, lift
from adjoint.engine.capture.backward.missing import PartialBackward, partial_backward
from adjoint.engine.capture.backward.separating import stages_of
from adjoint.engine.capture.program.layouts import laid_out
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.execution import Executable, Task, one_at_a_time
from adjoint.engine.graph.interpreter import evaluate
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.record.sources import Source
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.tensor.tensor import Tensor, alias, wrap


class ProgramNode(TapeNode):
    """One call of a program: its backward graph, the residuals, and how to do it all again."""

    __slots__ = ("derivative", "given", "inputs", "leaves", "parts", "residuals", "spoiled")
    versions: list[int]

    def __init__(
        self,
        derivative: Derivative,
        edges: Sequence[Edge | None],
        inputs: list[Any],
        leaves: Sequence[Any],
    ) -> None:
        super().__init__(edges, len(derivative.seeds))
        self.derivative = derivative
        self.inputs = inputs  # tensors and numbers
        self.leaves = leaves  # of the call's arguments
        self.versions = []
        self.saved = None
        self.residuals: list[tuple[Tensor, int]] = []
        self.parts: dict[int, ProgramNode] = {}  # Note [separating]
        self.given: set[int] = set()  # the seeds of the backward under way
        self.spoiled: set[int] = set(derivative.refused)  # Note [separate backwards]

    def name(self) -> str:
        return "CompiledBackward"

    def note_versions(self) -> None:
        """Before the program runs: what it writes itself is stale for a second run."""
        self.saved = self.inputs
        self.versions = [x._storage.version if isinstance(x, Tensor) else 0 for x in self.inputs]

    def save(self, results: list[Any], roots: dict[int, Tensor]) -> None:
        """Keep the results that backward needs; `roots` are those in memory others see too."""
        for kind, k in self.derivative.residuals:
            if kind == "output":
                residual = alias(roots[k]) if k in roots else wrap(results[k])
                self.residuals.append((residual, residual._storage.version))

    def route_through(self, tensor: Tensor) -> None:
        if CONTEXT.capture is not None or CONTEXT.levels or self.saved is None:
            return
        seed = tensor._nr
        if seed in self.derivative.inner and seed not in self.derivative.refused:
            self._take_apart()
        if seed in self.parts:
            tensor._node, tensor._nr = self.parts[seed], 0

    def lead(self, k: int, edge: Edge) -> None:
        """Take a gradient to a leaf that the call made."""
        self.edges = (*self.edges[:k], edge, *self.edges[k + 1 :])

    def _take_apart(self) -> None:
        """End at the results that others were made of, each of which gets a node of its own."""
        stages = stages_of(self.derivative)
        whole, edges = self.derivative, self.edges
        known = {_end(t): edge for t, edge in zip(whole.targets, edges, strict=True)}
        numbers = [k for kind, k in whole.residuals if kind == "output"]
        by_number = dict(zip(numbers, self.residuals, strict=True))
        for j, part in stages.items():
            if j is not None:
                self.parts[j] = ProgramNode(part, (), self.inputs, self.leaves)
        # After this node and before all older ones; results before those they were made of.
        late = sorted(self.parts, key=lambda j: -whole.tape.seeds[j][0][0].sequence)  # type: ignore[union-attr]
        for rank, j in enumerate(late):
            self.parts[j].sequence = self.sequence - (rank + 1) / (len(late) + 1)  # type: ignore[assignment]
        for j, part in stages.items():
            node = self if j is None else self.parts[j]
            node.derivative = part
            node.edges = tuple(
                known.get(_end(t)) if t.seed is None else (self.parts[t.seed], 0)
                for t in part.targets
            )
            node.saved, node.versions = self.saved, self.versions
            node.residuals = [by_number[k] for kind, k in part.residuals if kind == "output"]

    def release(self) -> None:
        self.spoiled.update(*[self.derivative.spoils[i] for i in self.given])
        if len(self.spoiled) == self.outputs:
            self.saved = None
            self.inputs = self.leaves = self.residuals = []

    def kept(self) -> Any:
        spoiled = frozenset(self.spoiled)
        return self.saved, self.inputs, self.leaves, self.residuals, self.given, spoiled

    def put(self, saved: Any) -> None:
        self.saved, self.inputs, self.leaves, self.residuals, self.given, spoiled = saved
        self.spoiled = set(spoiled)

    def apply(
        self, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
    ) -> Sequence[Any]:
        self.given = {i for i, g in enumerate(grads) if g is not None}
        if not self.given.isdisjoint(self.spoiled):
            raise freed(self.name())
        if CONTEXT.grad_enabled:
            return self._on_the_tape(grads)
        derivative = self.derivative
        part = self._part()
        operands = [self._cotangent(i, g) for i, g in enumerate(grads)]
        operands += self._residuals(derivative if part is None else part)
        if CONTEXT.capture is not None or CONTEXT.levels:
            gradients = evaluate((part or derivative).graph, operands)
            if part is not None:
                gradients = part.spread(gradients, len(self.edges))
        else:
            arrays = self._execute(operands, part)
            lay_out(derivative, arrays, grads, self.edges, needed)
            gradients = [None if array is None else wrap(array) for array in arrays]
        given = self.given
        return [
            g
            if (needed is None or needed[i]) and not given.isdisjoint(derivative.depends[i])
            else None
            for i, g in enumerate(gradients)
        ]

    def _residuals(self, derivative: Derivative | PartialBackward) -> list[Any]:
        """What a backward graph takes besides cotangents."""
        if derivative is self.derivative:  # in the order they were kept
            residuals = iter(self.residuals)
            return [
                self.load(k, None, None) if kind == "input" else self._result(*next(residuals))
                for kind, k in derivative.residuals
            ]
        numbers = [k for kind, k in self.derivative.residuals if kind == "output"]
        kept = dict(zip(numbers, self.residuals, strict=True))
        return [
            self.load(k, None, None) if kind == "input" else self._result(*kept[k])
            for kind, k in derivative.residuals
        ]

    def _result(self, tensor: Tensor, version: int) -> Tensor:
        """A result that was kept, provided nobody has written to it since."""
        if tensor._storage.version != version:
            raise stale(tensor, version, self.name())
        return tensor

    def _cotangent(self, i: int, grad: Any) -> Tensor:
        """A cotangent as the backward graph takes it: dense, of the result's dtype."""
        return self._as_given(i, grad).contiguous()

    def _as_given(self, i: int, grad: Any) -> Tensor:
        """A cotangent of the result's dtype, wherever it lies."""
        spec = self.derivative.graph.inputs[i].spec
        if grad is None:
            return zeros(spec.shape, dtype=spec.dtype, device=spec.device)
        given: Tensor = grad if grad.dtype is spec.dtype else grad.to(spec.dtype)
        return given

    def _execute(self, operands: list[Any], part: PartialBackward | None) -> list[Any]:
        derivative = self.derivative
        arrays = [x._array if isinstance(x, Tensor) else x for x in operands]
        if part is not None:
            if part.executable is None:
                part.executable = self._executable(part.graph, arrays, self._sizing_of_part())
            return part.spread(part.executable(arrays, []), len(self.edges))
        if derivative.executable is None:
            derivative.executable = self._executable(derivative.graph, arrays, derivative.sizing)
        return derivative.executable(arrays, [])

    def _part(self) -> PartialBackward | None:
        """The backward of some cotangents, where not all of them are given."""
        derivative, given = self.derivative, frozenset(self.given)
        if len(given) == self.outputs or derivative.route is None:
            return None
        if given not in derivative.partly:
            part = partial_backward(derivative, given)
            if derivative.resized is not None:
                part.graph = derivative.resized(part.graph)
            derivative.partly[given] = part
        found: PartialBackward = derivative.partly[given]
        return found

    def _sizing_of_part(self) -> Any:
        """How the backward of some cotangents has its sizes."""
        derivative, given = self.derivative, frozenset(self.given)
        sizing = derivative.sizing
        if sizing is None:
            return None
        graph = derivative.route.partly[given].graph  # type: ignore[union-attr]
        plans = sizing.shared_plans.setdefault(("given", given), {})
        return replace(sizing, graph=graph, shared_plans=plans)

    def _on_the_tape(self, grads: Sequence[Any]) -> Sequence[Any]:
        """The same with recording on, for further derivatives (Note [lifting])."""
        if CONTEXT.capture is not None or CONTEXT.levels:
            raise RuntimeError(
                "CompiledBackward: a second derivative of a compiled function that was called "
                "outside is asked for inside a compiled function or transform. Call the function "
                "inside, or uncompiled."
            )
        derivative = self.derivative
        if derivative.tape is None:
            raise RuntimeError(
                "CompiledBackward: a second derivative of a compiled function, one of whose "
                "results has a hook or is asked for its gradient, cannot be told. Call the "
                "function uncompiled."
            )
        layout, asked = cotangent_strides(derivative, grads), frozenset(self.given)
        if derivative.lifted is None or len(derivative.lifted) >= LAYOUTS:
            derivative.lifted = {}
        kind = layout, asked
        if kind not in derivative.lifted:
            sizes = len(self.inputs), len(self.leaves)
            derivative.lifted[kind] = lift(derivative, *sizes, layout, asked)
        lifted: GradientProgram = derivative.lifted[kind]
        cotangents = [self._cotangent(i, g) for i, g in enumerate(grads)]
        count = len(self.inputs)
        operands = [
            self.load(k, None, None) if k < count else cotangents[k - count]
            for k in lifted.operands
        ]
        with CONTEXT.having(grad_enabled=False):
            results = self._run(lifted, operands)
        for number, strides in lifted.strides.items():
            if strides is not None:
                results[number] = laid_out(results[number], strides)
        node = None
        tensors: dict[int, Tensor] = {
            k: wrap(results[k]) for k, _ in lifted.results if k is not None
        }
        if lifted.derivative is not None:
            node = self._lifted_node(lifted.derivative, cotangents)
            node.save(results, tensors)
        outs: list[Any] = []
        for handed, (k, seed) in zip(lifted.passed, lifted.results, strict=True):
            out = None if k is None else tensors[k]
            if handed is not None:
                out = self._as_given(handed, grads[handed])
            if seed is not None and node is not None and node.leads_somewhere(seed):
                out = placed(out, (node, seed))  # type: ignore[arg-type]
            outs.append(out)
        return outs

    def leads_somewhere(self, seed: int) -> bool:
        """Whether a gradient of this result goes to anybody."""
        ends = zip(self.derivative.depends, self.edges, strict=True)
        return any(edge is not None and seed in seeds for seeds, edge in ends)

    def _lifted_node(self, derivative: Derivative, cotangents: list[Tensor]) -> ProgramNode:
        """The node of gradients that are on the tape."""
        leaves = [*self.leaves, *cotangents]
        ends = {id(t): e for t, e in zip(self.derivative.targets, self.edges, strict=True)}
        known = {_end(t): ends[id(t)] for t in self.derivative.targets}
        edges = [
            known[_end(t)]
            if _end(t) in known
            else t.edge
            if t.ref is None
            else edge_of(t.ref.of(leaves))
            for t in derivative.targets
        ]
        node = ProgramNode(derivative, edges, [*self.inputs, *cotangents], leaves)
        node.note_versions()
        node.versions[: len(self.versions)] = self.versions
        return node

    def _run(self, lifted: GradientProgram, operands: list[Any]) -> list[Any]:
        arrays = [x._array if isinstance(x, Tensor) else x for x in operands]
        if lifted.executable is None:
            lifted.executable = self._executable(lifted.graph, arrays, None)
        return lifted.executable(arrays, [])

    def _executable(self, graph: DataflowGraph, arrays: list[Any], sizing: Any) -> Executable:
        task = Task(
            graph=graph,
            sources=tuple(Given(i) for i in range(len(graph.inputs))),
            writes=(),
            returned=frozenset(range(len(graph.outputs))),
            examples=tuple(arrays),
            targets=(),
            sizing=sizing,
        )
        return one_at_a_time(self.derivative.factory(task))  # type: ignore[misc]


def _end(target: GradientTarget) -> Any:
    """Where a gradient goes, for comparison."""
    if target.result is not None:
        return "result", target.result
    if target.ref is None:
        return target.edge
    return target.ref.position, id(target.ref.tensor)


class Given(Source):
    """An input passed along with each call."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position

    def storage(self, args: Sequence[Any]) -> Any:
        return args[self.position]._storage
