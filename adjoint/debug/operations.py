"""`trace_ops`: every operation as it happens, with its module and line."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, TextIO

from adjoint.engine.autodiff.tape.anomaly import RUNNING
from adjoint.engine.core.errors import show_line
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.origins import Where, below_root, place_now
from adjoint.engine.core.state.context import CONTEXT


def shown(x: Any) -> str:
    """A tensor by its dtype and shape, anything else by its value's beginning."""
    return str(x._spec) if is_tensor(x) else repr(x)[:20]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that was performed."""

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    where: Where | None

    def __str__(self) -> str:
        given, returned = ", ".join(self.operands), ", ".join(self.results)
        return f"{self.name}({given}) -> {returned}  {self.place}"

    @property
    def place(self) -> str:
        """Its module and line; in backward, those of the operation it is the derivative of."""
        if self.where is None:
            return ""
        parts = [below_root(self.where.module)] if self.where.module else []
        parts.append(show_line(self.where.file, self.where.line))
        return ", ".join(parts) + (", backward" if self.where.backward else "")


def where_now() -> Where | None:
    """The place of the operation under way; in backward, that of its forward."""
    node = RUNNING.node
    if node is not None and node.extra is not None and node.extra.where is not None:
        where: Where = node.extra.where
        return where._replace(backward=True)
    return place_now()


def operation(
    record: Record, operands: tuple[Any, ...], params: dict[str, Any], outs: Any
) -> Operation:
    """What an observer saw."""
    results = outs if isinstance(outs, tuple) else (outs,)
    return Operation(
        record.name, tuple(map(shown, operands)), tuple(map(shown, results)), where_now()
    )


class OperationWatch:
    """A block in which every operation of this thread is looked at; compiled functions are Python.

    Anomaly mode is on, so that operations of backward know their forward's line.
    """

    def __init__(self) -> None:
        self._before: dict[str, Any] = {}

    def __enter__(self) -> Any:
        self._before = CONTEXT.set(
            observers=(*CONTEXT.observers, self.observe),
            anomaly=True,
            check_nan=False,
            uncompiled=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        CONTEXT.set(**self._before)

    def observe(self, record: Record, operands: Any, params: Any, outs: Any) -> None:
        """An operation was performed."""
        raise NotImplementedError


class trace_ops(OperationWatch):
    """Print, or keep, every operation in a block: name, shapes, module, line.

    Args:
        file: where to print; None keeps them in `operations` only.
        only: names of operations to look at; all unless given.

    Example:
        >>> import adjoint as ad
        >>> with ad.debug.trace_ops(file=None) as seen:
        ...     y = ad.ones(2, 3).exp().sum()
        >>> [each.name for each in seen.operations]
        ['full', 'exp', 'sum']
    """

    def __init__(self, file: TextIO | None = sys.stdout, only: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.file = file
        self.only = frozenset(only)
        self.operations: list[Operation] = []

    def __enter__(self) -> trace_ops:
        super().__enter__()
        return self

    def observe(self, record: Record, operands: Any, params: Any, outs: Any) -> None:
        """Note an operation."""
        if self.only and record.name not in self.only:
            return
        seen = operation(record, operands, params, outs)
        self.operations.append(seen)
        if self.file is not None:
            print(seen, file=self.file)
