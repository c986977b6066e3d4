"""A small GPT that learns to write, from a text file of yours or from Shakespeare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.data import Subset
from adjoint.data.readers import CharacterDataset
from adjoint.datasets import shakespeare
from adjoint.engine.core.arguments import positive
from adjoint.nn import functional as F
from adjoint.training.recipes import _common

WIDTH, HEADS, LAYERS = 128, 4, 4
WRITTEN = 200  # characters at the end


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
    def write(self, tokens: Any, count: int, temperature: float = 0.8) -> Any:
        """More characters, each drawn by the scores."""
        for _ in range(count):
            scores = self(tokens[:, -self.length :])[:, -1] / temperature
            tokens = ad.cat([tokens, ad.multinomial(scores.softmax(-1), 1)], dim=1)
        return tokens


def loss_of(scores: Any, targets: Any) -> Any:
    """Cross entropy over all positions."""
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def main(arguments: Sequence[str] = ()) -> int:
    """Train on most of the text, test on its end, and write some."""
    parser = _common.options("gpt", __doc__, epochs=10, batch=16, lr=2e-3)
    parser.add_argument("file", nargs="?", help="a text; eight plays of Shakespeare unless given")
    parser.add_argument("--length", type=positive, default=64, help="characters it looks back on")
    parser.add_argument("--blocks", type=positive, default=1600, help="pieces of text an epoch")
    chosen = _common.begin(parser, arguments)
    if chosen.file is not None and not Path(chosen.file).is_file():
        raise FileNotFoundError(f"there is no file {chosen.file!r}")
    text = Path(chosen.file).read_text(encoding="utf-8") if chosen.file else shakespeare()
    data = CharacterDataset(text, chosen.length)
    held = max(len(data) // 10, 1)
    starts = ad.randint(0, max(len(data) - held, 1), (chosen.blocks,)).tolist()
    ends = range(len(data) - held, len(data), max(held // 64, 1))
    model = GPT(data.vocabulary_size, chosen.length)
    print(f"{len(text):,} characters, {data.vocabulary_size} kinds; "
          f"{sum(p.numel() for p in model.parameters()):,} parameters")  # fmt: skip
    train: Subset[Any] = Subset(data, starts)
    test: Subset[Any] = Subset(data, list(ends))
    trainer = _common.fit(model, loss_of, train, test, chosen)
    model.eval()
    print("-" * 72)
    print(data.decode(model.write(data.encode(text[: chosen.length])[None], WRITTEN)[0]))
    print("-" * 72)
    loss = trainer.history[-1]["validation_loss"]
    again = [chosen.file] if chosen.file else []
    _common.finish(
        f"loss {loss:.3f} a character on text it has not seen",
        chosen.folder,
        str(Path(chosen.folder) / "loss.png"),
        [
            " ".join(["adjoint train gpt", *again, f"--epochs {4 * chosen.epochs}"]),
            "docs/tutorials/transformer.md: how it works, from scratch",
        ],
    )
    return 0
