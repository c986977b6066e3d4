"""Grad modes: no_grad, enable_grad, set_grad_enabled, inference_mode."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from adjoint.core.context import CONTEXT

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A context manager that also decorates functions and generators."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self._before.append(CONTEXT.set(**self._fields))

    def __exit__(self, *_: object) -> None:
        CONTEXT.set(**self._before.pop())

    def __call__(self, fn: F) -> F:
        fields = self._fields
        if inspect.isgeneratorfunction(fn):

            @functools.wraps(fn)
            def generator(*args: Any, **kwargs: Any) -> Any:
                source = fn(*args, **kwargs)
                sent: Any = None
                while True:
                    with CONTEXT.having(**fields):
                        try:
                            item = source.send(sent)
                        except StopIteration as stop:
                            return stop.value
                    sent = yield item

            return generator  # type: ignore[return-value]

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with CONTEXT.having(**fields):
                return fn(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class no_grad(_Mode):
    """Operations inside are not recorded.

    >>> import adjoint as ad
    >>> x = ad.ones(1, requires_grad=True)
    >>> with ad.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    def __new__(cls, fn: Any = None) -> Any:
        return super().__new__(cls) if fn is None else cls()(fn)

    def __init__(self, fn: Any = None) -> None:
        super().__init__(grad_enabled=False)


class enable_grad(_Mode):
    """Operations inside are recorded, even within `no_grad`."""

    def __new__(cls, fn: Any = None) -> Any:
        return super().__new__(cls) if fn is None else cls()(fn)

    def __init__(self, fn: Any = None) -> None:
        super().__init__(grad_enabled=True)


class set_grad_enabled(_Mode):
    """Turn recording on or off, as a function or for a block."""

    def __init__(self, mode: bool) -> None:
        super().__init__(grad_enabled=bool(mode))
        self._outer = CONTEXT.set(**self._fields)

    def __enter__(self) -> None:
        self._before.append(self._outer)
        CONTEXT.set(**self._fields)


class inference_mode(_Mode):
    """Like `no_grad`, for code that will never need gradients of what it makes."""

    def __new__(cls, mode: Any = True) -> Any:
        return cls()(mode) if callable(mode) else super().__new__(cls)

    def __init__(self, mode: Any = True) -> None:
        on = bool(mode)
        super().__init__(**({"grad_enabled": False, "inference": True} if on else {}))


def is_grad_enabled() -> bool:
    """Whether operations are being recorded."""
    return CONTEXT.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on."""
    return CONTEXT.inference
