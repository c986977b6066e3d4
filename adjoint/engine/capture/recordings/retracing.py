"""Counting recordings of one function, and saying what made so many of them necessary."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.program.program import Program
from adjoint.engine.capture.signature import argument_names
from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.spec import Spec

LOG = logging.getLogger("adjoint.compile")  # tells of each recording but the first, as INFO
LIMIT = 8  # recordings of one function before the warning
LATEST = 64  # reasons that are kept


def name_of(fn: Callable[..., Any]) -> str:
    """What messages call a function; a module's call is called by the module's class."""
    if getattr(fn, "__name__", "") == "_call_impl":
        return type(fn.__self__).__name__  # type: ignore[attr-defined]
    return getattr(fn, "__qualname__", type(fn).__name__)


def parameter_names(fn: Callable[..., Any]) -> list[str]:
    """The names of positional parameters; of a module's call, those of `forward`."""
    if getattr(fn, "__name__", "") == "_call_impl":
        fn = fn.__self__.forward  # type: ignore[attr-defined]
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in kinds]


def _outcome(test: Any) -> Any:
    """How a test of numbers comes out now; an error is an outcome of its own."""
    try:
        return test.get()
    except ArithmeticError as error:
        return type(error).__name__


class Retraces:
    """The history of a function's recordings."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.count = 0
        self.reasons: list[str] = []
        self.reason_of: dict[int, str] = {}  # by id of the program
        self.warned = False
        self.unused = 0  # recordings asked for since one was used again

    def is_worthwhile(self, used_again: bool) -> bool:
        """Whether to record once more where each recording so far fitted one call only.

        After so many, every second, fourth, eighth... is: what settles later is compiled yet.
        """
        self.unused = 1 if used_again else self.unused + 1
        return self.unused <= LIMIT + 1 or self.unused & (self.unused - 1) == 0

    def note(
        self, key: Any, programs: dict[Any, list[Program]], program: Program, why_each: str
    ) -> None:
        """Tell of a new recording, before it joins the others; warn once if there are too many.

        `why_each` says why sizes are recorded by themselves, if it is known that they are.
        """
        self.count += 1
        if self.count > 1:
            freely = "" if program.origin.sizing is None else "; recorded with free sizes"
            self.reasons.append(self._reason(key, programs) + freely)
            del self.reasons[:-LATEST]
            self.reason_of[id(program)] = self.reasons[-1]
            again = "compile: %s is recorded again (%d recordings): %s"
            LOG.info(again, name_of(self.fn), self.count, self.reasons[-1])
        if self.count > LIMIT and not self.warned:
            self.warned = True
            warn_user(self._message([*programs, key], why_each))

    def forget(self, program: Program) -> None:
        """Keep nothing about a program that is dropped: its id will be another's."""
        self.reason_of.pop(id(program), None)

    def _reason(self, key: Any, programs: dict[Any, list[Program]]) -> str:
        if key in programs:
            last = programs[key][-1].conditions
            changed = last.guards.failures()
            if changed:
                return f"something it reads changed ({'; '.join(changed[:3])})"
            moved = [
                f"{test.name} came out as {outcome!r} and does no longer"
                for test, outcome in last.host_tests
                if _outcome(test) != outcome
            ]
            return "a guard failed: " + ", ".join(
                moved[:3]
                or [reason for holds, reason in last.tests if not holds()]
                or ["a gradient was there, or not"]
            )
        if not programs:
            return "what it reads and changes is of other objects than those of earlier calls"
        return "; ".join(self._differences([list(programs)[-1], key])) or "other arguments"

    def _message(self, keys: list[Any], why_each: str) -> str:
        name = name_of(self.fn)
        same = [k for k in keys if k[0] == keys[-1][0]]
        differences = self._differences(same)
        what = (
            "; ".join(differences) if differences else f"the last time because {self.reasons[-1]}"
        )
        remedy = "Keep what changes in a tensor and write that in place, or pass it as an argument."
        if differences:
            remedy = "Pass a number that varies as a tensor."
        if any(said.startswith("dimension") for said in differences):
            because = f" Each size is recorded by itself: {why_each}." if why_each else ""
            remedy = f"One recording serves many sizes of tensors that are row-major.{because}"
        return f"compile: {name} was recorded {self.count} times: {what}. {remedy}"

    def names(self, key: Any) -> list[str]:
        """A name for every leaf of the arguments."""
        return argument_names(key[0], parameter_names(self.fn))

    def _differences(self, keys: list[Any]) -> list[str]:
        """What varies among signatures of one structure, argument by argument."""
        if len({k[0] for k in keys}) > 1:
            return ["the number or nesting of arguments differs"]
        differences: list[str] = []
        for name, *parts in zip(self.names(keys[-1]), *[k[1] for k in keys], strict=True):
            differences += _variation(name, parts)
        if len({k[2] for k in keys}) > 1:
            differences.append("the grad, autocast, anomaly or default dtype mode differs")
        return differences


def _variation(name: str, parts: list[Any]) -> list[str]:
    """How one argument varies."""
    if not all(isinstance(p[0], Spec) for p in parts):
        values = list(dict.fromkeys(repr(p[1]) if len(p) == 2 else "a tensor" for p in parts))
        return [f"{name} takes the values {_some(values)}"] if len(values) > 1 else []
    specs = [p[0] for p in parts]
    if len({len(s.shape) for s in specs}) > 1:
        return [f"the number of dimensions of {name} varies"]
    differences = [
        f"dimension {d} of {name} takes the sizes {_some(sizes)}"
        for d in range(len(specs[0].shape))
        if len(sizes := list(dict.fromkeys(str(s.shape[d]) for s in specs))) > 1
    ]
    if len(dtypes := list(dict.fromkeys(s.dtype.name for s in specs))) > 1:
        differences.append(f"the dtype of {name} is {_some(dtypes)}")
    if not differences and len({p[1] for p in parts}) > 1:
        differences.append(f"the strides of {name} vary")
    if len({p[2] for p in parts}) > 1:
        differences.append(f"requires_grad of {name} varies")
    if len(kinds := list(dict.fromkeys(p[5].__name__ for p in parts))) > 1:
        differences.append(f"the class of {name} is {_some(kinds)}")
    if len({p[6] for p in parts}) > 1:
        differences.append(f"{name} was made in inference mode, or not")
    return differences


def _some(values: list[str]) -> str:
    return ", ".join(values[:6]) + (", ..." if len(values) > 6 else "")
