"""export: a module as a graph of operations, PyTorch's `torch.export.export`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from adjoint.engine.capture.capture import Captured
from adjoint.engine.capture.dynamic.dynamic import Family, OnlyOnce
from adjoint.engine.capture.dynamic.instances import difference, instance
from adjoint.engine.capture.dynamic.marks import mark_dynamic
from adjoint.engine.capture.program.program import Program
from adjoint.engine.capture.python.errors import Raised
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.graph.record.sources import CallArgument, Source, State
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor
from adjoint.export.errors import ExportError
from adjoint.export.graphs.arguments import forward_of
from adjoint.export.graphs.dynamic_shapes import CallSize, ValueRanges, dynamic_sizes
from adjoint.export.graphs.exported_program import ExportedProgram, Sizes
from adjoint.export.graphs.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from adjoint.export.graphs.shapes_collection import AdditionalInputs, ShapesCollection
from adjoint.fx.captured import (
    CannotWrite,
    GraphWriter,
    from_memory,
    memory_of,
    meta_tensor,
)
from adjoint.fx.graph import Graph
from adjoint.fx.node import Node
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter
from adjoint.ops import aten


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """Record a module's `forward` for such arguments, as a graph of operations.

    Args:
        mod: the module. It is recorded in the mode it is in, and not changed.
        args: example arguments; what is no tensor is fixed.
        kwargs: example arguments by name.
        dynamic_shapes: which sizes may change, argument by argument: `{"x": {0: Dim("batch")}}`;
            or a `ShapesCollection`, or `AdditionalInputs`.

    Example:
        >>> import adjoint as ad
        >>> net = ad.nn.Linear(3, 2).eval()
        >>> batch = ad.export.Dim("batch", max=64)
        >>> program = ad.export.export(net, (ad.zeros(4, 3),), dynamic_shapes=({0: batch},))
        >>> x = ad.randn(7, 3)
        >>> bool(ad.allclose(program.module()(x), net(x)))
        True
    """
    if not isinstance(mod, Module):
        raise TypeError(f"export: expected a module, received {type(mod).__name__}.")
    if not isinstance(args, tuple):
        raise ExportError(
            f"export: args is a tuple of example arguments, received {type(args).__name__}."
        )
    if preserve_module_call_signature:
        raise NotImplementedError("export: preserve_module_call_signature is not taken.")
    recorder = ForwardRecorder(mod, args, dict(kwargs or {}))
    names = _names(mod, args)
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    sizes = dynamic_sizes(dynamic_shapes, args, dict(kwargs or {}), names)
    try:
        return _Exporter(mod, recorder, *recorder.record(sizes)).program()
    except CannotWrite as error:
        raise ExportError(f"export: {type(mod).__name__} cannot be exported: {error}.") from None


def draft_export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    preserve_module_call_signature: tuple[str, ...] = (),
    strict: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """`export`: PyTorch's draft makes up for shapes it cannot tell, which recordings never lack.

    Sizes that the program turns out to fix are fixed, as a draft's are, with a warning that names
    the reason.
    """
    try:
        return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes)
    except (ExportError, ValueError) as error:
        if dynamic_shapes is None:
            raise
        warnings.warn(f"draft_export: all sizes are fixed, because {error}", stacklevel=2)
    return export(mod, args, kwargs)


def _names(mod: Module, args: tuple[Any, ...]) -> list[str]:
    """The names of positional arguments."""
    known = list(inspect.signature(mod.forward).parameters.values())
    names = [p.name for p in known if p.kind is not p.VAR_POSITIONAL][: len(args)]
    return names + [f"arg{k}" for k in range(len(names), len(args))]


def _never_run(task: Task) -> Executable:
    def run(inputs: list[Any], targets: list[Any]) -> list[Any]:
        raise AssertionError("a program recorded for export was run")

    return run


class ForwardRecorder:
    """Records a module's forward for tensors of some sizes."""

    def __init__(self, mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs
        self.leaves, self.structure = flatten((args, kwargs))
        self.places = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        forward = forward_of(mod, self.leaves, self.places, self.structure)
        self.captured = Captured(forward, _never_run)

    def record(self, wanted: list[CallSize]) -> tuple[Program, Sizes | None]:
        """The recording, with extents where sizes may change."""
        with CONTEXT.having(grad_enabled=False):
            if not wanted:
                return self._at([tuple(self.leaves[k].shape) for k in self.places]), None
            return self._dynamic(wanted)

    def _at(self, shapes: list[tuple[int, ...]]) -> Program:
        structure = flatten((tuple(self.places), {}))[1]
        try:
            program = self.captured.trace_specs([*self._specs(shapes)], structure)
        except OnlyOnce:
            raise CannotWrite(
                "what it does changes what it reads (an attribute that it counts up, state that "
                "its first call makes): a recording would hold for one call only"
            ) from None
        program.take_back()
        return program

    def _specs(self, shapes: list[tuple[int, ...]]) -> Iterator[tuple[Spec, bool]]:
        for k, shape in zip(self.places, shapes, strict=True):
            leaf = self.leaves[k]
            yield Spec(shape, leaf.dtype, leaf.device), leaf.requires_grad

    def _dynamic(self, wanted: list[CallSize]) -> tuple[Program, Sizes | None]:
        """A recording for all sizes; of those that only hints ask for, as many as may change."""
        recording = self._family(wanted)
        if recording is None:
            required = [size for size in wanted if not size.optional]
            if required and self._family(required) is None:
                raise ExportError(self._refusal(required))
            for size in wanted:
                if size.optional and self._family([*required, size]) is not None:
                    required.append(size)
            if not required:
                return self.record([])
            wanted, recording = required, self._family(required)
        if recording is None:
            raise ExportError(self._refusal(wanted))
        family, taken = recording
        named = {}
        for size in wanted:
            leaf, d = size.places[0]
            named[family.dims[self.places.index(leaf), d]] = (size, taken[size.name])
        return family.template, self._ranges(family, named)

    def _family(self, wanted: list[CallSize]) -> tuple[Family, dict[str, int]] | None:
        """The recording in which all these sizes may change; None where one may not."""
        tensors, taken = self._stand_ins(wanted)
        families = self.captured.families
        families.families.clear()
        try:
            with warnings.catch_warnings(action="ignore"):  # a refusal is told as an error
                self.captured.recorded(tuple(tensors), {})
        except Raised:
            # At a size that was equal to another one by need, such as a layer's features. Hints
            # give way; at the examples' own sizes it is recorded, or raises, once more.
            if any(size.optional for size in wanted):
                return None
            raise
        places = {(self.places.index(leaf), d) for size in wanted for leaf, d in size.places}
        for family in families.families:
            if places <= family.dims.keys():
                return family, taken
        return None

    def _refusal(self, wanted: list[CallSize]) -> str:
        reasons = "; ".join(self.captured.families.refused.values()) or "it is fixed in the program"
        names = ", ".join(size.name for size in wanted)
        return (
            f"export: Constraints violated ({names}): the size may not change: {reasons}. Remove "
            "it from dynamic_shapes, or change what fixes it."
        )

    def _stand_ins(self, wanted: list[CallSize]) -> tuple[list[Tensor], dict[str, int]]:
        """Tensors to record with: as the examples, but sizes of different names differ."""
        shapes = {k: list(self.leaves[k].shape) for k in self.places}
        taken: dict[str, int] = {}
        for size in wanted:
            given = {self.leaves[leaf].shape[d] for leaf, d in size.places}
            if len(given) > 1:
                raise ExportError(
                    f"export: Constraints violated ({size.name}): sizes {sorted(given)} of one "
                    "name."
                )
            n = max(2, given.pop())
            while n in taken.values():
                n += 1
            taken[size.name] = n
            for leaf, d in size.places:
                shapes[leaf][d] = n
        stand_ins = []
        for k in self.places:
            like = self.leaves[k]
            stand_in = aten.empty(shapes[k], dtype=like.dtype, device=like.device)
            marked = [d for size in wanted for leaf, d in size.places if leaf == k]
            if marked:
                mark_dynamic(stand_in, marked)
            stand_ins.append(stand_in)
        return stand_ins, taken

    def _ranges(self, family: Family, named: dict[str, tuple[CallSize, int]]) -> Sizes:
        """The sizes that a recording holds for; 1 where it says what a recording at 1 does."""
        present = {symbol: n for symbol, (_, n) in named.items()}
        ranges: dict[str, ValueRanges] = {}
        for symbol, (size, _) in named.items():
            low = (
                size.low
                if size.low >= 2
                else 1
                if self._holds_at_one(family, symbol, present)
                else 2
            )
            ranges[symbol] = ValueRanges(max(low, 1), size.high)
        names = {symbol: size.name for symbol, (size, _) in named.items()}
        dims = {(self.places[i], d): symbol for (i, d), symbol in family.dims.items()}
        return Sizes(dims, names, ranges, family.scope)

    def _holds_at_one(self, family: Family, symbol: str, present: dict[str, int]) -> bool:
        sizes = {**present, symbol: 1}
        if not family.scope.allow(sizes):
            return False
        shapes = []
        for i, k in enumerate(self.places):
            given = enumerate(self.leaves[k].shape)
            shapes.append(
                tuple(sizes[family.dims[i, d]] if (i, d) in family.dims else n for d, n in given)
            )
        try:
            alone = self._at(shapes)
            same = instance(family.template, family.scope.complete(sizes), set())
        except Exception:  # it does not take one, or only one call in a certain way
            return False
        return difference(same, alone) is None


class _Exporter:
    """Writes a recording as a graph whose state is among its inputs."""

    def __init__(
        self, mod: Module, recorder: ForwardRecorder, recorded: Program, sizes: Sizes | None
    ) -> None:
        self.mod = mod
        self.recorder = recorder
        self.recorded = recorded
        self.sizes = sizes
        self.state: dict[str, Tensor] = {}
        self.constants: dict[str, Tensor] = {}
        self.owners = {
            id(p._storage): (n, p) for n, p in [*mod.named_buffers(), *mod.named_parameters()]
        }
        self.lifted: dict[int, tuple[Node, str, Tensor]] = {}  # by identity of storage
        self.inputs: list[InputSpec] = []
        self.graph = Graph()

    def program(self) -> ExportedProgram:
        """The exported program."""
        for source in self.recorded.sources:
            if isinstance(source, State):
                self._lift(source.own_storage)
        leaves, places = self.recorder.leaves, self.recorder.places
        arguments: dict[int, Node] = {}
        for k, name in enumerate(self._leaf_names()):
            node = self.graph.placeholder(name)
            if k in places:
                arguments[places.index(k)] = node
                node.meta["val"] = meta_tensor(leaves[k]._spec)
                arg: Any = TensorArgument(node.name)
            else:
                arg = ConstantArgument(node.name, leaves[k])
            self.inputs.append(InputSpec(InputKind.USER_INPUT, arg, None))
        dims = (
            {(places.index(k), d): s for (k, d), s in self.sizes.dims.items()} if self.sizes else {}
        )
        scope = self.sizes.scope if self.sizes else None
        writer = GraphWriter(self.graph, arguments, self._memory, dims, scope)
        written = writer.write(self.recorded)
        values: list[Any] = [self._written(source, node) for source, node in written.writes]
        outputs = [
            self._write(source, node, arguments)
            for (source, _), node in zip(written.writes, values, strict=True)
        ]
        for value in written.results:
            shown: Any = (
                TensorArgument(value.name)
                if isinstance(value, Node)
                else ConstantArgument("", value)
            )
            outputs.append(OutputSpec(OutputKind.USER_OUTPUT, shown, None))
            values.append(value)
        self.graph.output(tuple(values))
        self._stacks()
        self.graph.eliminate_dead_code()
        return ExportedProgram(
            graph=self.graph,
            signature=ExportGraphSignature(self.inputs, outputs),
            state_dict={**self.mod.state_dict(keep_vars=True), **self.state},
            constants=self.constants,
            in_spec=self.recorder.structure,
            out_spec=self.recorded.results.structure,
            sizes=self.sizes,
            example_inputs=(self.recorder.args, self.recorder.kwargs),
        )

    def _leaf_names(self) -> list[str]:
        """A name for each leaf of the call."""
        args, kwargs = self.recorder.args, self.recorder.kwargs
        names: list[str] = []
        pairs = [*zip(_names(self.mod, args), args, strict=True), *kwargs.items()]
        for name, value in pairs:
            count = len(flatten(value)[0])
            names += [name] if count == 1 else [f"{name}_{k}" for k in range(count)]
        return names

    def _memory(self, storage: Storage) -> Node:
        """What a recording reads of a tensor that the module reached by itself."""
        return memory_of(self.graph, *self.lifted[id(storage)])

    def _written(self, source: Source, node: Node) -> Node:
        """What a recording wrote into memory, as the tensor that has it sees it."""
        if isinstance(source, State) and id(source.own_storage) in self.owners:
            return from_memory(self.graph, node, *self.owners[id(source.own_storage)])
        return node

    def _lift(self, storage: Storage) -> None:
        """Make an input of a tensor that the module reached by itself."""
        name, tensor = self.owners.get(id(storage), ("", None))
        if tensor is None:
            name = f"lifted_tensor_{len(self.constants)}"
            tensor = HOOKS.array.wrap(storage.buffer)
            tensor._storage = storage
            self.constants[name] = tensor
            kind, stem, persistent = InputKind.CONSTANT_TENSOR, "c", None
        elif isinstance(tensor, Parameter):
            kind, stem, persistent = InputKind.PARAMETER, "p", None
            self.state[name] = tensor
        else:
            kind, stem = InputKind.BUFFER, "b"
            owner = self.mod.get_submodule(name.rpartition(".")[0])
            persistent = name.rpartition(".")[2] not in owner._non_persistent_buffers_set
            (self.state if persistent else self.constants)[name] = tensor
        node = self.graph.placeholder(f"{stem}_{name.replace('.', '_')}")
        node.meta["val"] = meta_tensor(tensor._spec)
        self.inputs.append(InputSpec(kind, TensorArgument(node.name), name, persistent))
        self.lifted[id(storage)] = node, name, tensor

    def _write(self, source: Source, node: Node, arguments: dict[int, Node]) -> OutputSpec:
        """What a value is written into when all is done."""
        shown = TensorArgument(node.name)
        if isinstance(source, CallArgument):
            return OutputSpec(
                OutputKind.USER_INPUT_MUTATION, shown, arguments[source.position].name
            )
        name = (
            self.owners.get(id(source.own_storage), ("", None))[0]
            if isinstance(source, State)
            else ""
        )
        if not name:
            raise CannotWrite("it writes into a tensor that is no buffer; register it as one")
        if not any(spec.target == name for spec in self.inputs):
            self._unread(name)
        return OutputSpec(OutputKind.BUFFER_MUTATION, shown, name)

    def _unread(self, name: str) -> None:
        """A buffer that is written and not read is no input of the graph, but of its state."""
        self.state[name] = dict(self.mod.named_buffers())[name]

    def _stacks(self) -> None:
        """Say of each node which modules it is of, outermost first."""
        for node in self.graph.nodes:
            path = node.meta.pop("module_path", None)
            if path is None:
                continue
            parts = path.split(".") if path else []
            names = [".".join(parts[:n]) for n in range(len(parts) + 1)]
            known = dict(self.mod.named_modules())
            node.meta["nn_module_stack"] = {
                name: (name, type(known[name])) for name in names if name in known
            }
