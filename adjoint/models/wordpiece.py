"""WordPiece: BERT's way from text to token numbers and back."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from adjoint.engine.backends.array.interop import tensor
from adjoint.engine.core.availability import libraries
from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import Budget
from adjoint.engine.tensor.tensor import Tensor
from adjoint.models.weights import read_json

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Blocks whose characters are words by themselves: the ranges published with BERT's tokenizers.
IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def is_ideograph(character: str) -> bool:
    """Whether a character lies in one of the CJK blocks."""
    code = ord(character)
    return any(first <= code <= last for first, last in IDEOGRAPHS)


def is_punctuation(character: str) -> bool:
    """Whether a character splits words: Unicode's punctuation, and ASCII's signs such as $ or +."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")


def clean(text: str) -> str:
    """Text without control characters, with every white space a space."""
    characters = []
    for character in text:
        if character in "\t\n\r":
            characters.append(" ")
        elif character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co"):
            continue
        else:
            characters.append(" " if character.isspace() else character)
    return "".join(characters)


def split_words(text: str) -> Iterator[str]:
    """Words between white space; punctuation marks are words of their own."""
    for word in text.split():
        start = 0
        for place, character in enumerate(word):
            if is_punctuation(character):
                if start < place:
                    yield word[start:place]
                yield character
                start = place + 1
        if start < len(word):
            yield word[start:]


class WordPieceTokenizer:
    """Text as numbers of word pieces: the longest known piece first, then on from its end.

    The `tokenizers` library does it where it is installed, with the same result.

    Args:
        vocabulary: the number of each piece; pieces inside a word begin with ##.
        lowercase: whether capitals count as small letters.
        strip_accents: whether é counts as e; as `lowercase` unless given.
        split_ideographs: whether each Chinese character is a word.
        max_word: a longer word is unknown.
        max_length: how many tokens a text is cut to, [CLS] and [SEP] included; None cuts nothing.
        special: tokens that are found in text as they stand; the first five are padding, unknown
            word, beginning, separator and mask.

    Example:
        >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "!"]
        >>> tokenizer = WordPieceTokenizer({piece: i for i, piece in enumerate(pieces)})
        >>> tokenizer.tokenize("Unaffable!")
        ['un', '##aff', '##able', '!']
        >>> batch = tokenizer(["Unaffable!", "un"])
        >>> batch["input_ids"]
        tensor([[2, 5, 6, 7, 8, 3],
                [2, 5, 3, 0, 0, 0]])
        >>> batch["attention_mask"]
        tensor([[1, 1, 1, 1, 1, 1],
                [1, 1, 1, 0, 0, 0]])
    """

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_ideographs: bool = True,
        clean_text: bool = True,
        max_word: int = 100,
        max_length: int | None = 512,
        prefix: str = "##",
        special: Sequence[str] = SPECIAL,
    ) -> None:
        self.vocabulary = dict(vocabulary)
        self.pieces = {number: piece for piece, number in self.vocabulary.items()}
        self.lowercase, self.clean_text = lowercase, clean_text
        self.strip_accents = lowercase if strip_accents is None else strip_accents
        self.split_ideographs, self.max_word = split_ideographs, max_word
        self.max_length, self.prefix = max_length, prefix
        missing = [token for token in special if token not in self.vocabulary]
        if missing or len(special) < len(SPECIAL):
            raise ValueError(
                f"WordPieceTokenizer: the vocabulary of {len(self.vocabulary)} pieces needs the "
                f"special tokens {list(special)}; missing: {missing}"
            )
        self.special = tuple(special)
        self.pad, self.unknown, self.begin, self.separator, self.mask = (
            self.vocabulary[token] for token in special[: len(SPECIAL)]
        )
        # The longest first, so that no token hides one it begins.
        tokens = sorted(map(re.escape, special), key=len, reverse=True)
        self._special = re.compile(f"({'|'.join(tokens)})")
        self._known: dict[str, list[int]] = {}
        self._library = self._by_library()

    @classmethod
    def from_pretrained(cls, source: str | os.PathLike[str]) -> WordPieceTokenizer:
        """The tokenizer in a model's folder, a `tokenizer.json` or a `vocab.txt`."""
        path = Path(source)
        for name in ("tokenizer.json", "vocab.txt"):
            if path.is_dir() and (path / name).is_file():
                path = path / name
        if path.is_dir():
            raise FileNotFoundError(
                f"WordPieceTokenizer: {path} has neither tokenizer.json nor vocab.txt"
            )
        settings = path.parent / "tokenizer_config.json"
        about = read_json(settings) if settings.is_file() else {}
        longest = about.get("model_max_length")
        options: dict[str, Any] = {}
        if longest is not None:
            if not isinstance(longest, (int, float)) or not longest > 0:
                raise FileError(
                    f"WordPieceTokenizer: {settings}: damaged: model_max_length is no length"
                )
            # Written as a huge number where there is no bound.
            options["max_length"] = int(longest) if longest < 1 << 31 else None
        if path.suffix == ".json":
            return cls(**_described(path), **options)
        for theirs, ours in _SETTINGS.items():
            if about.get(theirs) is not None:
                options[ours] = about[theirs]
        return cls(_listed(path), **options)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def normalise(self, text: str) -> str:
        """Text as the vocabulary spells it: cleaned, small, without accents."""
        if self.clean_text:
            text = clean(text)
        if self.split_ideographs:
            text = "".join(f" {c} " if is_ideograph(c) else c for c in text)
        if self.strip_accents:
            parts = unicodedata.normalize("NFD", text)
            text = "".join(c for c in parts if unicodedata.category(c) != "Mn")
        if self.lowercase:
            # Each by itself: a sigma at a word's end stays the sigma the vocabulary has.
            text = "".join(map(str.lower, text))
        return text

    def _split(self, word: str) -> list[int]:
        """A word's pieces; the unknown token if it cannot be put together."""
        known = self._known.get(word)
        if known is not None:
            return known
        out: list[int] = []
        start, length = 0, len(word)
        while start < length <= self.max_word:
            lead = self.prefix if start else ""
            for end in range(length, start, -1):
                number = self.vocabulary.get(lead + word[start:end])
                if number is not None:
                    out.append(number)
                    start = end
                    break
            else:
                break
        pieces = out if start == length else [self.unknown]
        if len(self._known) < 1 << 16:  # a text repeats its words
            self._known[word] = pieces
        return pieces

    def _by_library(self) -> Any:
        """The same tokenizer of the `tokenizers` library, or None where that is not installed."""
        library = libraries.find("tokenizers")
        if library is None:
            return None
        tokenizer = library.Tokenizer(
            library.models.WordPiece(
                self.vocabulary,
                unk_token=self.special[1],
                continuing_subword_prefix=self.prefix,
                max_input_chars_per_word=self.max_word,
            )
        )
        tokenizer.normalizer = library.normalizers.BertNormalizer(
            clean_text=self.clean_text,
            handle_chinese_chars=self.split_ideographs,
            strip_accents=self.strip_accents,
            lowercase=self.lowercase,
        )
        tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
        tokenizer.add_special_tokens(list(self.special))
        return tokenizer

    def numbers(self, text: str) -> list[int]:
        """The numbers of a text's pieces, without [CLS] and [SEP]."""
        if self._library is None or any("\ud800" <= c <= "\udfff" for c in text):
            return self.plain_numbers(text)  # half a character cannot be handed over
        return list(self._library.encode(text, add_special_tokens=False).ids)

    def plain_numbers(self, text: str) -> list[int]:
        """The same without the library."""
        out: list[int] = []
        for place, part in enumerate(self._special.split(text)):
            if place % 2:  # what the pattern matched
                out.append(self.vocabulary[part])
                continue
            for word in split_words(self.normalise(part)):
                out += self._split(word)
        return out

    def tokenize(self, text: str) -> list[str]:
        """A text's pieces, without [CLS] and [SEP]."""
        return [self.pieces[number] for number in self.numbers(text)]

    def encode(
        self, text: str, pair: str | None = None, max_length: int | None = None
    ) -> tuple[list[int], list[int]]:
        """Token numbers with [CLS] and [SEP], and segments: 1 for the second text.

        Args:
            text, pair: one text or two; of two, the longer is cut first.
            max_length: how many tokens at most; the tokenizer's own bound unless given.
        """
        first = self.numbers(text)
        second = None if pair is None else self.numbers(pair)
        bound = self.max_length if max_length is None else max_length
        if bound is not None:
            room = bound - (2 if second is None else 3)
            if room < 0:
                raise ValueError(
                    f"encode: max_length {bound} leaves no room beside [CLS] and [SEP]"
                )
            room_first, other = _shares(len(first), 0 if second is None else len(second), room)
            first, second = first[:room_first], None if second is None else second[:other]
        tokens = [self.begin, *first, self.separator]
        if second is None:
            return tokens, [0] * len(tokens)
        tail = [*second, self.separator]
        return tokens + tail, [0] * len(tokens) + [1] * len(tail)

    def __call__(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        *,
        padding: bool | str = True,
        max_length: int | None = None,
    ) -> dict[str, Tensor]:
        """A batch: `input_ids`, `token_type_ids` and `attention_mask`, each (B, T).

        Args:
            texts, pairs: a text or several, each with a second one or none.
            padding: to the longest of the batch, or to "max_length".
            max_length: how many tokens at most; the tokenizer's own bound unless given.
        """
        if isinstance(texts, str):
            texts, pairs = [texts], [pairs] if isinstance(pairs, str) else pairs
        seconds = [None] * len(texts) if pairs is None else list(pairs)
        if len(seconds) != len(texts):
            raise ValueError(f"tokenizer: {len(texts)} texts, but {len(seconds)} second texts")
        rows = [self.encode(a, b, max_length) for a, b in zip(texts, seconds, strict=True)]
        longest = max((len(tokens) for tokens, _ in rows), default=0)
        if padding == "max_length":
            longest = (self.max_length if max_length is None else max_length) or longest
        elif padding is not True and any(len(tokens) != longest for tokens, _ in rows):
            raise ValueError("tokenizer: texts of different lengths need padding=True")

        def filled(fill: int, row: Callable[[tuple[list[int], list[int]]], list[int]]) -> Tensor:
            listed = [row(entry) for entry in rows]
            return tensor([r + [fill] * (longest - len(r)) for r in listed]).long()

        return {
            "input_ids": filled(self.pad, lambda entry: entry[0]),
            "token_type_ids": filled(0, lambda entry: entry[1]),
            "attention_mask": filled(0, lambda entry: [1] * len(entry[0])),
        }

    def decode(self, numbers: Tensor | Sequence[int], skip_special: bool = True) -> str:
        """The text of token numbers, words joined again; spaces are those between words."""
        listed = numbers.tolist() if isinstance(numbers, Tensor) else list(numbers)
        words: list[str] = []
        for piece in (self.pieces[number] for number in listed):
            if skip_special and piece in self.special:
                continue
            if piece.startswith(self.prefix) and words:
                words[-1] += piece[len(self.prefix) :]
            else:
                words.append(piece)
        return " ".join(words)


_SETTINGS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "split_ideographs",
}


def _shares(first: int, second: int, room: int) -> tuple[int, int]:
    """How much of two texts fits: the longer is cut down to the shorter, then both."""
    short = min(first, second)
    long = max(short, room - short)
    if short + long > room:
        short, long = room // 2, room - room // 2
    return (short, long) if first <= second else (long, short)


# What the settings of a tokenizer.json may be.
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("lowercase", "split_ideographs", "clean_text"), (bool,)),
    "strip_accents": (bool, type(None)),
    "max_word": (int,),
    "prefix": (str,),
}


def _listed(path: Path) -> dict[str, int]:
    """The pieces of a vocab.txt, one in a line."""
    data = path.read_bytes()
    budget = Budget(len(data), f"WordPieceTokenizer: {path}")
    budget.spend(6 * len(data) + 256 * data.count(b"\n"), "its pieces")
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise FileError(f"{budget.what}: damaged, or no text: {error}") from error
    pieces = [line.rstrip("\r") for line in (lines if lines[-1] else lines[:-1])]
    return {piece: number for number, piece in enumerate(pieces)}


def _described(path: Path) -> dict[str, Any]:
    """What a tokenizer.json says, as arguments; anything but BERT's scheme is refused."""
    about = read_json(path)
    try:
        arguments = _arguments(about, path)
        numbers = arguments["vocabulary"].values()
        if not all(type(number) is int and 0 <= number < 1 << 31 for number in numbers):
            raise TypeError("a piece without a number")
        for name, kinds in _KINDS.items():
            if type(arguments[name]) not in kinds:
                raise TypeError(f"{name} is a {type(arguments[name]).__name__}")
        if not 0 <= arguments["max_word"] < 1 << 31:
            raise TypeError(f"words of up to {str(arguments['max_word'])[:20]} characters")
        if not all(isinstance(token, str) and token for token in arguments["special"]):
            raise TypeError("a special token that is no text")
    except (KeyError, TypeError, AttributeError) as error:
        raise FileError(
            f"WordPieceTokenizer: {path} is damaged, or describes no tokenizer "
            f"({type(error).__name__}: {str(error)[:200]})"
        ) from error
    return arguments


def _arguments(about: dict[str, Any], path: Path) -> dict[str, Any]:
    model, normaliser = about["model"], about.get("normalizer") or {}
    described = {
        "model": model.get("type", "WordPiece"),
        "normalizer": normaliser.get("type"),
        "pre_tokenizer": (about.get("pre_tokenizer") or {}).get("type"),
    }
    wanted = {
        "model": "WordPiece",
        "normalizer": "BertNormalizer",
        "pre_tokenizer": "BertPreTokenizer",
    }
    if described != wanted:
        raise ValueError(
            f"WordPieceTokenizer: {path} describes {str(described)[:400]}, which is not {wanted}"
        )
    added = about.get("added_tokens", [])
    odd = [t["content"] for t in added if t["lstrip"] or t["rstrip"] or t["single_word"]]
    if odd:
        raise ValueError(f"WordPieceTokenizer: {path}: tokens {odd} take in their surroundings")
    extra = [t["content"] for t in added if t["content"] not in SPECIAL]
    return {
        "vocabulary": {**model["vocab"], **{t["content"]: t["id"] for t in added}},
        "lowercase": normaliser["lowercase"],
        "strip_accents": normaliser["strip_accents"],
        "split_ideographs": normaliser["handle_chinese_chars"],
        "clean_text": normaliser["clean_text"],
        "max_word": model["max_input_chars_per_word"],
        "prefix": model["continuing_subword_prefix"],
        "special": (*SPECIAL, *extra),
    }
