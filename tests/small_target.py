"""A second target, in plain NumPy: proof that the compiler assumes nothing of native code.

Plans are made as for the CPU; a scheduled kernel is evaluated over its whole iteration space at
once, every value an array with one axis per loop, and nodes without a loop go to the eager table.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.compiler.executors import register_backend
from adjoint.engine.compiler.loops.ir import (
    HOST,
    INDEX,
    LOAD,
    REDUCE,
    AffineReference,
    Kernel,
    LoopKernel,
    Op,
)
from adjoint.engine.compiler.loops.schedule import schedule
from adjoint.engine.compiler.lower import joins
from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.memory.places import ARENA, INPUT, RESULT, PlannedBuffer
from adjoint.engine.compiler.options import Options, chosen
from adjoint.engine.compiler.package.draft import Draft
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.compiler.schedule.calls import HostCall
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.compiler.target import Target
from adjoint.engine.core.dtype import DTYPES, DType, named
from adjoint.engine.core.operations.record import HOOKS, REGISTRY
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.graph.ir import Value
from adjoint.engine.ops.common.checks import failure

OF_BOOLS = {"sum": "any", "amax": "any", "amin": "all", "prod": "all", "any": "any", "all": "all"}


class SmallTarget(Target):
    """Loops as whole-array NumPy; no templates but those made of copies."""

    name = "small"
    device = "cpu"
    dtypes = frozenset(d.name for d in DTYPES if not d.is_complex)
    templates = joins.TEMPLATES

    def computes(self, name: str, compute: DType, params: Mapping[str, Any]) -> bool:
        return not compute.is_half

    def reduces(self, name: str, compute: DType) -> bool:
        return True

    def draws(self, law: str, args: tuple[Any, ...], dtype: DType) -> bool:
        return False

    def schedule(self, kernel: LoopKernel) -> Kernel:
        return schedule(kernel)

    def fill_words(self, launch: Launch) -> None:
        """The kernels themselves are all that is told."""


SMALL = SmallTarget()


class SmallProgram:
    """A plan, run."""

    def __init__(self, task: Task, options: Options, target: Target = SMALL) -> None:
        self.task, self.plan = task, plan_for(task, target, options)
        draft = Draft(self.plan)
        draft.place()
        self.arena = np.zeros(draft.at({}).arena + 64, np.uint8)
        self.hosts = {v: i for i, v in enumerate(self.plan.graph.inputs) if v.host}

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        results: list[Any] = [None] * len(self.plan.graph.outputs)
        for k, buffer in self.plan.results.items():
            shape = self.plan.graph.outputs[k].spec.shape
            results[k] = np.empty(shape, NUMPY_OF[buffer.dtype])
        for step in self.plan.steps:
            if isinstance(step, Launch):
                for kernel in step.kernels:
                    Evaluation(self, kernel, inputs, targets, results).run()
            else:
                origin = self.arena.ctypes.data
                HostCall(step, self.plan, self.arena, origin)(inputs, results)  # type: ignore[arg-type]
        return results

    def memory(
        self, buffer: PlannedBuffer, inputs: list[Any], targets: list[Any], results: Any
    ) -> Any:
        """The array whose first element is a buffer's."""
        if buffer.kind == ARENA:
            stop = buffer.start + buffer.nbytes
            return self.arena[buffer.start : stop].view(NUMPY_OF[buffer.dtype])
        return {INPUT: inputs, RESULT: results}.get(buffer.kind, targets)[buffer.number]


class Evaluation:
    """One kernel over its whole space; axes are its dimensions, outer ones first."""

    def __init__(self, program: SmallProgram, kernel: Kernel, *arrays: Any) -> None:
        self.program, self.kernel, self.arrays = program, kernel, arrays
        self.sizes = (*kernel.outer, *kernel.inner)
        self.inner = tuple(range(len(kernel.outer), len(self.sizes)))
        checks = kernel.form.checks()
        self.faults = dict(zip(checks, kernel.faults, strict=True))
        self.extents = iter(kernel.extents)

    def run(self) -> None:
        values: list[Any] = []
        for k, op in enumerate(self.kernel.form.ops):
            values.append(self.value(k, op, values))
        # Kept values are overwritten by the results of later nests (Note [kept values]).
        ops = self.kernel.form.ops
        for v, r in sorted(self.kernel.form.stores, key=lambda s: ops[s[0]].stage):
            window = self.window(self.kernel.refs[r], full=ops[v].full)
            np.copyto(window, np.broadcast_to(values[v], window.shape), casting="unsafe")

    def window(self, ref: AffineReference, full: bool = True) -> Any:
        """The elements a reference names, an axis per dimension."""
        base = self.program.memory(ref.buffer, *self.arrays)
        item = NUMPY_OF[ref.dtype].itemsize
        bytes_ = (ctypes.c_uint8 * item).from_address(base.ctypes.data + ref.offset * item)
        first = np.ndarray((1,), NUMPY_OF[ref.dtype], bytes_)
        sizes = [n if full or d not in self.inner else 1 for d, n in enumerate(self.sizes)]
        strides = [ref.strides[d] * item for d in range(len(sizes))]
        return np.lib.stride_tricks.as_strided(first, sizes, strides)

    def affine(self, ref: AffineReference) -> Any:
        """A coordinate, or the part of an address that loops decide."""
        total = np.full((1,) * len(self.sizes), ref.offset, np.int64)
        for d, n in enumerate(self.sizes):
            shape = [1] * len(self.sizes)
            shape[d] = n
            total = total + np.arange(n).reshape(shape) * ref.strides[d]
        return total

    def fail(self, k: int, j: int, value: int = 0) -> None:
        fault: Fault = self.faults[k, j]
        kind, message = fault.described(lambda x: x)
        raise failure(message, kind, value)

    def index(self, k: int, j: int, index: Any, size: int, wrap: bool) -> Any:
        """An index that was looked at."""
        bad = (index >= size) | (index < (-size if wrap else 0))
        if bad.any():
            self.fail(k, j, int(np.broadcast_to(index, bad.shape)[bad].flat[0]))
        return np.where(index < 0, index + size, index)

    def value(self, k: int, op: Op, values: list[Any]) -> Any:
        """An operation's result."""
        args = [values[x] if kind == "v" else x for kind, x in op.args]
        if op.kind == LOAD:
            ref = self.kernel.refs[op.args[0][1]]
            if len(args) == 1:
                return np.array(self.window(ref))
            at = self.affine(AffineReference(None, ref.dtype, 0, ref.strides))
            for j, (stride, size) in enumerate(ref.picks):
                at = at + stride * self.index(k, j, args[j + 1], size, bool(op.params))
            base = self.program.memory(ref.buffer, *self.arrays)
            reach = ref.offset + int(at.max()) + 1
            item = NUMPY_OF[ref.dtype].itemsize
            return np.lib.stride_tricks.as_strided(base, (reach,), (item,))[ref.offset + at]
        if op.kind == INDEX:
            return self.affine(self.kernel.refs[op.args[0][1]])
        if op.kind == HOST:
            host = self.kernel.hosts[op.args[0][1]]
            if isinstance(host, Value):
                host = self.arrays[0][self.program.hosts[host]]
            return np.full((1,) * len(self.sizes), host, NUMPY_OF[named(op.dtype)])
        if op.kind == REDUCE:
            return self.reduce(op, args[0])
        return self.point(k, op, args)

    def reduce(self, op: Op, x: Any) -> Any:
        wide = [self.sizes[d] if d in self.inner else n for d, n in enumerate(np.shape(x))]
        x = np.broadcast_to(x, wide)
        record = REGISTRY[OF_BOOLS.get(op.name, op.name) if op.compute == "bool" else op.name]
        return self.eager(record, [x], {"dims": self.inner, "keepdim": True}, op)

    def eager(self, record: Any, args: list[Any], params: Mapping[str, Any], op: Op) -> Any:
        wrapped = [HOOKS.array.wrap(np.array(x)) if isinstance(x, np.ndarray) else x for x in args]
        with CONTEXT.having(capture=None, grad_enabled=False, autocast=None):
            return record(*wrapped, **params)._array.astype(NUMPY_OF[named(op.dtype)])

    def point(self, k: int, op: Op, args: list[Any]) -> Any:
        dtype, params = NUMPY_OF[named(op.dtype)], dict(op.params or ())
        arrays = [np.asarray(x) for x in args]
        match op.name:
            case "cast" | "fill":
                return arrays[0].astype(dtype).reshape(np.shape(args[0]) or (1,) * len(self.sizes))
            case "triu" | "tril":
                x, row, column = arrays
                ahead = column - row
                inside = ahead >= params["diagonal"]
                keep = inside if op.name == "triu" else ahead <= params["diagonal"]
                return np.where(keep, x, 0).astype(dtype)
            case "arange":
                return (arrays[0] * params["step"] + params["start"]).astype(dtype)
            case "require":
                x, holds = np.broadcast_arrays(*arrays)
                if not holds.all():
                    self.fail(k, 0, int(x[~holds].flat[0]))
                return x
            case "scatter":
                x, y, index, here = arrays
                at = self.index(k, 0, index, next(self.extents), wrap=False)
                new = x + y if params["accumulate"] else y
                return np.where(at == here, new, x).astype(dtype)
        compute = NUMPY_OF[named(op.compute)]
        operands = [x.astype(compute) if isinstance(x, np.ndarray) else x for x in args]
        if op.name == "where":
            operands[0] = args[0]
        return self.eager(REGISTRY[op.name], operands, params, op)


def maker(mode: str, options: dict[str, Any]) -> Any:
    def executable(task: Task) -> Executable:
        return SmallProgram(task, chosen(mode, options))

    return executable


register_backend("small", maker)
