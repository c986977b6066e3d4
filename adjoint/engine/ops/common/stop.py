"""What a graph says of derivatives that are not those of its operations.

A captured body is differentiated as a graph, long after the Python that made it has run, so where
gradients stop there must be a node that says so (Note [closure conversion], graph/record/body.py).
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.record import Record

# STOP(x, tangents=): the same elements without a gradient; with `tangents`, forward mode goes on.
STOP: Record = primitive(
    "stop_gradient",
    lambda x, tangents: x,
    None,
    window=lambda x, tangents: (x.stride(), x.storage_offset()),
    batched_params=lambda params, size: params,
    native_check=True,
)


def _refuse(name: str) -> Any:
    raise NotImplementedError(
        f"{name}: the derivative of an autograd.Function inside cond, scan or while_loop cannot be "
        "recorded. Write it with operations, or keep the function outside the body."
    )


# CUSTOM(x, name=): a result of an autograd.Function, whose own derivative a graph does not have.
CUSTOM: Record = primitive(
    "custom_function",
    lambda x, name: x,
    lambda g, name: _refuse(name),
    jvp=lambda tx, name: _refuse(name),
    batched_params=lambda params, size: params,
    native_check=True,
)
