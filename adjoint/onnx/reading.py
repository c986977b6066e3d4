"""Files of ONNX, read: nothing outside their folder, no memory beyond their own size."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from adjoint.engine.core.availability.libraries import need
from adjoint.engine.core.files.budget import Budget, FileRefusal
from adjoint.onnx.types import ELEMENTS, element
from adjoint.onnx.types import OnnxError as OnnxError

LARGEST: Final = 1 << 31  # elements of a tensor that a file may ask for without holding them
NEWEST: Final = {
    "": 28,
    "ai.onnx": 28,
    "ai.onnx.ml": 5,
    "ai.onnx.preview.training": 1,
    "ai.onnx.preview": 1,
}
MOST_NODES: Final = 1 << 24  # that a model's functions may stand for
NEWEST_FORMAT: Final = 13  # of files; or what the installed onnx knows
LIMIT: Final = 64  # depth of graphs in graphs, and of functions that call functions


class Reading:
    """What reading one model may take, and where its external data may lie.

    A file of external data counts towards the size once, however many tensors are said to be in it.
    """

    def __init__(self, size: int, folder: Path | None) -> None:
        self.budget = Budget(size, "onnx.load")
        self.folder = folder
        self.files: set[Path] = set()

    def spend(self, count: int, who: str) -> None:
        """Take so many bytes, or refuse."""
        try:
            self.budget.spend(count, who)
        except FileRefusal as error:
            raise OnnxError(str(error)) from None

    def opened(self, path: Path, size: int) -> None:
        """Note a file that is read besides the model."""
        if path not in self.files:
            self.files.add(path)
            self.budget.enlarge(size)


def read_model(source: Any) -> tuple[Any, Path | None]:
    """A model's message, and the folder that its external data may lie in."""
    onnx = need("onnx", "adjoint.onnx")
    if isinstance(source, onnx.ModelProto):
        return source, None
    path = None
    if isinstance(source, bytes | bytearray | memoryview):
        data = bytes(source)
    elif hasattr(source, "read"):
        data = source.read()
        if not isinstance(data, bytes):
            raise TypeError(
                f"onnx.load: the file object gives {type(data).__name__}, not bytes. Open it 'rb'."
            )
    elif isinstance(source, str | os.PathLike):
        path = Path(source)
        data = path.read_bytes()
    else:
        raise TypeError(
            "onnx.load: expected a path, a binary file, bytes or a ModelProto, received "
            f"{type(source).__name__}"
        )
    name = "<bytes>" if path is None else str(path)
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception as error:
        raise OnnxError(f"onnx.load: {name} is truncated or not an ONNX model: {error}") from None
    if not model.HasField("graph") or not model.opset_import:
        raise OnnxError(f"onnx.load: {name} is not an ONNX model: it has no graph or no opset.")
    newest = max(NEWEST_FORMAT, int(onnx.IR_VERSION))
    if model.ir_version > newest:
        raise OnnxError(
            f"onnx.load: {name} is of version {model.ir_version} of the format; {newest} is the "
            "newest that is known."
        )
    if not all(isinstance(text, str) for text in _texts(model)):
        raise OnnxError(f"onnx.load: {name} is damaged: a name in it is not UTF-8.")
    return model, None if path is None else path.resolve().parent


def _texts(model: Any) -> Iterator[Any]:
    """Every text in a model; what is not UTF-8 is bytes."""
    messages = [model]
    while messages:
        for field, value in messages.pop().ListFields():
            several = not isinstance(value, (str, bytes)) and not hasattr(value, "ListFields")
            if field.type == field.TYPE_STRING:
                yield from value if several else (value,)
            elif field.type == field.TYPE_MESSAGE:
                messages += value if several else (value,)


def opsets(imports: Any) -> dict[str, int]:
    """The version of each domain that is imported; newer ones than are known are refused."""
    versions: dict[str, int] = {}
    for entry in imports:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        newest = NEWEST.get(domain)
        if newest is not None and entry.version > newest:
            raise OnnxError(
                f"onnx.load: opset {entry.version} of domain {entry.domain or 'ai.onnx'!r} is "
                "newer than "
                f"{newest}, the newest that is known. Convert the model with "
                "onnx.version_converter."
            )
        if entry.version < 1:
            raise OnnxError(
                f"onnx.load: opset {entry.version} of {entry.domain or 'ai.onnx'!r} is no version."
            )
        versions[domain] = entry.version
    return versions


def check_functions(graph: Any, functions: Mapping[tuple[str, str], Any]) -> None:
    """Refuse functions that call themselves, or that stand for more nodes than anyone runs."""
    counts: dict[tuple[str, str], int] = {}
    entered: set[tuple[str, str]] = set()

    def nodes_of(nodes: Any, depth: int) -> int:
        if depth > LIMIT:
            raise OnnxError(
                f"onnx: graphs and functions nest more than {LIMIT} deep; does one call itself?"
            )
        count = 0
        for node in nodes:
            graphs = [g for a in node.attribute for g in (a.g, *a.graphs)]
            count += 1 + sum(nodes_of(inner.node, depth + 1) for inner in graphs)
            key = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
            count += called(key, depth) if key in functions else 0
        return count

    def called(key: tuple[str, str], depth: int) -> int:
        if key in entered:
            raise OnnxError(
                f"onnx.load: function {key[1]!r} of domain {key[0]!r} would call itself."
            )
        if key not in counts:
            entered.add(key)
            counts[key] = nodes_of(functions[key].node, depth + 1)
            entered.remove(key)
        return counts[key]

    count = nodes_of(graph.node, 0)
    if count > MOST_NODES:
        raise OnnxError(
            f"onnx.load: the model's functions stand for {count} nodes; at most {MOST_NODES} are "
            "taken."
        )


def array(tensor: Any, reading: Reading) -> np.ndarray[Any, Any]:
    """The elements of a tensor in a file."""
    helper = need("onnx.numpy_helper", "adjoint.onnx")
    shape = tuple(tensor.dims)
    who = f"onnx.load: tensor {tensor.name!r}"
    kind = element(tensor.data_type, who)
    if any(d < 0 for d in shape):
        raise OnnxError(f"{who} has a negative size: {shape}.")
    if tensor.data_location == tensor.EXTERNAL:
        return external(tensor, kind, shape, reading)
    available = _capacity(tensor)
    count = math.prod(shape)
    if count > available:
        raise OnnxError(
            f"{who} says {count} elements, shape {shape}, and the file holds at most {available}."
        )
    # What the message takes besides the bytes it came from, and the array made of it.
    listed = available - 4 * len(tensor.raw_data) - len(tensor.string_data)
    reading.spend(
        2 * listed + 128 * len(tensor.string_data) + count * kind.itemsize,
        f"tensor {tensor.name!r}",
    )
    try:
        elements = helper.to_array(tensor)
    except Exception as error:
        raise OnnxError(f"{who}, shape {shape}: its data does not fit: {error}") from None
    if elements.dtype.kind in "SU":
        elements = elements.astype(object)
    return np.asarray(elements).astype(kind, copy=False)


def constant(tensor: Any, folder: Path | None) -> np.ndarray[Any, Any]:
    """The elements of a tensor that stands in a node."""
    return array(tensor, Reading(tensor.ByteSize(), folder))


def _capacity(tensor: Any) -> int:
    """The most elements that the data of a tensor can be: four of two bits to a byte."""
    fields = (
        tensor.float_data,
        tensor.int32_data,
        tensor.int64_data,
        tensor.double_data,
        tensor.uint64_data,
    )
    return 4 * len(tensor.raw_data) + 4 * sum(map(len, fields)) + len(tensor.string_data)


def external(
    tensor: Any, kind: np.dtype[Any], shape: tuple[int, ...], reading: Reading
) -> np.ndarray[Any, Any]:
    """The elements of a tensor that lie in a file beside the model."""
    who, folder = f"onnx.load: tensor {tensor.name!r}", reading.folder
    if folder is None:
        raise OnnxError(f"{who} lies in another file; give the path of the model.")
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    parts = Path(location).parts
    if (
        not location
        or Path(location).is_absolute()
        or ".." in parts
        or "\\" in location
        or ":" in location
    ):
        raise OnnxError(
            f"{who}: its data is said to lie at {location!r}, which is not a path inside the "
            "model's folder."
        )
    path = (folder / location).resolve()
    if not path.is_relative_to(folder):
        raise OnnxError(f"{who}: {location!r} leads out of the model's folder.")
    if not path.is_file():
        raise OnnxError(f"{who}: its data file {location!r} is not there, or not a plain file.")
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
    except ValueError:
        raise OnnxError(f"{who}: offset or length is no number: {entries}.") from None
    bits = _bits(kind)
    wanted = (math.prod(shape) * bits + 7) // 8
    size = os.path.getsize(path)
    if kind.hasobject or offset < 0 or length not in (-1, wanted) or offset + wanted > size:
        raise OnnxError(
            f"{who}: shape {shape} of {kind} needs {wanted} bytes; the file says offset "
            f"{offset}, length {length}, "
            f"and {location!r} has {size}."
        )
    reading.opened(path, size)
    reading.spend(2 * wanted, f"tensor {tensor.name!r}")
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(wanted)
    onnx = need("onnx", "adjoint.onnx")
    number = next(n for n, k in ELEMENTS.items() if k == kind)
    return np.asarray(
        onnx.numpy_helper.to_array(onnx.TensorProto(dims=shape, data_type=number, raw_data=data))
    )


def _bits(kind: np.dtype[Any]) -> int:
    name = kind.name
    return 4 if "int4" in name or "float4" in name else 2 if "int2" in name else kind.itemsize * 8
