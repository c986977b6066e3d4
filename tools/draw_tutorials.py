"""The pictures of the tutorials that no recipe ends with, drawn by Matplotlib.

python tools/draw_tutorials.py

Writes docs/pictures/gradients.png and docs/pictures/attention.png.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import adjoint as ad
from adjoint import nn
from adjoint.data import DataLoader
from adjoint.data.readers import CharacterDataset
from adjoint.training.curves import COLOURS, INK, save_figure, tidy

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
TEXT = "to be or not to be, that is the question. "
LENGTH, WIDTH = 16, 32


def draw_gradients() -> None:
    """A function, its slopes and its bends, by one call each for all points."""

    def wave(x: Any) -> Any:
        return (2 * x).sin() + 0.3 * x

    xs = ad.linspace(-3, 3, 200)
    slope = ad.func.vmap(ad.func.grad(wave))
    bend = ad.func.vmap(ad.func.grad(ad.func.grad(wave)))
    figure = Figure(figsize=(9.6, 4.2), dpi=150)
    figure.set_layout_engine("constrained", wspace=0.06)
    left, right = figure.subplots(1, 2)
    left.plot(xs.tolist(), wave(xs).tolist(), color=COLOURS[0], linewidth=2, label="f")
    for at in (-2.2, -0.6, 1.0, 2.4):
        x = ad.tensor(at)
        value, rise = wave(x).item(), ad.func.grad(wave)(x).item()
        ends = [at - 0.5, at + 0.5]
        left.plot(ends, [value + rise * (e - at) for e in ends], color=COLOURS[1], linewidth=2)
        left.plot([at], [value], "o", color=COLOURS[1], markersize=5)
    left.set_title("a function, and grad at four points", loc="left", color=INK, fontweight="bold")
    right.plot(xs.tolist(), slope(xs).tolist(), color=COLOURS[1], linewidth=2, label="grad")
    right.plot(xs.tolist(), bend(xs).tolist(), color="#999999", linewidth=2, label="grad of grad")
    right.axhline(0, color="#cccccc", linewidth=1)
    right.set_title("vmap: at all points at once", loc="left", color=INK, fontweight="bold")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.set_xlabel("x", color=INK)
        tidy(axes)
    save_figure(figure, PICTURES / "gradients.png")


class Reader(nn.Module):
    """One layer of attention between characters, whose weights can be looked at."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.first, self.second = (nn.MultiheadAttention(WIDTH, 2, batch_first=True) for _ in "12")
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, tokens: Any) -> tuple[Any, Any]:
        """Scores of the next character, and who looked at whom: (B, T, C), (B, T, T)."""
        steps = tokens.shape[1]
        ahead = ad.ones(steps, steps).triu(1).bool()
        x = self.tokens(tokens) + self.positions(ad.arange(steps))
        x = x + self.first(x, x, x, attn_mask=ahead)[0]
        mixed, weights = self.second(x, x, x, attn_mask=ahead)
        x = x + mixed
        return self.head(x + self.mlp(x)), weights


def draw_attention() -> None:
    """Which earlier characters each one looks at, in a model that learnt one sentence."""
    ad.manual_seed(0)
    data = CharacterDataset(TEXT * 40, block_size=LENGTH)
    model = Reader(data.vocabulary_size)
    optimizer = ad.optim.AdamW(model.parameters(), lr=5e-3)

    @ad.compile
    def step(x: Any, y: Any) -> Any:
        scores, _ = model(x)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        for x, y in DataLoader(data, batch_size=32, shuffle=True, drop_last=True):
            step(x, y)
    shown = TEXT[:LENGTH]
    with ad.no_grad():
        _, weights = model(data.encode(shown)[None])
    figure = Figure(figsize=(6.2, 5.6), dpi=150)
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    axes.imshow(weights[0].numpy(), cmap="Blues", vmin=0)
    letters = [letter if letter != " " else "␣" for letter in shown]
    axes.set_xticks(range(LENGTH), letters)
    axes.set_yticks(range(LENGTH), letters)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlabel("the character that is looked at", color=INK)
    axes.set_ylabel("the character that looks", color=INK)
    axes.set_title("who looks at whom: only at what came before", loc="left", color=INK,
                   fontweight="bold")  # fmt: skip
    save_figure(figure, PICTURES / "attention.png")


if __name__ == "__main__":
    draw_gradients()
    draw_attention()
