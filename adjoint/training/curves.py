"""Line plots as PNG files, drawn and encoded here: curves need no plotting library."""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

COLOURS = ((31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40), (148, 103, 189))
GREY, BLACK = (200, 200, 200), (40, 40, 40)
# Five rows of three pixels, a digit per row.
LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz.-_/%+: "
SHAPES = """
75557 26227 71747 71717 55711 74717 74757 71111 75757 75717 25755 65656 34443 65556 74647
74644 34553 55755 72227 11153 55655 44447 57755 65555 25552 65644 25531 65655 34216 72222
55557 55552 55775 55255 55222 71247 00002 00700 00007 11244 51245 02720 02020 00000
"""
GLYPHS = dict(zip(LETTERS, SHAPES.split(), strict=True))

Points = Sequence[tuple[float, float]]


def encode_png(pixels: np.ndarray) -> bytes:
    """An image of shape (height, width, 3), bytes, as a PNG file."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def draw_text(pixels: np.ndarray, x: int, y: int, text: str, colour: tuple[int, ...]) -> None:
    """Text with its upper left corner at (x, y), each glyph 6 by 10."""
    for letter in text.lower():
        for row, bits in enumerate(GLYPHS.get(letter, GLYPHS[" "])):
            for column in range(3):
                if int(bits) >> (2 - column) & 1:
                    top, left = y + 2 * row, x + 2 * column
                    pixels[top : top + 2, left : left + 2] = colour
        x += 8


def draw_line(
    pixels: np.ndarray,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: tuple[int, ...],
) -> None:
    """A line two pixels wide."""
    steps = int(max(abs(end[0] - start[0]), abs(end[1] - start[1]))) + 1
    xs = np.linspace(start[0], end[0], steps + 1).round().astype(int)
    ys = np.linspace(start[1], end[1], steps + 1).round().astype(int)
    for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):
        pixels[ys + dy, xs + dx] = colour


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers across a range.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / count
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def plot(
    curves: Mapping[str, Points], title: str, width: int = 720, height: int = 420
) -> np.ndarray:
    """Draw curves, each a sequence of (x, y), on one pair of axes."""
    pixels = np.full((height, width, 3), 255, np.uint8)
    left, right, top, bottom = 80, width - 20, 40, height - 40
    shown = {
        name: [(x, y) for x, y in points if math.isfinite(y)] for name, points in curves.items()
    }
    every = [point for points in shown.values() for point in points]
    draw_text(pixels, left, 12, title, BLACK)
    if not every:
        return pixels
    (x0, x1), (y0, y1) = (_range([p[axis] for p in every]) for axis in (0, 1))

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            left + (x - x0) / (x1 - x0) * (right - left),
            bottom - (y - y0) / (y1 - y0) * (bottom - top),
        )

    for y in ticks(y0, y1):
        row = round(place(x0, y)[1])
        pixels[row, left:right] = GREY
        label = f"{y:g}"
        draw_text(pixels, left - 8 - 8 * len(label), row - 5, label, BLACK)
    for x in ticks(x0, x1):
        column = round(place(x, y0)[0])
        pixels[bottom : bottom + 5, column] = BLACK
        label = f"{x:g}"
        draw_text(pixels, column - 4 * len(label), bottom + 12, label, BLACK)
    pixels[bottom, left:right] = pixels[top:bottom, left : left + 1] = BLACK
    for index, (name, points) in enumerate(shown.items()):
        colour = COLOURS[index % len(COLOURS)]
        for start, end in pairwise(points):
            draw_line(pixels, place(*start), place(*end), colour)
        for point in points if len(points) < 40 else ():
            x, y = place(*point)
            pixels[round(y) - 2 : round(y) + 4, round(x) - 2 : round(x) + 4] = colour
        draw_text(pixels, right - 8 * len(name) - 8, top + 6 + 16 * index, name, colour)
    return pixels


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    return low - margin * (low == high), high + margin


def save_plot(path: str | os.PathLike[str], curves: Mapping[str, Points], title: str) -> None:
    """Write curves to a PNG file.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_plot(f"{folder}/loss.png", {"train": [(1, 0.5), (2, 0.25)]}, "loss")
    ...     pathlib.Path(folder, "loss.png").read_bytes()[:4]
    b'\\x89PNG'
    """
    target = Path(path)
    temporary = target.with_name(target.name + ".part")
    temporary.write_bytes(encode_png(plot(curves, title)))
    os.replace(temporary, target)
