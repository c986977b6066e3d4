"""save_program: a recorded graph in a file that the C library runs."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.core.dtype import DType
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.passes.pipeline import run_passes
from adjoint.export.capi.kernels import BINARY, DTYPES, UNARY
from adjoint.export.errors import ExportError
from adjoint.export.output.writing import put_all
from adjoint.export.recording import SizesRecorder, call_of, evaluating

MAGIC, NAME, OPERANDS, NUMBERS = b"ADJPROG1", 32, 64, 64
CODES = {dtype: k for k, dtype in enumerate(DTYPES)}


def _pool(params: Mapping[str, Any]) -> list[int]:
    """Size, step, padding and results of each window."""
    words = []
    for kind, _, count, size, step, offset, dilation in params["windows"]:
        if kind != "window" or dilation != 1:
            raise ExportError("max_pool: windows with gaps")
        words += [size, step, -offset, count]
    return words


def _index(params: Mapping[str, Any]) -> list[int]:
    if tuple(params["dims"]) != (0,):
        raise ExportError("index: of other dimensions than the first")
    return []


# The whole numbers of a node, from its parameters.
FORMS: dict[str, Callable[[Mapping[str, Any]], list[int]]] = {
    "matmul": lambda p: [],
    "where": lambda p: [],
    "reshape": lambda p: list(p["shape"]),
    "expand": lambda p: list(p["shape"]),
    "permute": lambda p: list(p["dims"]),
    "slice": lambda p: [n for bounds in p["index"] for n in bounds],
    "index": _index,
    "cast": lambda p: [CODES[p["dtype"]]],
    "argmax": lambda p: [p["dim"], int(p["keepdim"])],
    "max_pool": _pool,
    "cat": lambda p: [p["dim"]],
    "convolution": lambda p: [
        *p["stride"], *[n for pair in p["padding"] for n in pair], *p["dilation"], p["groups"],
    ],
    **{
        name: lambda p: [int(p["keepdim"]), *p["dims"]] for name in ("sum", "prod", "amax", "amin")
    },
    **{name: lambda p: [] for name in (*UNARY, *BINARY)},
}  # fmt: skip


def save_program(
    fn: Any, args: Any, path: str | os.PathLike[str], kwargs: Mapping[str, Any] | None = None
) -> None:
    """Write a function's or module's graph into a file that `adj_program_load` reads.

    Shapes are those of the example arguments. Operations that the C library has not are listed at
    once, and nothing is written then.

    Example:
        >>> import adjoint as ad
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp())
        >>> save_program(ad.nn.Linear(3, 2), ad.zeros(4, 3), folder / "line.adj")
        >>> (folder / "line.adj").read_bytes()[:8]
        b'ADJPROG1'
    """
    call = call_of(fn, args, kwargs, None)
    recorder = SizesRecorder(call)
    with evaluating(fn, training=False):
        try:
            recording = recorder.at({}, {})
        finally:
            recorder.end()
    if recording.task.writes or recording.hosts:
        raise ExportError(
            "export.save_program: the function changes state, or reads numbers at each call; such "
            "programs are `aot`'s."
        )
    data = _File(run_passes(recording.task.graph), recording).written()
    target = Path(path)
    put_all(target.parent, {target.name: data})


class _File:
    """Collects a graph's values and nodes."""

    def __init__(self, graph: Any, recording: Any) -> None:
        self.graph = graph
        self.failures: dict[str, None] = {}
        fed = sorted(recording.arguments.items(), key=lambda item: item[1])
        self.inputs = [graph.inputs[i] for i, _ in fed]
        self.constants: list[tuple[DType, Any]] = []
        self.literals: dict[Any, int] = {}
        self.constant_of: dict[Value, int] = {}
        for i, storage in recording.states.items():
            self.constant_of[graph.inputs[i]] = self._constant(
                graph.inputs[i].spec.dtype, np.asarray(storage.buffer)
            )

    def _constant(self, dtype: DType, array: Any) -> int:
        if dtype not in CODES:
            self.failures[f"  a tensor of {dtype.name}"] = None
        self.constants.append((dtype, array))
        return len(self.constants) - 1

    def written(self) -> bytes:
        """The file's bytes."""
        nodes: list[tuple[str, list[Any], list[int]]] = []
        places: dict[Value, tuple[str, int]] = {}
        for node in self.graph:
            operands = [self._operand(x, node) for x in node.inputs]
            numbers = self._numbers(node)
            nodes.append((node.record.name, operands, numbers))
            places[node.outputs[0]] = ("node", len(nodes) - 1)
        for value in self.graph.outputs:
            self._first(value)
        if self.failures:
            raise ExportError(
                "export.save_program: the C library has not:\n" + "\n".join(self.failures)
            )
        first = len(self.inputs) + len(self.constants)
        number = {v: k for k, v in enumerate(self.inputs)}
        number |= {v: len(self.inputs) + k for v, k in self.constant_of.items()}
        number |= {v: first + k for v, (_, k) in places.items()}
        of = lambda x: len(self.inputs) + x if isinstance(x, int) else number[x]
        parts = [
            MAGIC,
            struct.pack(
                "<4i", len(self.inputs), len(self.constants), len(nodes), len(self.graph.outputs)
            ),
        ]
        for dtype, array in self.constants:
            flat = np.ascontiguousarray(array, NUMPY_OF[dtype])
            shape = tuple(array.shape)
            parts.append(struct.pack(f"<2i{len(shape)}q", CODES[dtype], len(shape), *shape))
            parts.append(flat.tobytes())
        for name, operands, numbers in nodes:
            parts.append(name.encode().ljust(NAME, b"\0"))
            parts.append(struct.pack("<2i", len(operands), len(numbers)))
            parts.append(struct.pack(f"<{len(operands)}i", *map(of, operands)))
            parts.append(struct.pack(f"<{len(numbers)}q", *numbers))
        parts.append(struct.pack(f"<{len(self.graph.outputs)}i", *map(of, self.graph.outputs)))
        return b"".join(parts)

    def _operand(self, x: Any, node: Node) -> Any:
        """A value, or the place of a literal among the constants."""
        if isinstance(x, Value):
            self._first(x)
            return x
        values = [v for v in node.inputs if isinstance(v, Value) and v.spec.dtype.name != "bool"]
        dtype = (values[0] if values else node.outputs[0]).spec.dtype
        key = (dtype, type(x), x)
        if key not in self.literals:
            self.literals[key] = self._constant(dtype, np.array(x, NUMPY_OF[dtype]))
        return self.literals[key]

    def _first(self, x: Value) -> None:
        """Refuse what a node makes besides its first result."""
        if x.node is not None and x is not x.node.outputs[0]:
            self.failures[f"  the indices of {x.node.record.name}"] = None

    def _numbers(self, node: Node) -> list[int]:
        name = node.record.name
        where = "" if node.where is None else f" at {node.where[0]}:{node.where[1]}"
        dtypes = {v.spec.dtype for v in (*node.inputs, *node.outputs[:1]) if isinstance(v, Value)}
        if name not in FORMS or not dtypes <= CODES.keys():
            self.failures[f"  {name} of {', '.join(sorted(d.name for d in dtypes))}{where}"] = None
            return []
        try:
            numbers = FORMS[name](node.params)
        except ExportError as error:
            self.failures[f"  {error}{where}"] = None
            return []
        if len(node.inputs) > OPERANDS or len(numbers) > NUMBERS:
            self.failures[f"  {name} of so many operands{where}"] = None
        return numbers
