"""Graphs in files: a zip of `graph.json` and the elements of variables, raw.

Nothing in a file is executed when it is read. A file is written aside and moved into place, so a
failed save leaves the old file as it was.
"""

from __future__ import annotations

import json
import os
import zipfile
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import bool_
from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.atomic import atomic_write
from adjoint.engine.core.files.budget import Budget, FileRefusal, read_json
from adjoint.engine.core.files.zipped import Archive, BadZip
from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.state.rng import default_generator_of
from adjoint.engine.graph import ir
from adjoint.engine.graph.encoding import (
    Decoder,
    Unreadable,
    encode,
    encode_graph,
    encode_sizes,
)
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.record.building import Fed, GeneratorPosition, Update
from adjoint.engine.graph.record.sources import Host, Source, State
from adjoint.engine.graph.record.trace import StorageCell
from adjoint.engine.graph.sizes.extents import Extent
from adjoint.engine.graph.verify import verify
from adjoint.engine.tensor.tensor import Tensor

if TYPE_CHECKING:
    from adjoint.engine.graph.session.graph import Graph

FORMAT, VERSION = "adjoint graph", 2  # 1: without unknown sizes
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal graphs make equal files


# -- writing -------------------------------------------------------------------------------------


class _GraphWriter:
    """Collects what of a graph goes into a file."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.arrays: list[Any] = []
        self.names = {id(t._storage): name for name, t in graph.tensors.items()}
        self.flags = {id(t._storage): t.requires_grad for t in graph.tensors.values()}

    def source(self, value: Value, source: Source) -> Any:
        """Where an input comes from."""
        if isinstance(source, Fed):
            return {"placeholder": source.name}
        if isinstance(source, State):
            self.arrays.append(source.own_storage)
            name = self.names.get(id(source.own_storage))
            flag = self.flags.get(id(source.own_storage), False)
            return {"variable": name, "array": len(self.arrays) - 1, "requires_grad": flag}
        if isinstance(source, Host):
            return self.number(source.scalar)
        raise TypeError(
            f"Graph.save: input {value!r} is the gradient of a tensor outside the graph, which a "
            "file cannot hold. Compute gradients inside the graph (autograd.grad)."
        )

    def number(self, scalar: HostScalar) -> Any:
        """A number of the host: a draw's place, or its present value."""
        for draw in self.graph.trace.drawn:
            for which, number in zip(("seed", "offset"), draw.numbers, strict=True):
                if number.key == scalar.key:
                    return self.place(draw, which)
        return {"number": encode(scalar.get()), "called": scalar.name}

    def place(self, draw: GeneratorPosition, which: str) -> Any:
        """A draw's place in the stream of its device."""
        device = draw.generator.device
        if draw.generator is not default_generator_of(device):
            raise TypeError(
                "Graph.save: the graph draws from a generator of its own, which a file cannot "
                "name. Draw without generator=, from the device's own."
            )
        return {which: encode(draw.start), "device": str(device)}

    def data(self) -> Any:
        """Everything but the elements."""
        graph, trace = self.graph, self.graph.trace
        inputs = list(zip(trace.graph.inputs, trace.sources, strict=True))
        place = {id(source): i for i, (_, source) in enumerate(inputs)}
        return {
            "format": FORMAT,
            "version": 2 if graph.sizes else 1,
            "sizes": encode_sizes(graph.sizes),
            "graph": encode_graph(trace.graph),
            "inputs": [self.source(value, source) for value, source in inputs],
            "names": {name: value.name for name, value in graph.names.items()},
            "arguments": graph.arguments,
            "results": encode(graph.results),
            "effects": graph.effects,
            "draws": {str(g.device): encode(count) for g, count in trace.draws.items()},
            "updates": {
                update.name: [[place[id(source)], value.name] for source, value in update.writes]
                for update in graph.updates.values()
            },
        }


def _raw(array: Any) -> bytes:
    array = array.get() if hasattr(array, "get") else array  # from a GPU
    return np.ascontiguousarray(array).tobytes()


def save(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph, with the present values of its variables."""
    writer = _GraphWriter(graph)
    text = json.dumps(writer.data(), allow_nan=False)
    with atomic_write(path, "Graph.save") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("graph.json", _EPOCH), text)
        for i, storage in enumerate(writer.arrays):
            archive.writestr(zipfile.ZipInfo(f"arrays/{i}", _EPOCH), _raw(storage.buffer))


# -- reading -------------------------------------------------------------------------------------


class _GraphReader:
    """Fills an empty graph from a file's data."""

    def __init__(self, graph: Graph, archive: Archive, decoder: Decoder) -> None:
        self.graph = graph
        self.archive = archive
        self.decoder = decoder

    def fill(self, data: Any) -> None:
        """Everything, checked."""
        graph, trace = self.graph, self.graph.trace
        self.decoder.unknown_sizes(data.get("sizes"), graph.sizes)
        trace.graph = checked(self.decoder.graph(data["graph"]))
        values = {v.name: v for v in trace.graph.inputs}
        values |= {v.name: v for node in trace.graph for v in node.outputs}
        graph.names = {str(k): self.decoder.lookup(values, v) for k, v in data["names"].items()}
        for value, described in zip(trace.graph.inputs, data["inputs"], strict=True):
            trace.sources.append(self.source(value, described))
        graph.arguments = [str(name) for name in data["arguments"]]
        graph.results = self.decoder.decode(data["results"])
        graph.effects = [str(name) for name in data["effects"]]
        for device, described in data["draws"].items():
            count = self.decoder.decode(described)
            if type(count) not in (int, Extent) or not 0 <= int(count) < 1 << 62:
                raise Unreadable(f"is damaged: {str(count)[:80]} numbers are drawn")
            trace.draws[default_generator_of(self.decoder.device(device))] = count
        for name, writes in data["updates"].items():
            update = graph.updates[name] = Update(name)
            for i, value in writes:
                update.writes.append((trace.sources[i], self.decoder.lookup(values, value)))

    def source(self, value: Value, described: Any) -> Source:
        """Where an input comes from, variables made on the way."""
        trace = self.graph.trace
        match described:
            case {"placeholder": str(name)}:
                return Fed(name)
            case {"variable": name, "array": int(i), "requires_grad": bool(flag)}:
                variable = self.tensor(value, i).requires_grad_(flag)
                source = State(variable._storage)
                trace.cells[variable._storage.identity] = StorageCell(
                    value, source, (), variable._storage
                )
                if name is not None:
                    self.graph.tensors[name] = variable
                return source
            case {"number": number, "called": str(name)}:
                number_then = self.decoder.decode(number)
                scalar = HostScalar(lambda: number_then, name)
                trace.host_values[scalar.key] = value
                return Host(scalar)
            case {"seed": start, "device": str(device)}:
                return self.draw(value, start, device, 0)
            case {"offset": start, "device": str(device)}:
                return self.draw(value, start, device, 1)
        raise Unreadable(f"is damaged: an input is described as {str(described)[:200]}")

    def draw(self, value: Value, described: Any, device: str, which: int) -> Source:
        """A number that places a draw in the stream of the device's generator."""
        start = self.decoder.decode(described)
        if type(start) not in (int, Extent):
            raise Unreadable(f"is damaged: a draw is at {str(described)[:80]}")
        trace = self.graph.trace
        generator = default_generator_of(self.decoder.device(device))
        before = trace.draws.get(generator, 0)
        trace.draws[generator] = start
        number = trace.random(generator, 0)[which]
        trace.draws[generator] = before
        trace.host_values[number.key] = value
        return Host(number)

    def tensor(self, value: Value, i: int) -> Tensor:
        """A variable's tensor, from the raw elements."""
        shape, dtype, device = value.spec
        name = f"arrays/{i}"
        if name not in self.archive.entries:
            raise Unreadable(f"is damaged: {name} is missing")
        if self.archive.entries[name].size != prod(shape) * dtype.itemsize:
            raise Unreadable(
                f"is damaged: {name} has {self.archive.entries[name].size} bytes, {value.spec} "
                f"takes {prod(shape) * dtype.itemsize}"
            )
        if not prod(shape):
            return PUBLIC["", "empty"].fn(shape, dtype=dtype, device=device)
        raw: Any = self.archive.read(name)
        if dtype is bool_ and max(raw) > 1:  # NumPy counts on 0 and 1
            raise Unreadable(f"is damaged: {name} holds booleans that are neither 0 nor 1")
        flat = PUBLIC["", "frombuffer"].fn(raw, dtype=dtype)
        return flat.reshape(shape).to(device).clone()


def checked(graph: ir.DataflowGraph) -> ir.DataflowGraph:
    """The graph, provided that every node fits its inputs."""
    try:
        return verify(graph)
    except Exception as error:  # a record given what it was not made for may fail in any way
        raise Unreadable(f"is damaged: {str(error)[:400]}") from error


def load(graph: Graph, path: str | os.PathLike[str], device: Any = None) -> Graph:
    """Fill an empty graph from a file."""
    place = Device(device) if device is not None else None
    try:
        with open(path, "rb") as file, CONTEXT.having(capture=None, grad_enabled=True):
            budget = Budget(file.seek(0, 2), "its contents")
            archive = Archive(file, budget)
            if "graph.json" not in archive.entries:
                raise Unreadable("is no graph file: a zip archive of something else")
            data = read_json(bytes(archive.read("graph.json")), budget)
            check_version(data)
            decoder = Decoder(budget) if place is None else Decoder(budget, lambda _: place)
            _GraphReader(graph, archive, decoder).fill(data)
    except OSError:
        raise
    except BadZip as error:
        raise FileError(f"Graph.load: {path} is no graph file, or damaged: {error}.") from error
    except Unreadable as error:
        raise FileError(f"Graph.load: {path} {error}.") from error
    except (FileRefusal, RecursionError) as error:
        reason = "refused: it nests too deeply" if isinstance(error, RecursionError) else error
        raise FileError(f"Graph.load: {path} cannot be read: {reason}.") from error
    except Exception as error:  # what damaged data leads to has no one type
        raise FileError(
            f"Graph.load: {path} cannot be read, or is damaged: {type(error).__name__}: "
            f"{str(error)[:400]}."
        ) from error
    return graph


def check_version(data: Any) -> None:
    """Refuse files of another kind or of a later version."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise Unreadable("is no graph file")
    version = data.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise Unreadable(
            f"is of version {version}, this Adjoint reads up to {VERSION}. Update Adjoint, or save "
            "the graph again with this one"
        )
