"""Nodes that the eager table runs in the middle of a program on the GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import ndarray

from adjoint.engine.backends.array.dtypes import NUMPY_OF, put
from adjoint.engine.compiler.memory.places import ARENA, INPUT, OWN
from adjoint.engine.compiler.schedule.plan import Plan
from adjoint.engine.compiler.schedule.steps import EagerCall
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.ir import Value

Window = Callable[[list[Any], list[Any]], Any]


class DeviceCall:
    """A node run by the eager table on arrays in the program's memory."""

    def __init__(self, step: EagerCall, plan: Plan, machine: Any, arena: Any, origin: int) -> None:
        self.node, self.plan, self.machine = step.node, plan, machine
        self.arena, self.origin = arena, origin
        self.host_index = {v: i for i, v in enumerate(plan.graph.inputs)}
        self.operands = [
            self.window(x) if isinstance(x, Value) and not x.host else x for x in step.node.inputs
        ]
        self.outs = [self.window(v) for v in step.node.outputs]
        kinds = {plan.places[v].buffer.kind for v in step.node.outputs}
        self.writes = not kinds <= set(OWN)  # state

    def window(self, value: Value) -> Window:
        """A function that gives a value's array."""
        place = self.plan.places[value]
        buffer, dtype = place.buffer, NUMPY_OF[value.spec.dtype]
        strides = tuple(s * dtype.itemsize for s in place.strides)
        shift = place.offset * dtype.itemsize
        machine = self.machine
        if 0 in place.shape:
            return lambda inputs, results: machine.empty(place.shape, dtype)
        if buffer.kind == ARENA:
            address = self.origin + buffer.start + shift
            array = machine.window(address, self.arena, place.shape, strides, dtype)
            return lambda inputs, results: array
        number, from_inputs = buffer.number, buffer.kind == INPUT

        def array_of(inputs: list[Any], results: list[Any]) -> Any:
            source = inputs[number] if from_inputs else results[number]
            address = machine.address(source) + shift
            return machine.window(address, source, place.shape, strides, dtype)

        return array_of

    def __call__(self, inputs: list[Any], results: list[Any]) -> None:
        wrap = HOOKS.array.wrap
        operands = []
        for x in self.operands:
            if isinstance(x, Value):
                operands.append(inputs[self.host_index[x]])
            else:
                operands.append(wrap(x(inputs, results)) if callable(x) else x)
        with CONTEXT.having(capture=None, grad_enabled=False, autocast=None):
            result = self.node.record(*operands, **self.node.params)
        many = result if isinstance(result, tuple) else (result,)
        for value, out in zip(many, self.outs, strict=True):
            copy_into(out(inputs, results), value._array)


def copy_into(target: Any, source: Any) -> None:
    """`put`; without a kernel where memory is just the same, which takes the host less."""
    whole = target.flags.c_contiguous and source.flags.c_contiguous
    same = target.shape == source.shape and target.dtype == source.dtype
    if whole and same and target.__class__ is not ndarray:  # the interpreter's are NumPy's
        if target.nbytes:
            target.data.copy_from_device_async(source.data, target.nbytes)
    else:
        put(target, source)
