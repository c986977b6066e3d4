"""Anomaly mode: errors and NaNs in backward name the line of the forward operation."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

from adjoint.autodiff.node import Node


def call_site() -> str:
    """The innermost line of the user's program, outside this package."""
    own = __name__.split(".", 1)[0]
    stack = traceback.extract_stack()
    outside = [f for f in stack if f"/{own}/" not in f.filename.replace("\\", "/")]
    return "".join(traceback.format_list(outside[-3:] or stack[-1:]))


def guarded(node: Node, grads: Sequence[Any], needed: Sequence[bool], level: Any) -> list[Any]:
    """Run a node's vjp, naming its forward line if it fails or makes a NaN."""
    where = f"\nThe forward call that made it:\n{node.trace}" if node.trace else ""
    try:
        results = node.apply(grads, needed, level)
    except Exception as error:
        error.add_note(f"Error detected in {node.name()}.{where}")
        raise
    for i, result in enumerate(results):
        if result is not None and result.dtype.is_inexact and bool(result.isnan().any()):
            raise RuntimeError(
                f"Function '{node.name()}' returned nan values in its {i}th output.{where}"
            )
    return results
