"""The native executor: a task compiled to a table of kernels and run by the worker pool."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.backends.array.dtypes import NUMPY_OF
from adjoint.backends.llvm import library
from adjoint.backends.llvm.kernels import emit
from adjoint.backends.llvm.pool import Step as Entry
from adjoint.backends.llvm.pool import Table, the_pool
from adjoint.backends.loops import Form
from adjoint.backends.threads import get_num_threads
from adjoint.compiler.build import Builder, Plan
from adjoint.compiler.executors import register_backend
from adjoint.compiler.indexed import Fault
from adjoint.compiler.memory import assign
from adjoint.compiler.places import ARENA, INPUT, RESULT
from adjoint.compiler.steps import Address, Call, Launch, Number, Status
from adjoint.core.context import CONTEXT
from adjoint.core.record import HOOKS
from adjoint.graph.execution import Executable, Task, interpreted
from adjoint.graph.ir import Value
from adjoint.graph.sources import State

ALONE = 20_000.0  # a program of less work than this runs on the caller's thread
SERIAL = 4096.0  # so does a launch


def form_name(form: Form) -> str:
    """The name of a form's function: a digest of all that decides its text."""
    digest = hashlib.blake2b(repr(form).encode(), digest_size=12).hexdigest()
    return f"k{digest}"


class Native:
    """An executable whose kernels are machine code."""

    def __init__(self, task: Task, plan: Plan) -> None:
        self.task, self.plan = task, plan
        functions = load_functions(plan)
        size = assign(plan)
        self.arena = np.empty(size + 64, np.uint8)
        base = self.arena.ctypes.data
        self.origin = base + (-base) % 64
        self.patches: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.numbers: dict[Value, list[int]] = {}
        self.status: list[int] = []
        self.faults: list[Fault] = []
        self.words = self.lay_out(functions)
        self.fixed()
        self.segments = self.tables(functions)
        self.keep = list(functions.values())
        work = sum(s.cost for s in plan.steps if isinstance(s, Launch))
        self.parallel = work > ALONE
        self.inputs = [
            (i, self.patches.get((INPUT, i), []))
            for i, s in enumerate(task.sources)
            if not task.graph.inputs[i].host and not isinstance(s, State)
        ]
        self.inputs = [(i, p) for i, p in self.inputs if p]
        self.hosts = [
            (i, self.numbers[v], v.spec.dtype.is_floating_point)
            for i, v in enumerate(plan.graph.inputs)
            if v in self.numbers
        ]
        self.floats = self.words.view(np.float64)
        self.results = [
            (
                k,
                tuple(task.graph.outputs[k].spec.shape),
                NUMPY_OF[b.dtype],
                self.patches.get((RESULT, k), []),
            )
            for k, b in plan.results.items()
        ]
        self.targets = [
            (w, self.patches[("target", b.number)])
            for w, b in enumerate(plan.targets)
            if b.kind == "target" and ("target", b.number) in self.patches
        ]
        self.outputs = len(task.graph.outputs)

    # -- words ----------------------------------------------------------------------------------

    def lay_out(self, functions: dict[str, library.Function]) -> Any:
        """All launches' words in one array; what changes from call to call is noted."""
        total = 0
        self.starts: list[int] = []
        for step in self.plan.steps:
            self.starts.append(total)
            if isinstance(step, Launch):
                total += len(step.words)
        words = np.zeros(max(total, 1), np.int64)
        for step, start in zip(self.plan.steps, self.starts, strict=True):
            if isinstance(step, Launch):
                for k, word in enumerate(step.words, start):
                    words[k] = self.word(word, k)
        return words

    def word(self, word: Any, at: int) -> int:
        if isinstance(word, Address):
            buffer = word.buffer
            if buffer.kind == ARENA:
                return self.origin + buffer.start + word.shift
            self.patches.setdefault((buffer.kind, buffer.number), []).append((at, word.shift))
            return 0
        if isinstance(word, Status):
            self.status.append(at)
            return 0
        if isinstance(word, Fault):
            self.faults.append(word)
            return len(self.faults)
        if isinstance(word, Number):
            self.numbers.setdefault(word.value, []).append(at)
            return 0
        return int(word)

    def fixed(self) -> None:
        """Addresses of state, which do not change."""
        task = self.task
        for i, source in enumerate(task.sources):
            if isinstance(source, State):
                address = task.examples[i].ctypes.data
                for at, shift in self.patches.get((INPUT, i), ()):
                    self.words[at] = address + shift

    def tables(self, functions: dict[str, library.Function]) -> list[Any]:
        """Native tables, separated by calls of the eager table."""
        segments: list[Any] = []
        entries: list[Entry] = []
        base = self.words.ctypes.data
        first = 0

        def close() -> None:
            nonlocal first
            if entries:
                table = Table(entries)
                segments.append(table)
                last = (entries[-1].arguments - base) // 8
                for at in self.status:
                    if first <= at and self.words[at] == 0:
                        self.words[at] = table.status_address
                first = last
                entries.clear()

        for step, start in zip(self.plan.steps, self.starts, strict=True):
            if isinstance(step, Call):
                close()
                segments.append(Called(step, self))
                continue
            parallel = step.pieces > 1 and step.cost > SERIAL
            entries.append(Entry(functions[name_of(step)].address, base + 8 * start, parallel))
        close()
        return segments

    # -- running --------------------------------------------------------------------------------

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        words = self.words
        for i, patches in self.inputs:
            address = inputs[i].ctypes.data
            for at, shift in patches:
                words[at] = address + shift
        for i, places, floating in self.hosts:
            if floating:
                for at in places:
                    self.floats[at] = inputs[i]
            else:
                for at in places:
                    words[at] = _signed(inputs[i])
        for w, patches in self.targets:
            address = targets[w].ctypes.data
            for at, shift in patches:
                words[at] = address + shift
        results: list[Any] = [None] * self.outputs
        for k, shape, dtype, patches in self.results:
            array = results[k] = np.empty(shape, dtype)
            address = array.ctypes.data
            for at, shift in patches:
                words[at] = address + shift
        self.run(inputs, results)
        return results

    def run(self, inputs: list[Any], results: list[Any]) -> None:
        pool = the_pool()
        workers = get_num_threads() if self.parallel else 1
        for segment in self.segments:
            if isinstance(segment, Called):
                segment(inputs, results)
            else:
                code = pool.run(segment.address, segment.count, workers)
                if code:
                    fault = self.faults[code - 1]
                    raise fault.kind(fault.message)


def _signed(x: int) -> int:
    x = int(x) & (2**64 - 1)
    return x - 2**64 if x >> 63 else x


class Called:
    """A node run by the eager table on arrays in the program's memory."""

    def __init__(self, step: Call, native: Native) -> None:
        self.node = step.node
        self.native = native
        self.operands = [
            x if not isinstance(x, Value) else (x if x.host else self.maker(x))
            for x in step.node.inputs
        ]
        self.host_index = {v: i for i, v in enumerate(native.plan.graph.inputs)}
        self.outs = [self.maker(v) for v in step.node.outputs]

    def maker(self, value: Value) -> Callable[[list[Any], list[Any]], Any]:
        """A function that gives a value's array."""
        native = self.native
        place = native.plan.places[value]
        buffer, dtype = place.buffer, NUMPY_OF[value.spec.dtype]
        strides = tuple(s * dtype.itemsize for s in place.strides)
        shift = place.offset * dtype.itemsize
        if buffer.kind == ARENA:
            offset = native.origin - native.arena.ctypes.data + buffer.start
            if 0 in place.shape:
                empty = np.empty(place.shape, dtype)
                return lambda inputs, results: empty
            whole = native.arena[offset : offset + max(buffer.nbytes, 1)]
            array = np.ndarray(place.shape, dtype, whole.data, shift, strides)
            return lambda inputs, results: array

        def window(source: Any) -> Any:
            return np.lib.stride_tricks.as_strided(
                source if place.offset == 0 else _moved(source, place.offset), place.shape, strides
            )

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
            made = self.node.record(*operands, **self.node.params)
        many = made if isinstance(made, tuple) else (made,)
        for value, out in zip(many, self.outs, strict=True):
            np.copyto(out(inputs, results), value._array)


def _moved(source: Any, offset: int) -> Any:
    """An array that begins so many elements later in the same memory."""
    interface = source.__array_interface__
    address = interface["data"][0] + offset * source.dtype.itemsize
    import ctypes

    raw = (ctypes.c_char * source.dtype.itemsize).from_address(address)
    return np.ndarray((1,), source.dtype, raw)


def name_of(step: Launch) -> str:
    """The name of the function a launch calls."""
    if step.form is not None:
        return form_name(step.form)
    return step.function


def load_functions(plan: Plan) -> dict[str, library.Function]:
    """All functions the plan calls, from memory, disk or assembled now."""
    wanted: dict[str, Callable[[], library.Text]] = {}
    for step in plan.steps:
        if isinstance(step, Call):
            continue
        name = name_of(step)
        if name in wanted:
            continue
        if step.form is not None:
            wanted[name] = lambda form=step.form, name=name: emit(form, name)  # type: ignore[misc]
        else:
            assert step.text is not None
            wanted[name] = lambda text=step.text, name=name: text(name)  # type: ignore[misc]
    return library.load(wanted)


def compile_task(task: Task) -> Executable:
    """The executor factory of native code; other devices' programs are interpreted."""
    if any(v.spec.device.type != "cpu" for v in task.graph.inputs if not v.host) or any(
        v.spec.device.type != "cpu" for node in task.graph for v in node.outputs
    ):
        return interpreted(task)
    return Native(task, Builder(task).plan())


register_backend("native", lambda mode, options: compile_task)
