"""aot: a function or module as a native program that needs no Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from adjoint.engine.backends.llvm.ir.machine import writing_for
from adjoint.engine.compiler.options import chosen
from adjoint.engine.core.tree import flatten
from adjoint.engine.tensor.tensor import Tensor
from adjoint.export.calls.checks import checks_of
from adjoint.export.calls.entry import module_text
from adjoint.export.calls.images import Planner
from adjoint.export.calls.layout import point, variants
from adjoint.export.calls.numbers import add_numbers, fixed_options, leaves_of
from adjoint.export.calls.parts import ProgramText
from adjoint.export.dynamic import MOST, dynamic_sizes, shapes_at
from adjoint.export.errors import ExportError
from adjoint.export.interface import C_TYPES, DynamicSize, HandedBuffer, Interface, c_name
from adjoint.export.names import state_names
from adjoint.export.output.header import header_text
from adjoint.export.output.machines import NATIVE, Destination, destination, object_code
from adjoint.export.output.writing import files_of, put_all
from adjoint.export.recording import CallForExport, ExampleCall, SizesRecorder, call_of, evaluating
from adjoint.export.running import InProcess
from adjoint.export.state import ProgramState, StateBuilder

EMBEDDED, FILE = "embedded", "file"
LARGE = 64 * 2**20  # bytes of state that a program does not hold itself


@dataclass
class Exported:
    """A program compiled ahead of time: its header, its code, its state.

    Attributes:
        interface: parameters, sizes and memory of the program's functions.
        header: the text of its C header.
        state: weights, buffers and all else that it holds, as one block.
        machine: the machine it is for.
    """

    interface: Interface
    state: ProgramState
    header: str
    text: str  # LLVM's
    machine: Destination
    messages: list[str]

    @cached_property
    def object_file(self) -> bytes:
        """Its object code, as a linker takes it."""
        return object_code(self.text, self.machine)

    @cached_property
    def in_process(self) -> InProcess:
        """The program loaded into this process; for `native` only."""
        if self.machine.name != NATIVE:
            raise ExportError(f"export: a program for {self.machine.name} does not run here.")
        return InProcess(self.text, self.interface, self.state)

    def __call__(self, *args: Any) -> Any:
        """Run it here, as C would: tensors in, tensors out.

        A training step's state goes on from call to call; `in_process.state` holds it.
        """
        leaves = flatten(args)[0]
        return self.in_process(leaves)

    def write(self, folder: str | os.PathLike[str], to: str = "o") -> list[Path]:
        """Write the program into a folder: the header, and what `to` asks for.

        Args:
            folder: where; it is made if it is not there.
            to: "o" (an object file), "so" (a shared library), "c" (one C file that any GCC or
                Clang compiles), "ll" (LLVM's text) or "wasm" (a module with its JavaScript
                loader). What the state is not embedded in has a safetensors file beside it.

        Returns:
            The files. Where something fails none of them is written.
        """
        files = files_of(self.interface, self.state, self.header, self.text, self.machine, to)
        return put_all(Path(folder), files)


def aot(
    fn: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "model",
    machine: str = NATIVE,
    dynamic: Any = None,
    weights: str = EMBEDDED,
    threads: bool = False,
    training: bool = False,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Exported:
    """Compile a function or module ahead of time, for C.

    A module is exported as it evaluates (`training=True`: as it trains), a function as it is: one
    that steps an optimizer becomes a whole training step, whose state C hands in and out.

    Args:
        fn: what to export. It is recorded, not run; nothing of it changes.
        args: example arguments. Tensors become parameters of the C function, floats numbers of
            each call, everything else is fixed.
        kwargs: example arguments by name.
        name: what the names of its C functions and files begin with.
        machine: what it is for: "native", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64",
            "riscv64", "arm" or "wasm32".
        dynamic: sizes that may change: `{"x": {0: ("batch", 1, 64)}}` by the names of arguments,
            or objects with a name, `min` and `max` in the place of the triples. All sizes in the
            ranges are planned now, so they are at most a few thousand together.
        weights: "embedded" in the program, or a "file" beside it that C maps or reads.
        threads: whether calls may be given a pool of threads.
        training: whether a module is exported as it trains.
        input_names: names for the tensors among the arguments.
        output_names: names for the results.
        options: the options of `compile`.

    Example:
        >>> import adjoint as ad
        >>> net = ad.nn.Linear(3, 2)
        >>> program = ad.export.aot(net, ad.zeros(4, 3), name="line")
        >>> "int line_run(" in program.header
        True
        >>> x = ad.randn(4, 3)
        >>> bool(ad.allclose(program(x), net(x)))
        True
    """
    if weights not in (EMBEDDED, FILE):
        raise ValueError(f"export.aot: weights are 'embedded' or a 'file', received {weights!r}.")
    where = destination(machine)
    call = call_of(fn, args, kwargs, input_names)
    sizes, dims = dynamic_sizes(dynamic, call)
    planner = Planner(chosen("default", {"validate": False, **(options or {})}))
    recorder = SizesRecorder(call)
    with evaluating(fn, training=training), writing_for(where.machine):
        try:
            recordings = [
                recorder.at(shapes_at(call, sizes, dims, p), {k: list(d) for k, d in dims.items()})
                for p in points_of(sizes)
            ]
            fixed = fixed_options(recordings[0])
            state = state_of(fn, recordings, fixed)
        finally:
            recorder.end()
        if weights == EMBEDDED and state.nbytes > LARGE:
            raise ExportError(
                f"export.aot: the state has {state.nbytes} bytes, too many to be part of a "
                "program. Give weights='file'."
            )
        images = [planner.image(recording.task) for recording in recordings]
        points = [
            point(image, recording, state)
            for image, recording in zip(images, recordings, strict=True)
        ]
        programs = variants(points)
        taken = {s.name for s in sizes}
        buffers = _buffers(call, recordings, output_names, taken)
        interface = Interface(
            name=_program_name(name),
            sizes=tuple(sizes),
            buffers=buffers,
            numbers=_numbers(call, recordings[0], fixed, taken),
            state_bytes=state.nbytes,
            state_written=state.written,
            embedded=weights == EMBEDDED,
            threads=threads,
            arena_bytes=tuple(point_of.nbytes for point_of in points),
        )
        checks = checks_of(interface, programs)
        names = {f for v in programs for f, _ in v.first.entries if f}
        program = ProgramText(
            interface, checks, programs, recordings[0], state, fixed, planner.texts(names)
        )
        text = module_text(program, where)
    header = header_text(interface, state, checks.codes.messages, where.name)
    return Exported(interface, state, header, text, where, checks.codes.messages)


def points_of(sizes: Sequence[DynamicSize]) -> list[tuple[int, ...]]:
    """Every combination of sizes, the last fastest."""
    total = 1
    for size in sizes:
        total *= size.count
    if total > MOST:
        raise ExportError(
            f"export.aot: the ranges of dynamic sizes have {total} combinations, and at most "
            f"{MOST} are planned. Narrow them."
        )
    points: list[tuple[int, ...]] = [()]
    for size in sizes:
        points = [(*p, n) for p in points for n in range(size.low, size.high + 1)]
    return points


def state_of(fn: Any, recordings: Sequence[CallForExport], fixed: set[Any]) -> ProgramState:
    """All that a program holds."""
    builder = StateBuilder(state_names(fn))
    for recording in recordings:
        for storage in [*recording.states.values(), *recording.targets.values()]:
            builder.add(storage, written=id(storage) in recording.written_states)
    add_numbers(recordings[0], fixed, builder)
    return builder.state()


def _program_name(name: str) -> str:
    if c_name(name, set()) != name:
        raise ValueError(f"export.aot: {name!r} is no name in C.")
    return name


def _buffers(
    call: ExampleCall,
    recordings: Sequence[CallForExport],
    output_names: Sequence[str] | None,
    taken: set[str],
) -> tuple[HandedBuffer, ...]:
    """The tensors that a caller hands over: arguments, then results."""
    buffers = []
    for leaf in call.tensors:
        shapes = []
        for recording in recordings:
            place = next((i for i, k in recording.arguments.items() if k == leaf), None)
            value = None if place is None else recording.task.graph.inputs[place]
            shapes.append(None if value is None else tuple(map(int, value.spec.shape)))
        if None in shapes:
            raise ExportError(
                f"export.aot: the argument {call.names[leaf]!r} is not read. Leave it out."
            )
        written = any(leaf in record.written_arguments for record in recordings)
        dtype = call.leaves[leaf].dtype
        name = c_name(call.names[leaf], taken)
        buffers.append(
            HandedBuffer(
                name,
                "both" if written else "input",
                dtype,
                tuple(shapes),  # type: ignore[arg-type]
                ("argument", leaf),
            )
        )
    count = len(recordings[0].results)
    for k in range(count):
        given = output_names[k] if output_names and k < len(output_names) else ""
        name = c_name(given or ("output" if count == 1 else f"output_{k}"), taken)
        dtype = recordings[0].results[k][1]
        shapes_of_result = tuple(record.results[k][0] for record in recordings)
        buffers.append(HandedBuffer(name, "output", dtype, shapes_of_result, ("result", k)))
    odd = [b.dtype.name for b in buffers if b.dtype.name not in C_TYPES]
    if odd:
        raise ExportError(f"export.aot: C has no {odd[0]}. Pass real and imaginary parts.")
    return tuple(buffers)


def _numbers(
    call: ExampleCall, recording: CallForExport, fixed: set[Any], taken: set[str]
) -> tuple[tuple[str, int], ...]:
    """The float arguments that are numbers of each call."""
    read = {
        leaf.key[1]
        for scalar in recording.hosts.values()
        for leaf in leaves_of(scalar)
        if isinstance(leaf.key, tuple) and leaf.key[0] == "slot" and leaf.key not in fixed
    }
    return tuple((c_name(call.names[k], taken), k) for k in sorted(read))


__all__ = ["Exported", "Tensor", "aot"]
