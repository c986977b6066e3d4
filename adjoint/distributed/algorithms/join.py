"""Training with different numbers of inputs: `Join([ddp_model])`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any


class Join:
    """A context in which each process goes through its own number of inputs.

    Args:
        joinables: modules under DistributedDataParallel.
        enable: whether it does anything.
        throw_on_early_termination: raise when the first process is done.
    """

    def __init__(
        self, joinables: Sequence[Any], enable: bool = True,
        throw_on_early_termination: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        if not joinables:
            raise ValueError("Join: expected at least one joinable")
        for each in joinables:
            if not hasattr(each, "join"):
                raise TypeError(
                    f"Join: expected DistributedDataParallel modules, got {type(each).__name__}"
                )
        self._stack = ExitStack()
        self._options = {
            "enable": enable, "throw_on_early_termination": throw_on_early_termination, **kwargs,
        }  # fmt: skip
        self._joinables = joinables

    def __enter__(self) -> Join:
        for each in self._joinables:
            self._stack.enter_context(each.join(**self._options))
        return self

    def __exit__(self, *how: Any) -> bool | None:
        return self._stack.__exit__(*how)
