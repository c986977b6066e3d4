"""Recording: what a function does on some arguments, made into a program."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adjoint.engine.capture.breaks import RecordingFailed
from adjoint.engine.capture.changed_objects import classes_leading_to
from adjoint.engine.capture.declared import declared, looked_at
from adjoint.engine.capture.dynamic.dynamic import Families, OnlyOnce
from adjoint.engine.capture.given import ARRAYS, array_places, containers
from adjoint.engine.capture.moving import ReboundTensor, has_moved, holds_state, tensors_in
from adjoint.engine.capture.program.conditions import completed
from adjoint.engine.capture.program.numbers import FreeNumbers, NumberSlot, needed_values, slots
from adjoint.engine.capture.program.program import Pending, Program, finish
from adjoint.engine.capture.python.c.upcoming import Upcoming
from adjoint.engine.capture.python.errors import PlainCall, Raised
from adjoint.engine.capture.python.guards.guard import Guard
from adjoint.engine.capture.python.locations import (
    Answer,
    Cell,
    ClassAttribute,
    Index,
    Item,
    Location,
)
from adjoint.engine.capture.python.locations import Slot as SlotPlace
from adjoint.engine.capture.python.observation import Observation, observe
from adjoint.engine.capture.python.plain import NUMBERS
from adjoint.engine.capture.recordings.inspection import Inspection
from adjoint.engine.capture.recordings.retracing import name_of
from adjoint.engine.capture.signature import share_counts, signature
from adjoint.engine.capture.tensors.callbacks import saved_hooks_around
from adjoint.engine.capture.tensors.following import TensorEngine
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.overrides import THREAD, having
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state import config, settings
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import stage
from adjoint.engine.core.tree import TreeDef, flatten, unflatten
from adjoint.engine.graph.execution import ExecutorFactory
from adjoint.engine.graph.record.aliasing import Realias, Rebinds
from adjoint.engine.graph.record.collecting import uncollected
from adjoint.engine.graph.record.trace import TRACING, Trace

# Where a number or tensor may move.
_PLACES = (Cell, ClassAttribute, Index, Item, SlotPlace, Upcoming)


# The tables of a layer are read by native code too, from where they are.
_LAYERS = frozenset({"_parameters", "_buffers"})

# How often a call is looked at anew, at most, because recording it showed what else it depends on.
MOST_LOOKS = 32


class Recordable(Inspection):
    """A function that can be recorded: for arguments, for other floats, for other sizes."""

    def __init__(
        self,
        fn: Callable[..., Any],
        factory: ExecutorFactory,
        dynamic: bool | None,
        fullgraph: bool,
    ) -> None:
        self.fn = fn
        self.factory = factory  # makes what runs a program: the reference interpreter, or better
        # Places whose numbers or tensors are read at each call: they were seen to change.
        self.moving: dict[Location, str] = {}
        self._numbers = itertools.count()  # part of their names
        # Classes of arguments that are known by what they hold; None: never (`changed_objects`).
        self.changed: frozenset[type] | None = frozenset()
        self.programs: dict[Any, list[Program]] = {}
        self.traces = 0
        self.dynamic = dynamic  # None: sizes that are seen to differ are
        self.fullgraph = fullgraph  # whether what cannot be recorded is an error
        self.for_others = False  # whether programs are for other processes: exported
        self.by_python = False  # whether results are made as those with numbers in them are
        self.in_call = False  # whether a call is under way that finds no recording
        self.free = free_numbers(dynamic)
        self.families = Families(name_of(fn), dynamic)

    def _move(self, program: Program, leaves: Sequence[Any]) -> bool:
        """Have places read at each call whose numbers or tensors changed; whether there are any."""
        changed = program.conditions.guards.failed()
        return self._note_moving([(g, g.place.now()) for g in changed if _may_move(g)], leaves)

    def _note_moving(self, changed: list[tuple[Guard, Any]], leaves: Sequence[Any]) -> bool:
        """Note places that hold another number or tensor; whether any is new."""
        if self.changed is not None:
            owners = {id(guard.place.owner) for guard, _ in changed}
            classes = classes_leading_to(owners, leaves) - self.changed
            if classes:
                self.changed |= classes
                return True
        known = len(self.moving)
        for guard, now in changed:
            before = guard.value
            if type(now) is type(before) or (is_tensor(before) and is_tensor(now)):
                self.moving.setdefault(guard.place, f"<{next(self._numbers)}: {guard.way}>")
        return len(self.moving) > known

    def _forget_places(self, recorder: Any) -> bool:
        """Let go of places that move and that a recording did not come to, if they are many.

        A place keeps what it is of, such as a cache that nobody else holds any more. All tensors at
        places are given to each call, so recordings made so far fit no call without them.
        """
        met = recorder.met_moving | recorder.moved.keys()
        met |= {p for p in self.moving if type(p) is ReboundTensor and p.owner() is not None}
        unmet = self.moving.keys() - met
        if len(unmet) < config.recording_limit:
            return False
        for place in unmet:
            del self.moving[place]
        self.forget_programs()
        return True

    def forget_programs(self) -> None:
        """Let go of every recording."""
        self.programs = {}
        self.families = Families(self.families.name, self.dynamic)

    def _known_places(self) -> tuple[int, int]:
        """What is known of places that change: more, and a call has to be looked at again."""
        return len(self.moving), len(self.changed or ())

    def _give(self, tensor: Any) -> None:
        """Have a tensor from outside as an argument of calls: it shows other memory at each."""
        place = ReboundTensor(tensor)
        name = self.moving.pop(place, f"<{next(self._numbers)}: rebound>")  # of one that is no more
        self.moving[place] = name

    def _with_free_numbers(
        self, leaves: list[Any], structure: TreeDef, numbers: list[NumberSlot]
    ) -> Program | None:
        """A recording that reads numbers at each call; None where it needs some of their values.

        Those are constants from then on.
        """
        places, traces = {slot.place for slot in numbers}, self.traces
        whole = {place for place in places if type(leaves[place]) is int}
        try:
            program = self.trace(leaves, structure, numbers)
        except Exception:  # recorded for the values themselves, it may succeed, or say why not
            self.free.fix(structure, whole or places)
            self.traces = traces
            return None
        needed = set() if program is None else needed_values(program.conditions.host_tests)
        if program is not None and needed:
            program.take_back()
            self.free.fix(structure, needed)
            self.traces = traces
            return None
        return program

    def _for_sizes(self, key: Any, leaves: list[Any], structure: TreeDef) -> Program | None:
        """A program made from one with dynamic sizes, or None where sizes are not dynamic."""
        if array_places(structure, leaves):
            return None
        free = self.free.of(structure)
        program = self._of_family(key, leaves, structure)
        if program is None:
            family = self.families.start(
                key,
                list(self.programs),
                leaves,
                lambda stand_ins, by_python: self.trace_specs(
                    stand_ins, structure, slots(free, leaves), by_python=by_python
                ),
            )
            if family is None:
                return None
            self.traces += 1
            program = self._of_family(key, leaves, structure)
            if program is None:
                family.template.take_back()
        return program

    def _of_family(self, key: Any, leaves: list[Any], structure: TreeDef) -> Program | None:
        """A program made from a recording there is, with dynamic sizes."""
        if array_places(structure, leaves):
            return None
        program = self.families.find(key, leaves)
        if program is not None:
            program.prepare(leaves, self.factory)
        return program

    def trace(
        self, leaves: list[Any], structure: TreeDef, numbers: Sequence[NumberSlot] = ()
    ) -> Program | None:
        """Record the function for these arguments, leaving everything as it was.

        None where places were found to move: the call is looked at again with them as arguments.
        """
        given = list(leaves)
        for slot in numbers:
            given[slot.place] = slot.scalar
        self.traces += 1
        counts = share_counts(leaves)
        how = {identity: "window" if n == 1 else "whole" for identity, n in counts.items()}
        while True:
            trace = Trace(located=True)
            trace.runs_here = not self.for_others
            try:
                for i, leaf in enumerate(leaves):
                    if is_tensor(leaf):
                        trace.argument(i, leaf, how[leaf._storage.identity])
                with stage(f"record {self.families.name}"):
                    program = self._program(trace, structure, given, leaves, numbers)
            except Realias as clash:
                if how.get(clash.storage.identity) == "state":  # once more would end here again
                    if self.fullgraph:
                        raise
                    raise RecordingFailed from clash
                how[clash.storage.identity] = "state"
                continue
            except Rebinds as rebinding:
                self._give(rebinding.tensor)
                program = None
            except Raised:
                raise
            except PlainCall as error:
                raise Raised(error, by_program=True) from None
            except Exception as error:
                if isinstance(error, CaptureError):
                    error.__traceback__ = None  # it names the line; the rest is the recorder's
                if self.fullgraph:
                    raise error
                raise RecordingFailed from error
            finally:
                trace.undo()
            if program is None:
                self.traces -= 1
                return None
            try:
                program.prepare(leaves, self.factory)
            except MemoryError:
                program.take_back()
                raise
            return program

    def _program(
        self,
        trace: Trace,
        structure: TreeDef,
        given: list[Any],
        leaves: list[Any],
        numbers: Sequence[NumberSlot] = (),
    ) -> Program | None:
        """The program of a call: observed, recorded, finished, guarded.

        None where places turned out to move.
        """
        observation = self._observe(trace, structure, given)
        try:
            forgotten = self._forget_places(observation.recorder)
            if forgotten or self._places_moved(observation, leaves):
                self._take_back(observation)
                return None
            tensors = [t for g in observation.recorder.guards.values() for t in tensors_in(g.value)]
            engine: Any = observation.recorder.engine
            engine.memory.check_written()
            engine.hooks.check()
            engine.states.check()
            held = looked_at(list(engine.holders.values()), tensors)[1]
            with CONTEXT.having(capture=trace, saved_hooks=()):
                program = finish(trace, observation, leaves, tensors, held)
        except BaseException:
            self._take_back(observation)
            raise
        observation.roll_back()
        engine.end()
        program.origin = replace(program.origin, modules=tuple(engine.lines.roots.values()))
        used_up = [(node, node.kept()) for node in trace.passed]
        if engine.restores or used_up:
            program.pending = Pending(engine.restores, used_up)
        trace.undo()  # flags of tensors are looked at as they were
        self._guard(program, trace, observation, tensors, leaves, numbers)
        observation.recorder.forget()
        engine.forget()
        return program

    def _observe(self, trace: Trace, structure: TreeDef, given: list[Any]) -> Observation:
        """The function followed on these arguments, its operations recorded meanwhile."""
        engine = TensorEngine(trace)
        engine.in_call, engine.by_python = self.in_call, self.by_python
        given = list(given)
        for place in array_places(structure, given):
            given[place] = engine.given_array(place, given[place])
        args, kwargs = unflatten(structure, given)
        engine.changed = self.changed or frozenset()
        given_containers = list(containers((args, kwargs), engine.changed))
        engine.given_states = {
            place: kwargs[name]
            for place, name in self.moving.items()
            if name in kwargs and not is_tensor(kwargs[name])
        }
        for name in {ARRAYS, *self.moving.values()} & kwargs.keys():
            del kwargs[name]
        engine.given_paths = {id(container): path for container, path in given_containers}
        before, consulted = settings.present(), set[str]()
        left: dict[str, Any] = {}
        try:
            # What the function enters and does not leave, because it is refused there, is left.
            overrides = having(subclasses=THREAD.subclasses, functions=THREAD.functions)
            context = CONTEXT.having(
                capture=trace,
                recording=True,
                consulted=consulted,
                saved_hooks=saved_hooks_around(engine),
            )
            with context, overrides:
                observation = observe(
                    self.fn,
                    args,
                    kwargs,
                    engine=engine,
                    moving=self.moving,
                    given={id(container): container for container, _ in given_containers},
                )
        except BaseException:
            _all(engine.restores)
            engine.forget()
            raise
        finally:
            left = settings.changed_since(before)
        if observation.error is not None:
            self._take_back(observation)
            raise Raised(observation.error)
        self._guard_settings(observation, consulted, before)
        for name, value in left.items():
            observation.recorder.effect(settings.put, name, value)
        return observation

    def _guard_settings(
        self, observation: Observation, consulted: set[str], before: dict[str, Any]
    ) -> None:
        """Have the settings that the function asked for be as they were before it."""
        for name in sorted(consulted):
            if name not in before:  # kept by a module that the function was the first to load
                self._take_back(observation)
                raise CaptureError(
                    f"compile: the {name} is asked for or set inside the function before anybody "
                    "else did. Read it once outside."
                )
            observation.recorder.guard(Answer(settings.holds, (name, before[name])), True)

    @staticmethod
    def _take_back(observation: Observation) -> None:
        """Have Python's state as before a recording."""
        observation.roll_back()
        engine: Any = observation.recorder.engine
        _all(engine.restores)
        engine.forget()

    def _places_moved(self, observation: Observation, leaves: Sequence[Any]) -> bool:
        """Whether the function left another number or tensor where it read one before."""
        changed = [
            (guard, now if is_tensor(now) else guard.value)
            for guard in observation.recorder.guards.values()
            if _may_move(guard) and has_moved(guard.value, now := guard.place.now())
        ]
        return bool(changed) and self._note_moving(changed, leaves)

    @staticmethod
    def _guard(
        program: Program,
        trace: Trace,
        observation: Observation,
        tensors: list[Any],
        leaves: list[Any],
        numbers: Sequence[NumberSlot],
    ) -> None:
        """Say on which calls a program stands, now that everything is as the call found it."""
        engine: Any = observation.recorder.engine
        holders = list(engine.holders.values())
        program.conditions = completed(
            program.conditions,
            trace,
            leaves,
            guards=observation.guards(
                HOOKS.guard, declared(holders, tensors, trace.positions.keys())
            ),
            numbers=[*[late.slot for late in engine.given_arrays], *numbers],
            placed=[ref for ref, _ in program.effects.places],
            met={id(tensor): tensor for tensor in looked_at(holders, tensors)[1]},
        )

    def recorded(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
        """The program of a call, handed to the executor factory and not run.

        Float arguments are numbers of each call where the function allows that. State that the
        recording made (an optimizer's) stays until `program.take_back` is called.
        """
        self.for_others = True
        leaves, structure = flatten((args, kwargs))
        numbers = slots([i for i, leaf in enumerate(leaves) if type(leaf) is float], leaves)
        with TRACING, uncollected():
            for _ in range(MOST_LOOKS):
                key = signature(leaves, structure, self.free.of(structure))
                program = None if numbers else self._for_sizes(key, leaves, structure)
                if program is None and numbers:
                    program = self._with_free_numbers(leaves, structure, numbers)
                program = program or self.trace(leaves, structure)
                if program is not None and program.origin.once:
                    program.take_back()
                    raise CaptureError(
                        f"export: backward inside {name_of(self.fn)} goes through operations from "
                        "outside, which no other call has. Compute inside what is differentiated "
                        "there, or pass it detached."
                    )
                if program is not None:
                    return program
        raise RuntimeError(
            f"export: {name_of(self.fn)} puts other numbers or tensors where it reads them, each "
            "time anew; pass them as arguments and return them."
        )

    def trace_specs(
        self,
        stand_ins: list[Any],
        structure: TreeDef,
        numbers: Sequence[NumberSlot] = (),
        *,
        by_python: bool = False,
    ) -> Program:
        """Record the function for arguments of which only (spec, requires_grad) is known.

        `by_python`: its result is put together as one with numbers in it is, though it has none.
        """
        trace = Trace(located=True)
        leaves = [
            trace.stand_in(i, x[0], requires_grad=x[1])
            if isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], Spec)
            else x
            for i, x in enumerate(stand_ins)
        ]
        try:
            given = list(leaves)
            for slot in numbers:
                given[slot.place] = slot.scalar
            self.by_python = by_python
            program = self._program(trace, structure, given, leaves, numbers)
        except Rebinds as rebinding:
            self._give(rebinding.tensor)
            program = None
        finally:
            self.by_python = False
            trace.undo()
        if program is None:
            raise OnlyOnce
        conditions = program.conditions
        if not conditions.tests_hold() or needed_values(conditions.host_tests):
            program.take_back()
            raise OnlyOnce
        return program


def free_numbers(dynamic: bool | None) -> FreeNumbers:
    """Numbers among arguments that may be read at each call: with `dynamic=False`, floats only."""
    return FreeNumbers((float,) if dynamic is False else (int, float))


def _all(restores: list[Callable[[], None]]) -> None:
    for restore in restores:
        restore()


def _may_move(guard: Guard) -> bool:
    """Whether a place may be read at each call: it holds a number, a tensor or state of them."""
    value, place = guard.value, guard.place
    if not isinstance(place, _PLACES):
        return False
    number = type(value) in NUMBERS and type(value) is not bool
    if number or is_tensor(value):
        return True
    return holds_state(value) and not (type(place) is Item and place.key in _LAYERS)
