"""What recordings do to Python's state and give back, in a form that can be compared.

A size may have become part of a text or a container unseen (`log.append(str(x.shape))`). So what a
recording with free sizes does again at each call is compared with what one at other sizes does, as
the graphs are (Note [checked sizes]).
"""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np

from adjoint.engine.capture.program.python_state import Output, PythonState
from adjoint.engine.capture.python.plain import is_plain
from adjoint.engine.capture.python.rebuilding import Immutable, Mutable, ReadNumber, Same
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat


def done_again(python: PythonState | None) -> Any:
    """Effects and result as nested tuples; sizes are extents in them, or plain numbers."""
    if python is None:
        return ()
    replay, described = python.replay, _Described()
    effects = [(described.value(e.do), *map(described.recipe, e.args)) for e in replay.effects]
    return (tuple(effects), described.recipe(replay.result), len(replay.draws))


class _Described:
    """Recipes in words; objects that are met again are numbered."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}

    def recipe(self, recipe: Any) -> Any:
        if isinstance(recipe, Output):
            return ("tensor", recipe.number)
        if isinstance(recipe, Same):
            return self.same(recipe.value)
        if isinstance(recipe, ReadNumber):
            return self.number(recipe.of)
        if not isinstance(recipe, (Immutable, Mutable)):
            return ("made by", type(recipe).__name__)
        number = self.numbers.get(recipe.number)
        if number is not None:
            return ("met again", number)
        self.numbers[recipe.number] = len(self.numbers)
        parts = tuple(map(self.recipe, recipe.parts))
        if isinstance(recipe, Immutable):
            return ("made", self.value(recipe.build), parts)
        return ("filled", self.value(recipe.empty), self.value(recipe.fill), parts)

    def same(self, value: Any) -> Any:
        """A constant: by value, or by which object it is."""
        if isinstance(value, (tuple, frozenset)) and is_plain(value):
            return (type(value).__name__, *map(self.same, value))
        return value if is_plain(value) else ("object", id(value))

    def number(self, value: Any) -> Any:
        """A number of each call, such as a size."""
        if isinstance(value, (Extent, ExtentFloat, HostScalar)):
            return value
        return ("read", type(value).__name__)

    def value(self, value: Any) -> Any:
        """What a function that makes something is, and has in its variables."""
        if is_plain(value):
            return self.same(value)
        if isinstance(value, types.FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return (id(value.__code__), *map(self.value, cells))
        if isinstance(value, functools.partial):
            return (self.value(value.func), *map(self.value, value.args))
        if isinstance(value, (tuple, list)):
            return tuple(map(self.value, value))
        if isinstance(value, np.ndarray):
            return (value.shape, value.dtype.str, value.tobytes())
        return type(value).__name__ if not isinstance(value, type) else ("class", id(value))
