"""Counting the multiplications and additions of products: PyTorch's `torch.utils.flop_counter`."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from adjoint.engine.backends.array.table import kernel_for
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import map_tree
from adjoint.engine.graph.flops import shape_of
from adjoint.engine.tensor.tensor import Tensor
from adjoint.library.arguments import filled
from adjoint.library.custom import CUSTOM, OPERATIONS, CustomOpDef
from adjoint.nn.modules.base.hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from adjoint.nn.modules.module import Module
from adjoint.ops import OpOverload

__all__ = ["FlopCounterMode", "register_flop_formula"]

Formula = Callable[..., Any]
# By operation of one's own, its count: called with its arguments, and its result as `out_val`.
flop_registry: dict[Any, Formula] = {}


def get_shape(i: Any) -> Any:
    """The shape of a tensor; anything else as it is."""
    return i.shape if isinstance(i, Tensor) else i


def shape_wrapper(f: Formula) -> Formula:
    """A count that asks for shapes, as one that is called with tensors."""

    @functools.wraps(f)
    def counted(*args: Any, out_val: Any = None, **kwargs: Any) -> Any:
        shapes, named, out_shape = map_tree(get_shape, (args, kwargs, out_val))
        return f(*shapes, out_shape=out_shape, **named)

    return counted


def _check(target: Any, what: str) -> None:
    """Refuse what no count can be given for: a function, or an operation of Adjoint's own."""
    if isinstance(target, CustomOpDef) or (isinstance(target, OpOverload) and target._fn is None):
        return
    if isinstance(target, OpOverload):
        raise NotImplementedError(
            f"{what}: {target.name()} is counted by Adjoint's record of it, which computes it in "
            "other steps than PyTorch's; give counts for operations of torch.library"
        )
    raise ValueError(
        f"{what}: expected each target to be OpOverloadPacket (i.e. torch.ops.mylib.foo), got "
        f"{target} which is of type {type(target)}"
    )


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Formula], Formula]:
    """Say how many floating-point operations an operation of one's own takes.

    Args:
        targets: the operation, `torch.ops.mylib.foo`, or several.
        get_raw: whether the function takes the arguments and `out_val`, not shapes and `out_shape`.

    Example:
        >>> import adjoint as ad
        >>> @ad.library.custom_op("counted::product", mutates_args=())
        ... def product(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        ...     return x @ y
        >>> @register_flop_formula(ad.ops.counted.product)
        ... def count(x_shape, y_shape, *args, out_shape=None, **kwargs):
        ...     return 2 * x_shape[0] * x_shape[1] * y_shape[1]
        >>> with FlopCounterMode(display=False) as counter:
        ...     z = product(ad.ones(2, 3), ad.ones(3, 4))
        >>> counter.get_total_flops()
        48
    """

    many = targets if isinstance(targets, (list, tuple)) else (targets,)
    for each in many:
        _check(each, "register_flop_formula(targets)")

    def register(formula: Formula) -> Formula:
        for target in many:
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else shape_wrapper(formula)
        return formula

    return register


class FlopCounterMode:
    """Counts what products, convolutions and attention take inside its `with` block.

    Backward counts too, elementwise operations do not. Counts are kept by module, by the names of
    those modules that are called inside one another; "Global" is all.

    Args:
        mods: accepted for older programs, and not needed.
        depth: how deep modules are shown in the table.
        display: whether the table is printed at the end.
        custom_mapping: counts of operations of one's own, as for `register_flop_formula`; a
            function with the attribute `_get_raw` takes tensors. Adjoint's records count the rest.

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
        # What custom operations ask for: those counted as a whole, not by what they call.
        self.whole_operations: dict[Any, Formula] = dict(flop_registry)
        for target, formula in (custom_mapping or {}).items():
            _check(target, "FlopCounterMode: custom_mapping")
            raw = getattr(formula, "_get_raw", False)
            self.whole_operations[target] = formula if raw else shape_wrapper(formula)
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._inside: list[str] = []
        self._handles: list[Any] = []
        self._uncompiled = False  # as it was before

    def _observe(
        self, record: Record, operands: tuple[Any, ...], params: dict[str, Any], outs: Any
    ) -> None:
        if record is CUSTOM:
            operation = OPERATIONS[params["op"]]
            formula = self.whole_operations.get(operation)
            if formula is not None:
                many = outs if isinstance(outs, tuple) else (outs,)
                result = many[0] if len(many) == 1 else many or None
                arguments = filled(params["layout"], operands)
                self._add(operation._qualname, formula(*arguments, out_val=result))
            return
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
        self._add(record.name, flops)

    def _add(self, name: str, flops: int) -> None:
        for place in {"Global", *self._inside}:
            self.flop_counts[place][name] += flops

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
