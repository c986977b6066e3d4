"""A graph as Python: readable, and runnable with `load`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core import dtype as dt
from adjoint.core.device import Device
from adjoint.core.dtype import DType
from adjoint.core.record import REGISTRY, Record
from adjoint.graph.ir import Graph, Value


def literal(x: Any) -> str:
    """A parameter as a Python expression over the names `load` provides."""
    if isinstance(x, Value):
        return x.name
    if isinstance(x, DType):
        return f"dtype({x.name!r})"
    if isinstance(x, Device):
        return f"device({str(x)!r})"
    if isinstance(x, Record):
        return f"op({x.name!r})"
    if isinstance(x, float) and (x != x or x in (float("inf"), float("-inf"))):
        return f"float({str(x)!r})"
    if isinstance(x, tuple):
        return "(" + "".join(f"{literal(v)}, " for v in x).rstrip(" ") + ")"
    if isinstance(x, list):
        return "[" + ", ".join(map(literal, x)) + "]"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k!r}: {literal(v)}" for k, v in x.items()) + "}"
    return repr(x)


def to_text(graph: Graph, name: str = "graph") -> str:
    """The graph as the source of a function."""
    lines = [f"def {name}({', '.join(v.name for v in graph.inputs)}):"]
    lines += [f"    # {v!r}" for v in graph.inputs]
    for node in graph:
        args = [literal(x) for x in node.inputs]
        args += [f"{k}={literal(v)}" for k, v in node.params.items()]
        targets = ", ".join(v.name for v in node.outputs)
        comma = "," if len(node.outputs) == 1 and node.record.outputs != 1 else ""
        specs = ", ".join(str(v.spec) for v in node.outputs)
        lines.append(
            f"    {targets}{comma} = op({node.record.name!r})({', '.join(args)})  # {specs}"
        )
    outputs = "".join(f"{v.name}, " for v in graph.outputs).rstrip(" ")
    lines.append(f"    return ({outputs})")
    return "\n".join(lines) + "\n"


def load(text: str, name: str = "graph") -> Callable[..., Any]:
    """The function whose source `to_text` wrote."""
    scope: dict[str, Any] = {"op": REGISTRY.__getitem__, "dtype": dt.named, "device": Device}
    exec(compile(text, f"<{name}>", "exec"), scope)
    return scope[name]
