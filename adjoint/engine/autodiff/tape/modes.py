"""Grad modes: no_grad, enable_grad, set_grad_enabled, inference_mode."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from adjoint.engine.core.state.context import CONTEXT

F = TypeVar("F", bound=Callable[..., Any])


class Mode:
    """A context manager on the thread's context that also decorates functions and generators."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields
        self._before: list[Any] = []  # what there was outside, innermost last

    def __enter__(self) -> None:
        self._before.append(CONTEXT.set(**self._fields))

    def __exit__(self, *_: object) -> None:
        CONTEXT.set(**self._before.pop())

    def __call__(self, fn: F) -> F:
        fields = self._fields
        if inspect.isgeneratorfunction(fn):
            return _moded_generator(fn, fields)  # type: ignore[return-value]

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with CONTEXT.having(**fields):
                return fn(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


def _moded_generator(fn: Callable[..., Any], fields: dict[str, Any]) -> Callable[..., Any]:
    """The mode holds while the generator runs, not while it waits."""

    @functools.wraps(fn)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        source = fn(*args, **kwargs)
        resume: Callable[[], Any] = lambda: next(source)
        while True:
            with CONTEXT.having(**fields):
                try:
                    item = resume()
                except StopIteration as stop:
                    return stop.value
            try:
                sent = yield item
            except GeneratorExit:
                with CONTEXT.having(**fields):
                    source.close()
                raise
            except BaseException as error:
                resume = functools.partial(source.throw, error)
            else:
                resume = functools.partial(source.send, sent)

    return generator


class ImmediateMode(Mode):
    """A mode that is on from the call on; as a context manager, until the block ends."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._outer = CONTEXT.set(**fields)

    def __enter__(self) -> None:
        self._before.append(self._outer)
        CONTEXT.set(**self._fields)

    def __call__(self, fn: F) -> F:
        CONTEXT.set(**self._outer)  # a decorator changes nothing before the function runs
        return super().__call__(fn)


class GradMode(Mode):
    """A mode of the tape alone, entered around many a small call: one field, written directly."""

    _enabled: bool

    def __init__(self, fn: Any = None) -> None:
        super().__init__(grad_enabled=self._enabled)

    def __enter__(self) -> None:
        self._before.append(CONTEXT.grad_enabled)
        CONTEXT.grad_enabled = self._enabled

    def __exit__(self, *_: object) -> None:
        CONTEXT.grad_enabled = self._before.pop()


class no_grad(GradMode):
    """Operations inside are not recorded.

    >>> import adjoint as ad
    >>> x = ad.ones(1, requires_grad=True)
    >>> with ad.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    if not TYPE_CHECKING:  # as a decorator without brackets it gives the function

        def __new__(cls, fn: Any = None) -> Any:
            return super().__new__(cls) if fn is None else cls()(fn)

    _enabled = False


class enable_grad(GradMode):
    """Operations inside are recorded, even within `no_grad`."""

    if not TYPE_CHECKING:  # as a decorator without brackets it gives the function

        def __new__(cls, fn: Any = None) -> Any:
            return super().__new__(cls) if fn is None else cls()(fn)

    _enabled = True


class set_grad_enabled(Mode):
    """Turn recording on or off, as a function or for a block."""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        super().__init__(grad_enabled=self.mode)
        self._outer = CONTEXT.grad_enabled
        CONTEXT.grad_enabled = self.mode  # from now on, as of `ImmediateMode`; one field, directly

    def __enter__(self) -> None:
        self._before.append(self._outer)
        CONTEXT.grad_enabled = self.mode

    def __exit__(self, *_: object) -> None:
        CONTEXT.grad_enabled = self._before.pop()

    def __call__(self, fn: F) -> F:
        CONTEXT.grad_enabled = self._outer  # a decorator changes nothing before the function runs
        return super().__call__(fn)


class inference_mode(Mode):
    """Like `no_grad`, for code that will never need gradients of what it makes.

    Tensors made inside cannot take part in recorded operations later, and keep no version.
    """

    if not TYPE_CHECKING:

        def __new__(cls, mode: Any = True) -> Any:
            return cls()(mode) if callable(mode) else super().__new__(cls)

    def __init__(self, mode: Any = True) -> None:
        self.mode = bool(mode)
        # inference_mode(False) is ordinary mode again: as in PyTorch, also inside of no_grad().
        super().__init__(grad_enabled=not self.mode, inference=self.mode)

    def __enter__(self) -> None:
        self._before.append((CONTEXT.grad_enabled, CONTEXT.inference))
        CONTEXT.set_inference(not self.mode, self.mode)

    def __exit__(self, *_: object) -> None:
        CONTEXT.set_inference(*self._before.pop())


class set_multithreading_enabled(Mode):
    """Both values hold: backward runs on the calling thread, and results are the same."""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        super().__init__()


def is_grad_enabled() -> bool:
    """Whether operations are being recorded."""
    return CONTEXT.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on."""
    return CONTEXT.inference
