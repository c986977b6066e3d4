"""`record`, which PyTorch's programs put on their main function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from adjoint.distributed.launch.worker import leave_word

F = TypeVar("F", bound=Callable[..., object])


class ChildFailedError(Exception):
    """A process of a job failed; which, and why, was printed by the launcher."""

    def __init__(self, name: str, failures: object) -> None:
        super().__init__(f"{name} failed: exit status {failures}")
        self.name, self.failures = name, failures


def record(fn: F, error_handler: object = None) -> F:
    """Have a launcher told what a function raised; `adjoint launch` does so for every program."""

    @functools.wraps(fn)
    def wrapper(*args: object, **kwargs: object) -> object:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            leave_word(f"{type(error).__name__}: {error}")
            raise

    return wrapper  # type: ignore[return-value]
