"""Context managers that also decorate functions, under PyTorch's address."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any


def _wrap_generator(make: Callable[[], Any], func: Callable[..., Any]) -> Callable[..., Any]:
    """A generator that runs each of its steps, and nothing in between, in the context."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Iterator[Any]:
        steps = func(*args, **kwargs)
        resume: Callable[[], Any] = functools.partial(next, steps)
        while True:
            with make():
                try:
                    value = resume()
                except StopIteration as stop:
                    return stop.value
            try:
                sent = yield value
            except GeneratorExit:
                with make():
                    steps.close()
                raise
            except BaseException as error:
                resume = functools.partial(steps.throw, error)
            else:
                resume = functools.partial(steps.send, sent)

    return wrapped


def context_decorator(make: Any, func: Any) -> Any:
    """A function that runs in a context; `make` gives a context, or is one."""
    fresh = make if callable(make) and not hasattr(make, "__enter__") else lambda: make
    if inspect.isclass(func):
        raise RuntimeError(
            f"Cannot decorate classes; it is ambiguous whether or not only the constructor or all "
            f"methods should have the context manager applied: {func}"
        )
    if inspect.isgeneratorfunction(func):
        return _wrap_generator(fresh, func)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with fresh():
            return func(*args, **kwargs)

    return wrapped


class _DecoratorContextManager:
    """A context manager whose instances decorate functions, a new one for each call.

    Example:
        >>> class Loud(_DecoratorContextManager):
        ...     def __enter__(self):
        ...         print("in")
        ...
        ...     def __exit__(self, *_):
        ...         print("out")
        >>> Loud()(lambda: print("called"))()
        in
        called
        out
    """

    def __call__(self, orig_func: Any) -> Any:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __enter__")

    def __exit__(self, *error: object) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __exit__")

    def clone(self) -> Any:
        """Another of the same."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same, which also decorates without being called: `@no_grad`."""

    def __new__(cls, orig_func: Any = None) -> Any:
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
