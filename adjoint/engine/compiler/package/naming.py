"""Names by content: of kernels' functions, and of whole tasks."""

from __future__ import annotations

import hashlib
import marshal
from array import array
from dataclasses import fields, is_dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType, get_default_dtype
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.ownership import REPLACED, is_written_here
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.ir import DataflowGraph, Value
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat
from adjoint.engine.graph.sizes.kept_sizes import NotKept, function_name, poly_rows, scope_rows

if TYPE_CHECKING:
    from adjoint.engine.compiler.loops.ir import Form
    from adjoint.engine.compiler.schedule.steps import Launch


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def form_name(form: Form) -> str:
    """The name of a form's function: a digest of all that decides its text."""
    return f"k{digest(repr(form))}"


def name_of(step: Launch) -> str:
    """The name of the function a launch calls.

    What a template's function writes has the name of its module behind its own: kernels are found
    by name, by later processes too, and templates of two modules may choose one name. A text that
    is there already is named by a digest of it.
    """
    writer = step.text.func if isinstance(step.text, partial) else step.text
    if step.form is None and isinstance(writer, FunctionType | MethodType):
        return f"{step.function}.{writer.__module__}"
    return step.function or form_name(step.form)


def task_key(task: Task, options: Any) -> str:
    """A digest of all that decides a task's plan.

    One whose graph has symbols for sizes is for all of them. Which symbols its calls have, of which
    the graph of a derivative need not show all, and what others are computed by is part of its name
    then.
    """
    examples = {id(x): i for i, x in enumerate(task.examples)}
    targets, sizing = task.targets, task.sizing
    of_all_sizes = sizing is not None and task.graph is sizing.graph
    symbols: list[Any] = []
    if sizing is not None and of_all_sizes:
        symbols = [*scope_rows(sizing.scope)["derived"], *sorted(sizing.sizes)]
    return key_of(
        repr(options),
        get_default_dtype().name,
        graph_key(task.graph),
        packed([hasattr(x, "strides") for x in task.examples]),  # the others are the host's
        rows([x.strides for x in task.examples if hasattr(x, "strides")]),
        packed([k for _, k in task.writes]),
        packed([examples.get(id(x), -1) for x in targets]),
        rows([x.shape for x in targets]),
        rows([x.strides for x in targets]),
        packed(sorted(task.returned)),
        str(task.fragment),
        packed(sorted(task.lasting)),
        literal_bytes(symbols),
    )


def graph_key(graph: DataflowGraph) -> str:
    """A digest of a graph, but for the names of its values.

    The first call of a compiled function waits for this, so a graph of a thousand nodes is told in
    columns rather than node by node: what all nodes say of one thing, packed or joined in one go.
    """
    nodes = graph.nodes
    inputs = [x for node in nodes for x in node.inputs]
    values = [*graph.inputs, *[v for node in nodes for v in node.outputs]]
    specs = [value.spec for value in values]
    params = [x for node in nodes if node.params for x in node.params.values()]
    numbers = {value: i for i, value in enumerate(values)}
    return key_of(
        packed([value.host for value in graph.inputs]),
        "\n".join([node.record.name for node in nodes]),
        packed([len(node.inputs) for node in nodes]),
        packed([len(node.outputs) for node in nodes]),
        packed([numbers[x] if x.__class__ is Value else -1 for x in inputs]),
        literal_bytes([x for x in inputs if x.__class__ is not Value]),
        "\n".join([",".join(node.params) for node in nodes]),
        literal_bytes(params),
        rows([spec.shape for spec in specs]),
        "\n".join([spec.dtype.name for spec in specs]),
        *[f"{i} {spec.device}" for i, spec in enumerate(specs) if spec.device is not CPU],
        # A composition of the package's own follows from its name (and `package_digest`).
        *[
            f"{i} {graph_key(node.subgraph)}"  # type: ignore[arg-type]
            for i, node in enumerate(nodes)
            if node.composition is not None and not _composed_here(node.record)
        ],
        packed([numbers[value] for value in graph.outputs]),
    )


def literal_bytes(literals: list[Any]) -> bytes:
    """Literals and parameters as bytes that mean the same in every process.

    The second of marshal's formats writes equal values alike, whoever else holds them.
    """
    return marshal.dumps([x if x.__class__ in PLAIN else plain(x) for x in literals], 2)


def packed(numbers: list[int]) -> bytes:
    """Numbers as bytes."""
    return array("q", numbers).tobytes()


def rows(table: list[tuple[int, ...]]) -> bytes:
    """Rows of numbers as bytes: how long they are, then what is in them.

    Symbols for sizes are told as such: as plain numbers they would be those of one size.
    """
    numbers = [n for row in table for n in row]
    told = literal_bytes(numbers) if Extent in set(map(type, numbers)) else packed(numbers)
    return packed([len(row) for row in table]) + told


def _composed_here(record: Record) -> bool:
    return record.compose is not None and not REPLACED and is_written_here(record.compose)


PLAIN = frozenset({int, float, bool, str, complex, type(None)})  # marshal knows them


def plain(x: Any) -> Any:
    """A literal or parameter as data of types that marshal knows.

    >>> from adjoint.engine.core.dtype import float32
    >>> plain({"dims": (0, 1), "dtype": float32})
    {'dims': (0, 1), 'dtype': ('DType', 'float32')}
    """
    kind = x.__class__
    if kind in PLAIN or (kind is tuple and PLAIN.issuperset(map(type, x))):
        return x
    if kind is dict:
        return {plain(k): plain(v) for k, v in x.items()}
    if isinstance(x, tuple):
        return tuple([plain(v) for v in x])
    if kind is list:
        return [plain(v) for v in x]
    if isinstance(x, (DType, Record)):
        return (kind.__name__, x.name)
    if isinstance(x, Device):
        return (kind.__name__, str(x))
    if isinstance(x, DataflowGraph):
        return (kind.__name__, graph_key(x))
    if isinstance(x, Extent):
        return (kind.__name__, plain(poly_rows(x.poly)))
    if isinstance(x, ExtentFloat):
        fn, *parts = x.parts
        return (kind.__name__, plain(function_name(fn)), *map(plain, parts))
    if is_dataclass(x):
        return (kind.__name__, *[plain(getattr(x, field.name)) for field in fields(x)])
    raise NotKept(kind.__name__)
