"""observe: run a function under observation; what it read, what it wrote, how to do that again."""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import getweakrefs

from adjoint.engine.capture.python import instructions as instructions  # what frames execute
from adjoint.engine.capture.python.calling import is_python
from adjoint.engine.capture.python.language.attributes import class_lookup
from adjoint.engine.capture.python.language.calls import call
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.loading import bring

from .decoding import INSTRUCTIONS
from .engine import Engine, NoEngine
from .errors import Refusal
from .frames import check_closed
from .guards.guard import Guard
from .guards.guards import Guards
from .guards.table import Check
from .instructions import TABLE
from .locations import Location
from .plain import BY_IDENTITY, FIXED, elements, is_a
from .rebuilding import CallObjects, Describer, Recipe
from .recorder import DrawnNumber, Effect, Recorder

INSTRUCTIONS.update(TABLE)
_DEPTH = 12  # frames of the recorder's own for one of the observed code, at most


@dataclass(frozen=True, slots=True)
class Redo:
    """An effect in a call."""

    do: Callable[..., Any]
    args: tuple[Recipe, ...]


class Replay:
    """The effects and the result of a recording, for calls that its guards hold for."""

    def __init__(
        self,
        draws: list[DrawnNumber],
        effects: tuple[Redo, ...],
        result: Recipe,
        error: Recipe | None,
    ) -> None:
        self.draws = draws
        self.effects = effects
        self.result = result
        self.error = error

    def __call__(self, engine: Any = None) -> Any:
        """Do what the recorded call did; what it gave."""
        for draw in self.draws:
            draw.again()
        return self.finish(engine)

    def finish(self, engine: Any = None) -> Any:
        """The effects and the result, once numbers are drawn."""
        objects = CallObjects(engine)
        for effect in self.effects:
            effect.do(*[arg.make(objects) for arg in effect.args])
        if self.error is not None:
            raise self.error.make(objects)
        return self.result.make(objects)


class Observation:
    """What a call did."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def effects(self) -> list[Effect]:
        """What was written, in order."""
        return self.recorder.effects

    def guards(self, check: Check | None = None, declared: Iterable[Guard] = ()) -> Guards:
        """What was read."""
        self.recorder.ways.close()
        return Guards(self.recorder.guards.values(), check, declared)

    def roll_back(self) -> None:
        """Have Python's state as it was before."""
        self.recorder.journal.roll_back()

    def replay(self, engines: Callable[[Any], Recipe | None] = lambda value: None) -> Replay:
        """How calls do this again; asked for before rolling back, while objects are as they are."""
        describer = Describer(self.recorder, engines)
        effects = []
        for at, effect in enumerate(self.recorder.effects):
            describer.line = effect.line
            try:
                args = tuple(map(describer.recipe, effect.args))
            except (CaptureError, RuntimeError):  # what is kept for a while need not be made
                last = _overwriting(self.recorder.effects, at)
                if last is None:
                    raise
                args = tuple(map(describer.recipe, last.args))
            effects.append(Redo(effect.do, args))
        describer.line = "the result"
        error = None if self.error is None else describer.recipe(self.error)
        return Replay(
            list(self.recorder.draws), tuple(effects), describer.recipe(self.result), error
        )


_STORES = (dict.__setitem__, OrderedDict.__setitem__)


def _overwriting(effects: list[Effect], at: int) -> Effect | None:
    """The next write to the key of a dict that an effect writes to; None if it may be seen."""
    effect = effects[at]
    if effect.do not in _STORES:
        return None
    owner, key, _ = effect.args
    for other in effects[at + 1 :]:
        if not other.args or other.args[0] is not owner:
            continue
        if other.do is not effect.do:
            return None
        if type(other.args[1]) is type(key) and other.args[1] == key:
            return other
    return None


def observe(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    engine: Engine | None = None,
    given: Mapping[int, Any] | None = None,
    moving: Collection[Location] = (),
    fresh: Iterable[Any] = (),
) -> Observation:
    """Run a function under observation.

    What it writes is written; `roll_back` undoes it. An exception of the function's is part of what
    it does; a `Refusal` is raised, with everything as before.

    >>> rate = {"value": 2}
    >>> seen = observe(lambda x: x * rate["value"], (3,))
    >>> seen.result, seen.guards().holds()
    (6, True)
    >>> rate["value"] = 3
    >>> seen.guards().holds()
    False
    """
    bring(HOOKS.recorded_by)
    recorder = Recorder(engine or NoEngine(), call, given, moving)
    recorder.engine.begin(recorder)
    for value in fresh:
        recorder.new(value)
    observation = Observation(recorder)
    limit = sys.getrecursionlimit()
    recorder.most_frames = limit - _frames_now()
    sys.setrecursionlimit(limit * _DEPTH)
    try:
        observation.result = call(recorder, fn, args, dict(kwargs or {}))
        check_closed(recorder)
    except CaptureError:
        recorder.give_up()
        raise
    except BaseException as error:
        if recorder.refusal is not None:
            recorder.give_up()
            raise recorder.refusal from None
        if not isinstance(error, Exception) and error is not recorder.raised:
            recorder.give_up()  # an interrupt from outside
            raise
        observation.error = error
    finally:
        sys.setrecursionlimit(limit)
        recorder.engine.over()
    _check_let_go(recorder)
    if recorder.refusal is not None:
        recorder.give_up()
        raise recorder.refusal
    return observation


def _check_let_go(recorder: Recorder) -> None:
    """Refuse what may end an object whose end something waits for: a recording holds it longer."""
    for owner, value in recorder.journal.let_go():
        awaited = _awaited(recorder, value)
        if awaited is None:
            continue
        lines = [x.line for x in recorder.effects if x.args and x.args[0] is owner]
        recorder.refusal = Refusal(
            f"a {type(awaited).__name__} that is let go of",
            "something is called at its end, and a call could not tell when",
            "Let go of it outside.",
            (lines or ["the call"])[0],
        )
        return


def _awaited(recorder: Recorder, value: Any) -> Any:
    """What is in a value, or itself, that has a `__del__` or a weak reference that calls back."""
    met, left = set[int](), [value]
    while left:
        one = left.pop()
        if type(one) in FIXED or id(one) in met or recorder.is_fresh(one):
            continue
        met.add(id(one))
        if is_a(one, (*BY_IDENTITY, type)) or recorder.engine.owns(one):
            continue
        waits = any(reference.__callback__ is not None for reference in getweakrefs(one))
        if waits or is_python(recorder, class_lookup(recorder, type(one), "__del__")):
            return one
        if is_a(one, dict):
            left += [*dict.keys(one), *dict.values(one)]
        elif is_a(one, (list, tuple, set, frozenset, deque)):
            left += elements(one)
        if type(one).__dictoffset__:
            left += object.__getattribute__(one, "__dict__").values()
    return None


def _frames_now() -> int:
    count, frame = 0, sys._getframe()
    while frame.f_back is not None:
        count, frame = count + 1, frame.f_back
    return count
