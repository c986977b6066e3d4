"""WordPiece: words, pieces, cutting, padding, and the files that describe a tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adjoint.models import Bert, BertConfig, SentenceEncoder, WordPieceTokenizer
from adjoint.models.wordpiece import SPECIAL, split_words

PIECES = [
    *SPECIAL, "un", "##aff", "##able", "the", "cafe", "naive", ",", "!", "$", "5", "北", "京", "a",
    "##a", "##b", "b", "σ", "##σ", "-", "’", "don", "t", "'", "i", "é", "The",
]  # fmt: skip
VOCABULARY = {piece: i for i, piece in enumerate(PIECES)}


def tokenizer(**options: Any) -> WordPieceTokenizer:
    return WordPieceTokenizer(VOCABULARY, **options)


CASES = {
    "unaffable": ["un", "##aff", "##able"],
    "The CAFÉ": ["the", "cafe"],
    "nai\u0308ve": ["naive"],
    "don't!": ["don", "'", "t", "!"],
    "$5, the": ["$", "5", ",", "the"],
    "a北京b": ["a", "北", "京", "b"],
    "aab": ["a", "##a", "##b"],
    "aac b": ["[UNK]", "b"],  # no piece of it is kept
    "\u200ba\x07\tb\u00a0a\ufffd": ["a", "b", "a"],
    "a-b’a": ["a", "-", "b", "’", "a"],
    "ΣΣ": ["σ", "##σ"],
    "İ": ["i"],
    "a [MASK]b [mask]": ["a", "[MASK]", "b", "[UNK]", "[UNK]", "[UNK]"],
    " \n ": [],
    "\U0001f600": ["[UNK]"],
    "\u0378": ["[UNK]"],  # of no category: kept, and unknown
}


@pytest.mark.parametrize("text", CASES)
def test_pieces(text: str) -> None:
    assert tokenizer().tokenize(text) == CASES[text]


def test_options() -> None:
    assert tokenizer(lowercase=False).tokenize("The é") == ["The", "é"]
    assert tokenizer(strip_accents=False).tokenize("The É") == ["the", "é"]
    assert tokenizer(split_ideographs=False).tokenize("北京") == ["[UNK]"]
    assert tokenizer(max_word=3).tokenize("aaa aaaa") == ["a", "##a", "##a", "[UNK]"]
    assert tokenizer().tokenize("a" * 100) == ["a", *["##a"] * 99]
    assert tokenizer().tokenize("a" * 101) == ["[UNK]"]
    assert list(split_words("...a+")) == [".", ".", ".", "a", "+"]


def test_cutting_and_pairs() -> None:
    t = tokenizer()
    a, b = VOCABULARY["a"], VOCABULARY["b"]
    assert t.encode("a a a a", max_length=4)[0] == [2, a, a, 3]
    assert t.encode("a", "b b") == ([2, a, 3, b, b, 3], [0, 0, 0, 1, 1, 1])
    # (lengths, bound) -> what is kept: the longer is cut down to the shorter, then both
    for first, second, bound, kept in [
        (6, 2, 9, (4, 2)), (2, 6, 9, (2, 4)), (6, 6, 9, (3, 3)), (6, 6, 10, (3, 4)), (7, 6, 10, (4, 3)),
        (1, 9, 4, (0, 1)), (3, 3, 9, (3, 3)),
    ]:  # fmt: skip
        tokens, segments = t.encode("a " * first, "b " * second, bound)
        assert (tokens.count(a), tokens.count(b)) == kept
        assert len(tokens) == len(segments) <= bound
        assert sum(segments) == kept[1] + 1
    with pytest.raises(ValueError, match="no room"):
        t.encode("a", max_length=1)


def test_batches() -> None:
    t = tokenizer(max_length=8)
    batch = t(["a b", "a", ""])
    assert batch["input_ids"].tolist() == [[2, 17, 20, 3], [2, 17, 3, 0], [2, 3, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]]
    assert batch["token_type_ids"].sum() == 0
    assert batch["input_ids"].dtype is batch["attention_mask"].dtype
    assert t(["a"], padding="max_length")["input_ids"].shape == (1, 8)
    assert t("a", "b")["token_type_ids"].tolist() == [[0, 0, 0, 1, 1]]
    assert t(["a", "a"], padding=False)["input_ids"].shape == (2, 3)
    with pytest.raises(ValueError, match="padding=True"):
        t(["a", "a b"], padding=False)
    with pytest.raises(ValueError, match="2 texts, but 1"):
        t(["a", "b"], ["a"])
    assert t.decode(t("Unaffable, the!")["input_ids"][0]) == "unaffable , the !"


def described(**changes: Any) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    about: dict[str, Any] = {
        "added_tokens": [{"id": i, "content": t, **flags} for i, t in enumerate(SPECIAL)],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {
            "type": "WordPiece",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": VOCABULARY,
        },
    }
    return {**about, **changes}


def test_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="neither"):
        WordPieceTokenizer.from_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    settings = {"do_lower_case": False, "model_max_length": 10**30, "strip_accents": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    lines = WordPieceTokenizer.from_pretrained(tmp_path)
    assert lines.vocabulary == VOCABULARY
    assert lines.max_length is None
    assert lines.tokenize("The é") == ["The", "é"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(described()))
    both = WordPieceTokenizer.from_pretrained(tmp_path)
    assert both.tokenize("The café [SEP]") == ["the", "cafe", "[SEP]"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(described(pre_tokenizer=None)))
    with pytest.raises(ValueError, match="BertPreTokenizer"):
        WordPieceTokenizer.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"missing: \['\[PAD\]'"):
        WordPieceTokenizer({"a": 0})


def test_sentences_keep_their_order() -> None:
    encoder = SentenceEncoder(Bert(BertConfig(len(PIECES), 16, 2, 2, 32, 16)), tokenizer()).eval()
    texts = ["a b a b a b", "a", "the cafe", "un a", "don't the!"]
    together = encoder.encode(texts, batch_size=2)
    for text, vector in zip(texts, together, strict=True):
        assert (encoder.encode(text) - vector).abs().max() < 1e-5
    assert encoder.encode([]).shape == (0, 16)
    assert encoder.encode("a " * 100).shape == (16,)  # cut to the model's places
