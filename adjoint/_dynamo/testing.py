"""Backends that count and keep the graphs they are given, as programs that test `compile` use."""

from __future__ import annotations

from typing import Any

from adjoint._dynamo import lookup_backend


class CompileCounterWithBackend:
    """Counts graphs and the operations in them, keeps the graphs, and hands them to a backend."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.clear()

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self) -> None:
        """Begin anew."""
        self.frame_count = self.op_count = 0
        self.graphs: list[Any] = []


class CompileCounter(CompileCounterWithBackend):
    """Counts graphs and the operations in them, which run one by one."""

    def __init__(self) -> None:
        super().__init__("eager")


class EagerAndRecordGraphs:
    """Keeps the graphs, whose operations run one by one."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.graphs.append(gm)
        return lookup_backend("eager")(gm, example_inputs)
