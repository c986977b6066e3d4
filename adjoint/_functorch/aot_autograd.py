"""Helpers of compilers that take forward and backward apart, which `compile` does not.

`aot_function` and its neighbours are refused when used (`adjoint.unavailable`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def make_boxed_func(f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """A function of a list of arguments, which may be emptied on the way.

    >>> make_boxed_func(lambda a, b: a + b)([1, 2])
    3
    """

    def boxed(args: list[Any]) -> Any:
        return f(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def make_boxed_compiler(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """A compiler whose functions take a list of arguments."""

    def boxed(graph: Any, example_inputs: Any) -> Any:
        return make_boxed_func(compiler(graph, example_inputs))

    return boxed
