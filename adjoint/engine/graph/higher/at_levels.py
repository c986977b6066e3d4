"""The rules of a node of a transform's tape as one operation beneath it.

Note [rules at levels]
    Where `grad` or `vjp` goes backward, the rules of a node are operations on what lies beneath
    the transform. As on the tape (Note [rules on the tape]) they are an operation of their own:
      - of tensors of no transform, on no tape, it is the program that the tape has for the same
        rules (Note [rules of few elements]);
      - of a batch, it is that on batches (Note [steps of levels]): one program, and one node where
        a tape or a transform is beneath the batch.
    Inside of transforms nobody sees nodes, so it needs none of the care that the tape's takes about
    what each leads back to and keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from adjoint.engine.autodiff.levels.grad_level import GradLevel
from adjoint.engine.autodiff.levels.steps import attempted, gives_floats, is_disturbed
from adjoint.engine.autodiff.levels.vmap_level import VmapLevel
from adjoint.engine.autodiff.tape import tape_plan as kinds
from adjoint.engine.autodiff.tape.tape import RecordNode
from adjoint.engine.autodiff.tape.tape_plan import TapePlan
from adjoint.engine.core.operations.dispatch import highest_level
from adjoint.engine.core.operations.record import HOOKS, Record, Rule
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.value import TensorBase
from adjoint.engine.graph.higher.rules import (
    RuleOperation,
    refuse,
    with_specs,
)

# Elements of a value that another tape lies beneath: such an operation's rules compute it anew.
MOST_DIFFERENTIATED = 1 << 16


class LevelRules(RuleOperation):
    """The rules of a plan for the operands that are wanted, as an operation beneath a level."""

    __slots__ = ()

    def pull(self, values: Any, gs: Any, needed: Any, params: Any) -> Any:
        """The cotangents of its operands."""
        return self.pulled(values, gs, needed, params)

    def with_batch(self, batched: Sequence[bool], params: dict[str, Any]) -> list[bool]:
        """Which cotangents have a batch: those whose rule is given something that has it."""
        saves, plan = len(self.plan.saves), self.plan
        if plan.joint is not None:
            return [any(batched)] * len(self.positions)
        there = []
        for step in plan.steps:
            if not self.wanted[step.position]:
                continue
            read = [saves] if plan.elementwise else []
            for kind, key in step.arguments:
                if kind == kinds.SAVED:
                    read.append(key)
                elif kind == kinds.SAVED_MANY:
                    read += key
                elif kind in (kinds.GRAD, kinds.GRADS):
                    read += range(saves, len(batched))
            there.append(any(batched[k] for k in read))
        return there

    def made(self) -> Record:
        """The record."""
        return Record(
            f"{self.plan.record.name}_backward",
            "composite",
            infer=refuse,
            operands=("*values",),
            outputs=len(self.positions),
            joint=Rule.of(lambda values, gs, needed, params: self.pull(values, gs, needed, params)),
            compose=self.compose,
            with_batch=self.with_batch,
            part_by_part=True,
            given_a_draw=self.plan.record.given_a_draw,
            given_floats=gives_floats(self.plan.record),
            listed=False,
        )


def pull_at_level(
    node: RecordNode, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
) -> Sequence[Any] | None:
    """The cotangents of a node's operands, beneath a level; None: its rules are called."""
    plan = node.plan
    operation = operation_of(plan, needed, len(grads))
    if operation is None or is_disturbed():
        return None
    values = (*node.loaded(level), *grads)
    top = highest_level(values)
    if top is not None and is_differentiated(level) and not are_few_of(values):
        return None
    params = with_specs(node)
    if top is None:
        found = attempted(operation.record, values, params)
    else:
        found = top.process(operation.record, values, params)
    if found is None:
        return None
    results: list[Any] = [None] * len(node.edges)
    outs = found if found.__class__ is tuple else (found,)
    for k, out in zip(operation.positions, outs, strict=True):
        results[k] = out
    return results


def is_differentiated(level: Any) -> bool:
    """Whether another tape lies beneath a level."""
    return any(isinstance(x, GradLevel) and x is not level for x in CONTEXT.levels)


def are_few_of(values: Sequence[Any]) -> bool:
    """Whether values have few elements, those of batches in all."""
    sizes = [x.size for x in CONTEXT.levels if isinstance(x, VmapLevel)]
    most = MOST_DIFFERENTIATED // max(prod(sizes), 1)
    return all(x._array.size <= most for x in values if isinstance(x, TensorBase))


def operation_of(plan: TapePlan, needed: Sequence[bool] | None, grads: int) -> Any:
    """The operation of a plan's rules for the operands that are wanted; None: there is none."""
    key = "levels", None if needed is None else tuple(needed), grads
    operation: Any = plan.higher.get(key)
    if operation is None:
        operation = False
        if plan.at_levels:
            operation = LevelRules(plan, needed, grads)
            operation.record = operation.made()
        plan.higher[key] = operation
    return operation or None


HOOKS.pull_at_level = pull_at_level
