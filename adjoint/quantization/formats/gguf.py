"""GGUF files, as llama.cpp has them: read within bounds, and put into modules.

The container is read here, because a file of others decides every size in it; the package `gguf`
knows the formats of blocks that have no counterpart (those of more than one scale).
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.engine.core.availability.libraries import need
from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import Budget
from adjoint.engine.tensor.tensor import Tensor
from adjoint.quantization.formats.replacing import replaced, submodule
from adjoint.quantization.modules.weight_only import WeightOnlyEmbedding, WeightOnlyLinear
from adjoint.quantization.weights import GroupedWeight, pack

MAGIC, VERSIONS = b"GGUF", (2, 3)
NESTING, RANK = 4, 4
BLOCK = 32  # numbers of the blocks that are kept as they are
_SCALARS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_PLAIN = {"F32": np.float32, "F16": np.float16, "F64": np.float64, "I8": np.int8}


class _Cursor:
    """Reads a file from front to back, and says where it is damaged."""

    def __init__(self, data: Any, source: str) -> None:
        self.data, self.at, self.source = data, 0, source
        self.budget = Budget(len(data), f"read_gguf: {source}")

    def fail(self, why: str) -> RuntimeError:
        return RuntimeError(f"read_gguf: {self.source}: damaged at byte {self.at}: {why}")

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise self.fail(f"{count} bytes wanted, {len(self.data) - self.at} left")
        piece = bytes(self.data[self.at : self.at + count])
        self.at += count
        return piece

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def count(self, size: int, of: str) -> int:
        """How many follow; no more than the rest of the file can hold."""
        count: int = self.number("Q")
        if count * size > len(self.data) - self.at:
            raise self.fail(f"{count} {of} in {len(self.data) - self.at} bytes")
        return count

    def string(self) -> str:
        size = self.count(1, "bytes of text")
        self.budget.spend(size + 64, "text")
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise self.fail(f"text that is no UTF-8 ({error.reason})") from None

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY or depth >= NESTING:
            raise self.fail(f"a value of kind {kind}, {depth} arrays deep")
        inner = self.number("I")
        size = struct.calcsize(f"<{_SCALARS[inner]}") if inner in _SCALARS else 8
        count = self.count(size, "elements")
        self.budget.spend(64 * count, "an array")
        if inner in _SCALARS:
            return list(struct.unpack(f"<{count}{_SCALARS[inner]}", self.take(size * count)))
        return [self.value(inner, depth + 1) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """A tensor of a file: its shape, the name of its format, and its bytes."""

    name: str
    shape: tuple[int, ...]
    kind: str
    data: Any  # bytes, as an array

    def dequantize(self) -> Tensor:
        """The real numbers, in float32."""
        if self.kind in _PLAIN:
            return ad.tensor(self.data.view(_PLAIN[self.kind]).astype(np.float32)).reshape(
                self.shape
            )
        gguf = need("gguf", "GGUFTensor.dequantize")
        rows = self.data.reshape(prod(self.shape[:-1]), -1)
        try:
            real = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType[self.kind])
        except NotImplementedError:
            raise NotImplementedError(
                f"GGUFTensor.dequantize: the package gguf cannot read {self.kind} ({self.name!r})"
            ) from None
        return ad.tensor(np.ascontiguousarray(real, np.float32)).reshape(self.shape)

    def grouped(self) -> GroupedWeight | None:
        """The same numbers as a weight in groups, where there is such a form."""
        if self.kind not in _GROUPED or len(self.shape) != 2:
            return None
        rows = self.data.reshape(self.shape[0], self.shape[1] // BLOCK, -1)
        return _GROUPED[self.kind](rows, self.shape)


def _half(columns: Any) -> Any:
    """A number of 16 bits at the head of each block."""
    return np.ascontiguousarray(columns).view(np.float16)[..., 0].astype(np.float32)


def _nibbles(columns: Any, shape: tuple[int, ...]) -> Tensor:
    """Lower halves are a block's first numbers, upper halves its last: neighbours in ours."""
    numbers = np.concatenate([columns & 15, columns >> 4], -1).reshape(shape)
    return pack(ad.tensor(numbers))


def _q8_0(rows: Any, shape: tuple[int, ...]) -> GroupedWeight:
    steps = np.ascontiguousarray(rows[..., 2:]).view(np.int8).reshape(shape)
    return GroupedWeight(ad.tensor(steps), ad.tensor(_half(rows[..., :2])), None, 8, BLOCK)


def _q4_0(rows: Any, shape: tuple[int, ...]) -> GroupedWeight:
    scale = ad.tensor(_half(rows[..., :2]))
    zero = ad.full_like(scale, 8, dtype=ad.uint8)
    return GroupedWeight(_nibbles(rows[..., 2:], shape), scale, zero, 4, BLOCK)


def _q4_1(rows: Any, shape: tuple[int, ...]) -> GroupedWeight | None:
    scale, least = _half(rows[..., :2]), _half(rows[..., 2:4])
    if ((scale == 0) & (least != 0)).any():
        return None  # a constant other than zero is no number of steps
    zero = -least / np.where(scale == 0, 1, scale)
    return GroupedWeight(
        _nibbles(rows[..., 4:], shape), ad.tensor(scale), ad.tensor(zero), 4, BLOCK
    )


_GROUPED: dict[str, Callable[..., GroupedWeight | None]] = {
    "Q8_0": _q8_0,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
}


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """What a file says of itself, and its tensors by name."""

    metadata: dict[str, Any]
    tensors: dict[str, GGUFTensor]


def read_gguf(path: str | os.PathLike[str]) -> GGUFFile:
    """A GGUF file; tensors stay where they are until they are asked for."""
    source = os.fspath(path)
    if os.path.getsize(path) < 24:
        raise FileError(f"read_gguf: {source}: too short for a GGUF file")
    cursor = _Cursor(np.memmap(path, np.uint8, "r").view(np.ndarray), source)
    if cursor.take(4) != MAGIC:
        raise FileError(f"read_gguf: {source} is no GGUF file")
    version = cursor.number("I")
    if version not in VERSIONS:
        raise FileError(
            f"read_gguf: {source} is of version {version}; {VERSIONS[0]} and {VERSIONS[1]} are read"
        )
    tensor_count = cursor.count(24, "tensors")
    metadata: dict[str, Any] = {}
    for _ in range(cursor.count(13, "entries")):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.number("I"))
    entries = [_entry(cursor) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= 1 << 20:
        raise cursor.fail(f"an alignment of {alignment!r}")
    start = -(-cursor.at // alignment) * alignment
    gguf = need("gguf", "read_gguf")
    tensors = {}
    for name, shape, kind, offset in entries:
        if name in tensors:
            raise cursor.fail(f"two tensors called {name[:80]!r}")
        tensors[name] = _tensor(cursor, gguf, start, name, shape, kind, offset)
    _check_apart(cursor, [(offset, tensors[name]) for name, _, _, offset in entries])
    return GGUFFile(metadata, tensors)


def _check_apart(cursor: _Cursor, placed: list[tuple[int, GGUFTensor]]) -> None:
    """No byte is of two tensors: a small file would stand for any number of large ones."""
    end, last = 0, ""
    for offset, tensor in sorted(placed, key=lambda place: place[0]):
        if offset < end:
            raise cursor.fail(f"tensors {last[:80]!r} and {tensor.name[:80]!r} overlap")
        end, last = offset + len(tensor.data), tensor.name


def _entry(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    name, rank = cursor.string(), cursor.number("I")
    if rank > RANK:
        raise cursor.fail(f"a tensor of {rank} dimensions")
    cursor.budget.spend(512, "a tensor")
    shape = tuple(cursor.number("Q") for _ in range(rank))[::-1]
    return name, shape, cursor.number("I"), cursor.number("Q")


def _tensor(
    cursor: _Cursor,
    gguf: Any,
    start: int,
    name: str,
    shape: tuple[int, ...],
    kind: int,
    offset: int,
) -> GGUFTensor:
    try:
        format_ = gguf.GGMLQuantizationType(kind)
        block, size = gguf.GGML_QUANT_SIZES[format_]
    except (ValueError, KeyError):
        raise cursor.fail(f"tensor {name[:80]!r} of unknown kind {kind}") from None
    count = prod(shape)
    if not shape or 0 in shape or shape[-1] % block:
        raise cursor.fail(f"tensor {name[:80]!r}: {shape} of {format_.name}")
    begin, length = start + offset, count // block * size
    if begin + length > len(cursor.data):
        raise cursor.fail(f"tensor {name[:80]!r} ends beyond the file")
    return GGUFTensor(name, shape, format_.name, cursor.data[begin : begin + length])


# -- into modules ------------------------------------------------------------------------------

# llama.cpp's names, in order: what they match and what Hugging Face calls them.
LLAMA_NAMES = (
    (re.compile(r"token_embd\.(\w+)"), r"model.embed_tokens.\1"),
    (re.compile(r"output_norm\.(\w+)"), r"model.norm.\1"),
    (re.compile(r"output\.(\w+)"), r"lm_head.\1"),
    (re.compile(r"blk\.(\d+)\.attn_([qkv])\.(\w+)"), r"model.layers.\1.self_attn.\2_proj.\3"),
    (re.compile(r"blk\.(\d+)\.attn_output\.(\w+)"), r"model.layers.\1.self_attn.o_proj.\2"),
    (re.compile(r"blk\.(\d+)\.ffn_(gate|up|down)\.(\w+)"), r"model.layers.\1.mlp.\2_proj.\3"),
    (re.compile(r"blk\.(\d+)\.attn_norm\.(\w+)"), r"model.layers.\1.input_layernorm.\2"),
    (re.compile(r"blk\.(\d+)\.ffn_norm\.(\w+)"), r"model.layers.\1.post_attention_layernorm.\2"),
)


def llama_name(name: str) -> str | None:
    """What llama.cpp calls a tensor of a Llama, in Hugging Face's words; None for tables."""
    if name.startswith("rope_freqs"):
        return None
    for pattern, ours in LLAMA_NAMES:
        if pattern.fullmatch(name):
            return pattern.sub(ours, name)
    raise FileError(f"load_gguf: {name[:80]!r} is no tensor of a Llama")


def load_gguf(
    model: nn.Module,
    file: GGUFFile | str | os.PathLike[str],
    names: Callable[[str], str | None] = llama_name,
    order: Mapping[str, Tensor] | None = None,
) -> nn.Module:
    """Put the tensors of a file into a model, in place.

    Linear layers and embeddings whose tensors have a form in groups (Q8_0, Q4_0, Q4_1) become
    layers of 8 or 4 bits, with the same numbers; all others are read as floats.

    Args:
        names: from the file's name of a tensor to the model's; None: leave it out.
        order: by the model's names, in which order the rows of a weight are to be taken.
    """
    given = file if isinstance(file, GGUFFile) else read_gguf(file)
    layers: dict[str, nn.Module] = {}
    values: dict[str, Tensor] = {}
    for theirs, tensor in given.tensors.items():
        ours = names(theirs)
        if ours is None:
            continue
        rows = None if order is None else order.get(ours)
        if rows is not None and tensor.shape[:1] != (len(rows),):
            raise FileError(
                f"load_gguf: {theirs[:80]!r} is {tensor.shape} in the file, of {len(rows)} rows in "
                "the model"
            )
        path, _, last = ours.rpartition(".")
        module = submodule(model, path, f"load_gguf: {theirs[:80]}") if last == "weight" else None
        grouped = tensor.grouped() if isinstance(module, (nn.Linear, nn.Embedding)) else None
        if module is None or grouped is None:
            real = tensor.dequantize()
            values[ours] = real if rows is None else real[rows]
        else:
            layers |= _layers(model, module, grouped, rows)
    with replaced(model, layers, "load_gguf"):
        plain_values = {
            key: value
            for key, value in model.state_dict().items()
            if key.rpartition(".")[0] in layers
        }
        model.load_state_dict(values | plain_values)
    return model


def _layers(
    model: nn.Module, module: Any, grouped: GroupedWeight, rows: Tensor | None
) -> dict[str, nn.Module]:
    """The layer that a module becomes, and those that share its weight."""
    return {
        path: _layer(other, grouped, rows)
        for path, other in model.named_modules()
        if isinstance(other, (nn.Linear, nn.Embedding)) and other.weight is module.weight
    }


def _layer(module: Any, grouped: GroupedWeight, rows: Tensor | None) -> nn.Module:
    wanted = tuple(module.weight.shape)
    have = (grouped.weight.shape[0], grouped.weight.shape[1] * (8 // grouped.bits))
    if have != wanted:
        raise FileError(f"load_gguf: a weight of {have} in the file, of {wanted} in the model")
    if rows is not None:
        zero = None if grouped.zero is None else grouped.zero[rows]
        grouped = GroupedWeight(
            grouped.weight[rows], grouped.scale[rows], zero, grouped.bits, grouped.group
        )
    if isinstance(module, nn.Embedding):
        return WeightOnlyEmbedding(grouped, module.padding_idx)
    return WeightOnlyLinear(grouped, module.bias)
