"""Many parameters at once: one update rule on long vectors, not tensor by tensor.

Note [together]
    A rule that works element by element gives the same numbers on a vector that holds many
    parameters end to end, at a fraction of the calls. So an eager step copies a group's small
    parameters and their gradients into two vectors, runs the rule, and copies the parameters back.
    Their state stays in vectors from step to step: what `state[p]` holds are tensors on pieces of
    them, each a storage of its own, so that state dicts and captures see nothing of this. Step
    counts and other single numbers of the state are kept likewise; parameters go together only
    while these agree. A large parameter gains nothing by it and is updated by itself; that, and a
    vector that is large, are updated by a program (`large_parameters.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise
from operator import attrgetter, is_
from types import MappingProxyType
from typing import Any

from adjoint.engine.backends.array.devices import active, library
from adjoint.engine.backends.array.lists.apart import apart
from adjoint.engine.backends.array.lists.many import SMALL
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.structure_version import STRUCTURE_VERSION
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.engine.tensor.watching import doubt
from adjoint.engine.tensor.writing.mutation import leak_message

Array = Any
State = dict[str, Any]
NO_STATE: Any = MappingProxyType({})  # of a parameter whose rule keeps nothing
Rule = Callable[[Tensor, Tensor, State], None]

_array_of = attrgetter("_array")


def _same(these: Iterable[Any], those: Iterable[Any]) -> bool:
    """Whether two sequences of one length hold the same objects."""
    return all(map(is_, these, those))


class Bundle:
    """Parameters that the rule sees as one vector, with their state."""

    def __init__(self, params: list[Tensor], states: list[State], numbers: frozenset[str]) -> None:
        self.params = params
        self.states = states
        self.arrays = [p._array for p in params]
        self.flat = [a.reshape(-1) for a in self.arrays]
        self.device = params[0].device
        self.xp = library(self.device)
        ends = [0, *accumulate(a.size for a in self.arrays)]
        self.places = [slice(a, b) for a, b in pairwise(ends)]
        self.shown: dict[str, list[Array]] = {}  # what the tensors of the state show
        self.vectors: State = {}  # the state as the rule sees it
        self.numbers: dict[str, Array] = {}  # one for each parameter
        with active(self.device):
            self.p = wrap(self.xp.empty(ends[-1], self.arrays[0].dtype))
            self.grad = wrap(self.xp.empty_like(self.p._array))
            for key in states[0]:
                self._adopt(key, number=key in numbers)
        self.pieces = [self.p._array[place] for place in self.places]

    def _adopt(self, key: str, *, number: bool) -> None:
        """Bring an entry of the state into a vector; its tensors then show pieces of that."""
        parts = [s[key]._array for s in self.states]
        xp = library(self.states[0][key].device)
        joined = xp.concatenate([a.reshape(-1) for a in parts])
        places = [slice(i, i + 1) for i in range(len(parts))] if number else self.places
        if number:
            self.numbers[key] = joined
            self.vectors[key] = wrap(joined[:1].reshape(()))
        else:
            self.vectors[key] = wrap(joined)
        self._show(key, joined, places)

    def _show(self, key: str, joined: Array, places: list[slice]) -> None:
        shapes = [() if key in self.numbers else a.shape for a in self.arrays]
        self.shown[key] = [joined[i].reshape(s) for i, s in zip(places, shapes, strict=True)]
        for state, array in zip(self.states, self.shown[key], strict=True):
            state[key] = _moved(state[key], array) if key in state else wrap(array)

    def fresh(self, states: dict[Any, State]) -> bool:
        """Whether parameters and state are still those the vectors were made for."""
        count = len(self.shown)
        return (
            _same(map(_array_of, self.params), self.arrays)
            and _same([states.get(p, NO_STATE) for p in self.params], self.states)
            and all(len(s) == count for s in self.states)
            and all(
                _same([getattr(s.get(key), "_array", None) for s in self.states], shown)
                for key, shown in self.shown.items()
            )
            and all(map(_is_one_number, self.numbers.values()))
        )

    def run(self, rule: Rule) -> None:
        """Apply the rule to every element."""
        try:
            self._run(rule)
        except BaseException:
            doubt()
            raise

    def _run(self, rule: Rule) -> None:
        state = self.vectors.copy()
        with active(self.device):
            self._gather()
            rule(self.p, self.grad, state)
            for numbers in self.numbers.values():
                numbers[1:] = numbers[0]
            for array, piece in zip(self.flat, self.pieces, strict=True):
                array[...] = piece
            for key in state.keys() - self.vectors.keys():  # the rule's first step made it
                self.vectors[key] = state[key]
                self._show(key, state[key]._array, self.places)
        for p in self.params:
            p._storage.version += 1
        for of_param in self.states:
            for value in of_param.values():
                value._storage.version += 1

    def _gather(self) -> None:
        """Copy parameters and gradients into their vectors."""
        try:
            grads = [p._grad_meta.grad._array.reshape(-1) for p in self.params]  # type: ignore[union-attr]
        except AttributeError:
            raise RuntimeError(leak_message()) from None
        self.xp.concatenate(grads, out=self.grad._array)
        self.xp.concatenate(self.flat, out=self.p._array)


def _is_one_number(numbers: Array) -> bool:
    """Whether all are the same."""
    listed = numbers.tolist()  # each a number of its own: NaN is not itself
    return bool(listed.count(listed[0]) == len(listed))


def _moved(tensor: Tensor, array: Array) -> Tensor:
    """The tensor on other memory: the same object where its storage is all its own."""
    if tensor._chain or tensor._storage.buffer is not tensor._array:
        return wrap(array)
    tensor._array = tensor._storage.buffer = array
    STRUCTURE_VERSION.count += 1  # a captured step knows the state by its memory
    return tensor


class GroupUpdate:
    """How a group's parameters with gradients are updated: in bundles, the rest one by one."""

    def __init__(self, bundles: list[Bundle], rest: list[Tensor]) -> None:
        self.bundles = bundles
        self.rest = rest


class Plans:
    """The plans of an optimizer, by group and by which parameters have gradients."""

    TRIES = 8  # a group whose bundles keep falling apart is updated one by one

    def __init__(self, state: dict[Any, State], numbers: frozenset[str]) -> None:
        self.state = state
        self.numbers = numbers
        self.updates: dict[tuple[int, ...], GroupUpdate] = {}
        self.attempts: dict[int, int] = {}

    def find(self, group: int, params: list[Tensor]) -> GroupUpdate | None:
        """The plan for these parameters, if it still holds."""
        plan = self.updates.get((group, *map(id, params)))
        if plan is None or not all(b.fresh(self.state) for b in plan.bundles):
            return None
        # Gradients come anew with each step.
        return plan if not plan.bundles or _independent(params) else GroupUpdate([], params)

    def make(self, group: int, params: list[Tensor]) -> GroupUpdate:
        """A plan for parameters whose state has been made."""
        count = self.attempts[group] = self.attempts.get(group, 0) + 1
        if count > self.TRIES or not _independent(params):
            return GroupUpdate([], params)
        kinds: dict[Any, list[Tensor]] = {}
        for p in params:
            kinds.setdefault(self._kind(p), []).append(p)
        rest = kinds.pop(None, [])
        bundles = []
        for alike in kinds.values():
            if len(alike) > 1:
                bundles.append(
                    Bundle(alike, [self.state.get(p, NO_STATE) for p in alike], self.numbers)
                )
            else:
                rest += alike
        plan = self.updates[group, *map(id, params)] = GroupUpdate(bundles, rest)
        return plan

    def _kind(self, p: Tensor) -> Any:
        """What parameters in one bundle have in common; None for one that stays by itself."""
        array, state = p._array, self.state.get(p, NO_STATE)
        if (
            type(array) is Window
            or not 0 < array.size <= SMALL
            or p.dtype.is_complex
            or not _dense(p)
            or not all(self._fits(k, v, p) for k, v in state.items())
        ):
            return None
        numbers = tuple(float(state[k]) for k in state if k in self.numbers)
        kinds = tuple((k, v.dtype, v.device) for k, v in state.items())
        return (p.dtype, p.device, kinds, numbers)

    def _fits(self, key: str, value: Any, p: Tensor) -> bool:
        """Whether an entry of the state can be part of a vector."""
        if not is_tensor(value) or type(value._array) is Window or not _dense(value):
            return False
        shape = () if key in self.numbers else p.shape
        return value.shape == shape and (key in self.numbers or value.device == p.device)


def _dense(tensor: Tensor) -> bool:
    """Whether the elements lie one after the other, and may be written."""
    flags = tensor._array.flags
    writable = getattr(flags, "writeable", True)  # CuPy's always are
    return bool(flags.c_contiguous and writable and tensor._storage.version >= 0)


def _independent(params: list[Tensor]) -> bool:
    """Whether no parameter shares memory with another or a gradient, so that order is no matter."""
    grads = [p._grad_meta.grad for p in params if p._grad_meta is not None]
    arrays = [t._array for t in (*params, *grads) if t is not None]
    if any(type(array) is Window for array in arrays):
        return False
    return apart(arrays[: len(params)], arrays[len(params) :])
