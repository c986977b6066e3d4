"""A third device from outside the package: arrays of a class of their own, with NumPy's functions.

Eager execution reaches it by `register_device`, compiled programs by `register_compiler`, which
makes them for the small target.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import scipy.special

import adjoint as ad
from adjoint.engine.backends.array import devices
from adjoint.engine.compiler import executors
from adjoint.engine.compiler.options import Options
from adjoint.engine.core import device
from adjoint.engine.core.state import rng
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.tensor.tensor import DEVICE_OF
from tests.small_target import SmallProgram, SmallTarget


class ToyMemory:
    """A place in an array's memory."""

    def __init__(self, array: Any, at: int = 0) -> None:
        self.array, self.at = array, at

    def __add__(self, count: int) -> ToyMemory:
        return ToyMemory(self.array, self.at + count)


class ToyArray(np.ndarray[Any, Any]):
    """Memory that only the toy's functions may touch."""

    def __new__(
        cls, shape: Any, dtype: Any = np.float64, memptr: Any = None, strides: Any = None
    ) -> ToyArray:
        if memptr is None:
            return np.ndarray.__new__(cls, shape, dtype)
        return np.ndarray.__new__(cls, shape, dtype, memptr.array, memptr.at, strides)

    @property
    def data(self) -> Any:
        return ToyMemory(np.asarray(self))


def on_toy(x: Any) -> Any:
    """A result of NumPy's as the toy's."""
    if isinstance(x, tuple):
        return tuple(map(on_toy, x))
    return np.asarray(x).view(ToyArray) if isinstance(x, (np.ndarray, np.generic)) else x


class ToyFunction:
    """A function of NumPy's whose results are the toy's."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.__name__ = fn.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return on_toy(self.fn(*args, **kwargs))

    def __getattr__(self, name: str) -> Any:  # `add.reduce`, `add.at`
        found = getattr(self.fn, name)
        return ToyFunction(found) if callable(found) else found


class ToyLibrary:
    """NumPy, or another module like it, for the toy's arrays."""

    ndarray = ToyArray

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.find = cache(self._find)

    def _find(self, name: str) -> Any:
        found = getattr(self.module, name)
        return ToyFunction(found) if callable(found) and not isinstance(found, type) else found

    def __getattr__(self, name: str) -> Any:
        return self.find(name)

    @staticmethod
    def asnumpy(x: Any) -> Any:
        """An array's elements on the host."""
        return np.array(x)


TOY = ToyLibrary(np)
TOY.special = ToyLibrary(scipy.special)  # type: ignore[attr-defined]


class ToyTarget(SmallTarget):
    """The small target for the toy's memory."""

    name = "toy"
    device = "toy"


PROGRAMS: list[ToyProgram] = []


class ToyProgram(SmallProgram):
    """A plan whose results are the toy's."""

    def __init__(self, task: Task, options: Options) -> None:
        super().__init__(task, options, ToyTarget())
        PROGRAMS.append(self)

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        return [None if x is None else on_toy(x) for x in super().__call__(inputs, targets)]


def compile_task(task: Task, options: Options) -> Executable:
    """What makes programs for the toy."""
    return ToyProgram(task, options)


def register() -> None:
    """Make the toy known."""
    ad.library.register_device(
        "toy",
        ad.library.ArrayDevice(
            library=TOY,
            arrays=ToyArray,
            index_of=lambda array: 0,
            active=lambda index: contextlib.nullcontext(),
            current=lambda: 0,
            to_host=np.array,
            from_host=lambda array: np.array(array).view(ToyArray),
        ),
    )
    ad.compiler.register_compiler("toy", compile_task)


def forget() -> None:
    """Leave no trace of it, for other tests."""
    device.KNOWN_TYPES.discard("toy")
    for table in (devices._OTHERS, device.CURRENT_INDEX, executors._COMPILERS):
        del table["toy"]
    del DEVICE_OF[ToyArray]
    for used in [each for each in rng._DEFAULTS if each.type == "toy"]:
        del rng._DEFAULTS[used]
