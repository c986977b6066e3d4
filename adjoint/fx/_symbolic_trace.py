"""PyTorch's path to the tracer, and what tracers of libraries build upon."""

from __future__ import annotations

import builtins
import functools as functools
from collections.abc import Callable
from contextlib import ExitStack
from types import FunctionType as FunctionType
from typing import Any

from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.fx.proxy import Proxy as Proxy
from adjoint.fx.tracer import _WRAPPED, _recorded_with_proxies
from adjoint.fx.tracer import Tracer as Tracer
from adjoint.fx.tracer import is_fx_tracing as is_fx_tracing
from adjoint.fx.tracer import symbolic_trace as symbolic_trace
from adjoint.fx.tracer import wrap as wrap
from adjoint.nn.modules.module import Module

__all__ = ["Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

_orig_module_call: Callable[..., Any] = Module.__call__
_orig_module_getattr: Callable[..., Any] = Module.__getattr__


class ScriptObject:
    """An object of TorchScript: there are none here."""


def compatibility(is_backward_compatible: bool) -> Callable[[Any], Any]:
    """A decorator that leaves a function as it is: PyTorch notes down what stays."""
    return lambda function: function


class _Patcher:
    """Puts other functions in the places of some, and takes them back at the end of its block."""

    def __init__(self) -> None:
        self._undo = ExitStack()
        self._patched: set[tuple[int, str]] = set()

    def patch(
        self, frame_dict: dict[str, Any], name: str, new_fn: Any, deduplicate: bool = True
    ) -> None:
        """Another function under a name of a module."""
        if not self._first(frame_dict, name, deduplicate):
            return
        if name in frame_dict:
            self._undo.callback(frame_dict.__setitem__, name, frame_dict[name])
        else:  # a built-in function
            self._undo.callback(frame_dict.__delitem__, name)
        frame_dict[name] = new_fn

    def patch_method(self, cls: type, name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """Another method of a class."""
        if not self._first(cls, name, deduplicate):
            return
        self._undo.callback(setattr, cls, name, getattr(cls, name))
        setattr(cls, name, new_fn)

    def _first(self, holder: Any, name: str, deduplicate: bool) -> bool:
        key = (id(holder), name)
        if deduplicate and key in self._patched:
            return False
        self._patched.add(key)
        return True

    def __enter__(self) -> _Patcher:
        OVERRIDES.enter(1)  # functions of tensors look whether they are given a proxy
        return self

    def __exit__(self, *error: object) -> None:
        OVERRIDES.enter(-1)
        self._undo.close()


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """Have functions that `wrap` named write a node of themselves when given a proxy."""
    for (_, name), space in list(_WRAPPED.items()):
        original = space[name] if name in space else getattr(builtins, name)
        patcher.patch(space, name, _recorded_with_proxies(original))


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    """The same of functions that a tracer was given, wherever a module has them."""
    for name, value in list(frame_dict.items()):
        if callable(value) and id(value) in function_ids:
            patcher.patch(frame_dict, name, _recorded_with_proxies(value))
