"""capture: run a function once, keep its graph, and replay it for calls of the same signature."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import sys
import types
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from adjoint.engine.capture.breaks import Breaks, Refused, refusing_output
from adjoint.engine.capture.dynamic.dynamic import Families, OnlyOnce
from adjoint.engine.capture.dynamic.lengths import lengths_as_sizes
from adjoint.engine.capture.history import history
from adjoint.engine.capture.methods import Methods
from adjoint.engine.capture.program.numbers import FreeNumbers, Slot, needs_values, slots
from adjoint.engine.capture.program.program import Program, build
from adjoint.engine.capture.retracing import Retraces, name_of
from adjoint.engine.capture.signature import Arguments, modes, share_counts, signature
from adjoint.engine.capture.surroundings.attributes import Attributes
from adjoint.engine.capture.surroundings.environment import Environment, Fingerprint
from adjoint.engine.capture.surroundings.outside import Outside
from adjoint.engine.capture.surroundings.places import keep_states
from adjoint.engine.capture.surroundings.reach import COMPILED, plain
from adjoint.engine.capture.surroundings.rebinding import put_back, rebound
from adjoint.engine.capture.surroundings.watch import Watch
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state import config, forks
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import TreeDef, flatten, unflatten
from adjoint.engine.graph.drawing.svg import to_svg
from adjoint.engine.graph.execution import ExecutorFactory, interpreted
from adjoint.engine.graph.ir import Graph
from adjoint.engine.graph.record.trace import TRACING, Realias, Trace, uncollected

Ready = tuple[tuple[Arguments, Program], ...]
_READY = 8  # programs the quick way tries
_SIZES = 32  # of these, programs that another size's can be made into within milliseconds
_ALL: weakref.WeakSet[Captured] = weakref.WeakSet()
_clock = itertools.count(1)  # says which programs were used last


def _opaque(leaves: Sequence[Any]) -> list[Any]:
    """The arguments that are neither tensors nor plain values."""
    return [x for x in leaves if not is_tensor(x) and not plain(x)]


class Captured:
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
        A call takes one of three ways. The quick one: nothing the function can see has changed
        since it was looked at (`Watch`), and the arguments are like those of a recent call. The
        long one compares fingerprints and signatures in full. If no program fits, the function is
        traced. Functions with effects run one call at a time.
    """

    __module__: str
    __qualname__: str

    def __init__(
        self,
        fn: Callable[..., Any],
        factory: ExecutorFactory = interpreted,
        *,
        dynamic: bool = False,
        whole: bool = True,
        located: bool = False,
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn = fn
        self.factory = factory  # makes what runs a program: the reference interpreter, or better
        self.environment = Environment(fn)
        self.programs: dict[Any, list[Program]] = {}
        self._latest: Program | None = None
        self.traces = 0
        self.retraces = Retraces(fn)
        self.dynamic = dynamic
        self.whole = whole  # whether what cannot be recorded is an error
        self.located = located  # whether nodes know the lines they come from
        self.breaks = Breaks(fn, name_of(fn))
        self.free = FreeNumbers()
        self.families = Families(name_of(fn), automatic=dynamic)
        self.seen: Fingerprint | None = None
        # What the quick way tries, replaced as a whole: other threads may be reading it.
        self.ready: tuple[Watch | None, Ready] = (None, ())
        self.effects = False  # whether some program has any
        self.lock = forks.reentrant(forks.Order.EFFECTS)
        _ALL.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if CONTEXT.capture is not None or CONTEXT.levels:
            return self.fn(*args, **kwargs)  # part of an outer trace or transform
        if self.effects:
            with self.lock:
                return self._call(args, kwargs)
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        watch, ready = self.ready
        unchanged = watch is not None and watch.holds()
        if unchanged and not kwargs:
            program = self._recall(args, None, ready)
            if program is not None:
                return program(args)
        leaves, structure = flatten((args, kwargs))
        if unchanged:
            program = self._recall(leaves, structure, ready)
            if program is not None:
                return self._run(program, leaves, (args, kwargs))
        if self.whole:
            return self._long_way(leaves, structure, args, kwargs)
        if not self.breaks.covers(leaves, structure):
            try:
                return self._long_way(leaves, structure, args, kwargs)
            except Refused as refused:
                reason: BaseException = refused.__cause__ or refused
            result = self.fn(*args, **kwargs)  # raises where the fault is not the recording's
            self.breaks.note(leaves, structure, reason)
            return result
        return self.fn(*args, **kwargs)

    def _long_way(
        self,
        leaves: list[Any],
        structure: TreeDef,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Find the program or make it, and run it."""
        with TRACING, uncollected():
            program = self._find(leaves, structure)
            if not kwargs and len(leaves) == len(args) and Arguments.simple(args):
                self._remember(args, None, program)
            elif Arguments.simple(leaves):
                self._remember(leaves, structure, program)
        if not program.effects:
            return self._first_run(program, leaves, (args, kwargs))
        with self.lock:
            self.effects = True
            return self._first_run(program, leaves, (args, kwargs))

    @classmethod
    def _first_run(cls, program: Program, leaves: list[Any], given: Any) -> Any:
        """A run that, if it fails, takes back the state that was made while recording."""
        restore, program.restore = program.restore, None
        try:
            return cls._run(program, leaves, given)
        except BaseException:
            if restore is not None:
                restore()
            raise

    @staticmethod
    def _run(program: Program, leaves: list[Any], given: Any) -> Any:
        """The result of a program, with its changes to the containers that were given made."""
        if not program.rebinds:
            return program(leaves)
        result, after = program(leaves)
        put_back(given, after)
        return result

    @staticmethod
    def _recall(leaves: Sequence[Any], structure: TreeDef | None, ready: Ready) -> Program | None:
        """The quick way: a recent program for arguments like these."""
        now = modes()
        for arguments, program in ready:
            if (
                arguments.structure == structure
                and arguments.modes == now
                and arguments.fit(leaves)
                and program.holds(leaves)
            ):
                program.used = next(_clock)
                return program
        return None

    def _find(self, leaves: list[Any], structure: TreeDef) -> Program:
        """The program for a call: one there is, or a new one."""
        key = self._key(leaves, structure)
        if key not in self.programs and self.free.notice(key, self.programs):
            key = signature(leaves, structure, self.free.of(structure))
        watch, _ = self.ready
        opaque = _opaque(leaves)
        if not opaque and watch is not None and self.seen is not None and watch.holds():
            seen = self.seen
        else:
            seen = self.environment.look(opaque)  # into objects passed as arguments too
        for program in self.programs.get(key, ()):
            if program.valid(leaves, seen):
                program.used = next(_clock)
                self._watch(seen, opaque)
                return program
        restore = keep_states(seen.holders)
        try:
            made = self._make(key, leaves, structure, seen)
        except BaseException:
            restore()
            raise
        if made is None:  # needs the values of numbers it was to read at each call
            return self._find(leaves, structure)
        made.restore, made.used = restore, next(_clock)
        if made.sizing is None:
            self.retraces.note(key, self.programs, made, leaves)
        self.programs.setdefault(key, []).append(made)
        self._latest = made
        self._forget_oldest()
        return made

    def _key(self, leaves: list[Any], structure: TreeDef) -> Any:
        try:
            return signature(leaves, structure, self.free.of(structure))
        except TypeError as error:  # an argument that cannot be hashed
            if self.whole:
                raise
            raise Refused from error

    def _make(
        self, key: Any, leaves: list[Any], structure: TreeDef, seen: Fingerprint
    ) -> Program | None:
        """A new program; None where float arguments must be static after all."""
        made = None if _opaque(leaves) else self._for_sizes(key, leaves, structure, seen)
        numbers = slots(self.free.of(structure), leaves)
        if made is None and numbers:
            made = self._with_free_numbers(leaves, structure, seen, numbers)
            if made is None:
                self.free.fix(structure)
                return None
        return self.trace(leaves, structure, seen) if made is None else made

    def _forget_oldest(self) -> None:
        """Let go of the programs that were not used for longest, if there are too many."""
        kept = config.recording_limit
        if sum(map(len, self.programs.values())) <= min(kept, _SIZES):
            return
        everyone = [(key, p) for key, held in self.programs.items() for p in held]
        everyone.sort(key=lambda entry: entry[1].used)
        sized = [entry for entry in everyone if entry[1].sizing is not None]
        forgotten = {*everyone[:-kept], *sized[:-_SIZES]}
        for key, gone in forgotten:
            self.programs[key].remove(gone)
            if not self.programs[key]:
                del self.programs[key]
            self.retraces.forget(gone)
        if forgotten:
            programs = {program for _, program in forgotten}
            watch, ready = self.ready
            self.ready = (watch, tuple(entry for entry in ready if entry[1] not in programs))

    def reset(self) -> None:
        """Forget every recording."""
        with TRACING:
            self.programs = {}
            self.ready = (None, ())
            self.seen = self._latest = None
            self.free = FreeNumbers()
            self.families = Families(self.families.name, automatic=self.dynamic)
            self.retraces = Retraces(self.fn)
            self.breaks = Breaks(self.fn, name_of(self.fn))

    def _with_free_numbers(
        self, leaves: list[Any], structure: TreeDef, seen: Fingerprint, numbers: list[Slot]
    ) -> Program | None:
        """A recording that reads float arguments at each call; None where it needs their values."""
        restore = keep_states(seen.holders)
        try:
            program = self.trace(leaves, structure, seen, numbers)
            if not needs_values(program):
                return program
        except Exception:  # recorded for the values themselves, it may succeed, or say why not
            pass
        restore()
        return None

    def _for_sizes(
        self, key: Any, leaves: list[Any], structure: TreeDef, seen: Fingerprint
    ) -> Program | None:
        """A program made from one with dynamic sizes, or None where sizes are not dynamic."""
        if self.free.of(structure):
            return None
        reached = {storage.identity for storage in seen.storages()}
        if any(is_tensor(x) and x._storage.identity in reached for x in leaves):
            return None
        program = self.families.find(key, seen, leaves)
        if program is None:
            restore = keep_states(seen.holders)
            family = self.families.start(
                key,
                list(self.programs),
                leaves,
                lambda stand_ins: self.trace_specs(stand_ins, structure, seen),
            )
            if family is None:
                restore()  # what was recorded in vain made state too
                return None
            self.traces += 1
            family.fingerprint = self.environment.look()
            program = self.families.find(key, family.fingerprint, leaves)
        if program is not None:
            self._look(program, [])
            program.prepare(leaves, self.factory)
        return program

    def _look(self, program: Program, opaque: list[Any]) -> None:
        """Note what the function can see once it is recorded.

        State the function made for itself counts; flags of tensors are as they were before. What
        another thread changes while the program is compiled will be noticed.
        """
        program.fingerprint = self.environment.look(opaque)
        self._watch(program.fingerprint, opaque)

    def _watch(self, seen: Fingerprint, opaque: list[Any]) -> None:
        """Let the quick way notice when the function can see something else."""
        if seen is self.seen or opaque:
            return
        kept = self.ready[1] if self.seen == seen else ()
        self.seen = seen
        self.ready = (Watch(seen), kept)

    def _remember(self, args: Sequence[Any], structure: TreeDef | None, program: Program) -> None:
        """Let the quick way try this program first."""
        watch, ready = self.ready
        if (
            watch is None
            or program.fingerprint != self.seen
            or any(place is not None for place in program.pattern)
        ):
            return
        states = frozenset(s.identity for s in program.states)
        others = tuple(entry for entry in ready if entry[1] is not program)
        free = frozenset(slot.place for slot in program.numbers)
        entry = (Arguments(args, structure, states, free), program)
        self.ready = (watch, (entry, *others[: _READY - 1]))

    def outside(self, leaves: list[Any]) -> Outside:
        """Python's state that the function could change."""
        return Outside(self.fn, self.environment.names, _opaque(leaves))

    @contextlib.contextmanager
    def _recording(self, trace: Trace, leaves: list[Any]) -> Iterator[Outside]:
        """Where the function runs under a trace; if it fails, Python's state is as before."""
        before = self.outside(leaves)
        quiet = contextlib.nullcontext() if self.whole else refusing_output()
        try:
            with CONTEXT.having(capture=trace), quiet, before.moving.guarding():
                yield before
        except BaseException:
            before.put_back()
            raise

    def _traced(self, structure: TreeDef, given: list[Any]) -> tuple[Any, bool]:
        """The function's result, beside its arguments if it put something else into them."""
        args, kwargs = unflatten(structure, given)
        result = self.fn(*args, **kwargs)
        rebinds = rebound(structure, given, (args, kwargs))  # Note [rebinding]
        return ((result, (args, kwargs)) if rebinds else result), rebinds

    def _built(
        self, trace: Trace, result: Any, leaves: list[Any], attributes: Attributes, seen: Any
    ) -> Program:
        """The program of a trace, unless a call run as Python would keep something else."""
        if not self.whole:
            attributes.check_tape(trace)
        return build(trace, result, leaves, attributes, seen.watched)

    def trace(
        self,
        leaves: list[Any],
        structure: TreeDef,
        seen: Fingerprint,
        numbers: Sequence[Slot] = (),
        *,
        counting: bool = True,
    ) -> Program:
        """Record the function for these arguments, leaving every tensor as it was.

        `counting`: it may change numbers, as long as it does not do so again.
        """
        given = list(leaves)
        for slot in numbers:
            given[slot.place] = slot.scalar
        self.traces += 1
        counts = share_counts(leaves)
        how = {identity: "window" if n == 1 else "whole" for identity, n in counts.items()}
        reached = {storage.identity for storage in seen.storages()}
        how |= {identity: "state" for identity in counts if identity in reached}
        located = self.located
        restore = keep_states(seen.holders)  # from what an attempt that came to nothing made
        while True:
            trace = Trace(located=located)
            attributes = Attributes(self.environment.owners(), seen.holders)
            try:
                for i, leaf in enumerate(leaves):
                    if is_tensor(leaf):
                        trace.argument(i, leaf, how[leaf._storage.identity])
                with self._recording(trace, leaves) as before:
                    result, rebinds = self._traced(structure, given)
                    before.check(counting=counting)
                    counted = before.counted() if counting else {}
                    program = self._built(trace, result, leaves, attributes, seen)
                    program.rebinds = rebinds
            except Realias as clash:
                how[clash.storage.identity] = "state"
                restore()
                continue
            except Exception as error:
                if self.whole:
                    raise
                raise Refused from error
            finally:
                attributes.undo(trace)
                trace.undo()
            if counted:
                self._check_counts(program, before, counted, leaves, structure, numbers)
            if seen.arrays:
                self.environment.read_at_each_call(s.buffer for s in program.states)
            self._look(program, _opaque(leaves))
            program.numbers = list(numbers)
            try:
                program.prepare(leaves, self.factory)
            except MemoryError:
                if located:
                    raise
                located = True  # once more, to say which lines need the memory
                restore()
                continue
            return program

    def _check_counts(
        self,
        program: Program,
        before: Outside,
        counted: dict[Any, str],
        leaves: list[Any],
        structure: TreeDef,
        numbers: Sequence[Slot],
    ) -> None:
        """Refuse a function that changes a number at each call, which is found by another call.

        One that notes the greatest length so far does not, and a call gives the number along with
        flags (Note [assigned tensors]).
        """
        with program.given():
            try:
                seen = self.environment.look(_opaque(leaves))
                self.trace(leaves, structure, seen, numbers, counting=False)
            except Exception:
                before.put_back()
                error = RuntimeError(next(iter(counted.values())))
                if self.whole:
                    raise error from None
                raise Refused from error

    def trace_specs(self, stand_ins: list[Any], structure: TreeDef, seen: Fingerprint) -> Program:
        """Record the function for arguments of which only (spec, requires_grad) is known."""
        trace = Trace(located=self.located)
        attributes = Attributes(self.environment.owners(), seen.holders)
        leaves = [
            trace.stand_in(i, x[0], requires_grad=x[1])
            if isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], Spec)
            else x
            for i, x in enumerate(stand_ins)
        ]
        try:
            with self._recording(trace, []) as before, lengths_as_sizes():
                result, rebinds = self._traced(structure, leaves)
                before.check()
                program = self._built(trace, result, leaves, attributes, seen)
                program.rebinds = rebinds
                attributes.check_sizes()
                if not all(holds() for holds, _ in program.guards):
                    raise OnlyOnce
                return program
        finally:
            attributes.undo(trace)
            trace.undo()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: each instance has programs of its own."""
        if instance is None:
            return self
        own = getattr(instance, "__dict__", None)
        if own is None:
            return types.MethodType(self, instance)
        methods = own.setdefault(COMPILED, Methods())
        found = methods.get(self)
        if found is None:
            bound = types.MethodType(self.fn, instance)
            found = methods[self] = Captured(
                bound, self.factory, dynamic=self.dynamic, whole=self.whole
            )
        return found

    def __reduce__(self) -> Any:
        """A function found under its name is pickled by it; else what it was made of is."""
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is self:
            return self.__qualname__
        return (_again, (self.fn, self.factory, self.dynamic, self.whole))

    def __deepcopy__(self, memo: dict[int, Any]) -> Captured:
        if isinstance(self.fn, types.FunctionType):
            return self  # as functions are
        return _again(copy.deepcopy(self.fn, memo), self.factory, self.dynamic, self.whole)

    def capture_children(self) -> list[tuple[str, Any]]:
        """What a capture that reaches this one depends on: the function, not what is kept of it."""
        return [("fn", self.fn)]

    @property
    def latest(self) -> Program:
        """The program made last."""
        if self._latest is None:
            raise RuntimeError(
                f"compile: {self.families.name} has not been called yet, so nothing is recorded"
            )
        return self._latest

    def recordings(self) -> str:
        """The recordings there are: for which arguments, why, and what runs them.

        >>> import adjoint as ad
        >>> from adjoint.graph import capture
        >>> f = capture(lambda x: x.sin() + 1)
        >>> _ = f(ad.ones(3)), f(ad.ones(4))
        >>> print(f.recordings())
        <lambda>: 2 programs, recorded 2 times
        1. x float32[3]
           2 nodes; inputs: 1 argument; run by Interpreted
        2. x float32[4]
           recorded because dimension 0 of x takes the sizes 3, 4
           2 nodes; inputs: 1 argument; run by Interpreted
        """
        return history(self.families.name, self.programs, self.retraces, self.traces)

    @property
    def graph(self) -> Graph:
        """The latest program's graph; `print` shows it as Python, a notebook as a picture."""
        return self.latest.graph

    def graph_text(self) -> str:
        """The latest program's graph as Python."""
        return self.latest.text()

    def explain(self) -> str:
        """What the latest program runs as: its steps, and why fusion stopped where it did.

        >>> import adjoint as ad
        >>> double = ad.compile(lambda x: (x * 2 + 1).exp())
        >>> _ = double(ad.ones(3))
        >>> print(double.explain().splitlines()[0][:47])
        1 steps: 1 launches of fused kernels, 0 of temp
        """
        return self.latest.explain()

    def svg(self, expand: Collection[str] | bool = ()) -> str:
        """The latest program's graph as a picture; `expand` names composites to look into."""
        return to_svg(self.latest.graph, expand)


def _again(
    fn: Callable[..., Any], factory: ExecutorFactory, dynamic: bool, whole: bool
) -> Captured:
    return Captured(fn, factory, dynamic=dynamic, whole=whole)


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
