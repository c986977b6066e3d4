"""A graph as Python: readable, and runnable as it stands or with `load`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType, named
from adjoint.engine.core.generated import function_of_text
from adjoint.engine.core.operations.record import HOOKS, REGISTRY, Record
from adjoint.engine.core.spec import Spec as spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.record.trace import Trace
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat
from adjoint.engine.graph.verify import as_operand

device, dtype = Device, named  # the names the text uses
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**"}
HEADER = "from adjoint.engine.graph.text import device, dtype, ops, spec, subgraph\n\n\n"


class Ops:
    """Every record by name: `ops.mul(x, 2)`."""

    def __getattr__(self, name: str) -> Record:
        if name not in REGISTRY and not name.startswith("_"):
            HOOKS.load_rest()
        try:
            return REGISTRY[name]
        except KeyError:
            raise AttributeError(f"there is no operation called {name!r}") from None


ops = Ops()


class _Reading(Trace):
    """Records a function of given inputs, numbers of the host among them."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[int, Value] = {}

    def add(self, given: Any) -> Any:
        """What stands for an input of a spec, or (in a tuple) for a number of that dtype."""
        if isinstance(given, spec):
            return self.wrap(self.graph.add_input(given))
        value = self.graph.add_input(given[0], host=True)
        number = HostScalar(lambda: as_operand(value), value.name)
        self.numbers[id(number)] = value
        return number

    def operand(self, x: Any) -> Any:
        return self.numbers.get(id(x)) or super().operand(x)


def subgraph(fn: Callable[..., Any], *inputs: Any) -> DataflowGraph:
    """The graph of a function of tensors of the given specs; `(spec,)` is a number of the host."""
    trace = _Reading()
    given = [trace.add(x) for x in inputs]
    with CONTEXT.having(capture=trace, grad_enabled=False, autocast=None, levels=()):
        trace.graph.outputs = [trace.value_of(t) for t in fn(*given)]
    return trace.graph


def literal(x: Any, name: str = "") -> str:
    """A parameter as a Python expression over the names of the header; a graph is called `name`."""
    if isinstance(x, Value):
        return x.name
    if isinstance(x, DType):
        return f"dtype({x.name!r})"
    if isinstance(x, Device):
        return f"device({str(x)!r})"
    if isinstance(x, Record):
        return f"ops.{x.name}"
    if isinstance(x, DataflowGraph):
        specs = [f", {literal((v.spec,) if v.host else v.spec)}" for v in x.inputs]
        return f"subgraph({name}{''.join(specs)})"
    if isinstance(x, spec):
        place = "" if x.device.type == "cpu" else f", {literal(x.device)}"
        return f"spec({tuple(x.shape)}, {literal(x.dtype)}{place})"
    if isinstance(x, ExtentFloat):
        fn, a, b = x.parts
        return f"(({literal(a)}) {_SIGNS[fn.__name__]} ({literal(b)}))"
    if isinstance(x, float) and (x != x or x in (float("inf"), float("-inf"))):
        return f"float({str(x)!r})"
    if isinstance(x, tuple):
        items = [literal(v, f"{name}_{i}") for i, v in enumerate(x)]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(x, list):
        return "[" + ", ".join(literal(v, f"{name}_{i}") for i, v in enumerate(x)) + "]"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k!r}: {literal(v, f'{name}_{k}')}" for k, v in x.items()) + "}"
    return repr(x)


def graphs_in(x: Any, name: str) -> Iterator[tuple[str, DataflowGraph]]:
    """The graphs inside a parameter, with the names `literal` calls them by."""
    if isinstance(x, DataflowGraph):
        yield name, x
    elif isinstance(x, (tuple, list)) and not isinstance(x, spec):
        for i, v in enumerate(x):
            yield from graphs_in(v, f"{name}_{i}")
    elif isinstance(x, dict):
        for k, v in x.items():
            yield from graphs_in(v, f"{name}_{k}")


def _line(node: Node, prefix: str) -> str:
    args = [literal(x) for x in node.inputs]
    args += [f"{k}={literal(v, f'{prefix}_{k}')}" for k, v in node.params.items()]
    targets = ", ".join(v.name for v in node.outputs)
    comma = "," if len(node.outputs) == 1 and node.record.outputs != 1 else ""
    specs = ", ".join(str(v.spec) for v in node.outputs)
    return f"    {targets}{comma} = ops.{node.record.name}({', '.join(args)})  # {specs}"


def _function(graph: DataflowGraph, name: str) -> str:
    """The functions of a graph's subgraphs, then its own."""
    lines = [f"def {name}({', '.join(v.name for v in graph.inputs)}):"]
    lines += [f"    # {v!r}" for v in graph.inputs]
    lines += [f"    {line}" for line in _sizes(graph)]
    inner: list[str] = []
    for node in graph:
        prefix = f"{name}_{node.outputs[0].name if node.outputs else 'node'}"
        for param, value in node.params.items():
            inner += [_function(g, n) for n, g in graphs_in(value, f"{prefix}_{param}")]
        lines.append(_line(node, prefix))
    outputs = "".join(f"{v.name}, " for v in graph.outputs).rstrip(" ")
    lines.append(f"    return ({outputs})")
    return "".join(f"{text}\n\n" for text in inner) + "\n".join(lines) + "\n"


def _sizes(graph: DataflowGraph) -> list[str]:
    """Lines that say what unknown sizes are, for the functions of subgraphs too."""
    known: dict[str, str] = {}
    for value in graph.inputs:
        for d, n in enumerate(value.spec.shape):
            if isinstance(n, Extent) and n.scope.labels and repr(n) in n.scope.labels.values():
                known.setdefault(repr(n), f"{value.name}.shape[{d}]")
    stated = [f"{name} = {where}" for name, where in known.items()]
    return [f"global {', '.join(known)}", *stated] if known else []


def to_text(graph: DataflowGraph, name: str = "graph") -> str:
    """The graph as the source of a function, with the import it needs."""
    return HEADER + _function(graph, name)


def load(text: str, name: str = "graph") -> Callable[..., Any]:
    """The function whose source `to_text` wrote. Runs the text: only for text you trust."""
    return function_of_text(text, name, f"<{name}>", {})


DataflowGraph.__str__ = to_text  # type: ignore[assignment,method-assign]
