"""A table of a model: layers, output shapes, parameters, floating-point operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core import html
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.flops import flops_of
from adjoint.nn import Module


@dataclass(slots=True)
class Row:
    """One module of the model."""

    name: str
    kind: str
    depth: int
    shape: str = ""
    parameters: int = 0
    flops: int = 0


@dataclass(slots=True)
class Summary:
    """What `summary` found; prints as a table."""

    rows: list[Row] = field(default_factory=list)
    parameters: int = 0
    trainable: int = 0
    flops: int = 0

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows = [
            [
                "\u2003" * row.depth + (f"{row.name} ({row.kind})" if row.name else row.kind),
                row.shape,
                f"{row.parameters:,}" if row.parameters else "",
                f"{row.flops:,}" if row.flops else "",
            ]
            for row in self.rows
        ]
        rows.append(["total", "", f"{self.parameters:,}", f"{self.flops:,}"])
        return html.table(["layer", "output shape", "parameters", "FLOPs"], rows, names=True)

    def __str__(self) -> str:
        cells = [("layer", "output shape", "parameters", "FLOPs")]
        cells += [
            (
                "  " * row.depth + (f"{row.name} ({row.kind})" if row.name else row.kind),
                row.shape,
                f"{row.parameters:,}" if row.parameters else "-",
                f"{row.flops:,}" if row.flops else "-",
            )
            for row in self.rows
        ]
        widths = [max(len(row[i]) for row in cells) for i in range(4)]
        lines = [
            f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}"
            for a, b, c, d in cells
        ]
        lines.insert(1, "-" * len(lines[0]))
        lines.append("-" * len(lines[0]))
        lines.append(
            f"parameters {self.parameters:,} (trainable {self.trainable:,}), FLOPs {self.flops:,}"
        )
        return "\n".join(line.rstrip() for line in lines)


def _shape(value: Any) -> str:
    if is_tensor(value):
        return str(tuple(value.shape))
    if isinstance(value, (tuple, list)):
        shapes = [s for s in map(_shape, value) if s]
        return ", ".join(shapes)
    return ""


def summary(model: Module, *inputs: Any, **kwargs: Any) -> Summary:
    """Run the model once on example inputs and tabulate its layers.

    A module's row counts its own parameters; FLOPs count products, elementwise operations and
    reductions made while it and its children run.

    Example:
        >>> import adjoint as ad
        >>> from adjoint.training import summary
        >>> table = summary(ad.nn.Linear(3, 4), ad.ones(2, 3))
        >>> table.parameters, table.flops
        (16, 56)
    """
    result = Summary()
    running: list[Row] = []
    handles = []

    def enter(row: Row) -> Any:
        def hook(module: Any, args: Any) -> None:
            running.append(row)

        return hook

    def leave(row: Row) -> Any:
        def hook(module: Any, args: Any, output: Any) -> None:
            running.pop()
            row.shape = _shape(output)

        return hook

    def count(record: Any, operands: tuple[Any, ...], params: Any, outs: Any) -> None:
        flops = flops_of(record, operands, outs if isinstance(outs, tuple) else (outs,))
        result.flops += flops
        for row in {id(row): row for row in running}.values():
            row.flops += flops

    for name, module in model.named_modules():
        depth = name.count(".") + 1 if name else 0
        row = Row(name.rsplit(".", 1)[-1], type(module).__name__, depth)
        row.parameters = sum(p.numel() for p in module.parameters(recurse=False))
        result.rows.append(row)
        handles.append(module.register_forward_pre_hook(enter(row)))
        handles.append(module.register_forward_hook(leave(row)))
    training = {module: module.training for module in model.modules()}
    try:
        model.eval()
        with no_grad(), CONTEXT.having(observers=(*CONTEXT.observers, count)):
            model(*inputs, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
        for module, flag in training.items():
            module.training = flag
    result.parameters = sum(p.numel() for p in model.parameters())
    result.trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return result
