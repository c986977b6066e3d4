"""Names in annotations that only a layer above defines, made known for `typing.get_type_hints`.

An operation's signature says `Tensor`, and that class stands above the operations: their modules
import it for the type checker alone. At run time the module that defines such a class gives it to
those below, so that whoever asks for the types of a signature (documentation, argument parsers,
validators) finds the name where the signature was written.
"""

from __future__ import annotations

import sys
from typing import Any

_DEFINED: dict[str, Any] = {}
_SCOPES: dict[int, dict[str, Any]] = {}  # globals of modules that publish something, by identity


def define(kind: type) -> None:
    """Make a class known to every module that publishes functions, now and from here on."""
    _DEFINED[kind.__name__] = kind
    for scope in _SCOPES.values():
        scope.setdefault(kind.__name__, kind)


def complete(scope: dict[str, Any]) -> None:
    """Enter the globals of a module that publishes functions.

    >>> scope = {}
    >>> complete(scope)
    >>> scope["Tensor"].__name__
    'Tensor'
    """
    if id(scope) not in _SCOPES:
        _SCOPES[id(scope)] = scope
        for name, kind in _DEFINED.items():
            scope.setdefault(name, kind)


def give(kind: type, *modules: str) -> None:
    """Make a class known to modules, by name, that it is built from and hence cannot import it."""
    for module in modules:
        vars(sys.modules[module]).setdefault(kind.__name__, kind)
