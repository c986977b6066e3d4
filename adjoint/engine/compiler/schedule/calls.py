"""Nodes that the eager table runs in the middle of a native program."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.compiler.memory.places import ARENA, INPUT
from adjoint.engine.compiler.schedule.plan import Plan
from adjoint.engine.compiler.schedule.steps import EagerCall
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.ir import Value


class HostCall:
    """A node run by the eager table on arrays in the program's memory."""

    def __init__(self, step: EagerCall, plan: Plan, arena: Any, origin: int) -> None:
        self.node = step.node
        self.plan = plan
        self.arena = arena
        self.start = origin - arena.ctypes.data  # where in the array the arena begins
        self.operands = [
            x if not isinstance(x, Value) else (x if x.host else self.maker(x))
            for x in step.node.inputs
        ]
        self.host_index = {v: i for i, v in enumerate(plan.graph.inputs)}
        self.outs = [self.maker(v) for v in step.node.outputs]

    def maker(self, value: Value) -> Callable[[list[Any], list[Any]], Any]:
        """A function that gives a value's array."""
        place = self.plan.places[value]
        buffer, dtype = place.buffer, NUMPY_OF[value.spec.dtype]
        strides = tuple(s * dtype.itemsize for s in place.strides)
        shift = place.offset * dtype.itemsize
        if buffer.kind == ARENA:
            offset = self.start + buffer.start
            if 0 in place.shape:
                empty = np.empty(place.shape, dtype)
                return lambda inputs, results: empty
            whole = self.arena[offset : offset + max(buffer.nbytes, 1)]
            array = np.ndarray(place.shape, dtype, whole.data, shift, strides)
            return lambda inputs, results: array

        def window(source: Any) -> Any:
            begun = source if place.offset == 0 else _moved(source, place.offset)
            # As plain bytes: NumPy does not know the names of dtypes from outside.
            plain = (
                begun.view(f"V{dtype.itemsize}")
                if dtype.kind == "f" and dtype.itemsize == 1
                else begun
            )
            shown = np.lib.stride_tricks.as_strided(plain, place.shape, strides)
            return shown.view(dtype) if plain is not begun else shown

        if buffer.kind == INPUT:
            number = buffer.number
            return lambda inputs, results: window(inputs[number])
        number = buffer.number
        return lambda inputs, results: window(results[number])

    def __call__(self, inputs: list[Any], results: list[Any]) -> None:
        wrap = HOOKS.array.wrap
        operands = []
        for x in self.operands:
            if callable(x):
                operands.append(wrap(x(inputs, results)))
            elif isinstance(x, Value):
                operands.append(inputs[self.host_index[x]])
            else:
                operands.append(x)
        with CONTEXT.having(capture=None, grad_enabled=False, autocast=None):
            returned = self.node.record(*operands, **self.node.params)
        many = returned if isinstance(returned, tuple) else (returned,)
        for value, out in zip(many, self.outs, strict=True):
            np.copyto(out(inputs, results), value._array)


def _moved(source: Any, offset: int) -> Any:
    """An array that begins so many elements later in the same memory."""
    interface = source.__array_interface__
    address = interface["data"][0] + offset * source.dtype.itemsize
    raw = (ctypes.c_char * source.dtype.itemsize).from_address(address)
    return np.ndarray((1,), source.dtype, raw)
