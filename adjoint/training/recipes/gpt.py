"""A small GPT that learns to write, from a text file of yours or from Shakespeare."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.data import Subset
from adjoint.data.readers import CharacterDataset
from adjoint.datasets import shakespeare
from adjoint.engine.core.arguments import positive
from adjoint.nn import functional as F
from adjoint.training.recipes import _common, _going_on
from adjoint.training.recipes._division import digest

WIDTH, HEADS, LAYERS = 128, 4, 4
LENGTH = 64  # characters it looks back on
BLOCKS = 1600  # pieces of text an epoch
WRITTEN = 200  # characters at the end
TEMPERATURE = 0.8  # below 1 likely characters are drawn more often than the scores say


class Block(nn.Module):
    """Attention to what came before, then a feed-forward part; each is added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Any) -> Any:
        """(B, T, C) to (B, T, C)."""
        B, T, C = x.shape
        parts = self.qkv(self.norm1(x)).split(C, dim=2)
        q, k, v = (p.view(B, T, HEADS, C // HEADS).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Characters in, a score for each next character out."""

    def __init__(self, vocabulary: int, length: int) -> None:
        super().__init__()
        self.length = length
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(length, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary, bias=False)

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
        return Path(path).read_text(encoding=encoding)
    except LookupError:
        raise ValueError(f"--encoding: there is no encoding {encoding!r}") from None
    except UnicodeDecodeError as error:
        raise _common.not_text(path, encoding) from error


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
                "more text at the end, or train anew, without --resume."
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


def pieces(parts: Mapping[str, Any], chosen: argparse.Namespace) -> tuple[list[int], list[int]]:
    """Where the pieces to learn from and to test on begin; none reaches into what is tested."""
    places = np.concatenate([np.arange(*part) for part in parts["train"]])
    drawn = ad.randint(0, len(places), (chosen.blocks,)).numpy()
    steps = [range(start, end, max((end - start) // 64, 1)) for start, end in parts["test"]]
    return places[drawn].tolist(), [start for step in steps for start in step]


def main(arguments: Sequence[str] = ()) -> int:
    """Train on most of the text, test on its end, and write some."""
    parser = _common.options("gpt", __doc__, epochs=10, batch=16, lr=2e-3)
    parser.add_argument("file", nargs="?", help="a text; eight plays of Shakespeare unless given")
    parser.add_argument(
        "--length", type=positive, default=LENGTH, help=f"characters it looks back on ({LENGTH})"
    )
    parser.add_argument(
        "--blocks", type=positive, default=BLOCKS, help=f"pieces of text an epoch ({BLOCKS})"
    )
    parser.add_argument("--encoding", default="utf-8-sig", help="of the file, such as latin-1")
    chosen = _common.begin(parser, arguments, "gpt", ["length"])
    if chosen.file is not None and not Path(chosen.file).is_file():
        raise _common.no_file(chosen.file)
    text = read(chosen.file, chosen.encoding) if chosen.file else shakespeare()
    check_length(text, chosen)
    data = CharacterDataset(text, chosen.length)
    _going_on.means(chosen, characters=data.vocabulary)
    parts = chosen.record["division"] = divided(text, chosen)
    starts, ends = pieces(parts, chosen)
    model = GPT(data.vocabulary_size, chosen.length)
    print(f"{len(text):,} characters, {data.vocabulary_size} kinds; "
          f"{sum(p.numel() for p in model.parameters()):,} parameters")  # fmt: skip
    train: Subset[Any] = Subset(data, starts)
    test: Subset[Any] = Subset(data, ends)
    trainer = _common.fit(model, loss_of, train, test, chosen)
    model.eval()
    print("-" * 72)
    print(data.decode(model.write(data.encode(text[: chosen.length])[None], WRITTEN)[0]))
    print("-" * 72)
    loss = trainer.history[-1]["validation_loss"]
    again = [chosen.file] if chosen.file else []
    if chosen.length != LENGTH:
        again += ["--length", str(chosen.length)]
    if chosen.encoding != "utf-8-sig":
        again += ["--encoding", chosen.encoding]
    if chosen.blocks != BLOCKS:
        again += ["--blocks", str(chosen.blocks)]
    again += _common.longer("gpt", trainer, chosen)
    settings = {"vocabulary": data.vocabulary, "length": chosen.length}
    trained = trainer.epoch > trainer.began
    _common.keep(chosen.folder, "gpt", model, settings, trained=trained)
    _common.finish(
        f"loss {loss:.3f} a character on text it has not seen",
        chosen.folder,
        str(Path(chosen.folder) / "loss.png"),
        [
            _common.command("predict", chosen.folder, text[:9].strip() or "a") + "   # go on",
            _common.command("train", "gpt", *again) + "   # train on",
            "docs/tutorials/transformer.md: how it works, from scratch",
        ],
    )
    return 0


def restored(folder: str) -> GPT:
    """The network that was trained into a folder; it takes characters by number."""
    settings, weights = _common.kept_settings(folder, "gpt")
    model = GPT(len(settings["vocabulary"]), settings["length"]).eval()
    model.load_state_dict(weights)
    return model


def predict(
    folder: str,
    inputs: Sequence[str],
    length: int | None = None,
    temperature: float = TEMPERATURE,
) -> None:
    """Print each text and how it may go on, for so many characters."""
    count = WRITTEN if length is None else length
    settings, _ = _common.kept_settings(folder, "gpt")
    model, vocabulary = restored(folder), settings["vocabulary"]
    for text in inputs:
        if not text:
            raise ValueError("predict: the text to go on from is empty; give a character or more")
        data = CharacterDataset(text, 0, vocabulary)
        print(data.decode(model.write(data.encode(text)[None], count, temperature)[0]))
