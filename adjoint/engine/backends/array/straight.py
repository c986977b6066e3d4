"""Graphs as one Python function of kernels on arrays (Note [straight programs])."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.backends.array.casting import cast_operand, make_plan
from adjoint.engine.backends.array.executor import pattern
from adjoint.engine.backends.array.kernels.elementwise.layouts import as_first
from adjoint.engine.backends.array.quiet import QUIET, quietly, restore, silence
from adjoint.engine.backends.array.table import kernel_for
from adjoint.engine.capture.program.layouts import laid_out
from adjoint.engine.core.device import CPU
from adjoint.engine.core.generated import function_of_text
from adjoint.engine.core.operations.record import HOOKS, Record
from adjoint.engine.graph.ir import DataflowGraph, Value

Array = Any


class StraightWriter:
    """Writes the function, running each kernel once to see what becomes of its results."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {
            "asarray": np.asarray, "cast_operand": cast_operand, "quiet": QUIET,
            "silence": silence, "restore": restore, "laid_out": laid_out,
        }  # fmt: skip

    def name(self, thing: Any) -> str:
        """A name under which the function finds something."""
        name = f"c{len(self.scope)}"
        self.scope[name] = thing
        return name

    def call(
        self, record: Record, names: list[str], arrays: list[Array], params: dict[str, Any]
    ) -> Any:
        """The text of one operation, and what it gives now."""
        kernel = kernel_for(record)
        if (
            kernel is None
            or (record.draws and record.creates)
            or record.opaque
            or record.communicates
        ):
            raise NotImplementedError(f"{record.name} has no kernel that may be called by itself")
        if params.get("device", CPU) is not CPU:
            raise NotImplementedError(f"{record.name} on {params['device']}")
        plan, given = None, arrays
        if record.window is None and record.promotion is not None:
            key = pattern(arrays)
            plan = record.plans.get(key) or make_plan(record, arrays, params)
            record.plans[key] = plan
            if plan.casts is not None:
                names = [
                    n if c is None else f"cast_operand({n}, {self.name(c)})"
                    for n, c in zip(names, plan.casts, strict=True)
                ]
                arrays = [cast_operand(a, c) for a, c in zip(arrays, plan.casts, strict=True)]
        out = quietly(kernel, arrays, params)
        bound = self.name(partial(kernel, **params) if params else kernel)
        text = f"{bound}({', '.join(names)})"
        if plan is not None and out.dtype != plan.result:
            text, out = f"{text}.astype({self.name(plan.result)})", out.astype(plan.result)
        if plan is not None and plan.keeps_layout:
            lying = as_first(out, given)
            if lying is not out:
                steps = tuple(step // out.itemsize for step in lying.strides)
                text, out = f"laid_out({text}, {self.name(steps)})", lying
        if isinstance(out, tuple):
            return f"map(asarray, {text})", [np.asarray(x) for x in out]
        if out.__class__ is not ndarray:
            text, out = f"asarray({text})", np.asarray(out)
        return text, [out]

    def finish(self, inputs: list[str], outputs: list[str]) -> Callable[..., Any]:
        """The function."""
        body = "".join([f"        {line}\n" for line in self.lines])
        text = (
            f"def run({', '.join(inputs)}):\n    token = silence[quiet]\n    try:\n{body}"
            f"        return ({''.join([f'{name}, ' for name in outputs])})\n"
            "    finally:\n        restore(token)\n"
        )
        return function_of_text(text, "run", "<a straight program>", self.scope)


def straighten(
    graph: DataflowGraph, places: Sequence[int], arrays: Sequence[Array]
) -> Callable[..., Any]:
    """A function from arrays, of which some (`places`) are a graph's inputs, to its outputs."""
    writer = StraightWriter()
    names = {v: f"x{k}" for v, k in zip(graph.inputs, places, strict=True)}
    values: dict[Value, Array] = {v: arrays[k] for v, k in zip(graph.inputs, places, strict=True)}
    for number, node in enumerate(graph.nodes):
        given = [names[x] if isinstance(x, Value) else writer.name(x) for x in node.inputs]
        now = [values[x] if isinstance(x, Value) else x for x in node.inputs]
        text, results = writer.call(node.record, given, now, node.params)
        variables = [f"y{number}_{k}" for k in range(len(node.outputs))]
        many = text.startswith("map(")
        writer.lines.append(f"{', '.join(variables)}{',' if many else ''} = {text}")
        names.update(zip(node.outputs, variables, strict=True))
        values.update(zip(node.outputs, results, strict=True))
    inputs = [f"x{k}" for k in range(len(arrays))]
    return writer.finish(inputs, [names[v] for v in graph.outputs])


def same_arrays(actual: Sequence[Array], want: Sequence[Array]) -> bool:
    """Whether arrays are the same in every byte and stride, each in memory of its own."""
    if len(actual) != len(want):
        return False
    for k, (g, w) in enumerate(zip(actual, want, strict=True)):
        alike = (g.dtype, g.shape, g.strides) == (w.dtype, w.shape, w.strides)
        if not alike or g.tobytes() != w.tobytes() or not g.flags.writeable:
            return False
        if any(np.may_share_memory(g, other) for other in actual[:k]):
            return False
    return True


HOOKS.straighten = straighten
HOOKS.same_arrays = same_arrays
