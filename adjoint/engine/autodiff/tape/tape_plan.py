"""What the tape keeps of an operation, worked out once per record and pattern of operands.

A rule's parameter names say what it needs (Note [rules] in core.operations.record). Which operands
are tracked decides which rules will run, so a plan is made per record and set of tracked operands:
the values to save, and for each rule where its arguments come from. Recording an operation and
running it backward then only follow lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from adjoint.engine.core.operations.record import Record, Rule
from adjoint.engine.core.operations.small_calls import FLOATS_SUCCEED

# Where a rule's argument comes from; the key beside it is the index or name meant.
SAVED, SAVED_MANY, GRAD, GRADS, SPEC, SPECS, OUT_SPEC, OUT_SPECS, PARAM, OPTIONAL, CONSTANT = range(
    11
)
NEEDED, PARAMS = 11, 12  # joint rules only
RuleArgument = tuple[int, Any]
# The words of a plan for native code (Note [noting]): whether specs of all operands are wanted; how
# many results there are; the operands that are to be like the first of them, or specs are wanted
# too; what is saved. Lists begin with how many they are.
NOTED_AT_MOST = 8
NOTED_SPECS, NOTED_OUTPUTS, NOTED_CHECKS, NOTED_SAVES = 0, 1, 2, 3 + NOTED_AT_MOST
_ALWAYS_FLOATING = (
    "same",
    "float",
    "real",
)  # promotions that give an inexact result for an inexact operand


class RuleCall(NamedTuple):
    """One operand's rule: `fn` of arguments, or the constant partial `factor`."""

    position: int
    fn: Callable[..., Any] | None
    factor: float
    single: int  # the index of the one saved value that `fn` takes, or -1
    arguments: tuple[RuleArgument, ...]


class TapePlan:
    """How to record one operation and how to run its rules."""

    __slots__ = (
        "always_floating", "at_levels", "by_library", "elementwise", "handed", "hands_on", "higher",
        "joint", "led", "met", "node_class", "noted", "of_few", "of_tape", "on_device", "outputs",
        "record", "saves", "seen", "small", "steps", "straight", "tracked", "wants_out_specs",
        "wants_specs", "whole",
    )  # fmt: skip

    def __init__(self, record: Record, tracked: list[bool], outputs: int, node_class: type) -> None:
        self.record = record
        self.tracked = tuple(tracked)  # with the record all that decides it
        self.node_class = node_class
        self.outputs = outputs
        self.elementwise = record.family == "elementwise"
        # Whether its rules may be one program; those of a product or convolution are fragments
        # themselves (Note [fragments]).
        self.whole = self.elementwise or record.compose is not None or bool(record.pulled)
        self.always_floating = self.elementwise and record.promotion in _ALWAYS_FLOATING
        self.wants_specs = False
        self.wants_out_specs = False
        self.small: tuple[Any, ...] = ()  # its rules' programs for few elements
        self.met: tuple[Any, ...] = ()  # its rules' fragments on a GPU (Note [met launches])
        self.straight: tuple[Any, ...] = ()  # what a library gives for them there
        self.saves: tuple[int, ...] = ()  # operand i as i, result i as -1 - i
        self.joint: RuleCall | None = None  # the one rule of all operands
        if record.joint is not None:
            self.joint = self._joint(record, record.joint, tracked)
        self.steps: tuple[RuleCall, ...] = tuple(
            self._step(record, rule, position, len(tracked))
            for position, wanted in enumerate(tracked)
            if wanted and (rule := record.rule_at(position)) is not None
        )
        # Whether on a GPU all its rules are one program; products are fragments themselves.
        one = (self.whole and not record.pulls_views) or record.fills_zeros
        self.on_device = bool(record.on_device) and one
        # Whether on a GPU a library may have been asked for its rules before.
        self.by_library = record.by_library and outputs == 1 and self.joint is None
        # Whether operands get the cotangent as it comes, where they are like the result.
        self.hands_on = self.elementwise and all(
            step.fn is None and step.factor == 1.0 for step in self.steps
        )
        # Which do, for native code (Note [pulled nodes]); None: there is something to compute.
        handed = {step.position for step in self.steps}
        self.handed = tuple([k in handed for k in range(len(tracked))]) if self.hands_on else None
        # Whether of few elements all its rules may be one program (Note [rules of few elements]).
        self.seen = 0
        self.of_few = not (
            self.hands_on
            or record.given_a_draw
            or record.opaque
            or record.communicates
            or record.pulls_views
            or record.fails not in FLOATS_SUCCEED
        ) and (record.window is None or record.fills_zeros)
        # The same of rules that are put on the tape themselves (Note [rules on the tape]): by which
        # cotangents are wanted, and whether there may be any.
        self.higher: dict[Any, Any] = {}
        self.of_tape = self.of_few and record.window is None
        # The same on the tape of a transform (Note [rules at levels]).
        self.at_levels = not (
            self.hands_on
            or record.draws
            or record.opaque
            or record.communicates
            or record.pulls_views
            or record.fails not in FLOATS_SUCCEED
            or record.window is not None
            or node_class.is_write  # type: ignore[attr-defined]
        )
        # To which operands each result leads back, where not all lead to all.
        self.led: tuple[Any, ...] | None = None
        self.noted = self._noted()

    def _noted(self) -> tuple[Any, type] | None:
        """The words that native code follows (Note [noting]), and the class of the node.

        None where it has no way: `attach` has.
        """
        checks = [step.position for step in self.steps] if self.elementwise else []
        rare = self.wants_out_specs or self.outputs != self.record.outputs
        lists = len(checks), len(self.saves), len(self.tracked), self.outputs
        if rare or max(lists) > NOTED_AT_MOST:
            return None
        words = np.zeros(NOTED_SAVES + 1 + NOTED_AT_MOST, np.int64)
        words[NOTED_SPECS], words[NOTED_OUTPUTS] = self.wants_specs, self.outputs
        for at, numbers in ((NOTED_CHECKS, checks), (NOTED_SAVES, self.saves)):
            words[at] = len(numbers)
            words[at + 1 : at + 1 + len(numbers)] = numbers
        return words, self.node_class

    def _step(self, record: Record, rule: Rule | float, position: int, count: int) -> RuleCall:
        if isinstance(rule, float):
            return RuleCall(position, None, rule, -1, ())
        arguments: tuple[RuleArgument, ...] = tuple(
            (OPTIONAL, (n, rule.defaults[n]))
            if n in rule.defaults
            else self._argument(record, n, position, count)
            for n in rule.names
        )
        alone = len(arguments) == 1 and arguments[0][0] == SAVED
        return RuleCall(position, rule.fn, 1.0, arguments[0][1] if alone else -1, arguments)

    def _joint(self, record: Record, rule: Rule, tracked: list[bool]) -> RuleCall:
        """The step of a joint rule, without what only untracked operands would need."""
        unused = {
            name
            for name, operands in record.joint_for.items()
            if not any(tracked[record.operands.index(operand)] for operand in operands)
        }
        arguments = tuple(
            (CONSTANT, None) if n in unused else self._argument(record, n, -1, len(tracked))
            for n in rule.names
        )
        return RuleCall(-1, rule.fn, 1.0, -1, arguments)

    def _save(self, code: int) -> int:
        if code not in self.saves:
            self.saves += (code,)
        return self.saves.index(code)

    def _argument(self, record: Record, name: str, position: int, count: int) -> RuleArgument:
        match name:
            case "g":
                return GRAD, None
            case "gs":
                return GRADS, None
            case "out":
                return SAVED, self._save(-1)
            case "outs":
                return SAVED_MANY, [self._save(-1 - i) for i in range(self.outputs)]
            case "later_outs":
                return SAVED_MANY, [self._save(-1 - i) for i in range(1, self.outputs)]
            case "first_outs":
                return SAVED_MANY, [self._save(-1 - i) for i in range(2)]
            case "out_spec" | "out_specs":
                self.wants_out_specs = True
                return (OUT_SPEC, None) if name == "out_spec" else (OUT_SPECS, None)
            case "position":
                return CONSTANT, position
            case "needed" if record.joint is not None:
                return NEEDED, None
            case "params" if record.joint is not None:
                return PARAMS, None
            case "spec":
                self.wants_specs = True
                return SPEC, position
            case "x_specs":
                self.wants_specs = True
                return SPECS, slice(None)
        if record.has_operand(name):
            place = record.operand(tuple(range(count)), name)
            if isinstance(place, tuple):
                return SAVED_MANY, [self._save(i) for i in place]
            return SAVED, self._save(place)
        if name.endswith("_spec") and record.has_operand(name[:-5]):
            self.wants_specs = True
            place = record.operand(tuple(range(count)), name[:-5])
            return (SPECS, slice(place[0], None)) if isinstance(place, tuple) else (SPEC, place)
        return PARAM, name


# PyTorch's names for the nodes of operations that we call by another name.
_SPELLINGS = {
    "reshape": "View",
    "slice": "Slice",
    "cast": "ToCopy",
    "to_device": "ToCopy",
    "view_scatter": "CopySlices",
    "matmul": "Mm",
    "largest": "Topk",
    "biased_convolution": "Convolution",
}
_classes: dict[Record, type] = {}


def node_class_of(record: Record, base: type) -> type:
    """The node class of a record, so that `type(y.grad_fn).__name__` says what was done."""
    node_class = _classes.get(record)
    if node_class is None:
        stem = _SPELLINGS.get(record.name) or "".join(
            part.capitalize() for part in record.name.split("_")
        )
        name = stem if stem == "CopySlices" else f"{stem}Backward0"
        node_class = _classes[record] = type(
            name,
            (base,),
            {"__slots__": (), "__module__": __name__, "fills_zeros": record.fills_zeros},
        )
    return node_class


def plan_for(record: Record, key: Any, count: int, outputs: int, base: type) -> TapePlan | None:
    """The plan for operands tracked as the bits of `key` say; None where none has a rule.

    Where the number of results varies from call to call, the key is (bits, number of results).
    """
    bits = key if isinstance(key, int) else key[0]
    tracked = [bool(bits >> (count - 1 - i) & 1) for i in range(count)]
    plan = TapePlan(record, tracked, outputs, node_class_of(record, base))
    useful = plan if plan.steps or plan.joint is not None else None
    record.tape[key] = useful
    return useful
