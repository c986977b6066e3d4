"""`break_on_nonfinite`: stop at the first NaN or infinity, and say where it comes from."""

from __future__ import annotations

import pdb
import sys
from typing import Any

import numpy as np

from adjoint.debug.operations import OperationWatch, operation
from adjoint.engine.core.errors import AdjointError
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.tensor.storage import Window

# Results of these are not computed: their memory may hold anything.
UNSET = frozenset(("empty", "empty_strided"))
ACTIONS = ("raise", "print", "pdb")


class NonFiniteError(AdjointError, RuntimeError):
    """An operation gave a NaN or an infinity."""


def bad_elements(x: Any) -> Any:
    """Which elements of a tensor are NaN or infinite; None where it has none to look at."""
    if not is_tensor(x) or not x.dtype.is_inexact or type(x._array) is Window:
        return None
    array = x.detach().cpu()._array
    wrong = ~np.isfinite(array.astype(np.float32) if array.dtype.itemsize < 4 else array)
    return wrong if wrong.any() else None


class break_on_nonfinite(OperationWatch):
    """In the block, the first operation that gives NaN or infinity stops the program.

    The error names the operation, the element, the module and the line; in backward, those of the
    forward operation. Masks of minus infinity are made on purpose (`full`, `masked_fill`, `where`):
    `allow` names operations that may.

    Args:
        action: "raise" an error, "print" and go on, or open the debugger ("pdb").
        allow: operations whose results may be infinite.

    Example:
        >>> import adjoint as ad
        >>> with ad.debug.break_on_nonfinite():
        ...     ad.tensor([1.0, 0.0]).log()
        Traceback (most recent call last):
            ...
        adjoint.debug.nonfinite.NonFiniteError: log gave -inf at (1,), 1 of 2 elements, ...
    """

    def __init__(
        self,
        action: str = "raise",
        allow: tuple[str, ...] = ("full", "masked_fill", "where", "triu", "tril"),
    ) -> None:
        super().__init__()
        if action not in ACTIONS:
            raise ValueError(
                f"break_on_nonfinite: action must be one of {', '.join(ACTIONS)}, "
                f"received {action!r}"
            )
        self.action = action
        self.allow = frozenset(allow)
        self.messages: list[str] = []

    def __enter__(self) -> break_on_nonfinite:
        super().__enter__()
        return self

    def observe(self, record: Record, operands: Any, params: Any, outs: Any) -> None:
        """Look at an operation's results."""
        if record.name in UNSET or record.name in self.allow or record.is_view:
            return
        for out in outs if isinstance(outs, tuple) else (outs,):
            wrong = bad_elements(out)
            if wrong is not None:
                self.tell(operation(record, operands, params, outs), out, wrong, operands)
                return

    def tell(self, seen: Any, out: Any, wrong: Any, operands: Any) -> None:
        """Say what was found, as was asked for."""
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        value = out.detach().cpu()[at].item() if at else out.item()
        finite = all(bad_elements(x) is None for x in operands)
        origin = "finite operands" if finite else "operands that hold some already"
        message = (
            f"{seen.name} gave {value} at {at}, {int(wrong.sum())} of {wrong.size} elements, "
            f"from {origin}: {', '.join(seen.operands)}\n  in {seen.place or 'an unknown line'}"
        )
        self.messages.append(message)
        if self.action == "raise":
            raise NonFiniteError(message)
        print(message, file=sys.stderr)
        if self.action == "pdb":
            pdb.set_trace()
