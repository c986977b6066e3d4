"""The modules that are placed as a whole, with what each needs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module


@dataclass(frozen=True, slots=True)
class PlacedUnit:
    """A module, or a module's own tensors where its inner modules are units of their own."""

    name: str
    size: int  # bytes of parameters and buffers
    flops: float  # floating-point operations of a forward: estimated, two for each parameter
    seconds: float | None  # of a forward, where it was measured
    tensors: tuple[int, ...]  # the identities of what it has


def find_units(
    model: Module, no_split: Collection[str] = (), seconds: dict[str, float] | None = None,
    tokens: int = 1,
) -> list[PlacedUnit]:  # fmt: skip
    """The units of a model in the order in which its modules were made.

    Args:
        model: the model.
        no_split: names of classes whose modules stay in one piece.
        seconds: measured times by unit, from `measure_units`.
        tokens: how many rows a forward sees, for estimates.
    """
    times = seconds or {}
    units = []
    for name, tensors in _walk(model, "", frozenset(no_split)):
        size = sum(t.numel() * t.element_size() for t in tensors)
        flops = 2.0 * tokens * sum(t.numel() for t in tensors)
        units.append(PlacedUnit(name, size, flops, times.get(name), tuple(id(t) for t in tensors)))
    return units


def _walk(
    module: Module, name: str, no_split: frozenset[str]
) -> Iterator[tuple[str, list[Tensor]]]:
    children = list(module.named_children())
    if not children or type(module).__name__ in no_split:
        tensors: dict[int, Tensor] = {id(t): t for t in module.parameters()}
        tensors |= {id(t): t for t in module.buffers()}
        if tensors or not children:
            yield name, list(tensors.values())
        return
    own = [t for t in (*module._parameters.values(), *module._buffers.values()) if t is not None]
    if own:
        yield f"{name}.*" if name else "*", own
    for inner, child in children:
        yield from _walk(child, f"{name}.{inner}" if name else inner, no_split)


def measure_units(
    model: Module, *inputs: Any, no_split: Collection[str] = (), rounds: int = 3, **kwargs: Any
) -> dict[str, float]:
    """The least seconds of each unit in some forwards, where the model is now."""
    names = {u.name for u in find_units(model, no_split)}
    best: dict[str, float] = {}
    began: dict[str, float] = {}
    handles = []
    for name, module in model.named_modules():
        if name not in names:
            continue

        def before(_: Any, __: Any, name: str = name) -> None:
            began[name] = time.perf_counter()

        def after(_: Any, __: Any, ___: Any, name: str = name) -> None:
            took = time.perf_counter() - began[name]
            best[name] = min(best.get(name, took), took)

        handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    try:
        with no_grad():
            for _ in range(rounds):
                model(*inputs, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return best
