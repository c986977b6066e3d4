"""A reader and writer of PNG images, for where Pillow is not installed: no interlacing."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import Budget, inflate

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}


def is_deep_colour(data: bytes) -> bool:
    """Whether a file is a PNG of 16 bits for each of several channels."""
    return data[:8] == SIGNATURE and data[24:25] == b"\x10" and data[25:26] != b"\0"


def decode(data: bytes, source: str, budget: Budget | None = None) -> Any:
    """The pixels of a PNG file: (H, W) or (H, W, C), bytes (16-bit images as uint16)."""
    try:
        return _decode(data, source, budget or Budget(len(data), f"read_image: {source}"))
    except (struct.error, zlib.error, IndexError, KeyError, ValueError) as error:
        raise FileError(f"read_image: {source}: damaged PNG ({error})") from error


@dataclass(frozen=True, slots=True)
class Header:
    """What a PNG file says of its pixels."""

    width: int
    height: int
    depth: int  # bits of a sample
    color: int

    @property
    def channels(self) -> int:
        """Samples per pixel in the file."""
        return _CHANNELS[self.color]

    @property
    def stride(self) -> int:
        """Bytes of a line."""
        return (self.width * self.channels * self.depth + 7) // 8

    @property
    def step(self) -> int:
        """Bytes from a sample to the one it is predicted from."""
        return max(1, self.channels * self.depth // 8)


def _decode(data: bytes, source: str, budget: Budget) -> Any:
    header, palette, packed = _chunks(data)
    about = _header(header, source)
    size = about.height * (about.stride + 1)
    results = about.width * about.height * (3 if about.color == 3 else about.channels)
    # The lines, their bytes without filters, and what is made of those.
    wider = {16: 4, 8: 1}.get(about.depth, 10) * results if about.depth != 8 else 0
    budget.spend(2 * size + wider + (results if about.color == 3 else 0), "an image of its size")
    budget.spend(1024 * (about.height + about.width), "an image of so many lines")
    lines = np.frombuffer(inflate(b"".join(packed), size), np.uint8)
    rows = unfilter(lines.reshape(about.height, about.stride + 1), about.step)
    return _pixels(rows, about, palette)


def check_palette(data: bytes, last: int) -> None:
    """Refuse a file without the colours that its pixels name; Pillow would make some up."""
    palette = _chunks(data)[1]
    if palette is None or last >= len(palette):
        count = 0 if palette is None else len(palette)
        raise ValueError(f"a palette of {count} colours, a pixel of colour {last}")


def _chunks(data: bytes) -> tuple[bytes, Any, list[bytes]]:
    """Header, palette and deflated pixels."""
    header, palette, packed, position = b"", None, [], 8
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        kind, body = data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        (check,) = struct.unpack_from(">I", data, position + 8 + length)
        if zlib.crc32(kind + body) != check:
            raise ValueError(f"checksum of chunk {kind!r}")
        position += 12 + length
        if kind == b"IHDR":
            header = body
        elif kind == b"PLTE":
            palette = np.frombuffer(body, np.uint8).reshape(-1, 3)
        elif kind == b"IDAT":
            packed.append(body)
        elif kind == b"IEND":
            break
    else:
        raise ValueError("the file ends before the image does")
    return header, palette, packed


def _header(raw: bytes, source: str) -> Header:
    width, height, depth, color, packing, filtering, interlace = struct.unpack(">IIBBBBB", raw)
    if depth not in _DEPTHS.get(color, ()) or packing or filtering or interlace > 1:
        raise ValueError(f"colours of kind {color} with {depth} bits")
    if not (0 < width < 1 << 31 and 0 < height < 1 << 31):
        raise ValueError(f"{width} by {height} pixels")
    if interlace:
        raise FileError(
            f"read_image: {source} is an interlaced PNG, which needs Pillow. Install it with "
            "`pip install adjoint[images]`."
        )
    return Header(width, height, depth, color)


def _pixels(rows: Any, about: Header, palette: Any) -> Any:
    """Samples of whole bytes, in the image's shape."""
    height, width, depth = about.height, about.width, about.depth
    if depth == 16:
        pixels = rows.view(">u2").astype(np.uint16)
    elif depth < 8:
        bits = np.unpackbits(rows, axis=1)[:, : width * depth].reshape(height, width, depth)
        pixels = np.zeros((height, width), np.uint8)
        for place in range(depth):
            pixels = pixels << 1 | bits[:, :, place]
        if about.color != 3:
            pixels = pixels * np.uint8(255 // (2**depth - 1))
    else:
        pixels = rows
    pixels = pixels.reshape(height, width, about.channels)
    if about.color == 3:
        if palette is None:
            raise ValueError("no palette")
        return palette[pixels[..., 0]]
    return pixels[..., 0] if about.channels == 1 else pixels


def unfilter(lines: Any, step: int) -> Any:
    """Undo the prediction each line was stored with; the first byte of a line says which."""
    kinds = lines[:, 0]
    if int(kinds.max()) > 4:
        raise ValueError(f"filter {int(kinds.max())}")
    if int(kinds.max()) > 2:
        return _unfilter_diagonals(lines, step)
    rows = np.ascontiguousarray(lines[:, 1:])
    for y in np.flatnonzero(kinds).tolist():
        row = rows[y]
        if kinds[y] == 1:
            for c in range(step):
                row[c::step] = np.cumsum(row[c::step], dtype=np.uint8)
        elif y:
            row += rows[y - 1]
    return rows


def _unfilter_diagonals(lines: Any, step: int) -> Any:
    """As `unfilter`, with predictions from the left and above at once.

    A pixel needs those to its left, above, and above these two: all on earlier diagonals (from
    upper right to lower left), so that a whole diagonal is computed at a time. In memory, with a
    border of zeros above and to the left, a diagonal's pixels lie at equal distances.
    """
    height, length = lines.shape[0], lines.shape[1] - 1
    width = -(-length // step)
    wide = width + 1
    pixels = np.zeros((height + 1, wide * step), np.uint8)
    pixels[1:, step : step + length] = lines[:, 1:]
    flat, kinds = pixels.reshape(-1, step), lines[:, :1]
    for diagonal in range(width + height - 1):
        first, last = max(0, diagonal - width + 1), min(diagonal, height - 1)
        count = last - first + 1
        start = (first + 1) * wide + diagonal - first + 1

        def along(shift: int, start: int = start, count: int = count) -> Any:
            begin = start + shift
            return flat[begin : begin + (count - 1) * width + 1 : width]

        a, b, c = (along(shift).astype(np.int16) for shift in (-1, -wide, -wide - 1))
        kind = kinds[first : last + 1]
        near = np.abs(b - c), np.abs(a - c), np.abs(a + b - 2 * c)
        best = np.where(near[1] <= near[2], b, c)
        best = np.where((near[0] <= near[1]) & (near[0] <= near[2]), a, best)
        guess = np.select([kind == 1, kind == 2, kind == 3, kind == 4], [a, b, (a + b) >> 1, best])
        here = along(0)
        here += guess.astype(np.uint8)
    return np.ascontiguousarray(pixels[1:, step : step + length])


def encode(pixels: Any, level: int = 6) -> bytes:
    """A PNG file of bytes (H, W), (H, W, 3) or (H, W, 4), compressed at a level from 0 to 9."""
    pixels = np.ascontiguousarray(pixels, np.uint8)
    height, width = pixels.shape[:2]
    color = {1: 0, 2: 4, 3: 2, 4: 6}[1 if pixels.ndim == 2 else pixels.shape[2]]
    rows = pixels.reshape(height, -1)
    lines = np.concatenate([np.zeros((height, 1), np.uint8), rows], 1).tobytes()

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    image = zlib.compress(lines, level)
    return SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", image) + chunk(b"IEND", b"")
