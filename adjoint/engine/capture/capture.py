"""capture: run a function once, keep its graph, and replay it for calls of the same signature."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.engine.capture.breaks import Breaks, LeftToPython, RecordingFailed, key_of
from adjoint.engine.capture.changed_objects import LookAgain
from adjoint.engine.capture.given import NONE, check_distinct, given_leaves
from adjoint.engine.capture.making import MOST_LOOKS, Recordable, free_numbers
from adjoint.engine.capture.methods import Methods
from adjoint.engine.capture.moving import holds_state
from adjoint.engine.capture.program.numbers import slots
from adjoint.engine.capture.program.prepared import PreparedCall
from adjoint.engine.capture.program.program import Program
from adjoint.engine.capture.program.ready import UNREAD
from adjoint.engine.capture.program.straight import MISSED, StraightCall, straight_call
from adjoint.engine.capture.python.errors import Raised
from adjoint.engine.capture.python.guards.guards import Guards
from adjoint.engine.capture.recordings.retracing import Retraces, name_of
from adjoint.engine.capture.signature import Arguments, modes, signature
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.overrides import OVERRIDES, THREAD
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state import config, forks
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS, stage
from adjoint.engine.core.tree import TreeDef
from adjoint.engine.graph.execution import ExecutorFactory, interpreted
from adjoint.engine.graph.record.collecting import uncollected
from adjoint.engine.graph.record.trace import TRACING

_READY = 8  # programs the quick way tries
# Programs of other sizes, which are made of one recording within milliseconds. One that can be
# differentiated has arrays of the size of gradients; one that cannot has the words of its call.
# Where an executor has no plan for many sizes, each is a program of its own, as recordings are.
_SIZES = {True: 32, False: 256}
COMPILED = "__compiled__"  # the attribute under which an object keeps its compiled methods
_ALL: weakref.WeakSet[Captured] = weakref.WeakSet()
_KEPT: list[list[Captured]] = []  # lists that hold what is compiled meanwhile
_clock = itertools.count(1)  # says which programs were used last


@dataclass(slots=True)
class Stance:
    """What is done with a call that no recording stands for."""

    word: str = "default"


STANCE = Stance()


class Recent:
    """A program that was used lately, and the quick test of arguments for it."""

    __slots__ = ("arguments", "guards", "known", "program", "straight")

    def __init__(self, arguments: Arguments, guards: Guards, program: Program) -> None:
        self.arguments, self.guards, self.program = arguments, guards, program
        self.known = False  # whether it was seen if there is a straight call, and made
        self.straight: StraightCall | None = None  # Note [straight calls]

    def make_straight(self) -> None:
        """Have its straight call made, if it can have one: when a call like it comes again."""
        self.known = True
        self.straight = straight_call(self.arguments, self.guards, self.program, _clock)


Ready = tuple[Recent, ...]


class Captured(Recordable):
    """A function that is traced once per signature and replayed by an executor.

    Results are equal to the function's own, as are its effects: tensors written in place,
    gradients, random generators.

    >>> import adjoint as ad
    >>> from adjoint.graph import capture
    >>> twice = capture(lambda x: x * 2)
    >>> twice(ad.tensor([1.0, 2.0]))
    tensor([2., 4.])
    >>> print(twice.graph_text().split("\\n\\n\\n")[1])
    def graph(x0):
        # %x0: float32[2]
        v1 = ops.mul(x0, 2)  # float32[2]
        return (v1,)
    <BLANKLINE>

    Note [calls]
        A call takes one of three ways. The quick one: arguments are like those of a recent call,
        and the guards of its program hold (by one function for all: Note [straight calls]). The
        long one compares signatures in full. If no program fits, the function is traced. Functions
        with effects run one call at a time.

    Note [exceptions]
        What a function raises happens as in Python: the recording is taken back and Python does
        the call, so state is as Python left it at the raising line, and the traceback is the
        function's own. What happens outside of the function's lines leaves everything as before
        the call: what cannot be recorded (`CaptureError`), and what kernels find in the data (an
        index out of bounds), unless the function could catch that: then Python does the call, too.
    """

    __module__: str
    __qualname__: str

    def __init__(
        self,
        fn: Callable[..., Any],
        factory: ExecutorFactory = interpreted,
        *,
        dynamic: bool | None = None,
        fullgraph: bool = True,
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        super().__init__(fn, factory, dynamic, fullgraph)
        self._latest: Program | None = None
        self._made_at = 0  # the clock at the latest recording
        self.retraces = Retraces(fn)
        self.breaks = Breaks(fn, name_of(fn))
        # What the quick way tries, replaced as a whole: other threads may be reading it.
        self.ready: Ready = ()
        self.effects = False  # whether some program has any
        self.lock = forks.reentrant(forks.LockOrder.EFFECTS)
        _ALL.add(self)
        for keeper in _KEPT:
            keeper.append(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        context = CONTEXT
        if context.uncompiled or not (
            context.plain or (context.capture is None and not context.levels)
        ):
            return self.fn(*args, **kwargs)  # part of an outer trace or transform, or looked at
        if OVERRIDES.entered and THREAD.modes:
            return self.fn(*args, **kwargs)  # a mode sees each function that is called
        if LISTENERS:
            with stage(f"compiled {self.families.name}", "compiled"):
                return self._call_alone(args, kwargs)
        ready = self.ready  # this is `_call_alone`, written out: every call comes here
        if not self.effects:
            return self._call(args, kwargs, ready)
        with self.lock:
            return self._call(args, kwargs, self.ready)

    def _call_alone(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function that may have effects, while no other is under way."""
        ready = self.ready  # first: programs with effects come there after `effects` is set
        if not self.effects:
            return self._call(args, kwargs, ready)
        with self.lock:
            return self._call(args, kwargs, self.ready)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], ready: Ready) -> Any:
        hidden = self._hidden() if self.moving else None
        if not kwargs and not hidden:
            for recent in ready:
                straight = recent.straight
                if straight is not None:
                    result = straight(args)
                    if result is not MISSED:
                        return result
            recalled = self._recall(args, None, ready)
            if recalled is not None:
                call, hosts = recalled
                try:
                    return call(args, None, hosts)
                except Raised:
                    pass
                return self.fn(*args, **kwargs)
        named = {**kwargs, **hidden} if hidden else kwargs
        leaves, structure = given_leaves(args, named, self.changed or NONE)
        try:
            recalled = self._recall(leaves, structure, ready)
            if recalled is not None:
                return self._replay(*recalled, leaves, (args, named))
            if self.fullgraph or not self.breaks.covers(leaves, structure):
                return self._long_way(args, kwargs)
        except Raised as raised:
            self.breaks.count(raised.error, self.fullgraph)
            error: BaseException | None = None if raised.by_program else raised.error
        except RecordingFailed as refused:
            error = refused.__cause__ or refused
        except LeftToPython:
            if STANCE.word == "fail_on_recompile":
                raise RuntimeError(
                    "Detected recompile when torch.compile stance is 'fail_on_recompile': "
                    f"{self.families.name} has no recording for these arguments."
                ) from None
            error = None
        except LookAgain:
            return self._call_alone(args, kwargs)
        else:
            error = None
        if error is None:
            del leaves  # objects end when Python lets them, not after the call
            return self.fn(*args, **kwargs)
        key = key_of(leaves, structure)
        del leaves
        result = self.fn(*args, **kwargs)
        if self.fullgraph:  # it raises only where it is recorded
            raise error
        self.breaks.note(key, error)
        return result

    def _hidden(self) -> dict[str, Any]:
        """The tensors at places that move, as arguments of the call under names of their own."""
        values = {name: place.now() for place, name in self.moving.items()}
        return {name: x for name, x in values.items() if is_tensor(x) or holds_state(x)}

    def _long_way(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Find the program or make it, and run it."""
        with self.lock:  # if it has effects, no other call may change what this one has looked at
            program, leaves, given = self._looked_for(args, kwargs)
            if program.one_at_a_time:
                return self._first_run(program, leaves, given)
        return self._first_run(program, leaves, given)

    def _looked_for(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Program, list[Any], tuple[Any, ...]]:
        """The program for a call, found or made, the leaves it is given, and what they are of."""
        with TRACING, uncollected(), self._in_call():
            for _ in range(MOST_LOOKS):
                hidden = self._hidden()
                changed = self.changed or NONE
                leaves, structure = given_leaves(args, {**kwargs, **hidden}, changed)
                try:
                    program = self._find(leaves, structure)
                except (LeftToPython, Raised):
                    raise
                except Exception:
                    if not self._keep_objects_whole():
                        raise
                    continue
                if program is not None:
                    break
            else:
                raise self._endless()
            if program.one_at_a_time:
                self.effects = True  # before the quick way of other threads meets the program
            if not kwargs and not hidden and len(leaves) == len(args) and Arguments.simple(args):
                self._remember(args, None, program)
            elif Arguments.simple(leaves):
                self._remember(leaves, structure, program)
        return program, leaves, (args, {**kwargs, **hidden})

    def _endless(self) -> Exception:
        """What is said of a call that was recorded anew again and again."""
        latest = [name.partition(": ")[2][:-1] for name in list(self.moving.values())[-3:]]
        error = CaptureError(
            f"compile: {self.families.name} was recorded {MOST_LOOKS} times for one call, and put "
            "numbers or tensors at other places each time, or read others. Pass them as arguments "
            "and return them, or leave such calls to Python (fullgraph=False). "
            f"Places seen last: {', '.join(latest) or 'none'}."
        )
        if self.fullgraph:
            return error
        failed = RecordingFailed()
        failed.__cause__ = error
        return failed

    @contextlib.contextmanager
    def _in_call(self) -> Iterator[None]:
        """What is recorded meanwhile is a call, which Python could do as well."""
        before, self.in_call = self.in_call, True
        try:
            yield
        finally:
            self.in_call = before

    def _first_run(self, program: Program, leaves: list[Any], given: Any) -> Any:
        """A run that, if it fails, takes back the state that was made while recording."""
        pending, program.pending = program.pending, None
        try:
            result = self._replay(program.call, UNREAD, leaves, given)  # type: ignore[arg-type]
        except BaseException:
            if pending is not None:
                pending.take_back()
            raise
        if pending is not None:
            pending.settle()
        return result

    def _replay(self, call: PreparedCall, hosts: list[Any], leaves: list[Any], given: Any) -> Any:
        """The result of a program, with its changes to the containers that were given made."""
        if call.python is not None and call.python.watched is not None:
            try:
                check_distinct(given, call.python.watched, self.changed or NONE)
            except CaptureError as error:
                if self._keep_objects_whole():
                    raise LookAgain from None
                if self.fullgraph:
                    raise
                raise RecordingFailed from error
        return call(leaves, given, hosts)

    def _keep_objects_whole(self) -> bool:
        """Tell objects among arguments apart by which they are, for good; whether that is new."""
        new, self.changed = bool(self.changed), None
        return new

    @staticmethod
    def _recall(
        leaves: Sequence[Any], structure: TreeDef | None, ready: Ready
    ) -> tuple[PreparedCall, list[Any]] | None:
        """The quick way: a recent program for arguments like these, and the host's numbers."""
        now = modes()
        for recent in ready:
            arguments = recent.arguments
            if (
                arguments.structure == structure
                and arguments.modes == now
                and arguments.fit(leaves)
                and recent.guards.holds()
            ):
                call: PreparedCall = recent.program.call  # type: ignore[assignment]
                hosts = call.recall(leaves)
                if hosts is not None:
                    recent.program.used = next(_clock)
                    if not recent.known:
                        recent.make_straight()
                    return call, hosts
        return None

    def _find(self, leaves: list[Any], structure: TreeDef) -> Program | None:
        """The program for a call: one there is, or a new one; None: look at the arguments again."""
        key = self._key(leaves, structure)
        records = STANCE.word == "default"  # else calls find what there is, and nothing is learnt
        if records and key not in self.programs and self.free.notice(key, self.programs):
            key = signature(leaves, structure, self.free.of(structure))
        alike = self.programs.get(key, ())
        for program in alike:
            if program.valid(leaves):
                program.used = next(_clock)
                return program
        if records and alike and self._move(alike[-1], leaves):
            return None
        known = self._known_places()
        traces = self.traces
        recorded = (self._make if records else self._of_family)(key, leaves, structure)
        if recorded is None and not records:
            raise LeftToPython  # or refused, as the stance says
        if recorded is None or self._known_places() != known:
            if recorded is not None:
                recorded.take_back()
            return None  # needs the values of numbers it was to read at each call, or others' too
        recorded.used = self._made_at = next(_clock)
        self.breaks.plain_calls = 0
        if self.traces > traces:  # else made of a recording there was
            self.retraces.note(key, self.programs, recorded, self.families.why_each())
        alike = self.programs.get(key, [])
        for gone in [program for program in alike if program.origin.once]:
            self.retraces.forget(gone)
        self.programs[key] = [*[program for program in alike if not program.origin.once], recorded]
        self._latest = recorded
        self._forget_oldest()
        return recorded

    def _key(self, leaves: list[Any], structure: TreeDef) -> Any:
        try:
            return signature(leaves, structure, self.free.of(structure))
        except TypeError as error:  # an argument that cannot be hashed
            if self.fullgraph:
                raise
            raise RecordingFailed from error

    def _make(self, key: Any, leaves: list[Any], structure: TreeDef) -> Program | None:
        """A new program; None where numbers among arguments must be static after all.

        Calls that leave other tensors behind each time, as ever longer caches of keys are, may fit
        no recording but their own: after some, such a call is Python's (`LeftToPython`).
        """
        program = self._for_sizes(key, leaves, structure)
        if program is None and self.in_call and not self.fullgraph and any(self._known_places()):
            recorded = itertools.chain.from_iterable(self.programs.values())
            used_again = any(other.used > self._made_at for other in recorded)
            if not self.retraces.is_worthwhile(used_again):
                raise LeftToPython
        numbers = slots(self.free.of(structure), leaves)
        if program is None and numbers:
            program = self._with_free_numbers(leaves, structure, numbers)
            if program is None:
                return None
        return self.trace(leaves, structure) if program is None else program

    def _forget_oldest(self) -> None:
        """Let go of the programs that were not used for longest, if there are too many."""
        limit = config.recording_limit
        if sum(map(len, self.programs.values())) <= min(limit, *_SIZES.values()):
            return
        everyone = [(key, p) for key, programs in self.programs.items() for p in programs]
        everyone.sort(key=lambda entry: entry[1].used)
        forgotten = [e for e in everyone if not e[1].shares_plans][:-limit]
        for differentiable, count in _SIZES.items():
            sized = [e for e in everyone if e[1].shares_plans]
            sized = [e for e in sized if (e[1].derivative is not None) is differentiable]
            forgotten += sized[:-count]
        for key, gone in forgotten:
            self.programs[key].remove(gone)
            if not self.programs[key]:
                del self.programs[key]
            self.retraces.forget(gone)
            self.ready = tuple(recent for recent in self.ready if recent.program is not gone)

    def forget_programs(self) -> None:
        """Let go of every recording."""
        for program in itertools.chain.from_iterable(self.programs.values()):
            self.retraces.forget(program)
        super().forget_programs()
        self.ready = ()
        self._latest = None

    def reset(self) -> None:
        """Forget every recording, and what was learnt from them."""
        with TRACING:
            self.forget_programs()
            self.moving = {}
            self.changed = frozenset()
            self.free = free_numbers(self.dynamic)
            self.retraces = Retraces(self.fn)
            self.breaks = Breaks(self.fn, name_of(self.fn))

    def _remember(self, args: Sequence[Any], structure: TreeDef | None, program: Program) -> None:
        """Let the quick way try this program first."""
        conditions, sharing = program.conditions, program.conditions.sharing
        if program.origin.once or any(place is not None for place in sharing.pattern):
            return
        states = frozenset(s.identity for s in sharing.states)
        others = tuple(recent for recent in self.ready if recent.program is not program)
        free = frozenset(slot.place for slot in conditions.numbers)
        arguments = Arguments(args, structure, states, free)
        latest = Recent(arguments, conditions.guards, program)
        self.ready = (latest, *others[: _READY - 1])

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: each instance has programs of its own."""
        if instance is None:
            return self
        own = getattr(instance, "__dict__", None)
        if own is None:
            return types.MethodType(self, instance)
        methods = own.get(COMPILED)
        if methods is None or methods.owner is not instance:
            methods = own[COMPILED] = Methods(instance)
        method = methods.get(self)
        if method is None:
            bound = types.MethodType(self.fn, instance)
            method = Captured(bound, self.factory, dynamic=self.dynamic, fullgraph=self.fullgraph)
            method = methods.setdefault(self, method)  # another thread's may be first
        return method

    def __reduce__(self) -> Any:
        """A function found under its name is pickled by it; else what it was made of is."""
        named: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            named = getattr(named, part, None)
        if named is self:
            return self.__qualname__
        return (_again, (self.fn, self.factory, self.dynamic, self.fullgraph))

    def __deepcopy__(self, memo: dict[int, Any]) -> Captured:
        if isinstance(self.fn, types.FunctionType):
            return self  # as functions are
        return _again(copy.deepcopy(self.fn, memo), self.factory, self.dynamic, self.fullgraph)

    def capture_children(self) -> list[tuple[str, Any]]:
        """What a capture that reaches this one depends on: the function, not what is kept of it."""
        return [("fn", self.fn)]


def _again(
    fn: Callable[..., Any], factory: ExecutorFactory, dynamic: bool | None, fullgraph: bool
) -> Captured:
    return Captured(fn, factory, dynamic=dynamic, fullgraph=fullgraph)


@contextlib.contextmanager
def keeping_all() -> Iterator[list[Captured]]:
    """A block that holds every function compiled in it, so that it can be looked at afterwards."""
    functions: list[Captured] = []
    _KEPT.append(functions)
    try:
        yield functions
    finally:
        _KEPT.remove(functions)


def reset() -> None:
    """Make every compiled function forget its recordings."""
    for captured in list(_ALL):
        captured.reset()


def is_compiling() -> bool:
    """Whether the code that asks is being recorded.

    >>> import adjoint as ad
    >>> seen = []
    >>> _ = ad.compile(lambda x: seen.append(ad.compiler.is_compiling()) or x)(ad.ones(1))
    >>> seen, ad.compiler.is_compiling()
    ([True], False)
    """
    return CONTEXT.capture is not None


def capture(fn: Callable[..., Any], factory: ExecutorFactory = interpreted) -> Captured:
    """Wrap a function so that calls replay its recorded graph (see `Captured`)."""
    return Captured(fn, factory)
