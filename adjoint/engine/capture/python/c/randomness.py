"""Python's generators of random numbers: what a call draws, seeds, takes down and puts back."""

from __future__ import annotations

import _random
import functools
import random
from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.python.plain import is_a, is_plain
from adjoint.engine.capture.python.recorder import Recorder
from adjoint.engine.capture.python.symbols import CallValue

from .functions import Handler
from .methods import TABLE


def _draw(method: Any) -> Handler:
    def handler(recorder: Recorder, generator: Any, /, *args: Any) -> Any:
        args = tuple(recorder.concrete(x) for x in args)
        return recorder.draw(generator, functools.partial(method, generator, *args), _keep_random)

    return handler


def _seed(recorder: Recorder, generator: Any, seed: Any = None, /) -> None:
    """Seeding, in its place among the draws; a number that moves is read by each call."""
    if seed is None:
        raise recorder.refuse(
            "random.seed()", "without a seed it takes one from the operating system at each call",
            "Pass a seed.",
        )  # fmt: skip
    moves = recorder.engine.is_symbol(seed)
    read = recorder.engine.reader_now(seed) if moves else functools.partial(_itself, seed)
    take = functools.partial(_seeded, generator, read)
    recorder.draw(generator, take, _keep_random)


def _itself(value: Any) -> Any:
    return value


def _seeded(generator: Any, read: Callable[[], Any]) -> None:
    _random.Random.seed(generator, read())


def _keep_random(generator: Any) -> Callable[[], None]:
    state = generator.getstate() if is_a(generator, random.Random) else None
    if state is None:
        raise NotImplementedError
    return lambda: generator.setstate(state)


class TakenState(CallValue):
    """The state of a generator at some point of each call."""

    __slots__ = ("value",)

    def take(self, generator: Any) -> None:
        """Note the state."""
        self.value = _random.Random.getstate(generator)

    def put_back(self, generator: Any) -> None:
        """Have the generator at the state again."""
        _random.Random.setstate(generator, self.value)

    def now(self) -> Any:
        """The state that the present call took."""
        return self.value


def _get_state(recorder: Recorder, generator: Any, /) -> Any:
    if recorder.is_fresh(generator):
        return _random.Random.getstate(generator)
    state = TakenState(recorder, "the state of a random generator")
    recorder.draw(generator, functools.partial(state.take, generator), _keep_random)
    return recorder.new(state)


def _set_state(recorder: Recorder, generator: Any, state: Any, /) -> None:
    if type(state) is not TakenState:
        if not is_plain(state):
            raise recorder.refuse(
                "setstate", "the state is no tuple of numbers", "Pass what getstate() gave."
            )
        given, state = state, TakenState(recorder, "the state of a random generator")
        state.value = given
    if recorder.is_fresh(generator):
        state.put_back(generator)
        return
    recorder.draw(generator, functools.partial(state.put_back, generator), _keep_random)


TABLE[_random.Random] = {
    "random": _draw(_random.Random.random),
    "getrandbits": _draw(_random.Random.getrandbits),
    "seed": _seed,
    "getstate": _get_state,
    "setstate": _set_state,
}
