"""The stages of a recorded model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.distributed.pipelining.stage import PipelineStage
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.graph.record.streams import Moves
from adjoint.engine.tensor.tensor import Tensor
from adjoint.fx.captured import HostNumberReader, write_
from adjoint.fx.graph import Graph, PythonCode
from adjoint.fx.graph_module import GraphModule
from adjoint.fx.node import Node, map_arg
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter


@dataclass(frozen=True, slots=True)
class RecordedModel:
    """A model as one graph with marks in it."""

    graph: Graph
    split: Any  # what a mark calls
    state: dict[str, Tensor]  # by name
    persistent: frozenset[str]  # buffers that are in the state dict
    leaves: tuple[Any, ...]  # of the example call
    in_spec: Any
    out_spec: Any
    moves: Moves
    training: bool


@dataclass(frozen=True, slots=True)
class PipeInfo:
    """What `Pipe.info` tells."""

    graph: Graph
    num_stages: int
    has_loss_and_backward: bool


class StageModule(GraphModule):
    """One stage: takes the values that the stages before hand on, and gives those that go further.

    The first takes the model's arguments, the last gives what the model returns.
    """

    def __init__(
        self, recorded: RecordedModel, graph: Graph, name: str, examples: list[Any], *,
        first: bool, last: bool,
    ) -> None:  # fmt: skip
        reads = dict.fromkeys(str(n.target) for n in graph.nodes if n.op == "get_attr")
        object.__setattr__(self, "_recorded", recorded)
        object.__setattr__(self, "_examples", examples)
        object.__setattr__(self, "_ends", (first, last))
        super().__init__({path: recorded.state[path] for path in reads}, graph, name)
        self.__dict__["training"] = recorded.training
        for path in reads:
            self._keep_as_buffer(path)

    def _keep_as_buffer(self, path: str) -> None:
        parents, _, last = path.rpartition(".")
        owner = self.get_submodule(parents)
        value = owner.__dict__.get(last)
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            del owner.__dict__[last]
            owner.register_buffer(last, value, persistent=path in self._recorded.persistent)

    def recompile(self) -> PythonCode:
        """Write `forward` anew from the graph; calls go through the checks."""
        written = super().recompile()
        run = type(self).forward

        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            return self._call(run, args, kwargs)

        type(self).forward = forward  # type: ignore[method-assign]
        return written

    def train(self, mode: bool = True) -> Any:
        """Nothing in the mode it was recorded in; another one is refused."""
        if mode != self._recorded.training:
            raise NotImplementedError(
                f"pipeline: a stage is in the mode it was recorded in, training={not mode}. Call "
                f"the model's train({mode}) before pipeline()."
            )
        return self

    def _call(self, run: Any, args: Any, kwargs: Any) -> Any:
        recorded, (first, last) = self._recorded, self._ends
        leaves: list[Any] = list(args)
        if first:
            leaves, structure = flatten((args, kwargs))
            if structure != recorded.in_spec:
                raise ValueError(
                    "pipeline: the model was recorded for a call of another structure; received "
                    f"{len(args)} arguments and {sorted(kwargs)} by name"
                )
        self._check(leaves)
        out = run(self, *leaves)
        recorded.moves.carry_out()
        return unflatten(recorded.out_spec, out) if last else out

    def _check(self, leaves: list[Any]) -> None:
        if len(leaves) != len(self._examples):
            raise ValueError(
                f"pipeline: a stage takes {len(self._examples)} values, received {len(leaves)}"
            )
        for at, (leaf, example) in enumerate(zip(leaves, self._examples, strict=True)):
            if isinstance(example, Tensor):
                same = isinstance(leaf, Tensor) and leaf.dtype == example.dtype
                if not same or tuple(leaf.shape) != tuple(example.shape):
                    shown = leaf._spec if isinstance(leaf, Tensor) else type(leaf).__name__
                    raise ValueError(
                        f"pipeline: value {at} of a stage is {shown}, but the model was recorded "
                        f"with {example._spec}. Pass example arguments of a microbatch's size."
                    )
            elif leaf is not example and leaf != example:
                raise ValueError(
                    f"pipeline: value {at} of the model is {leaf!r}, but it was recorded with "
                    f"{example!r}"
                )


class Pipe(Module):
    """A model in stages, made by `pipeline`.

    Calling it runs all stages here, one after the other; `build_stage` gives one to a schedule.
    """

    def __init__(self, recorded: RecordedModel) -> None:
        super().__init__()
        stages = divide(recorded)
        outer = Graph()
        values: Any = tuple(outer.placeholder(n.name) for n in _placeholders(recorded.graph))
        for at, stage in enumerate(stages):
            self.add_module(f"submod_{at}", stage)
            call = outer.call_module(f"submod_{at}", values)
            values = (call,)
        outer.output(values[0])
        self.num_stages = len(stages)
        self.has_loss_and_backward = False
        self._graph = outer

    @property
    def split_gm(self) -> Pipe:
        """The module whose children are the stages: this one."""
        return self

    @property
    def graph(self) -> Graph:
        """The calls of the stages."""
        return self._graph

    def get_stage_module(self, stage_idx: int) -> Any:
        """The module of one stage."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self, f"submod_{stage_idx}")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        out = self.get_stage_module(0)(*args, **kwargs)
        for at in range(1, self.num_stages):
            out = self.get_stage_module(at)(*out)
        return out

    def build_stage(self, stage_index: int, device: Any = "cpu", group: Any = None) -> Any:
        """One stage as schedules take it, on a device."""
        module = self.get_stage_module(stage_index)
        module.to(device)
        return PipelineStage(module, stage_index, self.num_stages, device, group=group)

    def info(self) -> PipeInfo:
        """How many stages there are, and how they are called."""
        return PipeInfo(self._graph, self.num_stages, self.has_loss_and_backward)

    def print_readable(self) -> None:
        """Print the stages as Python would write them."""
        for at in range(self.num_stages):
            self.get_stage_module(at).print_readable()


def _placeholders(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.op == "placeholder"]


def divide(recorded: RecordedModel) -> list[StageModule]:
    """The stages of a recorded model."""
    home = stages_of(recorded)
    count = max(home.values(), default=0) + 1
    graph = recorded.graph
    (results,) = (n.args[0] for n in graph.nodes if n.op == "output")
    last_use: dict[Node, int] = {}
    for node in graph.nodes:
        at = count - 1 if node.op == "output" else home.get(node, 0)
        for used in node.all_input_nodes:
            last_use[used] = max(at, last_use.get(used, 0))
    passing: list[Node] = _placeholders(graph)
    stages = []
    for at in range(count):
        inner, known = Graph(), dict[Node, Node]()
        for node in passing:
            known[node] = inner.placeholder(node.name)

        def value(node: Node, inner: Graph = inner, known: dict[Node, Node] = known) -> Node:
            if node not in known and is_read(node):
                known[node] = inner.node_copy(node)
            return known[node]

        own = [n for n in graph.nodes if home.get(n) == at]
        for node in own:
            known[node] = inner.node_copy(node, value)
        ends = at == count - 1
        further = [] if ends else [n for n in (*passing, *own) if last_use.get(n, 0) > at]
        inner.output(map_arg(results, value) if ends else tuple(known[n] for n in further))
        inner.eliminate_dead_code()
        examples = list(recorded.leaves) if at == 0 else [n.meta["val"] for n in passing]
        stages.append(
            StageModule(recorded, inner, f"submod_{at}", examples, first=at == 0, last=ends)
        )
        passing = further
    return stages


def is_read(node: Node) -> bool:
    """Whether a node reads state, which each stage does for itself."""
    return node.op == "get_attr" or isinstance(node.target, HostNumberReader)


def stages_of(recorded: RecordedModel) -> dict[Node, int]:
    """The stage of each operation; stages without any are left out."""
    home: dict[Node, int] = {}
    at = 0
    for node in recorded.graph.nodes:
        if node.op != "call_function" or is_read(node):
            continue
        if node.target is recorded.split:
            at += 1
        elif node.target is write_:  # where its value is
            home[node] = home.get(node.args[1], 0)
        else:
            home[node] = at
    numbers = {old: new for new, old in enumerate(sorted(set(home.values())))}
    return {node: numbers[old] for node, old in home.items()}
