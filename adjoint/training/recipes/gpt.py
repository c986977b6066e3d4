"""A small GPT that learns to write, from a text file of yours or from Shakespeare."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.data import Sampler, Subset
from adjoint.data.readers import CharacterDataset
from adjoint.datasets import shakespeare
from adjoint.engine.core.arguments import Parser, positive
from adjoint.nn import functional as F
from adjoint.training.recipes import _common, _resuming
from adjoint.training.recipes._division import digest

LENGTH = 64  # characters it looks back on
SIZES = {"width": 128, "heads": 4, "layers": 4}
BLOCKS = 1600  # pieces of Shakespeare an epoch; of a text of one's own, all
WRITTEN = 200  # characters at the end
TEMPERATURE = 0.8  # below 1 likely characters are drawn more often than the scores say


class Block(nn.Module):
    """Attention to what came before, then a feed-forward part; each is added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Any) -> Any:
        """(B, T, C) to (B, T, C)."""
        B, T, C = x.shape
        parts = self.qkv(self.norm1(x)).split(C, dim=2)
        q, k, v = (p.view(B, T, self.heads, C // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Characters in, a score for each next character out."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.length = length
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Any) -> Any:
        """(B, T) to (B, T, V)."""
        x = self.tokens(tokens) + self.positions(ad.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @ad.no_grad()
    def write(self, tokens: Any, count: int, temperature: float = TEMPERATURE) -> Any:
        """More characters, each drawn by the scores."""
        for _ in range(count):
            scores = self(tokens[:, -self.length :])[:, -1] / temperature
            tokens = ad.cat([tokens, ad.multinomial(scores.softmax(-1), 1)], dim=1)
        return tokens


def loss_of(scores: Any, targets: Any) -> Any:
    """Cross entropy over all positions."""
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def read(path: str, encoding: str) -> str:
    """The text of a file."""
    try:
        text = Path(path).read_text(encoding=encoding)
    except LookupError:
        raise ValueError(f"--encoding: there is no encoding {encoding!r}") from None
    except UnicodeDecodeError as error:
        raise _common.not_text(path, encoding) from error
    if "\0" in text:
        raise ValueError(f"{path}: no text: it has zero bytes in it. Save it as plain text.")
    if len(text) > 1 and len(set(text)) == 1:
        raise ValueError(f"{path}: every character is {text[0]!r}: there is nothing to learn")
    return text


def check_length(text: str, chosen: argparse.Namespace) -> None:
    """Refuse a text too short for a piece to learn from and another one to test on."""
    blocks = len(text) - chosen.length
    if blocks - max(blocks // 10, 1) >= chosen.length:
        return
    remedy = f" or --length {len(text) // 3}" if len(text) >= 4 else ""
    raise ValueError(
        f"{chosen.file or 'the text'}: {len(text)} characters are too few for --length "
        f"{chosen.length}, which needs about {11 * chosen.length // 5 + 2}. Give more text{remedy}."
    )


def divided(text: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """Where pieces may begin that are learned from, and that are tested on: the text's end.

    A run that goes on keeps to what the one before had. More text at the end is divided likewise;
    if it is too short for that, it is left alone. Another text is refused, since its end, which
    is tested on, may be what was learned from.
    """
    parts: dict[str, Any] = {"train": [], "test": [], "seen": 0, "digest": 0}
    if chosen.before is not None:
        parts = chosen.before["record"]["division"]
        if digest(text[: parts["seen"]].encode()) != parts["digest"]:
            raise ValueError(
                f"--resume: {chosen.file or 'the text'} does not begin with the text that the "
                "checkpoint learned from, so that the result might be of what it has seen. Put "
                "more text at the end, or train anew, without --resume; --from "
                f"{Path(chosen.resume).parent} begins with its model."
            )
    first, blocks = parts["seen"], len(text) - parts["seen"] - chosen.length
    count = max(blocks // 10, 1)
    if blocks - count < chosen.length:
        return parts
    if first:
        print(f"{len(text) - first:,} more characters than {chosen.resume} learned from")
    end = first + blocks
    return {
        "train": [*parts["train"], [first, end - count - chosen.length + 1]],
        "test": [*parts["test"], [end - count, end]],
        "seen": len(text),
        "digest": digest(text.encode()),
    }


class TextPieces(Sampler[int]):
    """Where an epoch's pieces of text begin, in random order; each epoch has other ones.

    They lie side by side, from another first character each time, and so go through all of the
    text but for less than a piece at its ends. A `count` is drawn anywhere instead.
    """

    def __init__(self, parts: Sequence[Sequence[int]], length: int, count: int | None) -> None:
        self.parts, self.length, self.count = parts, length, count

    def __len__(self) -> int:
        return self.count or sum(max((b - a) // self.length, 1) for a, b in self.parts)

    def __iter__(self) -> Iterator[int]:
        if self.count is not None:
            places = np.concatenate([np.arange(*part) for part in self.parts])
            yield from places[ad.randint(0, len(places), (self.count,)).numpy()].tolist()
            return
        starts: list[int] = []
        for begin, end in self.parts:
            count = max((end - begin) // self.length, 1)
            first = begin + int(ad.randint(0, end - begin - (count - 1) * self.length, ()))
            starts += range(first, first + count * self.length, self.length)
        yield from (starts[k] for k in ad.randperm(len(starts)).tolist())


def tested(parts: Sequence[Sequence[int]], length: int, count: int | None) -> list[int]:
    """Where the pieces to test on begin: side by side; no more than about a `count`, if given."""
    most = count or sys.maxsize
    return [start for a, b in parts for start in range(a, b, max(length, (b - a) // most))]


def guessing(data: CharacterDataset, parts: Mapping[str, Any], tests: Sequence[int]) -> float:
    """The loss of someone who knows only how often each character occurs in what is learned from.

    >>> data = CharacterDataset("aab" * 8, 3)
    >>> parts = {"train": [[0, 12]], "test": [[15, 21]]}
    >>> round(guessing(data, parts, [15, 18]), 2)
    0.64
    """
    characters = data.data.numpy()
    seen = np.concatenate([characters[a : b + data.block_size] for a, b in parts["train"]])
    often = np.bincount(seen, minlength=data.vocabulary_size) + 1
    targets = np.concatenate([characters[k + 1 : k + 1 + data.block_size] for k in tests])
    return float(-np.log(often / often.sum())[targets].mean())


def options() -> Parser:
    """What one can choose."""
    parser = _common.options("gpt", __doc__, epochs=10, batch=16, lr=2e-3)
    parser.add_argument("file", nargs="?", help="a text; eight plays of Shakespeare unless given")
    parser.add_argument(
        "--length", type=positive, default=LENGTH, help=f"characters it looks back on ({LENGTH})"
    )
    for name, what in (
        ("width", "numbers that stand for a character"),
        ("heads", "parts of the width that each look back by themselves"),
        ("layers", "blocks of attention and feed-forward"),
    ):
        usual = SIZES[name]
        parser.add_argument(f"--{name}", type=positive, default=usual, help=f"{what} ({usual})")
    parser.add_argument(
        "--blocks",
        type=positive,
        help="pieces of text an epoch, drawn anew each time; unless given, an epoch goes through "
        f"all of the text (Shakespeare: {BLOCKS} pieces)",
    )
    parser.add_argument(
        "--from",
        dest="start",
        metavar="FOLDER",
        help="begin with the model in that folder, of another text, and learn this one (fine-tune)",
    )
    parser.add_argument("--encoding", default="utf-8-sig", help="of the file, such as latin-1")
    return parser


def started(chosen: argparse.Namespace, text: str) -> tuple[GPT, CharacterDataset]:
    """The network and the text as numbers; `--from` gives weights, sizes and the first numbers."""
    kept, weights = _common.kept_settings(chosen.start, "gpt") if chosen.start else ({}, {})
    for name in ("length", *SIZES):
        if name in kept and name in chosen.given and kept[name] != getattr(chosen, name):
            raise ValueError(
                f"--{name}: {chosen.start} has {kept[name]}, which its weights are for. Leave "
                f"--{name} out, or train without --from."
            )
        value = chosen.record["settings"][name] = kept.get(name, getattr(chosen, name))
        setattr(chosen, name, value)
    if chosen.width % chosen.heads:
        raise ValueError(
            f"--heads: {chosen.heads} cannot share --width {chosen.width} evenly. Give a width "
            f"such as {-(-chosen.width // chosen.heads) * chosen.heads}."
        )
    check_length(text, chosen)
    before = {} if chosen.before is None else chosen.before["record"]["meaning"]
    known = before.get("characters", kept.get("vocabulary", ""))
    new = "".join(sorted(set(text) - set(known)))
    data = CharacterDataset(text, chosen.length, known + new)
    model = GPT(data.vocabulary_size, chosen.length, *(getattr(chosen, name) for name in SIZES))
    if chosen.start and chosen.before is None:
        state = model.state_dict()
        with ad.no_grad():
            for name, value in weights.items():
                state[name][: len(value)].copy_(value)  # characters it has not known come after
        print(f"begins with the model in {chosen.start}; {len(new)} characters are new to it")
    return model, data


def main(arguments: Sequence[str] = ()) -> int:
    """Train on most of the text, test on its end, and write some."""
    chosen = _common.begin(options(), arguments, "gpt", ["length", *SIZES, "start"])
    if chosen.file is not None and not Path(chosen.file).is_file():
        raise _common.no_file(chosen.file)
    text = read(chosen.file, chosen.encoding) if chosen.file else shakespeare()
    model, data = started(chosen, text)
    _resuming.check_meaning(chosen, characters=data.vocabulary)
    parts = chosen.record["division"] = divided(text, chosen)
    blocks = BLOCKS if chosen.blocks is None and not chosen.file else chosen.blocks
    epoch = TextPieces(parts["train"], chosen.length, blocks)
    ends = tested(parts["test"], chosen.length, blocks)
    print(f"{len(text):,} characters, {data.vocabulary_size} kinds; "
          f"{sum(p.numel() for p in model.parameters()):,} parameters")  # fmt: skip
    print(f"an epoch: {'all but the end of it, in' if blocks is None else 'drawn anew,'} "
          f"{len(epoch):,} pieces of {chosen.length} characters")  # fmt: skip
    settings = {name: getattr(chosen, name) for name in ("length", *SIZES)}
    settings |= {"vocabulary": data.vocabulary}
    test: Subset[Any] = Subset(data, ends)
    trainer = _common.fit(model, loss_of, data, test, chosen, settings=settings, sampler=epoch)
    model.eval()
    show(model, data, text[ends[0] : ends[0] + chosen.length])
    loss = trainer.history[-1]["validation_loss"] if trainer.best is None else trainer.best["loss"]
    usual = guessing(data, parts, ends)
    said = f"loss {loss:.3f} a character on text it has not seen (guessing by how often each "
    said += f"occurs: {usual:.3f})"
    if loss >= usual:
        said += "\n  That is no better than guessing: it has to learn longer, or from more text."
    said += _common.which_epoch(trainer, "more text does, or a smaller network (--layers, --width)")
    begins = text[ends[0] : ends[0] + 9].strip() or "a"
    steps = [_common.command("predict", chosen.folder, begins) + "   # go on from there"]
    if _common.still_learns(trainer):
        steps.append(_common.longer(trainer, chosen) + "   # train on")
    steps += _common.guide("docs/tutorials/transformer.md", "how it works, from scratch")
    picture = Path(chosen.folder) / "loss.png"
    _common.finish(said, chosen.folder, str(picture) if picture.is_file() else None, steps)
    return 0


def show(model: GPT, data: CharacterDataset, prompt: str) -> None:
    """Print how the model goes on from a piece of text that it has not seen."""
    written = data.decode(model.write(data.encode(prompt)[None], WRITTEN)[0])
    print("-" * 72)
    print(f"after {prompt!r} it writes:\n{written[len(prompt) :]}")
    print("-" * 72)


def restored(folder: str) -> GPT:
    """The network that was trained into a folder: characters by number in, scores out.

    `ad.load("runs/gpt/model.pt")["settings"]["vocabulary"]` is the characters, in the order of
    their numbers; `CharacterDataset(text, 0, vocabulary).encode(text)` gives the numbers of a text.
    """
    settings, weights = _common.kept_settings(folder, "gpt")
    sizes = [settings.get(name, usual) for name, usual in SIZES.items()]
    model = GPT(len(settings["vocabulary"]), settings["length"], *sizes).eval()
    model.load_state_dict(weights)
    return model


def predictions(
    folder: str, texts: Sequence[str], length: int = WRITTEN, temperature: float = TEMPERATURE
) -> list[dict[str, str]]:
    """How texts may go on.

    Args:
        folder: where the model was trained into.
        texts: beginnings, of a character or more each.
        length: characters to write.
        temperature: below 1 likely characters are drawn more often than the scores say; near 0
            always the likeliest.

    Returns:
        For each its `text` and `continuation`, drawn by `ad.manual_seed`.
    """
    settings, _ = _common.kept_settings(folder, "gpt")
    model, answers = restored(folder), []
    for text in texts:
        if not text:
            raise ValueError("predict: the text to go on from is empty; give a character or more")
        data = CharacterDataset(text, 0, settings["vocabulary"])
        written = data.decode(model.write(data.encode(text)[None], length, temperature)[0])
        answers.append({"text": text, "continuation": written[len(text) :]})
    return answers


def predict(
    folder: str,
    inputs: Sequence[str],
    length: int | None = None,
    temperature: float = TEMPERATURE,
) -> None:
    """Print each text and how it may go on, for so many characters."""
    for text in inputs:
        if Path(text[:200]).is_file():
            print(f"{text} is a file, but its name is what is gone on from: give the text itself, "
                  f'such as "$(tail -c 60 {text})"', file=sys.stderr)  # fmt: skip
    count = WRITTEN if length is None else length
    for answer in predictions(folder, inputs, count, temperature):
        print(answer["text"] + answer["continuation"])
