"""Programs around modules that run under both frameworks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.compare.errors import builtin

Program = Callable[[Any], Any]
PROGRAMS: list[Program] = []


def program(fn: Program) -> Program:
    PROGRAMS.append(fn)
    return fn


def fill(t: Any, module: Any) -> Any:
    """The module in double precision, with parameters and buffers set to known values."""
    module.double()
    with t.no_grad():
        for i, tensor in enumerate([*module.parameters(), *module.buffers()]):
            n = tensor.numel()
            if tensor.is_floating_point():
                values = t.arange(n, dtype=t.float64) / (n + 1) - 0.4 + 0.1 * i
                tensor.copy_(values.reshape(tensor.shape))
    return module


def data(t: Any, *shape: int) -> Any:
    n = 1
    for size in shape:
        n *= size
    return (t.arange(n, dtype=t.float64) * 0.37).sin().reshape(shape)


def message(fn: Callable[[], Any]) -> str:
    """What an error says, with its kind and the framework's name taken out."""
    try:
        fn()
    except Exception as error:
        text = str(error).replace("adjoint.", "torch.")
        return f"{builtin(error).__name__}: {text}"
    return "no error"
