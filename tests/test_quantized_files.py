"""GGUF, GPTQ and AWQ files: the same numbers as their own packages read, and bounded reading."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import models, nn
from adjoint.engine.core.files.budget import FileRefusal
from adjoint.quantization import load_gguf, load_packed, read_gguf
from adjoint.quantization.formats.packed import AWQ_ORDER
from adjoint.quantization.modules.weight_only import WeightOnlyEmbedding, WeightOnlyLinear

RANDOM = np.random.default_rng(0)


# -- GGUF -------------------------------------------------------------------------------------------


def write(path: Path, tensors: dict[str, tuple[Any, str]], about: dict[str, Any]) -> None:
    """A file by the package `gguf`: float arrays, each with the format it is kept in."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(str(path), about.get("general.architecture", "test"))
    for key, value in about.items():
        if isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
    for name, (array, kind) in tensors.items():
        format_ = gguf.GGMLQuantizationType[kind]
        data = array if kind in ("F32", "F16") else gguf.quants.quantize(array, format_)
        writer.add_tensor(name, data, raw_dtype=format_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_tensors_of_gguf(kind: str, tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    array = RANDOM.normal(size=(5, 96)).astype(np.float16 if kind == "F16" else np.float32)
    path = tmp_path / "a.gguf"
    write(path, {"w": (array, kind)}, {"some.words": ["a", "b"], "a.number": 7})
    file = read_gguf(path)
    assert file.metadata["some.words"] == ["a", "b"]
    assert file.metadata["a.number"] == 7
    tensor = file.tensors["w"]
    want = array.astype(np.float32)
    if kind not in ("F32", "F16"):
        format_ = gguf.GGMLQuantizationType[kind]
        want = gguf.quants.dequantize(gguf.quants.quantize(array, format_), format_)
    assert (tensor.dequantize().numpy() == want).all()
    kept = tensor.grouped()
    assert (kept is not None) == (kind in ("Q8_0", "Q4_0", "Q4_1"))
    if kept is not None:
        np.testing.assert_allclose(kept.real().numpy(), want, rtol=1e-5, atol=1e-6)


def llama_file(path: Path, model: models.Llama, kind: str, tied: bool) -> None:
    """A Llama as llama.cpp writes it: rows of queries and keys in pairs of neighbours."""
    names = {
        "embed_tokens": "token_embd", "lm_head": "output", "q_proj": "attn_q", "k_proj": "attn_k",
        "v_proj": "attn_v", "o_proj": "attn_output", "gate_proj": "ffn_gate", "up_proj": "ffn_up",
        "down_proj": "ffn_down", "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm", "norm": "output_norm",
    }  # fmt: skip
    config, tensors = model.config, {}
    for name, value in model.state_dict().items():
        parts = name.split(".")
        theirs = f"{names[parts[-2]]}.weight"
        if "layers" in parts:
            theirs = f"blk.{parts[parts.index('layers') + 1]}.{theirs}"
        array = value.numpy()
        if parts[-2] in ("q_proj", "k_proj"):
            rows = array.reshape(-1, 2, config.head_dim // 2, array.shape[1])
            array = np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(array.shape)
        if not (tied and theirs == "output.weight"):
            tensors[theirs] = (array, "F32" if array.ndim == 1 else kind)
    about = {
        "general.architecture": "llama",
        "llama.embedding_length": config.hidden_size,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.block_count": config.num_hidden_layers,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.context_length": config.max_position_embeddings,
        "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
    }
    write(path, tensors, about)


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_0", "Q5_1"])
@pytest.mark.parametrize("tied", [False, True])
def test_a_llama_of_gguf(kind: str, tied: bool, tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    ad.manual_seed(0)
    config = models.LlamaConfig(64, 64, 96, 2, 4, 2, max_position_embeddings=32,
                                tie_word_embeddings=tied)  # fmt: skip
    model = models.Llama(config).eval()
    path = tmp_path / "llama.gguf"
    llama_file(path, model, kind, tied)
    made = models.Llama.from_gguf(path)
    tokens = ad.arange(20).reshape(2, 10)
    with ad.no_grad():
        want, got = model(tokens), made(tokens)
    near = {"F32": 1e-5, "Q8_0": 0.02, "Q4_0": 0.3, "Q5_1": 0.1}[kind]
    assert (got - want).abs().max() <= near * want.abs().max()
    grouped = kind in ("Q8_0", "Q4_0")
    assert isinstance(made.lm_head, WeightOnlyLinear) == grouped
    assert isinstance(made.model["embed_tokens"], WeightOnlyEmbedding) == grouped


def test_a_model_of_other_sizes_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.gguf", {"w": (np.ones((4, 32), np.float32), "Q8_0")}, {})
    model = nn.Sequential(nn.Linear(64, 4, bias=False))
    with pytest.raises(RuntimeError, match="in the model"):
        load_gguf(model, tmp_path / "a.gguf", names=lambda name: f"0.{name}eight")
    assert type(model[0]) is nn.Linear
    more = nn.Sequential(nn.Linear(32, 4, bias=False), nn.Linear(2, 2))  # of which it has nothing
    with pytest.raises(RuntimeError, match="Missing key"):
        load_gguf(more, tmp_path / "a.gguf", names=lambda name: f"0.{name}eight")
    assert type(more[0]) is nn.Linear
    with pytest.raises(RuntimeError, match="no layer '7'"):
        load_gguf(more, tmp_path / "a.gguf", names=lambda name: f"7.{name}eight")


def test_a_gguf_file_that_describes_no_llama(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    config = models.LlamaConfig(64, 64, 96, 2, 4, 2, max_position_embeddings=32)
    path = tmp_path / "llama.gguf"
    llama_file(path, models.Llama(config), "F32", False)
    good = path.read_bytes()
    for key, words in (
        (b"llama.block_count", "does not state llama.block_count"),
        (b"llama.attention.head_count_kv", None),  # as many as heads: other sizes
    ):
        path.write_bytes(good.replace(key, key[:-1] + b"x"))
        with pytest.raises((ValueError, RuntimeError), match=words):
            models.Llama.from_gguf(path)
    place = good.index(b"llama.block_count") + len(b"llama.block_count") + 4
    for count, words in ((10**9, "asks for more"), (0, "must be a whole number from 1")):
        path.write_bytes(good[:place] + struct.pack("<I", count) + good[place + 4 :])
        with pytest.raises((ValueError, RuntimeError), match=words):
            models.Llama.from_gguf(path)


HEAD = b"GGUF" + struct.pack("<I", 3)


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def entry(name: bytes, dims: list[int], kind: int, offset: int) -> bytes:
    packed = struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
    return text(name) + packed


HOSTILE: dict[str, tuple[bytes, str]] = {
    "short": (b"GGUF", "too short"),
    "other": (b"PK\3\4" + bytes(40), "no GGUF"),
    "old": (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
    "many tensors": (HEAD + struct.pack("<QQ", 1 << 60, 0) + bytes(64), "tensors in"),
    "many entries": (HEAD + struct.pack("<QQ", 0, 1 << 60) + bytes(64), "entries in"),
    "long text": (HEAD + struct.pack("<QQQ", 0, 1, 1 << 62) + bytes(64), "bytes of text"),
    "no text": (HEAD + struct.pack("<QQ", 0, 1) + text(b"\xff\xfe") + bytes(40), "UTF-8"),
    "long array": (
        HEAD + struct.pack("<QQ", 0, 1) + text(b"k") + struct.pack("<IIQ", 9, 4, 1 << 61) + bytes(9),
        "elements in",
    ),
    "deep array": (
        HEAD + struct.pack("<QQ", 0, 1) + text(b"k") + struct.pack("<I", 9)
        + struct.pack("<IQ", 9, 1) * 900,
        "arrays deep",
    ),
    "unknown value": (
        HEAD + struct.pack("<QQ", 0, 1) + text(b"k") + struct.pack("<I", 77) + bytes(30),
        "kind 77",
    ),
    "many dimensions": (HEAD + struct.pack("<QQ", 1, 0) + text(b"w") + struct.pack("<I", 99) + bytes(40), "99 dim"),
    "beyond the file": (HEAD + struct.pack("<QQ", 1, 0) + entry(b"w", [1 << 40], 0, 0), "beyond"),
    "far offset": (HEAD + struct.pack("<QQ", 1, 0) + entry(b"w", [1], 0, 1 << 63), "beyond"),
    "huge product": (HEAD + struct.pack("<QQ", 1, 0) + entry(b"w", [1 << 63] * 4, 0, 0), "beyond"),
    "unknown kind": (HEAD + struct.pack("<QQ", 1, 0) + entry(b"w", [32], 999, 0), "unknown kind"),
    "part of a block": (HEAD + struct.pack("<QQ", 1, 0) + entry(b"w", [33], 8, 0) + bytes(99), "of Q8_0"),
    "twice": (
        HEAD + struct.pack("<QQ", 2, 0) + entry(b"w", [1], 0, 0) * 2 + bytes(64),
        "two tensors",
    ),
    "alignment": (
        HEAD + struct.pack("<QQ", 0, 1) + text(b"general.alignment") + struct.pack("<II", 4, 0),
        "alignment",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_gguf(name: str, tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    data, words = HOSTILE[name]
    path = tmp_path / "a.gguf"
    path.write_bytes(data)
    with pytest.raises((RuntimeError, FileRefusal), match=words):
        read_gguf(path)


def test_truncated_and_changed_gguf(tmp_path: Path) -> None:
    """Any prefix and any changed byte is read or refused, and nothing else."""
    path = tmp_path / "a.gguf"
    write(path, {"w": (np.ones((2, 32), np.float32), "Q8_0")}, {"a": 1, "b": ["x", "y"]})
    data = path.read_bytes()
    random = np.random.default_rng(0)
    changed = [data[:n] for n in range(0, len(data), 7)]
    for _ in range(200):
        copy = bytearray(data)
        copy[int(random.integers(len(data)))] = int(random.integers(256))
        changed.append(bytes(copy))
    for each in changed:
        path.write_bytes(each)
        try:
            for tensor in read_gguf(path).tensors.values():
                tensor.dequantize()
        except (RuntimeError, NotImplementedError):
            pass


# -- GPTQ and AWQ -------------------------------------------------------------------------------------


def packed(numbers: Any, bits: int, axis: int) -> Any:
    """Whole numbers in int32, the lowest bits first, along an axis."""
    moved = np.moveaxis(numbers, axis, -1).astype(np.uint32)
    each = 32 // bits
    parts = moved.reshape(*moved.shape[:-1], -1, each)
    words = (parts << (np.arange(each, dtype=np.uint32) * bits)).sum(-1, dtype=np.uint32)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis)).view(np.int32)


def checkpoint(folder: Path, method: str, bits: int, group: int, ordered: bool) -> Any:
    """A layer as each method writes it, and the real weight (out, in) it stands for."""
    features, out = 64, 16
    numbers = RANDOM.integers(0, 1 << bits, (features, out))
    count = features // (features if group == -1 else group)
    zeros = RANDOM.integers(1, 1 << bits, (count, out))
    scales = RANDOM.uniform(0.01, 0.1, (count, out)).astype(np.float16)
    places = np.arange(features) // (features // count)
    if ordered:
        places = RANDOM.permutation(places)
    real = (numbers - zeros[places]) * scales[places].astype(np.float32)
    if method == "gptq":
        tensors = {
            "qweight": packed(numbers, bits, 0),
            "qzeros": packed(zeros - 1, bits, 1),
            "g_idx": places.astype(np.int32),
        }
    else:
        order = np.array(AWQ_ORDER)

        def mixed(x: Any) -> Any:
            return x.reshape(len(x), -1, 8)[..., order].reshape(x.shape)

        tensors = {"qweight": packed(mixed(numbers), 4, 1), "qzeros": packed(mixed(zeros), 4, 1)}
    tensors["scales"] = scales
    state = {f"0.{key}": ad.tensor(value) for key, value in tensors.items()}
    state |= {"0.bias": ad.arange(16.0), "1.weight": ad.ones(16), "1.bias": ad.zeros(16)}
    ad.io.safetensors.save_file(state, folder / "model.safetensors")
    about = {"bits": bits, "group_size": group, "quant_method": method, "desc_act": ordered}
    (folder / "config.json").write_text(json.dumps({"quantization_config": about}))
    return real.T


@pytest.mark.parametrize(
    ("method", "bits", "group", "ordered"),
    [
        ("gptq", 4, 16, False), ("gptq", 4, 16, True), ("gptq", 8, 32, False),
        ("gptq", 4, -1, False), ("awq", 4, 16, False), ("awq", 4, 64, False),
    ],
)  # fmt: skip
def test_packed_checkpoints(
    method: str, bits: int, group: int, ordered: bool, tmp_path: Path
) -> None:
    real = checkpoint(tmp_path, method, bits, group, ordered)
    model = nn.Sequential(nn.Linear(64, 16), nn.LayerNorm(16))
    load_packed(model, tmp_path)
    assert isinstance(model[0], WeightOnlyLinear)
    x = ad.randn(3, 64)
    want = x.numpy() @ real.T + np.arange(16)
    np.testing.assert_allclose(model[0](x).detach().numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t, c: c.update(bits=3), "are read"),
        (lambda t, c: c.update(quant_method="other"), "are read"),
        (lambda t, c: c.update(group_size="x"), "are read"),
        (lambda t, c: c.update(group_size=24), "damaged"),
        (lambda t, c: t.pop("0.scales"), "damaged"),
        (lambda t, c: t.update({"0.qweight": ad.ones(2, 2)}), "damaged"),
        (lambda t, c: t.update({"0.qweight": t["0.qweight"][:2]}), "damaged|in the model"),
        (lambda t, c: t.update({"0.g_idx": ad.zeros(64, dtype=ad.int32)}), "damaged"),
        (lambda t, c: t.update({"1.qweight": t["0.qweight"]}), "LayerNorm"),
        (lambda t, c: t.update({"4.qweight": t["0.qweight"]}), "no layer '4'"),
        (lambda t, c: t.update({"0.in.qweight": t["0.qweight"]}), "no layer '0.in'"),
        (lambda t, c: t.pop("1.weight"), "1.weight"),  # only the last step finds it
    ],
)
def test_damaged_checkpoints_change_nothing(change: Any, words: str, tmp_path: Path) -> None:
    checkpoint(tmp_path, "gptq", 4, 16, False)
    file = tmp_path / "model.safetensors"
    tensors = ad.io.safetensors.load_file(file)
    about = json.loads((tmp_path / "config.json").read_text())
    change(tensors, about["quantization_config"])
    ad.io.safetensors.save_file(tensors, file)
    (tmp_path / "config.json").write_text(json.dumps(about))
    model = nn.Sequential(nn.Linear(64, 16), nn.LayerNorm(16))
    with pytest.raises((RuntimeError, NotImplementedError), match=words):
        load_packed(model, tmp_path)
    assert type(model[0]) is nn.Linear
