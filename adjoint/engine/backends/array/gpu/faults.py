"""Faults of a GPU, which come to light after the operation that caused them: who that may be.

Work on a GPU is asked for and done later, so an error of a kernel is raised by whatever looks at
the GPU next. The latest operations and their lines are remembered for the message; with
`ADJOINT_LAUNCH_BLOCKING=1` (or CUDA_LAUNCH_BLOCKING, as PyTorch has it) each operation is waited
for, and the one that failed raises.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from adjoint.engine.core.errors import AcceleratorError, is_ours, place_of, show_line
from adjoint.engine.core.state import late_faults

VARIABLES = ("ADJOINT_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING")
BLOCKING = any(os.environ.get(name, "0") not in ("", "0") for name in VARIABLES)
# What was asked for lately, and the instructions that asked: lines are found when told.
Asked = tuple[str, CodeType | None, int]
LATEST: deque[Asked] = deque(maxlen=8)

# Work that was given up while a GPU waited for others: what it was to write is not to be read.
LOST: list[BaseException | None] = []


def note(what: str) -> Asked:
    """Remember what is asked of the GPU now: for every operation, so it does little."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code):
        frame = frame.f_back
    asked = (what, None, 0) if frame is None else (what, frame.f_code, frame.f_lasti)
    LATEST.append(asked)
    return asked


def is_fault(error: BaseException) -> bool:
    """Whether an error is CUDA's own."""
    return type(error).__module__.startswith("cupy_backends.cuda.")


def operation_text(what: str, code: CodeType | None, instruction: int) -> str:
    """An operation and its line, for a message."""
    return what if code is None else f"{what}, {show_line(*place_of(code, instruction))}"


def reported(error: BaseException, *, waited_for: bool = False) -> AcceleratorError:
    """An error of the GPU's, with the latest operation, if it was waited for, or all it may be."""
    head = f"CUDA error: {error}"
    if waited_for and LATEST:
        return AcceleratorError(f"{head}, in {operation_text(*LATEST[-1])}")
    since = "It may come from any operation since the GPU was last waited for; the latest first:"
    lines = [f"{head}. {since}"]
    lines += [f"  {operation_text(*operation)}" for operation in reversed(LATEST)]
    lines.append(f"Run with {VARIABLES[0]}=1 to see which one it is.")
    return AcceleratorError("\n".join(lines))


def guarded(call: Callable[[], Any], *, waited_for: bool = False) -> Any:
    """What waits for the GPU; a fault that comes to light is told with what it may come from."""
    try:
        result = call()
    except Exception as error:
        if is_fault(error):
            raise reported(error, waited_for=waited_for) from error
        raise
    if LOST and LOST[0] is not None:
        raise LOST[0]
    return result


def wait(call: Callable[[], Any]) -> Any:
    """`guarded`, where a program waits: what kernels have found meanwhile is raised, too."""
    result = guarded(call)
    late_faults.look()
    return result
