"""Parameters on a GPU: an update rule as one program for all of a group's.

See Note [updates] in `graph/eager/updates.py`. The kernels of all parameters are launched as one.
Counts of steps stay on the host, as PyTorch's do: they are numbers of the program, and advance
when it has been launched. What does not fit is updated as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter, is_
from typing import Any

from numpy import ndarray

from adjoint.engine.backends.array.lists.apart import apart, owner_of, owners_of
from adjoint.engine.core.layout import is_dense
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS, UPDATED
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state import switches
from adjoint.engine.core.value import TensorBase
from adjoint.engine.graph.eager.images import same_steps
from adjoint.engine.tensor.tensor import Tensor
from adjoint.optim.stepping.large_parameters import LargeParameters, State

_array_of = attrgetter("_array")


def are_on_device(params: Sequence[Tensor]) -> bool:
    """Whether parameters are where operations are fragments."""
    for p in params:  # not `all`: a step asks it of every parameter
        if p._array.__class__ not in DEVICE_LAYOUTS:
            return False
    return bool(params)


@dataclass(slots=True)
class Remembered:
    """Parameters that were updated before: what need not be looked at again."""

    arrays: list[Any]  # of parameters and state
    owners: set[int]  # of their memory
    kinds: list[Any]  # of gradients
    counters: list[Any]
    rules: list[Any]  # compiled
    switches: Any

    def update(self, tensors: Sequence[Tensor], grads: Sequence[Any], numbers: Any) -> bool:
        """The same once more, if nothing but gradients' elements and numbers has changed."""
        if switches.computed_with is not self.switches or kinds_of(grads) != self.kinds:
            return False
        owners = owners_of(grads)
        if 0 in owners or len({*owners}) < len(owners) or not self.owners.isdisjoint(owners):
            return False
        return any(rule.attempt(tensors, numbers) for rule in self.rules)


def kinds_of(arrays: Sequence[Any]) -> list[Any]:
    """How gradients lie."""
    return [(a.dtype, a.shape, a.strides, a.data.ptr & 63 != 0) for a in arrays]


def update_together(
    large: LargeParameters, params: Sequence[Tensor], states: Sequence[State]
) -> bool:
    """Apply the rule to all parameters, and say so; False: nothing was done."""
    if not UPDATED or large.key is None:
        return False
    tensors: list[Any] = []
    for p, state in zip(params, states, strict=True):
        tensors += [p, p._grad_meta.grad, *state.values()]  # type: ignore[union-attr]
    for t in tensors:
        if not isinstance(t, TensorBase):
            return False
    names = tuple(states[0])
    grads = [p._grad_meta.grad._array for p in params]  # type: ignore[union-attr]
    remembered = large.remembered
    if remembered is not None and len(remembered.arrays) == len(tensors) - len(grads):
        width = 2 + len(names)
        tensors_of_state: list[Tensor] = []
        for i in range(0, len(tensors), width):
            tensors_of_state.append(tensors[i])
            tensors_of_state += tensors[i + 2 : i + width]
        if all(map(is_, map(_array_of, tensors_of_state), remembered.arrays)):
            counts = [a.item() for a in remembered.counters]
            numbers = [*large.numbers, *counts[: len(counts) // len(params)]]
            if alike(counts, len(params)) and remembered.update(tensors, grads, numbers):
                return True
    return update_anew(large, params, states, tensors, grads)


def alike(counts: Sequence[float], of: int) -> bool:
    """Whether all parameters have the same counts."""
    period = len(counts) // of
    return list(counts) == list(counts[:period]) * of


def update_anew(
    large: LargeParameters,
    params: Sequence[Tensor],
    states: Sequence[State],
    tensors: Sequence[Tensor],
    grads: Sequence[Any],
) -> bool:
    """The same for parameters of which nothing is known yet."""
    large.remembered = None
    names = tuple(states[0])
    counts_of_all = [counts_of(p, state, names) for p, state in zip(params, states, strict=True)]
    if counts_of_all[0] is None or any(counts != counts_of_all[0] for counts in counts_of_all):
        return False
    arrays = [t._array for t in tensors]
    width = 2 + len(names)
    state_arrays = [a for i, a in enumerate(arrays) if i % width != 1]
    if not apart(state_arrays, grads):
        return False
    counters: dict[int, int] = {}
    for i, a in enumerate(arrays):
        if a.__class__ is ndarray:
            counters[i] = len(large.numbers) + len(counters) % len(counts_of_all[0])
    rule = large.on_stand_ins(names)

    def all_of_them(stand_ins: Sequence[Tensor], numbers: Sequence[Any]) -> None:
        for at in range(0, len(stand_ins), width):
            rule(stand_ins[at : at + width], numbers)

    key = (*large.key, *names, len(params))
    numbers = [*large.numbers, *counts_of_all[0]]
    rules: list[Any] = []
    if not HOOKS.updates.run(key, tensors, numbers, counters, all_of_them, rules):
        return False
    owners = [owner_of(a) for a in state_arrays]
    if 0 not in owners:
        large.remembered = Remembered(
            state_arrays, {*owners}, kinds_of(grads), [arrays[i] for i in counters], rules[0],
            switches.computed_with,
        )  # fmt: skip
    return True


def counts_of(p: Tensor, state: State, names: tuple[str, ...]) -> tuple[float, ...] | None:
    """The counts in a parameter's state; None where something does not lie as the parameter."""
    if tuple(state) != names:
        return None
    grad = p._grad_meta.grad  # type: ignore[union-attr]
    array = p._array
    kind = array.__class__
    if not is_dense(array.shape, steps(array)):
        return None
    counts = []
    for value in (grad, *state.values()):
        other = value._array
        if other.__class__ is ndarray and other.shape == () and value is not grad:
            counts.append(other.item())
            continue
        if other.__class__ is not kind or other.shape != array.shape:
            return None
        if not same_steps(array.shape, steps(other), steps(array)):
            return None
        if value._storage.version < 0:
            return None
    return tuple(counts)


def steps(array: Any) -> tuple[int, ...]:
    """Strides in elements."""
    size = array.itemsize
    return tuple([stride // size for stride in array.strides])
