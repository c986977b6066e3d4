"""What scripting gives: the same code, with the attributes of TorchScript refused by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from adjoint import export as programs
from adjoint.engine.core.ownership import module_of
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module

# What traced modules were called with.
TRACED_WITH: WeakKeyDictionary[Module, tuple[tuple[Any, ...], dict[str, Any]]] = WeakKeyDictionary()


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

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None, **_: Any) -> None:
        """Write it to a file, if it was traced: as the program that `export` makes of it."""
        if self not in TRACED_WITH:
            refuse("ScriptModule.save: it was scripted, and only what was traced is saved")
        args, kwargs = TRACED_WITH[self]
        programs.save(_exported(self, args, kwargs), f, extra_files=_extra_files)

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


def _exported(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A module's program, with sizes that may change where that is possible."""
    if not kwargs:
        try:
            return programs.export(module, args, dynamic_shapes=tuple(map(_auto, args)))
        except (programs.ExportError, ValueError, RuntimeError):
            pass  # a size it computes with is fixed
    return programs.export(module, args, kwargs)


def _auto(value: Any) -> Any:
    if isinstance(value, Tensor):
        return dict.fromkeys(range(value.ndim), programs.Dim.AUTO)
    return None


def scripted(module: Module) -> Module:
    """The same module, parameters, buffers and flags shared, as a ScriptModule as well."""
    if isinstance(module, ScriptModule):
        return module
    kind = type(module)
    scripted_module: Module = object.__new__(
        type(kind.__name__, (ScriptModule, kind), {"__module__": module_of(kind)})
    )
    object.__setattr__(scripted_module, "__dict__", module.__dict__)
    return scripted_module
