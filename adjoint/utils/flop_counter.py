"""Counting the multiplications and additions of products: PyTorch's `torch.utils.flop_counter`."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from adjoint.engine.backends.array.table import kernel_for
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.flops import shape_of
from adjoint.nn.modules.hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from adjoint.nn.modules.module import Module

__all__ = ["FlopCounterMode"]


class FlopCounterMode:
    """Counts what products, convolutions and attention take inside its `with` block.

    Backward counts too, elementwise operations do not. Counts are kept by module, by the names of
    those modules that are called inside one another; "Global" is all.

    Args:
        mods: accepted for older programs, and not needed.
        depth: how deep modules are shown in the table.
        display: whether the table is printed at the end.
        custom_mapping: refused: operations are counted by Adjoint's records.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(3, 4)
        >>> with FlopCounterMode(display=False) as counter:
        ...     y = layer(ad.ones(2, 3))
        >>> counter.get_total_flops()
        48
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None
    ) -> None:
        if custom_mapping:
            raise NotImplementedError(
                "FlopCounterMode: custom_mapping names PyTorch's operations; count those yourself"
            )
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._inside: list[str] = []
        self._handles: list[Any] = []
        self._uncompiled = False  # as it was before

    def _observe(
        self, record: Record, operands: tuple[Any, ...], params: dict[str, Any], outs: Any
    ) -> None:
        count = record.flops
        if count is None or (record.compose is not None and kernel_for(record) is None):
            return  # the products that such a composition is made of were seen themselves
        results = outs if isinstance(outs, tuple) else (outs,)
        shapes = [shape for x in operands if (shape := shape_of(x)) is not None]
        if record.name == "linear":
            shapes = shapes[:2]  # a bias is no product
        flops = count(shapes, results[0].shape)
        if record.name == "convolution_weight":
            # PyTorch counts the filters' gradient as if every channel met every other: its numbers
            # are what programs compare with, so groups are not taken off here.
            flops *= params["groups"]
        for place in {"Global", *self._inside}:
            self.flop_counts[place][record.name] += flops

    def _enter_module(self, module: Module, args: Any) -> None:
        name = type(module).__name__
        self._inside.append(f"{self._inside[-1]}.{name}" if self._inside else name)

    def _leave_module(self, module: Module, args: Any, out: Any) -> None:
        if self._inside:
            self._inside.pop()

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self._inside.clear()
        self._handles = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
        ]
        self._uncompiled = CONTEXT.uncompiled
        # A program's operations are not seen one by one: compiled functions run as Python.
        CONTEXT.set(observers=(*CONTEXT.observers, self._observe), uncompiled=True)
        return self

    def __exit__(self, *error: object) -> None:
        mine = self._observe
        others = tuple(observer for observer in CONTEXT.observers if observer != mine)
        CONTEXT.set(observers=others, uncompiled=self._uncompiled)
        for handle in self._handles:
            handle.remove()
        if self.display:
            print(self.get_table(self.depth))

    def get_total_flops(self) -> int:
        """The count of everything."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Counts by module and operation."""
        return {place: dict(counts) for place, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Counts by module, as text."""
        limit = self.depth if depth is None else depth
        total = max(self.get_total_flops(), 1)
        rows = [f"{'Module':40s} {'FLOP':>12s} {'% Total':>9s}"]
        for place, counts in self.flop_counts.items():
            level = 0 if place == "Global" else place.count(".") + 1
            if level <= limit:
                own = sum(counts.values())
                rows.append(f"{'  ' * level + place:40s} {own:12d} {100 * own / total:8.2f}%")
        return "\n".join(rows)
