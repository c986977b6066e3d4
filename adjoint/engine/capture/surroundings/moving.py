"""What moves on when it is read, and stays put for a recording: iterators, Python's random numbers.

A function that takes the next batch from an iterator, or draws from `random` or NumPy, would do so
once, and every later call would see the first batch or number again. Such functions are refused.
"""

from __future__ import annotations

import builtins
import contextlib
import operator
import random
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from adjoint.engine.capture.surroundings.reach import Names
from adjoint.engine.core.errors import users_line
from adjoint.engine.core.state.context import CONTEXT

State = tuple[Callable[[], Any], Callable[[Any], Any]]  # how to ask for it, how to set it
_NUMPY = (np.random.Generator, np.random.RandomState)
REMEDY = (
    "a recording would see the same at each call. Do it outside the function and pass the result "
    "as an argument"
)


def is_iterator(value: Any) -> bool:
    """Whether a value gives something else each time it is asked."""
    return hasattr(type(value), "__next__")


def _state_of(value: Any) -> State | None:
    """How to look at the state of a random number generator of Python or NumPy."""
    if isinstance(value, random.Random):
        return value.getstate, value.setstate
    if isinstance(value, np.random.RandomState):
        return lambda: value.get_state(legacy=False), value.set_state
    if isinstance(value, np.random.Generator):
        bits = value.bit_generator
        return lambda: bits.state, lambda state: setattr(bits, "state", state)
    return None


class Moving:
    """Iterators and generators of random numbers, as they stand before a recording."""

    def __init__(self, names: Names) -> None:
        self.iterators: dict[int, tuple[str, Any, Any]] = {}  # by id: name, itself, how far it is
        self.states: list[tuple[str, State, Any]] = []
        if "random" not in names.named:
            return  # whoever draws meanwhile is another thread
        self._add_states("random", (random.getstate, random.setstate))
        self._add_states(
            "numpy.random", (lambda: np.random.get_state(legacy=False), np.random.set_state)
        )

    def add(self, name: Callable[[], str], value: Any) -> None:
        """Keep an eye on something within reach, if it moves."""
        if is_iterator(value):
            self.iterators[id(value)] = name(), value, _progress(value)
            return
        state = _state_of(value)
        if state is not None:
            self._add_states(name(), state)

    def _add_states(self, name: str, state: State) -> None:
        self.states.append((name, state, state[0]()))

    @contextlib.contextmanager
    def guarding(self) -> Iterator[None]:
        """Refuse `next` of these iterators before it takes anything."""
        if not self.iterators:
            yield
            return
        plain: Callable[..., Any] = builtins.next

        def refuse(iterator: Any, *default: Any) -> Any:
            if CONTEXT.capture is not None and id(iterator) in self.iterators:
                name = self.iterators[id(iterator)][0]
                raise RuntimeError(
                    f"next: called at {users_line()} on the iterator {name} while the function is "
                    f"recorded; {REMEDY}."
                )
            return plain(iterator, *default)

        builtins.next = refuse
        try:
            yield
        finally:
            builtins.next = plain

    def check(self) -> None:
        """Refuse a function that has moved something on."""
        for name, iterator, before in self.iterators.values():
            if _progress(iterator) != before:
                raise RuntimeError(
                    f"compile: the function takes elements from the iterator {name}; {REMEDY}."
                )
        for name, (ask, _), before in self.states:
            if not _alike(ask(), before):
                raise RuntimeError(
                    f"compile: the function draws random numbers from {name}; {REMEDY}, or draw "
                    "with adjoint's own functions (adjoint.rand), which are new at each call."
                )

    def put_back(self) -> None:
        """After a recording that failed: the same numbers are drawn again."""
        for _, (ask, restore), before in self.states:
            if not _alike(ask(), before):
                restore(before)


def _progress(iterator: Any) -> Any:
    """Something that differs when an iterator was asked; None where nothing tells."""
    if isinstance(iterator, types.GeneratorType):
        frame = iterator.gi_frame
        return frame and (frame.f_lasti, {k: id(v) for k, v in frame.f_locals.items()})
    return operator.length_hint(iterator, -1)


def _alike(a: Any, b: Any) -> bool:
    """Whether two states are the same; NumPy's hold arrays."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_alike(a[k], b[k]) for k in a)
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)
