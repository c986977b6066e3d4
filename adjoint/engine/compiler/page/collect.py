"""What the page shows, as plain data: names, shapes, times and texts; no elements of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.capture.program.program import Program
from adjoint.engine.compiler.package.accounts import Account, accounts
from adjoint.engine.compiler.package.draft import Draft, concrete
from adjoint.engine.compiler.schedule.steps import label_text
from adjoint.engine.core.errors import source_line
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.origins import Where
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.record.sources import CallArgument, GradOf, Host, Source, State

GUARDS = 3000  # that are listed
BLOCKS = 1500  # of memory that are drawn: the largest
KINDS = {State: "state", CallArgument: "argument", GradOf: "gradient", Host: "number"}
# Colours of the graph, a choice of this page: of records whose own facts do not decide theirs.
COLOURS = {
    "product": ("linear", "scaled_dot_product_attention", "embedding"),
    "norm": (
        "layer_norm", "batch_norm", "batch_norm_inference", "group_norm", "rms_norm",
        "instance_norm",
    ),
    "reduction": ("logsumexp", "cross_entropy"),
    "movement": (
        "cat", "stack", "view_scatter", "scatter", "index_put", "cast", "unfold_windows",
        "fold_windows",
    ),
}  # fmt: skip
COLOUR_OF = {name: colour for colour, names in COLOURS.items() for name in names}


def family(record: Record) -> str:
    """The kind of operation, for its colour."""
    if record.family == "bilinear":
        return "product"
    if record.reduces or record.running or record.position_of:
        return "reduction"
    if record.selects or record.is_view or (record.creates and not record.draws):
        return "movement"
    colour = COLOUR_OF.get(record.name.removesuffix("_backward"))
    return colour or ("elementwise" if record.family == "elementwise" else "other")


@dataclass(slots=True)
class PageTable:
    """Things that are named often, each once: an index stands for it."""

    items: list[Any] = field(default_factory=list)
    index: dict[Any, int] = field(default_factory=dict)

    def of(self, thing: Any) -> int:
        """The index of a thing."""
        at = self.index.get(thing)
        if at is None:
            at = self.index[thing] = len(self.items)
            self.items.append(thing)
        return at


def collect(name: str, program: Program, shown: Any) -> dict[str, Any]:
    """All that the page says of a function's latest program."""
    lines, modules = PageTable(), PageTable()
    nodes, inputs = graph_data(program, lines, modules)
    executable = program.executable
    drafted: Callable[[], tuple[Draft, Any]] | None = getattr(executable, "drafted", None)
    kernels: list[dict[str, Any]] = []
    memory: dict[str, Any] = {}
    if drafted is not None:
        draft, sizes = drafted()
        at_sizes = concrete(sizes)
        times = getattr(executable, "least_times", None) or {}
        kernels = [
            kernel_data(account, times.get((s, k)), lines, modules)
            for s, part in enumerate(accounts(draft, at_sizes))
            for k, account in enumerate(part)
            if account.kind != "test"
        ]
        memory = memory_data(draft, at_sizes, lines)
    return {
        "name": name,
        "summary": shown.explain().splitlines()[0],
        "nodes": nodes,
        "inputs": inputs,
        "kernels": kernels,
        "memory": memory,
        "guards": shown.guards().splitlines()[:GUARDS],
        "recordings": shown.recordings(),
        "modules": modules.items,
        "lines": [[w[0], w[1], source_line(*w)] for w in lines.items],
    }


# -- the graph ----------------------------------------------------------------------------------


def graph_data(
    program: Program, lines: PageTable, modules: PageTable
) -> tuple[list[Any], list[Any]]:
    """Nodes as [operation, family, phase, module, line, shape, inputs] and inputs as [name, ...].

    A node's inputs are indices of nodes, or -1 - k for the graph's input k. Phases are 0 forward,
    1 backward, 2 what follows: the update.
    """
    graph: DataflowGraph = program.graph
    at: dict[Value, int] = {v: -1 - k for k, v in enumerate(graph.inputs)}
    values = [*graph.inputs, *(v for node in graph.nodes for v in node.outputs)]
    alone = len({v.spec.device for v in values}) == 1  # then no box needs to name the device

    def shown(value: Value) -> str:
        spec = value.spec
        return f"{spec.dtype.name}[{', '.join(map(str, spec.shape))}]" if alone else str(spec)

    nodes: list[Any] = []
    began = False
    for number, node in enumerate(graph.nodes):
        where = node.where
        began = began or (where is not None and where.backward)
        backward = where is not None and where.backward
        phase = 1 if backward else 2 if began and not (where and where.module) else 0
        at |= dict.fromkeys(node.outputs, number)
        nodes.append(
            [
                node.record.name,
                family(node.record),
                phase,
                modules.of(where.module if where is not None else ""),
                -1 if where is None else lines.of((where.file, where.line)),
                " ".join(map(shown, node.outputs)),
                [at[x] for x in node.inputs if isinstance(x, Value) and x in at],
            ]
        )
    move_constants(nodes)
    names = weight_names(program)
    inputs = [
        [input_name(k, source, names), KINDS.get(type(source), "input"), shown(value)]
        for k, (source, value) in enumerate(zip(program.sources, graph.inputs, strict=True))
    ]
    return nodes, inputs


def move_constants(nodes: list[Any]) -> None:
    """Have nodes without inputs in the phase in which they are first needed: a gradient's seed."""
    needed: dict[int, int] = {}
    for _, _, phase, *_, sources in nodes:
        for k in sources:
            needed[k] = min(phase, needed.get(k, phase))
    for k, node in enumerate(nodes):
        if not node[-1]:
            node[2] = needed.get(k, node[2])


def weight_names(program: Program) -> dict[int, str]:
    """Names of parameters and buffers, by the identity of their storages."""
    names: dict[int, str] = {}
    for ref in program.origin.modules:
        root = ref()
        if root is None:
            continue
        kind = type(root).__name__
        for name, tensor in (*root.named_parameters(), *root.named_buffers()):
            names.setdefault(tensor._storage.identity, f"{kind}.{name}")
    return names


def input_name(k: int, source: Source, names: dict[int, str]) -> str:
    """What an input of the graph is called."""
    if isinstance(source, State):
        return names.get(source.own_storage.identity, f"state {k}")
    if isinstance(source, GradOf) and source.tensor is not None:
        owner = names.get(source.tensor._storage.identity)
        return f"{owner}.grad" if owner else f"gradient {k}"
    return f"argument {source.position}" if isinstance(source, CallArgument) else f"number {k}"


# -- kernels and memory -------------------------------------------------------------------------


def kernel_data(
    account: Account, time: tuple[int, int] | None, lines: PageTable, modules: PageTable
) -> dict[str, Any]:
    """A kernel of the program; its time in microseconds and its turns, where a run was timed."""
    return {
        "step": account.step,
        "name": account.name,
        "kind": account.kind,
        "function": account.function,
        "operations": list(account.operations),
        "reason": account.reason,
        "read": account.read,
        "written": account.written,
        "flops": account.flops,
        "modules": [modules.of(m) for m in account.modules],
        "lines": lines_of(account.places, lines),
        "backward": any(w.backward for w in account.places),
        "time": None if time is None else time[0] / 1000,
        "turns": 1 if time is None else time[1],
    }


def lines_of(places: Iterable[Where], lines: PageTable) -> list[int]:
    """The lines of places, each once."""
    return list(dict.fromkeys(lines.of((w.file, w.line)) for w in places))


def memory_data(draft: Draft, at_sizes: Any, lines: PageTable) -> dict[str, Any]:
    """Blocks of the arena: [start, bytes, first, last, what, line], and the number of moments."""
    starts, arena = draft.packed(at_sizes)
    moments = draft.plan.moments
    values: dict[Any, Value] = {}
    for value, place in draft.plan.places.items():
        values.setdefault(place.buffer, value)
    blocks: list[Any] = []
    for block, start in zip(draft.blocks, starts, strict=True):
        occupant = next((values[b] for b in block.buffers if b in values), None)
        node = None if occupant is None else occupant.node
        where = None if node is None else node.where
        shape = [] if occupant is None else [at_sizes(n) for n in occupant.spec.shape]
        what = f"{block.buffers[0].dtype.name}{shape}"
        what += f" of {node.record.name}" if node is not None else ""
        line = -1 if where is None else lines.of((where.file, where.line))
        blocks.append([start, at_sizes(block.nbytes), block.first, block.last, what, line])
    blocks.sort(key=lambda b: -b[1])
    return {
        "arena": arena,
        "moments": [[number, label_text(step.label, at_sizes)] for number, step in moments],
        "blocks": blocks[:BLOCKS],
        "left_out": max(len(blocks) - BLOCKS, 0),
    }
