"""Exported programs: PyTorch's `torch.export.ExportedProgram`."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from adjoint.engine.core.errors import ExportGuardError
from adjoint.engine.core.tree import TreeDef, flatten, unflatten
from adjoint.engine.graph.sizes.extents import SizeScope
from adjoint.engine.tensor.tensor import Tensor
from adjoint.export.graphs.dynamic_shapes import NO_LIMIT, ValueRanges
from adjoint.export.graphs.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    OutputKind,
)
from adjoint.fx.captured import write_
from adjoint.fx.graph import Graph, PythonCode
from adjoint.fx.graph_module import GraphModule
from adjoint.fx.node import Node
from adjoint.nn.parameter import Parameter


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a program that may change."""

    dims: Mapping[tuple[int, int], str]  # leaf and dimension -> symbol
    names: Mapping[str, str]  # what the user calls a symbol
    ranges: Mapping[str, ValueRanges]
    scope: SizeScope  # what the recording decided about them

    def check(self, leaves: list[Any], names: list[str]) -> None:
        """Refuse sizes that the program was not recorded for."""
        known: dict[str, int] = {}
        for (k, d), symbol in self.dims.items():
            n = leaves[k].shape[d]
            place = f"{names[k]}.size()[{d}]"
            if known.setdefault(symbol, n) != n:
                raise ExportGuardError(
                    f"Guard failed: {place} is {n}, and {self.names[symbol]} is {known[symbol]}."
                )
            range_ = self.ranges[symbol]
            if not range_.lower <= n <= range_.upper:
                upper = "" if range_.upper == NO_LIMIT else f" and at most {range_.upper}"
                raise ExportGuardError(
                    f"Guard failed: {place} is {n}; the program takes at least "
                    f"{range_.lower}{upper}."
                )
        if not self.scope.allow(known):
            shown = ", ".join(f"{self.names[s]} = {n}" for s, n in known.items())
            raise ExportGuardError(f"Guard failed: the program was not recorded for {shown}.")


@dataclass(frozen=True, slots=True)
class CallSpec:
    """The structure of a call's arguments and results."""

    in_spec: TreeDef
    out_spec: TreeDef


class ExportedProgram:
    """A graph of operations with its state; `module()` runs it.

    Attributes:
        graph_signature: what the graph's inputs and outputs are.
        state_dict: parameters and buffers, by name.
        constants: other tensors that the program holds.
        example_inputs: the arguments that it was recorded with.
    """

    def __init__(
        self,
        *,
        graph: Graph,
        signature: ExportGraphSignature,
        state_dict: dict[str, Tensor],
        constants: dict[str, Tensor],
        in_spec: TreeDef,
        out_spec: TreeDef,
        sizes: Sizes | None = None,
        example_inputs: Any = None,
    ) -> None:
        self.graph_signature = signature
        self.state_dict = state_dict
        self.constants = constants
        self.call_spec = CallSpec(in_spec, out_spec)
        self.sizes = sizes
        self.example_inputs = example_inputs
        self.dialect = "ATEN"
        self._graph_module = GraphModule({}, graph, "GraphModule")

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module that takes its state as arguments."""
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph; state comes before arguments among its inputs."""
        return self._graph_module.graph

    @property
    def range_constraints(self) -> dict[str, ValueRanges]:
        """Sizes that may change, and their ranges."""
        if self.sizes is None:
            return {}
        return {self.sizes.names[s]: r for s, r in self.sizes.ranges.items()}

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` "
            "instead."
        )

    def _tensor(self, name: str) -> Tensor:
        return self.state_dict[name] if name in self.state_dict else self.constants[name]

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Parameters that the program reads, with their names."""
        for name in self.graph_signature.parameters:
            yield name, self._tensor(name)

    def parameters(self) -> Iterator[Any]:
        """Parameters that the program reads."""
        for _, value in self.named_parameters():
            yield value

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Buffers that the program reads, with their names."""
        for name in self.graph_signature.buffers:
            yield name, self._tensor(name)

    def buffers(self) -> Iterator[Tensor]:
        """Buffers that the program reads."""
        for _, value in self.named_buffers():
            yield value

    def module(self, check_guards: bool = True) -> GraphModule:
        """A module that is called as the exported one was, on the same state."""
        return ExportedModule(self, unlifted(self), check_guards=check_guards)

    def run_decompositions(
        self, decomp_table: Mapping[Any, Any] | None = None, **_: Any
    ) -> ExportedProgram:
        """The program itself: operations are Adjoint's records, which nothing is below."""
        if decomp_table:
            raise NotImplementedError("run_decompositions: a table is not taken")
        return self

    def validate(self) -> None:
        """Refuse a graph whose nodes use what is not there."""
        self.graph.lint()

    def __deepcopy__(self, memo: Any) -> ExportedProgram:
        return ExportedProgram(
            graph=copy.deepcopy(self.graph),
            signature=self.graph_signature,
            state_dict=copy.deepcopy(self.state_dict, memo),
            constants=copy.deepcopy(self.constants, memo),
            in_spec=self.call_spec.in_spec,
            out_spec=self.call_spec.out_spec,
            sizes=self.sizes,
            example_inputs=self.example_inputs,
        )

    def __str__(self) -> str:
        body = "\n    ".join(self._graph_module.code.splitlines())
        return (
            f"ExportedProgram:\n    {body}\nGraph signature: {self.graph_signature}\n"
            f"Range constraints: {self.range_constraints}\n"
        )

    __repr__ = __str__


def unlifted(program: ExportedProgram) -> Graph:
    """The graph with its state as attributes, and what it writes written."""
    graph, known = Graph(), dict[Node, Any]()
    signature = program.graph_signature
    kinds = {spec.arg.name: spec for spec in signature.input_specs}
    attributes: dict[str, Node] = {}
    results: list[Any] = []
    for node in program.graph.nodes:
        if node.op == "placeholder" and kinds[node.name].kind is not InputKind.USER_INPUT:
            name = str(kinds[node.name].target)
            known[node] = attributes[name] = graph.get_attr(name)
            known[node].meta = dict(node.meta)
        elif node.op == "output":
            results = [known[x] if isinstance(x, Node) else x for x in node.args[0]]
        else:
            known[node] = graph.node_copy(node, known.__getitem__)
    arguments = {
        node.name: replacement for node, replacement in known.items() if node.op == "placeholder"
    }
    shown = []
    for spec, value in zip(signature.output_specs, results, strict=True):
        if spec.kind is OutputKind.USER_OUTPUT:
            shown.append(value)
            continue
        name = str(spec.target)
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            graph.call_method("copy_", (arguments[name], value))
        else:
            place = attributes.get(name) or graph.get_attr(name)
            graph.call_function(write_, (place, value))
    graph.output(tuple(shown))
    return graph


class ExportedModule(GraphModule):
    """What `ExportedProgram.module` returns: takes the call apart, checks it, runs the graph."""

    def __init__(self, program: ExportedProgram, graph: Graph, *, check_guards: bool) -> None:
        tensors = {**program.constants, **program.state_dict}
        wanted = [n.target for n in graph.nodes if n.op == "get_attr"]
        object.__setattr__(self, "_program", program)
        object.__setattr__(self, "_checked", check_guards)
        super().__init__({name: tensors[name] for name in wanted}, graph, "ExportedModule")
        for name in wanted:
            self._keep_as_buffer(name, program)

    def _keep_as_buffer(self, path: str, program: ExportedProgram) -> None:
        """Have what was a buffer be one."""
        *parents, last = path.split(".")
        owner: Any = self.get_submodule(".".join(parents))
        if last in owner.__dict__ and not isinstance(owner.__dict__[last], Parameter):
            persistent = path in program.state_dict
            owner.register_buffer(last, owner.__dict__.pop(last), persistent=persistent)

    def recompile(self) -> PythonCode:
        """Write `forward` anew from the graph; calls go through the checks."""
        written = super().recompile()
        run = type(self).forward

        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            return self._call(run, args, kwargs)

        type(self).forward = forward  # type: ignore[method-assign]
        return written

    def _call(self, run: Any, args: Any, kwargs: Any) -> Any:
        program: ExportedProgram = self._program
        leaves = check_call(program, args, kwargs, guards=self._checked)
        return unflatten(program.call_spec.out_spec, run(self, *leaves))

    def train(self, mode: bool = True) -> Any:
        """Refused: a program is exported in one mode."""
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self) -> Any:
        """Refused: a program is exported in one mode."""
        raise NotImplementedError("Calling eval() is not supported yet.")


def check_call(
    program: ExportedProgram, args: Any, kwargs: Any, *, guards: bool = True
) -> list[Any]:
    """The leaves of a call, provided that the program was recorded for such."""
    leaves, structure = flatten((args, kwargs))
    if structure != program.call_spec.in_spec:
        raise ValueError(
            "Trying to call the exported program with arguments of another structure: "
            f"received {_shown(args, kwargs)}, it was exported with "
            f"{_shown(*unflatten(program.call_spec.in_spec, _names(program)))}."
        )
    if guards:
        _check(program, leaves)
    return leaves


def _names(program: ExportedProgram) -> list[str]:
    specs = program.graph_signature.input_specs
    return [spec.arg.name for spec in specs if spec.kind is InputKind.USER_INPUT]


def _shown(args: Any, kwargs: Any) -> str:
    kinds = [type(x).__name__ if not isinstance(x, str) else x for x in args]
    return f"({', '.join(kinds)}) and {sorted(kwargs)}"


def _check(program: ExportedProgram, leaves: list[Any]) -> None:
    """Refuse arguments that the program was not recorded for."""
    specs = [s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    dims = program.sizes.dims if program.sizes else {}
    for k, (spec, leaf) in enumerate(zip(specs, leaves, strict=True)):
        if isinstance(spec.arg, ConstantArgument):
            if leaf is not spec.arg.value and leaf != spec.arg.value:
                raise ExportGuardError(
                    f"Guard failed: {spec.arg.name} is {leaf!r}; the program was exported with "
                    f"{spec.arg.value!r}."
                )
            continue
        like = nodes[spec.arg.name].meta["val"]
        if not isinstance(leaf, Tensor) or leaf.ndim != like.ndim or leaf.dtype != like.dtype:
            received = leaf._spec if isinstance(leaf, Tensor) else type(leaf).__name__
            raise ExportGuardError(
                f"Guard failed: {spec.arg.name} is {received}; the program was exported with "
                f"{like.dtype.name} of {like.ndim} dimensions."
            )
        for d, (n, m) in enumerate(zip(leaf.shape, like.shape, strict=True)):
            if n != m and (k, d) not in dims:
                raise ExportGuardError(
                    f"Guard failed: {spec.arg.name}.size()[{d}] == {m}, received {n}."
                )
    if program.sizes is not None:
        program.sizes.check(leaves, _names(program))
