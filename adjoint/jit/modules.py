"""What scripting gives: the same code, with the attributes of TorchScript refused by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from adjoint.nn.modules.module import Module


def refuse(what: str) -> NoReturn:
    """The error for what needs a TorchScript program."""
    raise NotImplementedError(
        f"{what}: Adjoint has no TorchScript programs. Save the state_dict() and build the module "
        "from its class; adjoint.engine.capture shows a function's graph."
    )


class ScriptFunction:
    """A function with TorchScript's attributes refused."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._fn(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Refused."""
        refuse("ScriptFunction.save")

    @property
    def graph(self) -> Any:
        refuse("ScriptFunction.graph")

    @property
    def code(self) -> Any:
        refuse("ScriptFunction.code")


class ScriptModule(Module):
    """A module with TorchScript's attributes refused; also what a scripted module is."""

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Refused."""
        refuse("ScriptModule.save")

    @property
    def graph(self) -> Any:
        refuse("ScriptModule.graph")

    @property
    def code(self) -> Any:
        refuse("ScriptModule.code")

    @property
    def original_name(self) -> str:
        """The name of the class that was scripted."""
        return type(self).__name__


def scripted(module: Module) -> Module:
    """The same module, parameters, buffers and flags shared, as a ScriptModule as well."""
    if isinstance(module, ScriptModule):
        return module
    kind = type(module)
    made: Module = object.__new__(
        type(kind.__name__, (ScriptModule, kind), {"__module__": kind.__module__})
    )
    object.__setattr__(made, "__dict__", module.__dict__)
    return made
