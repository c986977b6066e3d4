"""Line plots as PNG files, drawn by Matplotlib."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from adjoint.engine.core.availability.libraries import need
from adjoint.engine.core.files.atomic import atomic_write

Points = Sequence[tuple[float, float]]
COLOURS = ("#3b6fb6", "#e07b39", "#4a9d6e", "#b04a5a", "#7d6bb0")
INK, GRID = "#333333", "#dddddd"
SMALLEST_SPREAD = 30.0  # between the largest and smallest value that ask for a logarithmic axis


def plot(
    curves: Mapping[str, Points], title: str, x_label: str = "epoch", best: str | None = None
) -> Any:
    """Draw curves, each a sequence of (x, y), on one pair of axes; a Matplotlib figure.

    Of the curve called `best` the lowest point is marked.

    Values that are not finite leave gaps. Where curves of positive values span more than a factor
    of 30 the axis is logarithmic.
    """
    # Not pyplot, which would choose a window system for the whole program.
    figure = need("matplotlib.figure", "plot").Figure(figsize=(6.4, 4.0), dpi=150)
    locator = need("matplotlib.ticker", "plot").MaxNLocator
    axes = figure.add_subplot()
    for (name, points), colour in zip(curves.items(), _colours(len(curves)), strict=True):
        xs = [x for x, _ in points]
        ys = [y if math.isfinite(y) else math.nan for _, y in points]
        marker = "o" if len(points) <= 40 else ""
        axes.plot(xs, ys, color=colour, label=name, marker=marker, markersize=3.5, linewidth=1.8)
    lowest = least(curves.get(best or "", ()))
    if lowest is not None:
        mark(axes, *lowest, f"least: {lowest[1]:.3g} at {x_label} {lowest[0]:g}")
    shown = [y for points in curves.values() for _, y in points if math.isfinite(y)]
    if shown and min(shown) > 0 and max(shown) / min(shown) > SMALLEST_SPREAD:
        axes.set_yscale("log")
    if all(float(x).is_integer() for points in curves.values() for x, _ in points):
        axes.xaxis.set_major_locator(locator(integer=True, min_n_ticks=1))
    axes.set_title(title, color=INK, fontsize=12, fontweight="bold", loc="left", pad=10)
    axes.set_xlabel(x_label, color=INK)
    tidy(axes)
    if shown:
        axes.legend(frameon=False, labelcolor=INK)
    figure.set_layout_engine("constrained")
    return figure


def mark(axes: Any, x: float, y: float, text: str) -> None:
    """A ring around a point, which the legend explains."""
    axes.plot([x], [y], marker="o", markersize=9, markerfacecolor="none", markeredgecolor=INK,
              linestyle="none", label=text)  # fmt: skip


def least(points: Points) -> tuple[float, float] | None:
    """The lowest of some points; None where there are too few to choose from.

    >>> least([(1, 0.5), (2, 0.25), (3, math.nan)]), least([(1, 0.5)])
    ((2, 0.25), None)
    """
    finite = [point for point in points if math.isfinite(point[1])]
    return min(finite, key=lambda point: point[1]) if len(finite) > 1 else None


def _colours(count: int) -> list[str]:
    return [COLOURS[k % len(COLOURS)] for k in range(count)]


def tidy(axes: Any) -> None:
    """A quiet frame and grid."""
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG; an interrupted write leaves the previous file as it was."""
    with atomic_write(path, "save_plot") as file:
        figure.savefig(file, format="png")


def save_plot(
    path: str | os.PathLike[str],
    curves: Mapping[str, Points],
    title: str,
    x_label: str = "epoch",
    best: str | None = None,
) -> None:
    """Write curves to a PNG file.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_plot(f"{folder}/loss.png", {"train": [(1, 0.5), (2, 0.25)]}, "loss")
    ...     pathlib.Path(folder, "loss.png").read_bytes()[:4]
    b'\\x89PNG'
    """
    save_figure(plot(curves, title, x_label, best), path)
