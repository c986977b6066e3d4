"""Readers of whole models: ONNX, GGUF, GPTQ's folders, quantised files, sharded checkpoints."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.distributed import checkpoint
from adjoint.io import safetensors
from adjoint.onnx.types import OnnxError
from adjoint.quantization import Int8WeightOnlyConfig, load_quantized, quantize_, save_quantized
from adjoint.quantization.formats.gguf import load_gguf, read_gguf
from adjoint.quantization.formats.packed import load_packed
from tests.hostile.parts import Part, Reader, by_file, headed, whole

# -- ONNX -----------------------------------------------------------------------------------------


@cache
def onnx_model() -> bytes:
    """A small model with weights, an attribute of each kind, and a graph in a graph."""
    from onnx import TensorProto, helper, numpy_helper

    def value(name: str, kind: int = TensorProto.FLOAT, shape: Any = (2, 3)) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    branch = helper.make_graph([helper.make_node("Neg", ["h"], ["n"])], "then", [], [value("n")])
    other = helper.make_graph([helper.make_node("Abs", ["h"], ["a"])], "else", [], [value("a")])
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["g"], alpha=0.5, transB=1),
        helper.make_node("Softmax", ["g"], ["h"], axis=-1),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other),
        helper.make_node("Reshape", ["y", "to"], ["z"]),
    ]
    weights = [
        numpy_helper.from_array(np.ones((3, 4), np.float32), "w"),
        helper.make_tensor("b", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0]),
        numpy_helper.from_array(np.array([3, 2]), "to"),
    ]
    inputs = [value("x", shape=(2, 4)), value("c", TensorProto.BOOL, ())]
    graph = helper.make_graph(nodes, "g", inputs, [value("z", shape=(3, 2))], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    data: bytes = model.SerializeToString()
    return data


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def message(field: int, data: bytes) -> bytes:
    """A message inside another, under its number."""
    return bytes([field << 3 | 2]) + varint(len(data)) + data


GRAPH, NODE, INITIALIZER = 7, 1, 5  # the numbers of the fields


def onnx_parts(data: bytes) -> list[Part]:
    """The graph, a node and a tensor: what stands around them keeps its lengths."""
    import onnx

    def around(field: int, i: int) -> Callable[[bytes], bytes]:
        rest = onnx.ModelProto.FromString(data)
        del (rest.graph.node if field == NODE else rest.graph.initializer)[i]
        inner = rest.graph.SerializeToString()
        rest.ClearField("graph")
        outer = rest.SerializeToString()
        return lambda changed: outer + message(GRAPH, inner + message(field, changed))

    graph = onnx.ModelProto.FromString(data).graph
    nodes = [(n.SerializeToString(), around(NODE, i)) for i, n in enumerate(graph.node)]
    held = [
        (t.SerializeToString(), around(INITIALIZER, i)) for i, t in enumerate(graph.initializer)
    ]
    return [*nodes, *held]


def read_onnx(path: Path) -> Any:
    """Loads, and runs where that is asked of the model that was written."""
    try:
        model = ad.onnx.load(path)
    except OnnxError as error:
        raise RuntimeError(f"{path}: {error}") from None
    if model.input_names == ("x", "c"):
        try:
            model(ad.ones(2, 4), ad.tensor(True))
        except (OnnxError, RuntimeError, IndexError, TypeError, ValueError) as error:
            raise RuntimeError(f"{path}: {error}") from None
    return model


# -- quantised models -----------------------------------------------------------------------------


def write_gguf(path: Path) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("some.words", ["a", "b"])
    writer.add_uint32("a.number", 7)
    array = np.arange(64 * 2, dtype=np.float32).reshape(2, 64)
    for name, kind in (("0.weight", "Q8_0"), ("0.bias", "F32")):
        format_ = gguf.GGMLQuantizationType[kind]
        raw = array[:, 0].copy() if kind == "F32" else gguf.quants.quantize(array, format_)
        writer.add_tensor(name, raw, raw_dtype=format_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_into_layer(path: Path) -> Any:
    for tensor in read_gguf(path).tensors.values():
        try:
            tensor.dequantize()
        except NotImplementedError as error:
            raise RuntimeError(f"{path}: {error}") from None
    return load_gguf(nn.Sequential(nn.Linear(64, 2)), path, lambda name: name)


FEATURES, GROUP = 16, 8
CONFIG = {"quantization_config": {"bits": 4, "group_size": GROUP, "quant_method": "gptq"}}


def packed_tensors() -> dict[str, Any]:
    return {
        "0.qweight": ad.arange(FEATURES // 8 * 8, dtype=ad.int32).reshape(-1, 8),
        "0.qzeros": ad.ones(FEATURES // GROUP, 1, dtype=ad.int32),
        "0.scales": ad.ones(FEATURES // GROUP, 8, dtype=ad.float16),
        "0.g_idx": ad.arange(FEATURES, dtype=ad.int32) // GROUP,
        "0.bias": ad.zeros(8),
    }


def read_packed_with(name: str, other: str, rest: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Reads a folder of which one file is the one in question."""

    def read(path: Path) -> Any:
        folder = path.parent / "packed"
        folder.mkdir(exist_ok=True)
        rest(folder / other)
        (folder / name).write_bytes(path.read_bytes())
        try:
            return load_packed(nn.Sequential(nn.Linear(FEATURES, 8)), folder)
        except NotImplementedError as error:
            raise RuntimeError(f"{path}: {error}") from None

    return read


def write_quantized(path: Path) -> None:
    made = nn.Sequential(nn.Linear(8, 2))
    quantize_(made, Int8WeightOnlyConfig())
    save_quantized(made, path)


def metadata_parts(data: bytes) -> list[Part]:
    """The description of the layers, inside the header's metadata."""
    length = int.from_bytes(data[:8], "little")
    head, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    key = "adjoint.quantization"

    def around(changed: bytes) -> bytes:
        about = {**head["__metadata__"], key: changed.decode("utf-8", "replace")}
        raw = json.dumps({**head, "__metadata__": about}).encode()
        return len(raw).to_bytes(8, "little") + raw + rest

    return [*headed(data), (head["__metadata__"][key].encode(), around)]


# -- sharded checkpoints --------------------------------------------------------------------------


def sharded_state() -> dict[str, Any]:
    return {
        "model": {"w": ad.arange(6.0).reshape(2, 3), "b": ad.zeros(2)},
        "epoch": 3,
        "at": (1, 2),
    }


@cache
def sharded_files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "checkpoint")
        checkpoint.save(sharded_state(), checkpoint_id=place)
        return {path.name: path.read_bytes() for path in place.iterdir()}


def read_sharded(path: Path) -> Any:
    """A checkpoint of which one file is the one in question."""
    folder = path.parent / "sharded"
    folder.mkdir(exist_ok=True)
    for name, data in {**sharded_files(), path.name: path.read_bytes()}.items():
        (folder / name).write_bytes(data)
    state = sharded_state()
    checkpoint.load(state, checkpoint_id=folder)
    return state


def part_name() -> str:
    return next(name for name in sharded_files() if name.endswith(".safetensors"))


MODEL_READERS: dict[str, Reader] = {
    "packed config": Reader(
        "config.json", lambda: json.dumps(CONFIG).encode(),
        read_packed_with("config.json", "model.safetensors", lambda p: safetensors.save_file(packed_tensors(), p)),
        whole, named=False,
    ),
    "packed": Reader(
        "model.safetensors", by_file(lambda p: safetensors.save_file(packed_tensors(), p)),
        read_packed_with("model.safetensors", "config.json", lambda p: p.write_text(json.dumps(CONFIG))),
        headed, named=False,
    ),
    "quantized": Reader(
        "a.safetensors", by_file(write_quantized),
        lambda p: load_quantized(nn.Sequential(nn.Linear(8, 2)), p), metadata_parts, named=False,
    ),
    "sharded index": Reader("index.json", lambda: sharded_files()["index.json"], read_sharded, whole, named=False),
    "sharded part": Reader(
        "part-00000-of-00001.safetensors", lambda: sharded_files()[part_name()], read_sharded, headed, named=False
    ),
}  # fmt: skip
if find_spec("onnx") is not None:
    MODEL_READERS["onnx"] = Reader("a.onnx", onnx_model, read_onnx, onnx_parts)
if find_spec("gguf") is not None:
    MODEL_READERS["gguf"] = Reader(
        "a.gguf", by_file(write_gguf), read_into_layer, whole, named=False
    )
