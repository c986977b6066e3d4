"""Anomaly mode: errors and NaNs in backward name the line of the forward operation."""

from __future__ import annotations

import threading
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from adjoint.engine.autodiff.tape.modes import ImmediateMode, Mode
from adjoint.engine.autodiff.tape.node import BackwardNode
from adjoint.engine.core.errors import PACKAGE
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.settings import consult
from adjoint.engine.tensor.storage import Window


def call_site() -> str:
    """The innermost line of the user's program, outside this package."""
    stack = traceback.extract_stack()
    outside = [f for f in stack if not f.filename.startswith(PACKAGE)]
    return "".join(traceback.format_list(outside[-3:] or stack[-1:]))


class NodeUnderWay(threading.local):
    """The node whose derivative this thread computes, in anomaly mode."""

    node: BackwardNode | None = None


RUNNING = NodeUnderWay()


def guarded(
    node: BackwardNode, grads: Sequence[Any], needed: Sequence[bool] | None, level: Any
) -> Sequence[Any]:
    """Run a node's vjp, naming its forward line if it fails or makes a NaN."""
    trace = node.extra.trace if node.extra is not None else None
    where = (
        f"\nThe forward call that made it:\n{trace}"
        if trace
        else "\nIts forward call was made outside anomaly mode: enable it there too."
    )
    outer, RUNNING.node = RUNNING.node, node
    try:
        results = node.apply(grads, needed, level)
    except Exception as error:
        error.add_note(f"Error detected in {node.name()}.{where}")
        raise
    finally:
        RUNNING.node = outer
    if CONTEXT.check_nan:
        for i, result in enumerate(results):
            if result is not None and has_nan(result):
                raise RuntimeError(
                    f"Function '{node.name()}' returned nan values in its {i}th output.{where}"
                )
    return results


def has_nan(x: Any) -> bool:
    """Whether a concrete tensor holds a NaN (of a symbolic one it cannot be said)."""
    if not x.dtype.is_inexact or type(x._array) is Window:
        return False
    return bool((x._array != x._array).any())


class detect_anomaly(Mode):
    """In the block, a failing backward names the forward line, and a NaN in it is an error."""

    def __init__(self, check_nan: bool = True) -> None:
        consult("anomaly mode")
        super().__init__(anomaly=True, check_nan=check_nan)
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )


class set_detect_anomaly(ImmediateMode):
    """Turn anomaly mode on or off, as a function or for a block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        consult("anomaly mode")
        super().__init__(anomaly=bool(mode), check_nan=check_nan)


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turn anomaly mode on or off."""
    set_detect_anomaly(mode, check_nan)


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    consult("anomaly mode")
    return CONTEXT.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode, when on, looks for NaNs."""
    consult("anomaly mode")
    return CONTEXT.check_nan
