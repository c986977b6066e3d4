"""What `compile` makes of a function, and why not more, as `torch._dynamo.explain` tells it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from adjoint.engine.compiler.api import compile as _compile


@dataclass(frozen=True)
class GraphCompileReason:
    """Why a call runs as Python."""

    reason: str
    user_stack: list[Any] = field(default_factory=list)
    graph_break: bool = True


@dataclass(frozen=True)
class ExplainOutput:
    """The graphs of one call.

    Adjoint records a call whole or leaves it to Python: there is one graph, or none and a reason.
    """

    graphs: list[Any]
    graph_count: int
    graph_break_count: int
    break_reasons: list[GraphCompileReason]
    op_count: int
    ops_per_graph: list[list[Any]]
    out_guards: list[str]
    compile_times: str

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        lines += [f"  Break Reason {k}: {r.reason}" for k, r in enumerate(self.break_reasons, 1)]
        lines.append("Ops per Graph:")
        for k, ops in enumerate(self.ops_per_graph, 1):
            lines += [f"  Ops {k}:", *[f"    {op}" for op in ops]]
        lines += ["Out Guards:", *[f"  {guard}" for guard in self.out_guards]]
        return "\n".join([*lines, f"Compile Times: {self.compile_times}"])


def explain(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function that calls `f` once, and tells what `compile` makes of that call.

    Example:
        >>> import adjoint as ad
        >>> from adjoint import _dynamo
        >>> told = _dynamo.explain(lambda x: x.sin() + 1)(ad.ones(2))
        >>> told.graph_count, told.graph_break_count, told.op_count
        (1, 0, 2)
    """

    def told(*args: Any, **kwargs: Any) -> ExplainOutput:
        return _told(f, args, kwargs)

    return told(*args, **kwargs) if args or kwargs else told


def _told(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExplainOutput:
    graphs: list[Any] = []

    def kept(graph_module: Any, example_inputs: Any) -> Any:
        graphs.append(graph_module)
        return graph_module.forward

    def called(*args: Any, **kwargs: Any) -> Any:  # `f` may be a module
        return f(*args, **kwargs)

    backend: Any = kept  # of the kind that is given a graph module
    compiled: Any = _compile(called, backend=backend, fullgraph=False)
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="compile: ")  # the reasons are told
        compiled(*args, **kwargs)
    took = perf_counter() - start
    ops = [[n.target for n in g.graph.nodes if n.op.startswith("call_")] for g in graphs]
    reasons = [GraphCompileReason(text) for text in compiled.breaks.reasons]
    return ExplainOutput(
        graphs=graphs,
        graph_count=len(graphs),
        graph_break_count=len(reasons),
        break_reasons=reasons,
        op_count=sum(map(len, ops)),
        ops_per_graph=ops,
        out_guards=compiled.guards().splitlines() if graphs else [],
        compile_times=f"{took:.4f} s for the first call",
    )
