"""A call recorded for export: its graph, where inputs come from, what it writes and returns."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.capture.capture import Captured
from adjoint.engine.capture.dynamic.marks import mark_dynamic
from adjoint.engine.capture.program.program import Program
from adjoint.engine.capture.program.recipes import Made
from adjoint.engine.capture.python.errors import Raised
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.record.sources import CallArgument, GradOf, Host, State
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor
from adjoint.export.errors import ExportError
from adjoint.export.forms.writing import with_forms
from adjoint.export.settled import with_settled
from adjoint.export.unchanged import leaves_all, result_leaves
from adjoint.nn.modules.module import Module
from adjoint.nn.utils.prune import BasePruningMethod
from adjoint.nn.utils.spectral_norm import SpectralNorm
from adjoint.nn.utils.weight_norm import WeightNorm

Shape = tuple[int, ...]
# Hooks that set a weight before each call, from parameters under other names.
COMPUTING = (WeightNorm, SpectralNorm, BasePruningMethod)


@dataclass(frozen=True, slots=True)
class CallForExport:
    """One call as a task, and what its operands are to whoever calls it from C."""

    task: Task
    arguments: dict[int, int]  # graph input -> leaf of the call
    states: dict[int, Storage]  # graph input -> what it reached by itself
    hosts: dict[int, HostScalar]  # graph input -> the number
    targets: dict[int, Storage]  # write -> state that it does not read
    results: list[tuple[Shape, DType]]
    written_arguments: frozenset[int]  # leaves
    written_states: frozenset[int]  # identities of storages
    draws: tuple[tuple[Any, int], ...]  # generators, and how many numbers a call takes
    counters: dict[int, Storage]  # id of a counter tensor -> its storage
    guards: tuple[tuple[HostScalar, Any], ...]
    numbers: dict[int, int]  # id of a float argument's scalar -> leaf


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """The example of a call, taken apart."""

    fn: Callable[..., Any]
    leaves: list[Any]
    structure: Any
    names: list[str]  # of all leaves

    @property
    def tensors(self) -> list[int]:
        """Which leaves are tensors."""
        return [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]

    def resized(
        self, shapes: Mapping[int, Shape], dims: Mapping[int, Sequence[int]]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with tensors of other shapes in some places, whose `dims` may change."""
        leaves = list(self.leaves)
        for k, shape in shapes.items():
            tensor: Tensor = HOOKS.array.wrap(np.zeros(shape, NUMPY_OF[leaves[k].dtype]))
            if leaves[k].requires_grad:
                tensor.requires_grad_()
            if dims.get(k):
                mark_dynamic(tensor, dims[k])
            leaves[k] = tensor
        args, kwargs = unflatten(self.structure, leaves)
        return args, kwargs


def call_of(
    fn: Any, args: Any, kwargs: Mapping[str, Any] | None, names: Sequence[str] | None
) -> ExampleCall:
    """Take a call apart and name its arguments."""
    if not callable(fn):
        raise TypeError(f"export.aot: expected a function or module, received {type(fn).__name__}.")
    given = (args,) if isinstance(args, Tensor) else tuple(args)
    leaves, structure = flatten((given, dict(kwargs or {})))
    bad = [type(x).__name__ for x in leaves if isinstance(x, np.ndarray)]
    if bad:
        raise TypeError("export.aot: arguments are tensors; received a NumPy array. Wrap it.")
    return ExampleCall(fn, leaves, structure, _names(fn, given, dict(kwargs or {}), leaves, names))


def _names(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any], given: Any
) -> list[str]:
    """A name for each leaf: given, or the parameter's."""
    try:
        bound = inspect.signature(getattr(fn, "forward", fn)).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = dict(enumerate(args)) | kwargs  # type: ignore[assignment]
    names: list[str] = []
    for name, value in bound.items():
        parts = flatten(value)[0]
        stem = f"input_{name}" if isinstance(name, int) else str(name)
        names += [stem] if len(parts) == 1 else [f"{stem}_{k}" for k in range(len(parts))]
    if len(names) != len(leaves):
        names = [f"input_{k}" for k in range(len(leaves))]
    tensors = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    for k, name in zip(tensors, given or (), strict=False):
        names[k] = name
    return names


@contextlib.contextmanager
def evaluating(fn: Any, *, training: bool) -> Iterator[None]:
    """A module in the mode that it is exported in, off the tape; functions as they are."""
    if not isinstance(fn, Module):
        yield
        return
    modes = {m: m.training for m in fn.modules()}
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(CONTEXT.having(grad_enabled=False))
            if not training:
                fn.eval()
                for module in fn.modules():
                    stack.enter_context(_weights_computed(module))
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextlib.contextmanager
def _weights_computed(module: Module) -> Iterator[None]:
    """What hooks make of other parameters at each call, made once: an evaluation changes neither.

    Hooks and attributes are afterwards what they were.
    """
    hooks = list(module._forward_pre_hooks.items())
    computing = [(key, hook) for key, hook in hooks if isinstance(hook, COMPUTING)]
    before = dict(module.__dict__)
    try:
        for key, hook in computing:
            hook(module, ())
            del module._forward_pre_hooks[key]
        yield
    finally:
        if computing:
            module._forward_pre_hooks.clear()
            module._forward_pre_hooks.update(hooks)
            for name, value in before.items():
                if module.__dict__.get(name) is not value:
                    module.__dict__[name] = value


class SizesRecorder:
    """Records a function at one size after another."""

    def __init__(self, call: ExampleCall) -> None:
        self.call = call
        self.tasks: list[Task] = []
        self.programs: list[Program] = []
        fn: Any = call.fn
        if isinstance(fn, Captured):
            fn = fn.fn
        if hasattr(type(fn), "_orig_mod"):
            fn = fn._orig_mod
        # Results of their own, in row-major order, whatever they share and however they lie.
        self.captured = Captured(lambda *args, **kwargs: _fresh(fn(*args, **kwargs)), self._take)

    def _take(self, task: Task) -> Executable:
        self.tasks.append(task)
        return _never

    def _recorded(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
        try:
            return self.captured.recorded(args, kwargs)
        except Raised as raised:  # what the function itself raises is what the caller is to see
            raise raised.error from None

    def at(self, shapes: Mapping[int, Shape], dims: Mapping[int, Sequence[int]]) -> CallForExport:
        """The recording for tensors of these shapes, by leaf, of which some `dims` may change."""
        args, kwargs = self.call.resized(shapes, dims)
        program = self._recorded(args, kwargs)
        self.programs.append(program)
        task = self.tasks[-1]
        if program.made_state:  # it made state: the next call, which finds it, is alike?
            later = self._recorded(args, kwargs)
            self.programs.append(later)
            if later.text() != program.text():
                raise ExportError(
                    "export.aot: the function's first call, which makes state (an optimizer's), is "
                    "unlike those after it. Call it once before it is exported."
                )
        return recording_of(program, task)

    def end(self) -> None:
        """Take back the state that recordings made."""
        for program in reversed(self.programs):
            program.take_back()
        self.programs.clear()


def _never(inputs: list[Any], targets: list[Any]) -> list[Any]:
    raise AssertionError("a program recorded for export was run")


def _fresh(result: Any) -> Any:
    """Copies of the tensors of a result, as a list."""
    leaves = flatten(result)[0]
    return [leaf.detach().clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]


def recording_of(program: Program, task: Task) -> CallForExport:
    """What a program is to whoever calls it from C; refuses what only Python can do."""
    _refuse_python(program)
    task = with_settled(with_forms(task))
    writes, conditions = program.effects.writes, program.conditions
    leaves = result_leaves(program)
    recipes = [program.results.recipes[k] for k in leaves or ()]
    if (
        leaves is None
        or not all(isinstance(r, Made) and not r.chain for r in recipes)
        or not (recipes or writes)
    ):
        raise ExportError(
            "export.aot: the function returns something other than tensors that it computes. "
            "Return tensors."
        )
    outputs = [program.results.roots[r.root].output for r in recipes if isinstance(r, Made)]
    needed = [*outputs, *[k for _, k in writes]]
    examples = [_example(v) for v in task.graph.inputs]
    places = {id(x): k for k, x in enumerate(task.examples)}
    targets, unread = [], {}
    for n, ((source, k), target) in enumerate(zip(task.writes, task.targets, strict=True)):
        place = places.get(id(target))
        targets.append(_example(task.graph.outputs[k]) if place is None else examples[place])
        if place is None:
            if not isinstance(source, State):
                raise ExportError("export.aot: the function writes a part of an argument.")
            unread[n] = source.own_storage
    sizing = task.sizing
    pruned = Task(
        graph=_outputs_only(task.graph, needed),
        sources=task.sources,
        writes=tuple([(source, len(outputs) + n) for n, (source, _) in enumerate(task.writes)]),
        returned=frozenset(range(len(outputs))),
        examples=tuple(examples),
        targets=tuple(targets),
        sizing=None
        if sizing is None
        else replace(sizing, graph=_outputs_only(sizing.graph, needed)),
    )
    sources = dict(enumerate(task.sources))
    return CallForExport(
        task=pruned,
        arguments={i: s.position for i, s in sources.items() if isinstance(s, CallArgument)},
        states={i: s.own_storage for i, s in sources.items() if isinstance(s, State)},
        hosts={i: s.scalar for i, s in sources.items() if isinstance(s, Host)},
        targets=unread,
        results=[
            (tuple(map(int, v.spec.shape)), v.spec.dtype)
            for v in pruned.graph.outputs[: len(outputs)]
        ],
        written_arguments=frozenset(s.position for s, _ in writes if isinstance(s, CallArgument)),
        written_states=frozenset(id(s.own_storage) for s, _ in writes if isinstance(s, State)),
        draws=program.effects.moves.counts,
        counters={id(t): t._storage for group in conditions.counters for t in group},
        guards=tuple(conditions.host_tests),
        numbers={id(slot.scalar): slot.place for slot in conditions.numbers},
    )


def _refuse_python(program: Program) -> None:
    """Refuse what a program would do again in Python at each call."""
    effects = program.effects
    if effects.python is not None and not leaves_all(effects.python):
        raise ExportError(
            "export.aot: the function changes Python's own state (an attribute, a list, a state "
            "that an optimizer makes on its first step), which C has not. Call it once before it "
            "is exported, so that its state is there, or pass what changes and return it."
        )
    if effects.moves.starts or effects.moves.everywhere is not None:
        raise ExportError(
            "export.aot: the function seeds a generator, which C would do once. Seed it before "
            "the program is exported, or set the program's state."
        )
    if any(isinstance(s, GradOf) for s in program.sources):
        raise ExportError(
            "export.aot: the function adds to gradients that were there before it. Call "
            "zero_grad() in it."
        )
    if effects.grads and not effects.writes:
        raise ExportError(
            "export.aot: the function leaves its results in .grad, which C has not. Return the "
            "gradients, or step an optimizer."
        )
    if any(isinstance(s, CallArgument) and s.whole for s in program.sources):
        raise ExportError("export.aot: arguments share memory. Give each its own: x.clone().")


def _outputs_only(graph: DataflowGraph, positions: Sequence[int]) -> DataflowGraph:
    """The graph with some of its outputs."""
    smaller = graph.copy()
    smaller.outputs = [graph.outputs[k] for k in positions]
    return smaller


def _example(value: Any) -> Any:
    """An array that lies as an operand does: in row-major order; a number for one of the host's."""
    return 0 if value.host else np.empty(tuple(value.spec.shape), NUMPY_OF[value.spec.dtype])
