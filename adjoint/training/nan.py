"""Finding the operation that made a NaN."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from adjoint.engine.autodiff.tape.anomaly import call_site, has_nan
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT


class NonFiniteLoss(RuntimeError):
    """The loss is NaN or infinite: training stopped before it could spoil the parameters."""


class _Found(Exception):
    """Carries the first operation with a NaN out of the forward pass."""


# Results of these are not computed: their memory may hold anything.
UNSET = frozenset(("empty", "empty_strided"))


def name_of_first_nan(forward: Callable[[], Any]) -> str | None:
    """Run `forward` and say which operation first gives NaN or infinity from finite operands."""

    def bad(x: Any) -> bool:
        return is_tensor(x) and (has_nan(x) or has_infinity(x))

    def watch(record: Any, operands: tuple[Any, ...], params: dict[str, Any], outs: Any) -> None:
        if record.name in UNSET:
            return
        results = outs if isinstance(outs, tuple) else (outs,)
        if any(map(bad, results)):
            finite = not any(map(bad, operands))
            shapes = ", ".join(str(tuple(x.shape)) for x in operands if is_tensor(x))
            origin = "from finite operands" if finite else "from operands that already hold one"
            raise _Found(f"{record.name} ({shapes}) {origin}, called at\n{call_site()}")

    try:
        with CONTEXT.having(observers=(*CONTEXT.observers, watch)):
            forward()
    except _Found as first:
        traceback.clear_frames(first.__traceback__)
        return str(first)
    return None


def has_infinity(x: Any) -> bool:
    """Whether a floating tensor holds an infinity."""
    return bool(x.dtype.is_inexact and x.detach().isinf().any().item())
