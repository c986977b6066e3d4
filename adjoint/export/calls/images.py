"""Images of a recording for a machine, and the functions they call, as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.backends.llvm.loops.kernels import emit
from adjoint.engine.backends.llvm.program.sized import SizedPlans, planned
from adjoint.engine.backends.llvm.target import LLVM
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.draft import Draft, functions_of
from adjoint.engine.compiler.package.image import ProgramImage
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.compiler.schedule.plan import Plan
from adjoint.engine.compiler.schedule.steps import EagerCall, Text
from adjoint.engine.graph.execution import Task
from adjoint.export.errors import ExportError

Writer = Callable[[], Text]


class Planner:
    """Plans recordings that differ in sizes, and collects how their functions are written."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.writers: dict[str, Writer] = {}
        self.families: dict[int, SizedPlans] = {}  # by the graph they are instances of

    def image(self, task: Task) -> ProgramImage:
        """The image of a task."""
        if task.sizing is not None:
            family = self.families.setdefault(id(task.sizing.shared_plans), SizedPlans())
            if not family.refused:
                program = planned(task, self.options, family, self._collect)
                if program is not None:
                    return program[0]
        plan = plan_for(task, LLVM, self.options)
        plan.steps = [step for step in plan.steps if not _does_nothing(step)]
        refuse_calls(plan)
        self._collect(functions_of(plan, emit))
        return Draft(plan).at({})

    def _collect(self, wanted: dict[str, Writer]) -> dict[str, Any]:
        self.writers.update(wanted)
        return {}

    def texts(self, names: set[str]) -> str:
        """The functions of these names and what they need, as one module's text."""
        texts = [self.writers[name]() for name in sorted(names)]
        declarations = sorted({d for _, needed in texts for d in needed})
        return "\n".join([*declarations, *(text for text, _ in texts)])


# What to do instead, where it is more than to compute it before.
REMEDIES = {
    "eig": "linalg.eigh, of symmetric matrices, is exported",
    "standard_gamma": "draw before, and pass the numbers",
    "poisson": "draw before, and pass the numbers",
    "binomial": "draw before, and pass the numbers",
    "qr": "give mode='reduced' and at most 100 columns of real numbers",
    "svd": "give at most 96 rows or columns of real numbers",
    "eigh": "give at most 96 columns of real numbers",
    "lu_factor": "give at most 100 columns of real numbers",
    "matrix_exp": "give at most 128 columns of float64",
    "lstsq": "linalg.pinv(a) @ b is exported",
}


def _does_nothing(step: Any) -> bool:
    """Whether a step makes no element of anything."""
    return isinstance(step, EagerCall) and all(0 in v.spec.shape for v in step.node.outputs)


def refuse_calls(plan: Plan) -> None:
    """Refuse a plan in which the eager table does a part, with all of these parts at once."""
    lines: dict[str, None] = {}
    for step in plan.steps:
        if isinstance(step, EagerCall):
            where = step.node.where
            at = "" if where is None else f" at {where[0]}:{where[1]}"
            name = step.node.record.name
            remedy = f"; {REMEDIES[name]}" if name in REMEDIES else ""
            lines[f"  {name}{at}: {step.reason}{remedy}"] = None
    if lines:
        raise ExportError(
            "export.aot: these operations have no native code:\n"
            + "\n".join(lines)
            + "\nCompute what they give before, and pass it as an argument."
        )
