"""compile: a function that is recorded once and from then on runs as a program."""

from __future__ import annotations

import importlib
import inspect
import os
import warnings
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from adjoint.engine.capture.capture import Captured
from adjoint.engine.capture.recordings.inspection import PAGES
from adjoint.engine.compiler.executors import factory_for, get_default_backend
from adjoint.engine.compiler.modules import compiled_module, is_module
from adjoint.engine.core.state import config
from adjoint.engine.graph.execution import ExecutorFactory

if TYPE_CHECKING:
    from adjoint.nn import Module

P = ParamSpec("P")
Q = ParamSpec("Q")
R_co = TypeVar("R_co", covariant=True)
M = TypeVar("M", bound="Module")


class Compiled(Protocol[P, R_co]):
    """What `compile` makes of a function: called as before, and asked about its programs."""

    traces: int  # how often it was recorded

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run what was recorded."""
        ...

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Compiled[P, R_co]: ...

    @overload
    def __get__(
        self: Compiled[Concatenate[Any, Q], R_co], instance: object, owner: Any = None
    ) -> Compiled[Q, R_co]: ...

    def explain(
        self, html: str | os.PathLike[str] | None = None, run: tuple[Any, ...] | None = None
    ) -> str:
        """What the latest program does, step by step; also as a page."""
        ...

    def recordings(self) -> str:
        """The recordings there are, and why."""
        ...

    def guards(self) -> str:
        """What the latest program depends on."""
        ...

    def graph_text(self) -> str:
        """The latest program's graph as Python."""
        ...

    def svg(self, expand: Collection[str] | bool = ()) -> str:
        """The latest program's graph as a picture."""
        ...

    def reset(self) -> None:
        """Forget every recording."""
        ...


class Compiling(Protocol):
    """`compile` with its options given: a decorator that keeps types."""

    @overload
    def __call__(self, model: M) -> M: ...

    @overload
    def __call__(self, model: Callable[P, R_co]) -> Compiled[P, R_co]: ...


@overload
def compile(
    model: M,
    *,
    fullgraph: bool | None = None,
    dynamic: bool | None = None,
    backend: str | ExecutorFactory | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    validate: bool | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> M: ...


@overload
def compile(
    model: Callable[P, R_co],
    *,
    fullgraph: bool | None = None,
    dynamic: bool | None = None,
    backend: str | ExecutorFactory | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    validate: bool | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> Compiled[P, R_co]: ...


@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool | None = None,
    dynamic: bool | None = None,
    backend: str | ExecutorFactory | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    validate: bool | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> Compiling: ...


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool | None = None,
    dynamic: bool | None = None,
    backend: str | ExecutorFactory | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    validate: bool | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> Any:
    """Record a function at its first call; later calls run what was recorded.

    A whole training step may be compiled: forward, backward, optimizer, random numbers. The
    function is recorded again for arguments of another shape or dtype, and when something it
    depends on has changed. A compiled module is the same module: it shares parameters, buffers and
    every attribute with the one it was made from.

    Args:
        model: a function, method or module; without it, a decorator is returned.
        fullgraph: whether a function that cannot be recorded (`.item()`, a branch on a tensor's
            value) is an error, the default. With False a warning names the line and the reason,
            and calls with arguments like those run as Python; PyTorch programs under
            `adjoint run` get that unless they say otherwise.
        dynamic: whether one program serves many sizes. By default the first is for the sizes it
            was given, and a dimension that is met with a second size (from 2 on) is free from then
            on; True makes first dimensions free at once, False makes a program for each size.
        backend: what runs the programs: a name of `compiler.list_backends()`, or an executor
            factory (`graph.ExecutorFactory`).
        mode: PyTorch's modes.
        options: passed on to the backend.
        validate: whether the first call of each program is checked, kernel by kernel, against the
            reference interpreter; a difference is a `compiler.ValidationError`. By default as
            `ADJOINT_VALIDATE` in the environment says.
        disable: leave the function as it is.
        name: PyTorch's name for the function in its logs, without a meaning here.
        recompile_limit: PyTorch's number of programs after which calls run as Python, which they
            never do here for their number.
        isolate_recompiles: PyTorch's, for functions that share their code; each has programs of
            its own here.

    Example:
        >>> import adjoint as ad
        >>> @ad.compile
        ... def square_sum(x):
        ...     return (x * x).sum()
        >>> square_sum(ad.tensor([1.0, 2.0]))
        tensor(5.)
        >>> layer = ad.compile(ad.nn.Linear(2, 1))
        >>> isinstance(layer, ad.nn.Linear), [name for name, _ in layer.named_parameters()]
        (True, ['weight', 'bias'])
    """
    settings: dict[str, Any]
    settings = {"backend": backend, "mode": mode, "options": options, "dynamic": dynamic}
    settings["validate"] = validate
    settings["fullgraph"] = config.fullgraph if fullgraph is None else fullgraph
    if model is None:
        return lambda model: compile(model, disable=disable, **settings)
    if disable:
        return model
    if not callable(model):
        raise TypeError(
            f"compile: expected a function, method or module, received {type(model).__name__}. "
            "Options are passed by name: compile(fn, mode=...)."
        )
    if isinstance(model, type):
        raise TypeError(
            f"compile: received the class {model.__name__}; compile an instance of it, or decorate "
            "its forward method."
        )
    if is_module(model):  # which may answer to any name: it is asked for none
        return compiled_module(model, settings, captured)
    if inspect.isgeneratorfunction(model) or inspect.iscoroutinefunction(model):
        reason = (
            f"compile: {getattr(model, '__qualname__', model)} is a generator or coroutine, which "
            "runs in parts; a recording is whole. Compile the function it calls for each part."
        )
        if settings["fullgraph"]:
            raise TypeError(reason)
        warnings.warn(f"{reason} It runs as Python.", stacklevel=2)
        return model
    return captured(model, settings)


def write_page(path: str | os.PathLike[str], shown: Any) -> None:
    """Write the page about a compiled function; what makes it is loaded when first asked for."""
    importlib.import_module("adjoint.engine.compiler.page.write").write_page(path, shown)


PAGES["html"] = write_page


def captured(fn: Callable[..., Any], settings: dict[str, Any]) -> Captured:
    """The compiled form of a function, for given settings of `compile`."""
    backend, mode, options = settings["backend"], settings["mode"], settings["options"]
    factory = factory_for(
        get_default_backend() if backend is None else backend,
        mode or "default",
        dict(options or {}),
        settings["validate"],
    )
    if isinstance(fn, Captured):
        fn = fn.fn
    dynamic = None if settings["dynamic"] is None else bool(settings["dynamic"])
    return Captured(fn, factory, dynamic=dynamic, fullgraph=bool(settings["fullgraph"]))
