"""Ratios as bars on a logarithmic axis, in a PNG file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from adjoint.engine.core.availability.libraries import need
from adjoint.training.curves import COLOURS, GRID, INK, save_figure


def save_bars(path: Path, bars: Mapping[str, float], title: str) -> None:
    """Draw one bar per name, from 1 to its value; what is slower than 1 goes to the left."""
    shown = {name: value for name, value in bars.items() if math.isfinite(value) and value > 0}
    height = 1.0 + 0.32 * len(shown)
    figure = need("matplotlib.figure", "save_bars").Figure(figsize=(7.0, height), dpi=150)
    axes = figure.add_subplot()
    axes.set_xscale("log")
    colours = [COLOURS[0 if value >= 1 else 3] for value in shown.values()]
    drawn = axes.barh(list(shown), [v - 1 for v in shown.values()], left=1, color=colours)
    axes.bar_label(drawn, [f"{v:.2f}" for v in shown.values()], padding=4, color=INK)
    axes.axvline(1, color=INK, linewidth=1)
    marks = [m for m in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if _near(m, shown)]
    axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
    axes.minorticks_off()
    axes.margins(x=0.12)
    axes.invert_yaxis()
    axes.grid(axis="x", color=GRID)
    axes.set_axisbelow(True)
    axes.set_title(title, color=INK, loc="left", fontweight="bold")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.set_layout_engine("constrained")
    save_figure(figure, path)


def _near(mark: float, bars: Mapping[str, float]) -> bool:
    values = [1.0, *bars.values()]
    return min(values) / 2 <= mark <= max(values) * 2
