"""Updates: rules that write to large tensors in place, run as compiled programs.

Note [updates]
    An optimizer's rule reads and writes a parameter and its state a dozen times over, each time
    the whole of them. As one program it passes over memory once, on every core. The rule itself is
    recorded, as it is for `compile`: there is no second one. Its numbers (the learning rate, the
    count of steps) are given to the program at each call; what the rule asks of them (whether
    there is momentum) is asked again before a recording is used, which holds for the same answers.

    Tensors given must lie apart in memory, row after row, and be writeable, so that what the
    program writes is what the rule would have written. An error leaves them as they were.

Note [kept updates]
    A rule that its owner can name by content is found on disk like an operation (Note [kept
    kinds]): by that name, the tensors' kinds and the numbers' types. What it asks of its numbers is
    kept with the program, as the text that works it out. There are as many entries as there were
    other answers, one after the other; each is tried as if it had been recorded here.
"""

from __future__ import annotations

import importlib
import marshal
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.generated import function_of_text
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state import late_faults
from adjoint.engine.core.state.loading import brought
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.graph.eager import kept_kinds
from adjoint.engine.graph.eager.fragment import put_workers_first
from adjoint.engine.graph.eager.fragments import FRAGMENTS, fitting, kinds
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.watching import doubt

if TYPE_CHECKING:
    from adjoint.engine.graph.execution import Executable

KEPT = 1024  # kinds, the one used last at the end
ANSWERS = 8  # recordings of one kind, each for other answers
Numbers = Sequence[float]
Rule = Callable[[Sequence[Tensor], Numbers], None]
# Whose functions numbers are worked out with, where that is kept, besides the package's own, which
# are the rule's: its code is part of its name.
KNOWN = frozenset({"_operator", "math", "builtins"})
READERS: dict[str, Callable[[str], Any]] = {
    "int": int, "float": float, "complex": complex, "str": str, "bool": "True".__eq__,
}  # fmt: skip


class WorkingOut:
    """How numbers are worked out from those given: a text, and the constants it names."""

    __slots__ = ("numbers", "scope", "text")

    def __init__(self, text: str, scope: dict[str, Any]) -> None:
        self.text, self.scope = text, dict(scope)
        # Answers to questions and hosts, of the numbers given.
        self.numbers: Callable[..., tuple[tuple[Any, ...], tuple[Any, ...]]]
        self.numbers = function_of_text(text, "numbers", "<numbers>", scope)


class CompiledRule:
    """A compiled rule for tensors of one kind and numbers of which the same is true."""

    __slots__ = (
        "answers", "apart", "counts", "executable", "is_unrecorded", "places", "working_out",
        "written",
    )  # fmt: skip

    def __init__(
        self,
        executable: Executable,
        places: tuple[int, ...],
        working_out: WorkingOut,
        answers: tuple[Any, ...],
        written: tuple[int, ...],
        counts: tuple[int, ...],
        apart: tuple[tuple[int, int], ...] = (),
        is_unrecorded: bool = False,
    ) -> None:
        self.executable = executable
        self.places = places  # which of the tensors and, after them, hosts are its inputs
        self.working_out = working_out
        self.answers = answers  # how the rule's questions came out
        self.written = written  # which tensors are
        self.counts = counts  # how often
        self.apart = apart  # counters on the host: by how much they advance
        self.is_unrecorded = is_unrecorded  # found by its name (Note [kept updates])

    def attempt(self, tensors: Sequence[Tensor], numbers: Numbers) -> bool:
        """Run, if the rule would get the same answers from these numbers."""
        answers, hosts = self.working_out.numbers(*numbers)
        if answers != self.answers or [*map(type, answers)] != [*map(type, self.answers)]:
            return False
        arrays = [t._array for t in tensors]
        if late_faults.BOARDS and self.written:
            settle_apart(arrays[self.written[0]])
        given = [*arrays, *hosts]
        try:
            self.executable([given[k] for k in self.places], [arrays[k] for k in self.written])
            for k, count in zip(self.written, self.counts, strict=True):
                tensors[k]._storage.version += count
        except BaseException:
            doubt(*(tensors[k]._storage for k in self.written))
            raise
        for k, times in self.apart:
            arrays[k][...] += times
            tensors[k]._storage.version += times
        if self.apart and self.written and late_faults.KEEPERS:
            first = arrays[self.written[0]]
            place = DEVICE_LAYOUTS.get(first.__class__)
            if place is not None:
                # Of counters alone: what is kept would hold the gradients of many steps.
                back = partial(take_back, [(arrays[k], times) for k, times in self.apart])
                late_faults.keep(back, place(first)[0])
        return True


def settle_apart(target: Any) -> None:
    """Before an update, whose kernels look for themselves whether there was a fault: raise what
    they might not find, since it is another stream's, or another device's."""
    boards = late_faults.BOARDS
    if len(boards) == 1:
        for board in boards.values():
            board.settle_apart()
        return
    place = DEVICE_LAYOUTS.get(target.__class__)
    device = -1 if place is None else place(target)[0]
    late_faults.settle_others(device)
    if device in boards:
        boards[device].settle_apart()


def take_back(counters: Sequence[tuple[Any, int]]) -> None:
    """Counters as they were: the update was not done."""
    for counter, times in counters:
        counter[...] -= times


class Updates:
    """The compiled rules of this process, by kind; None for kinds that run as they are."""

    def __init__(self) -> None:
        self.by_kind: OrderedDict[Any, list[CompiledRule] | None] = OrderedDict()

    def run(
        self,
        key: Any,
        tensors: Sequence[Tensor],
        numbers: Numbers,
        counters: dict[int, int],
        rule: Rule,
        rules: list[Any] | None = None,
        told: Callable[[], Any] | None = None,
    ) -> bool:
        """Do what `rule(tensors, numbers)` does; False: call it, nothing has been done.

        `key` is hashable, and with the tensors' kinds decides what the rule does, but for numbers.
        `counters` says of a tensor that counts steps which number is its value. The compiled rules
        of such tensors are put into `rules`, for whoever knows that theirs have not changed. `told`
        gives what the rule is decided by as plain values, its code among them, or None.
        """
        kind = (key, *kinds(tensors))
        try:
            updates = self.by_kind[kind]
            self.by_kind.move_to_end(kind)
        except KeyError:
            while len(self.by_kind) >= KEPT:
                self.by_kind.popitem(last=False)
            updates = self.by_kind[kind] = []
        if updates is None:
            return False
        if rules is not None:
            rules.append(updates)
        if LISTENERS and any(update.is_unrecorded for update in updates):
            # Who looks on asks what programs are made of, which is not kept.
            updates[:] = [update for update in updates if not update.is_unrecorded]
        if any(update.attempt(tensors, numbers) for update in updates):
            return True
        name = None if told is None else name_of(told(), tensors, numbers, counters)
        while name is not None and not LISTENERS and len(updates) < ANSWERS:
            known = fitting(key[0], tensors, partial(found, name, len(updates)))
            if known is None:
                break
            updates.append(known)
            if known.attempt(tensors, numbers):
                return True
        fresh = self.make(key, tensors, numbers, counters, rule) if len(updates) < ANSWERS else None
        if fresh is None:
            self.by_kind[kind] = None
            return False
        updates.append(fresh)
        if name is not None and not LISTENERS:
            keep(name, len(updates) - 1, fresh)
        return fresh.attempt(tensors, numbers)

    def make(
        self,
        key: Any,
        tensors: Sequence[Tensor],
        numbers: Numbers,
        counters: dict[int, int],
        rule: Rule,
    ) -> CompiledRule | None:
        """A compiled rule, if it can be one."""
        compiled = brought("adjoint.engine.graph.eager.recorded_updates").compiled
        made: CompiledRule | None = fitting(
            key[0], tensors, lambda: compiled(tensors, numbers, counters, rule)
        )
        return made

    def forget(self) -> None:
        """Make every one anew."""
        self.by_kind.clear()


def name_of(
    told: Any, tensors: Sequence[Tensor], numbers: Numbers, counters: dict[int, int]
) -> bytes | None:
    """The name of what a rule does to tensors; None where it has none."""
    if told is None:
        return None
    try:
        rule = kept_kinds.told_value(told)
    except kept_kinds.Nameless:
        return None
    about = kept_kinds.told_tensors(tensors, numbers)
    if about is None:
        return None
    return marshal.dumps((b"update", rule, about, tuple(counters.items())), 2)


def found(name: bytes, number: int) -> CompiledRule | None:
    """One of the rules that are kept under a name; None: there are no more."""
    there = HOOKS.find_operation(b"%d " % number + name, FRAGMENTS.shared)
    if there is None or there[0] is None:
        return None
    executable, about = there
    try:
        scope = {str(key): read_constant(*x) for key, x in about["scope"].items()}
        answers = tuple([read_constant(*x) for x in about["answers"]])
        places, written, counts = (
            tuple([int(k) for k in about[part]]) for part in ("places", "written", "counts")
        )
        working_out = WorkingOut(str(about["text"]), scope)
    except (KeyError, TypeError, ValueError, AttributeError, ImportError, SyntaxError):
        return None  # not what `keep` writes: it is recorded, and written again
    put_workers_first(FRAGMENTS.shared)
    return CompiledRule(
        executable, places, working_out, answers, written, counts, is_unrecorded=True
    )


def keep(name: bytes, number: int, rule: CompiledRule) -> None:
    """Have a rule found by its name, if all that it is made of can be told."""
    if rule.apart:
        return
    try:
        about = {
            "text": rule.working_out.text,
            "scope": {key: told_constant(x) for key, x in rule.working_out.scope.items()},
            "answers": [told_constant(x) for x in rule.answers],
            "places": rule.places,
            "written": rule.written,
            "counts": rule.counts,
        }
    except kept_kinds.Nameless:
        return
    HOOKS.keep_operation(b"%d " % number + name, rule.executable, about)


def told_constant(x: Any) -> list[str]:
    """A number or a function as what kind of thing it is, and text."""
    kind = type(x).__name__
    if kind in READERS and type(x) in kept_kinds.PLAIN:
        return [kind, x if kind == "str" else repr(x)]
    module, name = getattr(x, "__module__", None), getattr(x, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not is_known(module):
        raise kept_kinds.Nameless
    if getattr(sys.modules.get(module), name, None) is not x:
        raise kept_kinds.Nameless
    return [module, name]


def is_known(module: str) -> bool:
    """Whether a module's functions do the same in every process that finds a kept rule."""
    return module in KNOWN or module.partition(".")[0] == __name__.partition(".")[0]


def read_constant(kind: str, text: str) -> Any:
    """What `told_constant` told."""
    if kind in READERS:
        return READERS[kind](text)
    if not is_known(kind):
        raise ValueError(f"no function of {kind}")
    return getattr(importlib.import_module(kind), text)


UPDATES = Updates()
HOOKS.updates = UPDATES
