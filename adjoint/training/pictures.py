"""Pictures that a run ends with, drawn by Matplotlib: curves beside what was learnt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adjoint.engine.core.availability.libraries import MissingLibrary, need
from adjoint.training.curves import COLOURS, INK, least, mark, save_figure, tidy

History = Sequence[dict[str, float]]


def _figure(width: float, height: float, columns: Sequence[float]) -> tuple[Any, list[Any]]:
    """A figure with its panels side by side."""
    figure = need("matplotlib.figure", "plot").Figure(figsize=(width, height), dpi=150)
    grid = figure.add_gridspec(1, len(columns), width_ratios=list(columns))
    figure.set_layout_engine("constrained", wspace=0.06)
    return figure, [grid[0, k] for k in range(len(columns))]


def _curves(axes: Any, history: History, name: str, title: str) -> None:
    """Training and validation of a quantity by epoch."""
    for (label, key), colour in zip(
        (("train", name), ("test", f"validation_{name}")), COLOURS, strict=False
    ):
        points = [(e["epoch"], e[key]) for e in history if key in e]
        if points:
            xs, ys = zip(*points, strict=True)
            marker = "o" if len(xs) < 40 else ""
            axes.plot(xs, ys, color=colour, label=label, linewidth=2, marker=marker, markersize=3)
    tested = {e["epoch"]: e for e in history if f"validation_{name}" in e}
    lowest = least([(epoch, e["validation_loss"]) for epoch, e in tested.items()])
    if lowest is not None:  # the epoch whose model is kept
        epoch, loss = lowest
        mark(
            axes,
            epoch,
            tested[epoch][f"validation_{name}"],
            f"least loss: {loss:.3g}, epoch {epoch:g}",
        )
    axes.set_title(title, loc="left", color=INK, fontweight="bold")
    axes.set_xlabel("epoch", color=INK)
    locator = need("matplotlib.ticker", "plot").MaxNLocator
    axes.xaxis.set_major_locator(locator(integer=True, min_n_ticks=1))
    axes.legend(frameon=False)
    tidy(axes)


def _written(figure: Any, path: str | Path) -> str:
    save_figure(figure, path)
    return str(path)


def images_picture(
    path: str | Path, history: History, images: Any, captions: Sequence[tuple[str, bool]],
    title: str = "what it took them for",
) -> str | None:  # fmt: skip
    """Curves, and images (N, H, W) or (N, H, W, 3) with what they were taken for, red if wrong."""
    try:
        figure, (left, right) = _figure(11, 4.6, (1.0, 1.25))
    except MissingLibrary:
        return None
    _curves(figure.add_subplot(left), history, "loss", "loss")
    part = figure.add_subfigure(right)
    part.suptitle(title, x=0.02, ha="left", color=INK, fontweight="bold")
    for k, axes in enumerate(part.subplots(3, 6).flat):
        axes.axis("off")
        if k < len(captions):
            text, right_one = captions[k]
            axes.imshow(images[k], cmap="gray_r", interpolation="nearest")
            axes.set_title(text, fontsize=9, color=INK if right_one else "#c0392b")
    return _written(figure, path)


def prediction_picture(
    path: str | Path, history: History, actual: Sequence[float], predicted: Sequence[float]
) -> str | None:
    """Curves, and predictions against what is true."""
    try:
        figure, (left, right) = _figure(9.6, 4.2, (1, 1))
    except MissingLibrary:
        return None
    _curves(figure.add_subplot(left), history, "loss", "loss")
    axes = figure.add_subplot(right)
    low, high = min([*actual, *predicted]), max([*actual, *predicted])
    axes.plot([low, high], [low, high], color="#999999", linewidth=1, linestyle="--")
    axes.scatter(actual, predicted, s=14, color=COLOURS[0], alpha=0.6, edgecolors="none")
    axes.set_title("predicted against actual", loc="left", color=INK, fontweight="bold")
    axes.set_xlabel("actual", color=INK)
    axes.set_ylabel("predicted", color=INK)
    tidy(axes)
    return _written(figure, path)


def curve_picture(
    path: str | Path, history: History, xs: Sequence[float], ys: Sequence[float],
    line: tuple[Sequence[float], Sequence[float]],
) -> str | None:  # fmt: skip
    """Curves, and a function that was fitted to points."""
    try:
        figure, (left, right) = _figure(9.6, 4.2, (1, 1))
    except MissingLibrary:
        return None
    _curves(figure.add_subplot(left), history, "loss", "loss")
    axes = figure.add_subplot(right)
    axes.scatter(xs, ys, s=10, color="#999999", alpha=0.6, edgecolors="none", label="data")
    axes.plot(*line, color=COLOURS[1], linewidth=2.2, label="model")
    axes.set_title("what was learnt", loc="left", color=INK, fontweight="bold")
    axes.set_xlabel("x", color=INK)
    axes.set_ylabel("y", color=INK)
    axes.legend(frameon=False)
    tidy(axes)
    return _written(figure, path)


def confusion_picture(
    path: str | Path, history: History, counts: Any, names: Sequence[str]
) -> str | None:
    """Curves, and which classes are taken for which."""
    try:
        figure, (left, right) = _figure(9.6, 4.2, (1, 1))
    except MissingLibrary:
        return None
    _curves(figure.add_subplot(left), history, "accuracy", "accuracy")
    axes = figure.add_subplot(right)
    # Each row by itself: in a class that is rare, counts are small beside those of the others.
    shares = counts / counts.sum(1, keepdims=True).clip(1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    shown = [name[:12] for name in names]
    slanted = {"rotation": 45, "ha": "right"} if sum(map(len, shown)) > 30 else {}
    axes.set_xticks(range(len(shown)), shown, **slanted)
    axes.set_yticks(range(len(shown)), shown)
    for i, row in enumerate(counts):
        for j, n in enumerate(row):
            if n and len(names) <= 12:
                dark = shares[i, j] > 0.5
                axes.text(j, i, int(n), ha="center", va="center", fontsize=8,
                          color="white" if dark else INK)  # fmt: skip
    axes.set_title("which is taken for which", loc="left", color=INK, fontweight="bold")
    axes.set_xlabel("predicted", color=INK)
    axes.set_ylabel("actual", color=INK)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return _written(figure, path)
