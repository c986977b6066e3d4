"""Checkpoints as published: names, shapes, sizes, and files that load into our models."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import models
from adjoint.engine.core.state.context import CONTEXT
from adjoint.models import bert, gpt2, llama
from tests import published_names as names

BASIC, DEEP = False, True


# model, its published names, how many entries the file has, how many parameters are published
TABLE: dict[str, tuple[Callable[[], Any], Callable[[], names.Entries], int, int]] = {
    "resnet18": (models.resnet18, lambda: names.resnet((2, 2, 2, 2), BASIC), 122, 11_689_512),
    "resnet34": (models.resnet34, lambda: names.resnet((3, 4, 6, 3), BASIC), 218, 21_797_672),
    "resnet50": (models.resnet50, lambda: names.resnet((3, 4, 6, 3), DEEP), 320, 25_557_032),
    "resnet101": (models.resnet101, lambda: names.resnet((3, 4, 23, 3), DEEP), 626, 44_549_160),
    "resnet152": (models.resnet152, lambda: names.resnet((3, 8, 36, 3), DEEP), 932, 60_192_808),
    "vgg11": (models.vgg11, lambda: names.vgg(11, False), 22, 132_863_336),
    "vgg13": (models.vgg13, lambda: names.vgg(13, False), 26, 133_047_848),
    "vgg16": (models.vgg16, lambda: names.vgg(16, False), 32, 138_357_544),
    "vgg19": (models.vgg19, lambda: names.vgg(19, False), 38, 143_667_240),
    "vgg11_bn": (models.vgg11_bn, lambda: names.vgg(11, True), 62, 132_868_840),
    "vgg13_bn": (models.vgg13_bn, lambda: names.vgg(13, True), 76, 133_053_736),
    "vgg16_bn": (models.vgg16_bn, lambda: names.vgg(16, True), 97, 138_365_992),
    "vgg19_bn": (models.vgg19_bn, lambda: names.vgg(19, True), 118, 143_678_248),
    "mobilenet_v2": (models.mobilenet_v2, names.mobilenet_v2, 314, 3_504_872),
    "vit_b_16": (models.vit_b_16, lambda: names.vit(12, 768, 16), 152, 86_567_656),
    "vit_b_32": (models.vit_b_32, lambda: names.vit(12, 768, 32), 152, 88_224_232),
    "vit_l_16": (models.vit_l_16, lambda: names.vit(24, 1024, 16), 296, 304_326_632),
    "vit_l_32": (models.vit_l_32, lambda: names.vit(24, 1024, 32), 296, 306_535_400),
    "gpt2": (models.GPT2, lambda: names.gpt2(12, 768), 149, 124_439_808),
    "gpt2-medium": (
        lambda: models.GPT2(gpt2.SIZES["medium"]), lambda: names.gpt2(24, 1024), 293, 354_823_168,
    ),
    "gpt2-large": (
        lambda: models.GPT2(gpt2.SIZES["large"]), lambda: names.gpt2(36, 1280), 437, 774_030_080,
    ),
    "bert-base-uncased": (models.Bert, lambda: names.bert(12, 768), 199, 109_482_240),
    "bert-large-uncased": (
        lambda: models.Bert(bert.SIZES["large"]), lambda: names.bert(24, 1024), 391, 335_141_888,
    ),
    "bert-base-cased": (
        lambda: models.Bert(models.BertConfig(28996)), lambda: names.bert(12, 768, 28996), 199, 108_310_272,
    ),
    "bert-tiny": (lambda: models.Bert(bert.SIZES["tiny"]), lambda: names.bert(2, 128), 39, 4_385_920),
    "bert-mini": (lambda: models.Bert(bert.SIZES["mini"]), lambda: names.bert(4, 256), 71, 11_170_560),
    "bert-small": (lambda: models.Bert(bert.SIZES["small"]), lambda: names.bert(4, 512), 71, 28_763_648),
    "bert-medium": (lambda: models.Bert(bert.SIZES["medium"]), lambda: names.bert(8, 512), 135, 41_373_184),
    "all-MiniLM-L6-v2": (models.minilm_l6, lambda: names.bert(6, 384), 103, 22_713_216),
    "all-MiniLM-L12-v2": (
        lambda: models.Bert(bert.SIZES["minilm_l12"]), lambda: names.bert(12, 384), 199, 33_360_000,
    ),
}  # fmt: skip


def unfilled(make: Callable[[], Any]) -> Any:
    """A model whose weights are only allocated."""
    with CONTEXT.having(initialise=False):
        return make()


@pytest.mark.parametrize("name", TABLE)
def test_names_shapes_and_sizes(name: str) -> None:
    make, listed, entries, parameters = TABLE[name]
    model = unfilled(make)
    published = dict(listed())
    ours = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    assert list(ours.items()) == list(published.items())
    assert len(ours) == entries
    assert sum(p.numel() for p in model.parameters()) == parameters


# Llama's files, by the numbers of their model cards.
LLAMA = {
    "7b": 6_738_415_616,
    "13b": 13_015_864_320,
    "33b": 32_528_943_616,
    "65b": 65_285_660_672,
    "2-70b": 68_976_648_192,
    "3-8b": 8_030_261_248,
    "3-70b": 70_553_706_496,
    "3.2-1b": 1_235_814_400,
    "3.2-3b": 3_212_749_824,
}


@pytest.mark.parametrize("size", LLAMA)
def test_llama_sizes(size: str) -> None:
    config = llama.SIZES[size]
    assert config.parameters() == LLAMA[size]
    shared = config.num_key_value_heads * config.head_dim
    widths = (config.hidden_size, config.intermediate_size, shared, config.vocab_size)
    listed = dict(names.llama(config.num_hidden_layers, *widths))
    if config.tie_word_embeddings:
        del listed["lm_head.weight"]
    assert sum(map(prod, listed.values())) == LLAMA[size]
    # Two layers of the real width: as many as a test can allocate.
    model = unfilled(lambda: models.Llama(replace(config, num_hidden_layers=2)))
    ours = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    assert list(ours.items()) == list(names.llama(2, *widths))
    assert sum(p.numel() for p in model.parameters()) == model.config.parameters()


def test_gpt2_xl_size() -> None:
    config = gpt2.SIZES["xl"]

    def count(layers: int) -> int:
        model = unfilled(lambda: models.GPT2(replace(config, n_layer=layers)))
        return sum(p.numel() for p in model.parameters())

    assert count(1) + (config.n_layer - 1) * (count(2) - count(1)) == 1_557_611_200


def checkpoint(listed: names.Entries, seed: int = 0) -> dict[str, Any]:
    """Tensors of these names and shapes."""
    rng = np.random.default_rng(seed)
    return {
        name: ad.tensor(3) if name.endswith("tracked") else
        ad.from_numpy(np.asarray(rng.normal(size=shape) * 0.2, np.float32))
        for name, shape in listed
    }  # fmt: skip


def folder_of(
    path: Path, config: dict[str, Any] | None, weights: dict[str, Any], file: str
) -> Path:
    path.mkdir(exist_ok=True)
    if config is not None:
        (path / "config.json").write_text(json.dumps(config))
    ad.save(weights, path / file)
    return path


def test_vision_files_load(tmp_path: Path) -> None:
    weights = checkpoint(names.resnet((2, 2, 2, 2), BASIC))
    for file in ("resnet18.pth", "resnet18.safetensors"):
        ad.save(weights, tmp_path / file)
        model = unfilled(models.resnet18)
        assert not any(model.load_state_dict(ad.load(tmp_path / file)))
        assert ad.equal(model.layer3[1].bn2.running_var, weights["layer3.1.bn2.running_var"])
    # Files from before PyTorch 0.4.1 do not count batches.
    early = {k: v for k, v in weights.items() if not k.endswith("tracked")}
    assert not any(unfilled(models.resnet18).load_state_dict(early))
    early["head.bias"] = early.pop("fc.bias")
    with pytest.raises(RuntimeError, match=r'Missing.*"fc\.bias".*\n.*Unexpected.*"head\.bias"'):
        models.resnet18().load_state_dict(early)


def test_vit_files_of_either_version_load() -> None:
    listed = dict(names.vit(12, 768, 32))
    old = checkpoint(iter(dict(names.vit(12, 768, 32, old=True)).items()))
    model = unfilled(models.vit_b_32)
    assert not any(model.load_state_dict(old))
    given = old["encoder.layers.encoder_layer_11.mlp.linear_2.weight"]
    assert ad.equal(model.state_dict()["encoder.layers.encoder_layer_11.mlp.3.weight"], given)
    assert set(model.state_dict()) == set(listed)


GPT = {
    "n_layer": 2,
    "n_embd": 16,
    "n_head": 2,
    "vocab_size": 19,
    "n_positions": 12,
    "n_inner": None,
}


def gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q: Any, k: Any, v: Any) -> Any:
    """One causal head, (T, d) each."""
    scores = q @ k.T / np.sqrt(q.shape[-1])
    return softmax(np.where(np.tri(len(q), dtype=bool), scores, -np.inf)) @ v


def numpy_gpt2(w: dict[str, Any], tokens: list[int], heads: int) -> Any:
    """GPT-2 by its paper, from the published file's names."""
    w = {k: v.numpy().astype(np.float64) for k, v in w.items()}

    def norm(x: Any, at: str) -> Any:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * w[f"{at}.weight"] + w[f"{at}.bias"]

    def dense(x: Any, at: str) -> Any:
        return x @ w[f"{at}.weight"] + w[f"{at}.bias"]

    x = w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)]
    for i in range(GPT["n_layer"]):  # type: ignore[arg-type]
        q, k, v = np.split(dense(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), 3, -1)
        split = [np.split(each, heads, -1) for each in (q, k, v)]
        y = np.concatenate([attend(*each) for each in zip(*split, strict=True)], -1)
        x = x + dense(y, f"h.{i}.attn.c_proj")
        y = gelu_tanh(dense(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"))
        x = x + dense(y, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_gpt2_from_its_published_layout(tmp_path: Path, file: str) -> None:
    weights = checkpoint(names.gpt2(2, 16, 19, 12, file=True))
    model = models.GPT2.from_pretrained(folder_of(tmp_path, GPT, weights, file))
    assert not model.training
    tokens = [3, 1, 4, 1, 5, 9, 2, 6]
    want = numpy_gpt2(weights, tokens, 2)
    np.testing.assert_allclose(model(ad.tensor([tokens])).detach()[0].numpy(), want, atol=2e-5)
    # The whole model's names, and its own state dict, are as good.
    assert model.lm_head.weight is model.transformer["wte"].weight
    inside = {f"transformer.{k}": v for k, v in weights.items()}
    again = models.GPT2(model.config)
    assert not any(again.load_state_dict(inside))
    assert not any(again.load_state_dict(model.state_dict()))
    with pytest.raises(ValueError, match="activation_function must be 'gelu_new'"):
        models.GPT2Config.from_dict({"activation_function": "relu"})


LLAMA_TINY = {
    "vocab_size": 19, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 100.0,
}  # fmt: skip


def numpy_llama(w: dict[str, Any], tokens: list[int]) -> Any:
    """Llama as its authors' code has it: neighbours of a head are turned as complex numbers."""
    w = {k: v.numpy().astype(np.float64) for k, v in w.items()}
    heads, shared, size = 4, 2, 4
    angles = np.outer(np.arange(len(tokens)), 100.0 ** (-np.arange(0, size, 2) / size))

    def norm(x: Any, at: str) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[f"{at}.weight"]

    def turned(x: Any) -> Any:  # (T, size)
        z = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
        return np.stack([z.real, z.imag], -1).reshape(x.shape)

    x = w["tok_embeddings.weight"][tokens]
    for i in range(2):
        at, y = f"layers.{i}", norm(x, f"layers.{i}.attention_norm")
        q, k, v = (y @ w[f"{at}.attention.w{p}.weight"].T for p in "qkv")
        out = []
        for head in range(heads):
            own, kept = (
                np.arange(size) + head * size,
                np.arange(size) + head * shared // heads * size,
            )
            out.append(attend(turned(q[:, own]), turned(k[:, kept]), v[:, kept]))
        x = x + np.concatenate(out, -1) @ w[f"{at}.attention.wo.weight"].T
        y = norm(x, f"{at}.ffn_norm")
        gate, up = (y @ w[f"{at}.feed_forward.w{n}.weight"].T for n in (1, 3))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"{at}.feed_forward.w2.weight"].T
    return norm(x, "norm") @ w["output.weight"].T


def test_llama_from_both_layouts(tmp_path: Path) -> None:
    weights = checkpoint(names.llama_original(2, 16, 24, 8, 19))
    path = folder_of(tmp_path / "authors", None, weights, "consolidated.00.pth")
    params = {
        "dim": 16,
        "n_layers": 2,
        "n_heads": 4,
        "n_kv_heads": 2,
        "norm_eps": 1e-5,
        "rope_theta": 100.0,
    }
    (path / "params.json").write_text(json.dumps(params))
    model = models.Llama.from_pretrained(path)
    tokens = [3, 1, 4, 1, 5, 9, 2, 6]
    got = model(ad.tensor([tokens])).detach()[0].numpy()
    np.testing.assert_allclose(got, numpy_llama(weights, tokens), atol=2e-5)
    # The same model as Hugging Face lays it out, whole and in pieces, with old tables.
    state = dict(model.state_dict())
    assert {k: tuple(v.shape) for k, v in state.items()} == dict(names.llama(2, 16, 24, 8, 19))
    state["model.layers.0.self_attn.rotary_emb.inv_freq"] = ad.ones(2)
    whole = models.Llama.from_pretrained(
        folder_of(tmp_path / "whole", LLAMA_TINY, state, "model.safetensors")
    )
    np.testing.assert_array_equal(whole(ad.tensor([tokens])).detach()[0].numpy(), got)
    listed = sorted(state)
    pieces = {"a.safetensors": listed[:7], "b.safetensors": listed[7:]}
    for file, part in pieces.items():
        folder_of(tmp_path / "pieces", LLAMA_TINY, {k: state[k] for k in part}, file)
    index = {"weight_map": {k: file for file, part in pieces.items() for k in part}}
    (tmp_path / "pieces" / "model.safetensors.index.json").write_text(json.dumps(index))
    again = models.Llama.from_pretrained(tmp_path / "pieces")
    np.testing.assert_array_equal(again(ad.tensor([tokens])).detach()[0].numpy(), got)
    bare = {k.removeprefix("model."): v for k, v in state.items() if k != "lm_head.weight"}
    result = whole.load_state_dict(bare, strict=False)
    assert (result.missing_keys, result.unexpected_keys) == (["lm_head.weight"], [])


def test_weights_may_be_narrow(tmp_path: Path) -> None:
    state = {k: v.bfloat16() for k, v in checkpoint(names.llama(2, 16, 24, 8, 19)).items()}
    path = folder_of(tmp_path, LLAMA_TINY, state, "model.safetensors")
    wide, narrow = (
        models.Llama.from_pretrained(path),
        models.Llama.from_pretrained(path, ad.bfloat16),
    )
    assert {p.dtype for p in wide.parameters()} == {ad.float32}
    assert {p.dtype for p in narrow.parameters()} == {ad.bfloat16}
    assert ad.get_default_dtype() is ad.float32
    for name, value in narrow.state_dict().items():
        assert ad.equal(value, state[name])
        assert ad.equal(wide.state_dict()[name], state[name].float())
    tokens = ad.tensor([[3, 1, 4, 1, 5]])
    difference = (wide(tokens) - narrow(tokens).float()).abs().max() / wide(tokens).abs().max()
    assert difference < 0.05
    drawn = narrow.generate(tokens, 4, temperature=0)
    assert drawn.shape == (1, 9)


def test_llama_ties_and_scales(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }  # fmt: skip
    about = {**LLAMA_TINY, "tie_word_embeddings": True, "rope_scaling": scaling, "head_dim": 4}
    listed = {k: v for k, v in names.llama(2, 16, 24, 8, 19) if k != "lm_head.weight"}
    path = folder_of(tmp_path, about, checkpoint(iter(listed.items())), "model.safetensors")
    model = models.Llama.from_pretrained(path)
    assert model.lm_head.weight is model.model["embed_tokens"].weight
    # Published: kept below a wavelength, divided above another, in between by the share of rounds.
    for length, ratio in ((10.0, 1.0), (16.0, 1.0), (65.0, 1 / 32), (32.0, 1 / 3 + 2 / 3 / 32)):
        frequency = ad.tensor([2 * np.pi / length], dtype=ad.float64)
        assert model.config.rope_scaling is not None
        got = model.config.rope_scaling(frequency) / frequency
        assert abs(got.item() - ratio) < 1e-9
    for wrong, told in (({"type": "yarn"}, "yarn"), ({"rope_type": "dynamic"}, "dynamic")):
        with pytest.raises(ValueError, match=told):
            models.LlamaConfig.from_dict({**LLAMA_TINY, "rope_scaling": wrong})
    with pytest.raises(ValueError, match="attention_bias must be False"):
        models.LlamaConfig.from_dict({**LLAMA_TINY, "attention_bias": True})


BERT = {
    "vocab_size": 19, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 64, "max_position_embeddings": 12, "hidden_dropout_prob": 0.0,
}  # fmt: skip


def test_bert_inside_another_model(tmp_path: Path) -> None:
    weights = checkpoint(names.bert(2, 16, 19, 12, lead="bert."))
    plain = models.Bert(models.BertConfig.from_dict(BERT))
    assert not any(plain.load_state_dict(weights))
    # As the first published files: TensorFlow's names, numbered places, a head, no pooler.
    early = {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): v
        for k, v in weights.items()
        if "pooler" not in k
    }
    early["bert.embeddings.position_ids"] = ad.arange(12).view(1, 12)
    early["cls.predictions.bias"] = ad.zeros(19)
    path = folder_of(tmp_path, BERT, early, "pytorch_model.bin")
    with pytest.warns(UserWarning, match=r"Bert: not used of the weights: cls\.predictions\.bias"):
        found = models.Bert.from_pretrained(path)
    assert not hasattr(found, "pooler")
    tokens = ad.tensor([[3, 1, 4, 1]])
    assert ad.equal(found(tokens), plain.eval()(tokens))
    del early["bert.encoder.layer.1.output.dense.bias"]
    folder_of(tmp_path, BERT, early, "pytorch_model.bin")
    with pytest.raises(RuntimeError, match=r"lack 1 keys: encoder\.layer\.1\.output\.dense\.bias"):
        models.Bert.from_pretrained(path)


CIFAR = {
    "in_channels": 3, "block_out_channels": [32, 64, 64, 64], "layers_per_block": 2,
    "down_block_types": ["DownBlock2D", "AttnDownBlock2D", "DownBlock2D", "DownBlock2D"],
    "act_fn": "silu", "attention_head_dim": None, "norm_eps": 1e-06, "norm_num_groups": 32,
}  # fmt: skip


def test_ddpm_from_its_published_layout(tmp_path: Path) -> None:
    published = dict(names.ddpm())
    model = unfilled(models.DiffusionUNet)
    assert {k: tuple(v.shape) for k, v in model.state_dict().items()} == published
    assert sum(map(prod, published.values())) == 35_746_307
    weights = checkpoint(names.ddpm(32, old=True))
    path = folder_of(tmp_path, CIFAR, weights, "diffusion_pytorch_model.bin")
    small = models.DiffusionUNet.from_pretrained(path)
    given = weights["up_blocks.2.attentions.1.proj_attn.weight"]
    assert ad.equal(small.state_dict()["up_blocks.2.attentions.1.to_out.0.weight"], given)
    assert small(ad.zeros(1, 3, 16, 16), ad.tensor([5])).shape == (1, 3, 16, 16)
    (path / "config.json").write_text(json.dumps({**CIFAR, "act_fn": "mish"}))
    with pytest.raises(ValueError, match="act_fn must be 'silu', received 'mish'"):
        models.DiffusionUNet.from_pretrained(path)


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none of model\.safetensors"):
        models.read_weights(tmp_path)
    ad.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(RuntimeError, match="no state dict but a list"):
        models.read_weights(tmp_path / "list.pt")
    ad.save({"w": ad.ones(1), "epoch": 3}, tmp_path / "mixed.pt")
    with pytest.raises(RuntimeError, match=r"\['epoch'\] are not tensors"):
        models.read_weights(tmp_path / "mixed.pt")
    ad.save({"state_dict": {"w": ad.ones(1)}, "epoch": 3}, tmp_path / "lightning.ckpt")
    assert list(models.read_weights(tmp_path / "lightning.ckpt")) == ["w"]
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(RuntimeError, match="not an object"):
        models.Bert.from_pretrained(tmp_path)
