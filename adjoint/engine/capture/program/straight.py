"""The straight way through a call: all its looks and steps in one function, for usual programs.

Note [straight calls]
    A small training step takes about as long as Python takes to get to it. Most programs want
    little of what calls can want: their arguments are given by position, they write to memory that
    they reach themselves, return their results as they are and leave gradients with parameters.
    For such a program `straight_call` gives a function of the arguments that looks at the same
    conditions as `Captured._recall`, then does what `PreparedCall.__call__` does, with what is
    known beforehand in its variables. Where any condition does not hold it says `MISSED`, having
    changed nothing, and the call goes the way that every program has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from adjoint.engine.capture.program.conditions import Conditions
from adjoint.engine.capture.python.guards.guards import Guards
from adjoint.engine.capture.python.plain import same
from adjoint.engine.capture.signature import Arguments, modes
from adjoint.engine.capture.tensors.looks import hooks_of
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.tree import unflatten
from adjoint.engine.tensor.storage import FOREIGN

if TYPE_CHECKING:
    from adjoint.engine.capture.program.prepared import PreparedCall
    from adjoint.engine.capture.program.program import Program

MISSED: Final = object()  # what a straight call gives for arguments that it is not for
Look = tuple[int, Callable[[Any], Any], Any]  # which argument, what is asked of it, the answer
StraightCall = Callable[[tuple[Any, ...]], Any]


def is_usual(call: PreparedCall) -> bool:
    """Whether a program wants nothing but what straight calls do."""
    inputs, changes, shown = call.inputs, call.changes, call.shown
    if call.python is not None or call.catches or call.conditions.numbers:
        return False
    if call.derivative is not None and shown.refusals is None:  # each call has a node of its own
        return False
    if inputs.others or not inputs.early or shown.layouts or not shown.roots_are_results:
        return False
    others: Any = changes.written_others or changes.wanting or changes.unwanting
    others = others or changes.argument_grads or call.effects.result_grads or call.results.retained
    return not others and changes.moves is None and changes.targets is not None


def straight_call(
    arguments: Arguments, guards: Guards, program: Program, clock: Iterator[int]
) -> StraightCall | None:
    """The function for a program and arguments like these; None where it would not do.

    `clock` says when the program was used.
    """
    call: PreparedCall = program.call  # type: ignore[assignment]
    conditions = call.conditions
    if arguments.structure is not None or arguments.modes[1] or not is_usual(call):
        return None
    wanted, fit, guarded = arguments.modes, arguments.fit, guards.quickest()
    apart, (looks, others_hold) = conditions.sharing.apart, _particulars(conditions)
    owners = frozenset() if call.overlaps is None else call.overlaps.owners
    fits = _native_test(arguments, apart, looks, owners or frozenset())
    checked = fits is not None and owners is not None  # whether `fits` looks at overlaps too
    read, fixed, windows = call.inputs.recall_hosts, call.inputs.fixed, call.inputs.windows
    run, targets, overlaps = call.run, call.changes.targets or [], call.overlaps
    count, written, counts = (
        call.changes.count_writes,
        call.changes.written,
        call.changes.write_counts,
    )
    wrap, outputs, refusals = call.shown.wrap, call.shown.root_outputs, call.shown.refusals or ()
    metas, single = call.changes.metas, call.shown.single
    structure, leaves = call.results.structure, call.results.leaves

    def straight(args: tuple[Any, ...]) -> Any:
        if fits is None or not (known := fits(args)):
            known = False
            if not fit(args) or (apart and not apart.isdisjoint(map(id, args))):
                return MISSED
            for position, look, answer in looks:
                found = look(args[position])
                if found is not answer and not same(found, answer):
                    return MISSED
        if modes() != wanted or not guarded():
            return MISSED
        if others_hold is not None and not others_hold(args):
            return MISSED
        try:
            numbers = read()
        except (ArithmeticError, ValueError):
            return MISSED
        if numbers is None:
            return MISSED
        program.used = next(clock)
        inputs = fixed.copy()
        for position in windows:
            inputs.append(args[position]._array)
        inputs += numbers
        if not (known and checked) and FOREIGN.seen and overlaps is not None:
            overlaps.check(inputs)
        arrays = run(inputs, targets)
        count(written, counts)
        tensors = wrap(arrays, outputs)
        for i, node in refusals:
            tensor = tensors[i]
            tensor._node, tensor._requires_grad = node.fresh(), True
        for meta, i in metas:
            meta.grad = tensors[i]
        if single is not None:
            return tensors[single]
        return unflatten(structure, [tensors[i] for i in leaves])

    return straight


def _particulars(
    conditions: Conditions,
) -> tuple[list[Look], Callable[[tuple[Any, ...]], bool] | None]:
    """What is asked of arguments, and a test of all else that few functions look at."""
    sharing = conditions.sharing
    looks = [(ref.position, read, answer) for ref, read, answer in conditions.looks]
    alone = not (sharing.pinned or sharing.bases or conditions.grads_seen or conditions.tests)
    of_arguments = [(p, read, answer) for p, read, answer in looks if p is not None]
    if alone and len(of_arguments) == len(looks):
        return of_arguments, None
    return [], conditions.particulars_hold


def _native_test(
    arguments: Arguments, apart: frozenset[int], looks: list[Look], owners: frozenset[int]
) -> Callable[[tuple[Any, ...]], bool] | None:
    """A test that says yes to no arguments but those that all others say yes to."""
    if HOOKS.fits is None or any(read is not hooks_of or answer for _, read, answer in looks):
        return None
    unasked = frozenset(position for position, _, _ in looks)  # such tensors have no hooks
    test: Callable[[tuple[Any, ...]], bool] | None = HOOKS.fits(
        arguments.wanted, arguments.states, apart, owners, unasked
    )
    return test
