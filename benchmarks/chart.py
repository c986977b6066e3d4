"""Ratios as bars on a logarithmic axis, drawn into a PNG file without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from adjoint.training.curves import BLACK, COLOURS, GREY, draw_text, encode_png

BAR, GAP, LEFT, WIDTH = 24, 12, 120, 480


def save_bars(path: Path, bars: Mapping[str, float], title: str) -> None:
    """Draw one bar per name, from 1 to its value; what is slower than 1 goes to the left."""
    shown = {name: value for name, value in bars.items() if math.isfinite(value) and value > 0}
    low = min([0.0, *(math.log10(v) for v in shown.values())]) - 0.05
    high = max([1.0, *(math.log10(v) for v in shown.values())]) + 0.05
    height = 60 + len(shown) * (BAR + GAP) + 30
    pixels = np.full((height, LEFT + WIDTH + 100, 3), 255, np.uint8)
    draw_text(pixels, LEFT, 16, title, BLACK)

    def across(value: float) -> int:
        return LEFT + round((math.log10(value) - low) / (high - low) * WIDTH)

    for mark in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100):
        if low <= math.log10(mark) <= high:
            pixels[44 : height - 28, across(mark)] = BLACK if mark == 1 else GREY
            draw_text(pixels, across(mark) - 4 * len(f"{mark:g}"), height - 22, f"{mark:g}", BLACK)
    for row, (name, value) in enumerate(shown.items()):
        top = 52 + row * (BAR + GAP)
        left, right = sorted((across(1), across(value)))
        pixels[top : top + BAR, left : right + 1] = COLOURS[0 if value >= 1 else 3]
        draw_text(pixels, LEFT - 8 - 8 * len(name), top + 7, name, BLACK)
        draw_text(pixels, right + 8, top + 7, f"{value:.2f}", BLACK)
    path.write_bytes(encode_png(pixels))
