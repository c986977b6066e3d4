"""What a compiled function has recorded, as text."""

from __future__ import annotations

from collections import Counter
from typing import Any

from adjoint.engine.capture.program.program import Program
from adjoint.engine.capture.recordings.retracing import Retraces
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.record.sources import CallArgument, GradOf, Host, State

_KINDS = {State: "state", CallArgument: "argument", GradOf: "gradient", Host: "host number"}


def history(
    name: str, programs: dict[Any, list[Program]], retraces: Retraces, traces: int
) -> list[str]:
    """A paragraph per program."""
    count = sum(map(len, programs.values()))
    lines = [f"{name}: {_counted(count, 'program')}, recorded {_counted(traces, 'time')}"]
    number = 0
    for key, of_key in programs.items():
        arguments = ", ".join(
            f"{label} {part[0] if isinstance(part[0], Spec) else repr(part[1])}"
            for label, part in zip(retraces.names(key), key[1], strict=True)
        )
        for program in of_key:
            number += 1
            lines.append(f"{number}. {arguments or 'no arguments'}")
            reason = retraces.reason_of.get(id(program))
            if reason:
                lines.append(f"   recorded because {reason}")
            lines.append(f"   {_program(program)}")
    return lines


def _program(program: Program) -> str:
    kinds = Counter(_KINDS[type(s)] for s in program.sources)
    inputs = ", ".join(_counted(n, kind) for kind, n in kinds.items()) or "none"
    parts = [_counted(len(program.graph), "node"), f"inputs: {inputs}"]
    if program.origin.sizing is not None:
        parts.insert(0, "from a recording with dynamic sizes")
    effects = program.effects
    if effects.writes:
        parts.append(f"writes {_counted(len(effects.writes), 'state')}")
    if effects.grads:
        parts.append(f"sets {_counted(len(effects.grads), 'gradient')}")
    if effects.moves.any:
        parts.append("draws random numbers")
    if program.derivative is not None and len(program.derivative.refused) < len(
        program.derivative.seeds
    ):
        nodes = _counted(len(program.derivative.graph), "node")
        parts.append(f"backward of {nodes} from {len(program.derivative.residuals)} residuals")
    parts.append(f"run by {type(program.executable).__name__}")
    return "; ".join(parts)


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
