"""Files of whole models crafted to hang, fill the memory, or stand for what is not in them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.hostile.model_readers import CONFIG, MODEL_READERS, sharded_files, varint
from tests.hostile.parts import Case

MiB = 1 << 20

# -- ONNX -----------------------------------------------------------------------------------------


def onnx_of(nodes: Any = (), tensors: Any = (), sparse: Any = ()) -> bytes:
    from onnx import helper

    def value(name: str) -> Any:
        return helper.make_tensor_value_info(name, 1, (1,))

    made = [*nodes, helper.make_node("Neg", ["x"], ["y"])]
    graph = helper.make_graph(
        made, "g", [value("x")], [value("y")], list(tensors), sparse_initializer=list(sparse)
    )
    opset = [helper.make_opsetid("", 21)]
    data: bytes = helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()
    return data


def onnx_tensor(name: str = "w", kind: int = 1, dims: Any = (1,), **fields: Any) -> Any:
    from onnx import TensorProto

    return TensorProto(name=name, data_type=kind, dims=dims, **fields)


def onnx_node(operator: str, inputs: list[str], outputs: list[str]) -> Any:
    from onnx import helper

    return helper.make_node(operator, inputs, outputs)


def onnx_sparse(shape: Any, place: int | float) -> bytes:
    from onnx import helper

    kind = 7 if isinstance(place, int) else 1
    values, places = (
        helper.make_tensor("s", 1, [1], [1.0]),
        helper.make_tensor("i", kind, [1], [place]),
    )
    return onnx_of(sparse=[helper.make_sparse_tensor(values, places, shape)])


def onnx_outside(**entries: str) -> bytes:
    tensor = onnx_tensor(dims=[4], data_location=1)
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)
    return onnx_of(tensors=[tensor])


CHAIN = 20_000
ONNX: dict[str, Callable[[], bytes]] = {
    "a chain from its end": lambda: onnx_of(
        [onnx_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in reversed(range(CHAIN))]
        + [onnx_node("Neg", ["x"], ["v0"])]
    ),
    "names that become one": lambda: onnx_of(
        tensors=[onnx_tensor(f"a{chr(0x2000 + i)}", float_data=[1.0]) for i in range(3000)]
    ),
    "a circle": lambda: onnx_of([onnx_node("Neg", ["a"], ["b"]), onnx_node("Neg", ["b"], ["a"])]),
    "small numbers as wide ones": lambda: onnx_of(
        tensors=[onnx_tensor(kind=7, dims=[8 * MiB], int64_data=[0] * (8 * MiB))]
    ),
    "empty strings": lambda: onnx_of(
        tensors=[onnx_tensor(kind=8, dims=[MiB], string_data=[b""] * MiB)]
    ),
    "a sparse tensor without end": lambda: onnx_sparse([1 << 30], 0),
    "a sparse place outside": lambda: onnx_sparse([10], 50),
    "a sparse place before": lambda: onnx_sparse([10], -1),
    "a sparse place between": lambda: onnx_sparse([10], 0.5),
    "a negative size": lambda: onnx_of(tensors=[onnx_tensor(dims=[-1], float_data=[1.0])]),
    "absurd sizes": lambda: onnx_of(tensors=[onnx_tensor(dims=[1 << 40, 1 << 40])]),
    "more than it holds": lambda: onnx_of(tensors=[onnx_tensor(dims=[99], raw_data=bytes(4))]),
    "an unknown kind": lambda: onnx_of(tensors=[onnx_tensor(kind=99, float_data=[1.0])]),
    "data above": lambda: onnx_outside(location="../../etc/passwd"),
    "data at a place of the machine": lambda: onnx_outside(location="/etc/passwd"),
    "data nowhere": lambda: onnx_outside(location="nothing"),
    "messages in messages": lambda: nested_messages(20_000),
    "a length beyond the file": lambda: b"\x3a" + varint(1 << 62) + b"x",
    "nothing": lambda: b"",
}
LOADS = ("a chain from its end", "names that become one")


def nested_messages(depth: int) -> bytes:
    """A graph in an attribute of a node of a graph in an attribute, and so on."""
    inner = b""
    for _ in range(depth):
        attribute = b"\x32" + varint(len(inner)) + inner
        node = b"\x2a" + varint(len(attribute)) + attribute
        inner = b"\x0a" + varint(len(node)) + node
    return b"\x3a" + varint(len(inner)) + inner


# -- quantised models -----------------------------------------------------------------------------


def gguf_of(*tensors: tuple[bytes, list[int], int, int], data: bytes = b"") -> bytes:
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0)
    for name, sizes, kind, offset in tensors:
        out += struct.pack("<Q", len(name)) + name
        out += struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)
    return out + bytes(-len(out) % 32) + data


GGUF: dict[str, Callable[[], bytes]] = {
    "tensors that overlap": lambda: gguf_of(
        *((b"w%d" % i, [MiB], 0, 0) for i in range(200)), data=bytes(4 * MiB)
    ),
    "absurd sizes": lambda: gguf_of((b"w", [1 << 62] * 4, 0, 0)),
    "no sizes": lambda: gguf_of((b"w", [], 0, 0), data=bytes(4)),
    "an offset beyond": lambda: gguf_of((b"w", [1], 0, 1 << 63), data=bytes(4)),
}


def config(**changes: Any) -> Callable[[], bytes]:
    about = {**CONFIG["quantization_config"], **changes}
    return lambda: json.dumps({"quantization_config": about}).encode()


PACKED: dict[str, Callable[[], bytes]] = {
    "groups of 0": config(group_size=0),
    "groups of -2": config(group_size=-2),
    "groups of 10**30": config(group_size=10**30),
    "bits as a float": config(bits=4.0),
    "bits as a truth": config(bits=True),
    "a list as method": config(quant_method=[]),
    "nested": lambda: b"[" * 100_000,
}


def index(change: Callable[[dict[str, Any]], Any]) -> bytes:
    """The index of a sharded checkpoint of which something was changed."""
    about = json.loads(sharded_files()["index.json"])
    change(about)
    return json.dumps(about).encode()


def piece(**changes: Any) -> Callable[[], bytes]:
    return lambda: index(lambda about: about["tensors"]["model/w"]["pieces"][0].update(changes))


SHARDED: dict[str, Callable[[], bytes]] = {
    "a file above": piece(file="../sharded/part-00000-of-00001.safetensors"),
    "a file of the machine": piece(file="/etc/passwd"),
    "a file without a name": piece(file=""),
    "a start before the first": piece(start=[-1, 0]),
    "a start of one number": piece(start=0),
    "a start of too few": piece(start=[0]),
    "a block beyond the end": piece(start=[1, 0]),
    "more than the file holds": piece(shape=[2, 4]),
    "fewer than the file holds": piece(shape=[1, 3]),
    "a huge block": piece(shape=[1 << 62, 3]),
    "a truth as size": piece(shape=[2, True]),
    "pieces that overlap": lambda: index(
        lambda about: about["tensors"]["model/w"]["pieces"].append(
            {**about["tensors"]["model/w"]["pieces"][0], "start": [1, 1], "shape": [1, 1]}
        )
    ),
    "too many pieces": lambda: index(
        lambda about: about["tensors"]["model/w"].update(
            pieces=about["tensors"]["model/w"]["pieces"] * 5000
        )
    ),
    "a piece twice": lambda: index(
        lambda about: about["tensors"]["model/w"]["pieces"].append(
            about["tensors"]["model/w"]["pieces"][0]
        )
    ),
    "another dtype": lambda: index(lambda about: about["tensors"]["model/w"].update(dtype="int32")),
    "a shape of text": lambda: index(lambda about: about["tensors"]["model/w"].update(shape="23")),
    "another format": lambda: index(lambda about: about.update(format=1)),
    "a list of tensors": lambda: index(lambda about: about.update(tensors=[])),
    "nested": lambda: b"[" * 100_000,
}

MODEL_CASES: dict[str, Case] = {
    f"{reader}: {name}": Case(reader, partial(lambda make: make(), make), name in LOADS)
    for reader, cases in {
        "onnx": ONNX, "gguf": GGUF, "packed config": PACKED, "sharded index": SHARDED
    }.items()
    if reader in MODEL_READERS  # what reads it is installed
    for name, make in cases.items()
}  # fmt: skip
