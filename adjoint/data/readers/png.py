"""A reader and writer of PNG images, for where Pillow is not installed: no interlacing."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def is_deep_colour(data: bytes) -> bool:
    """Whether a file is a PNG of 16 bits for each of several channels."""
    return data[:8] == SIGNATURE and data[24:25] == b"\x10" and data[25:26] != b"\0"


def decode(data: bytes, source: str) -> Any:
    """The pixels of a PNG file: (H, W) or (H, W, C), bytes (16-bit images as uint16)."""
    try:
        return _decode(data, source)
    except (struct.error, zlib.error, IndexError, KeyError, ValueError) as error:
        raise RuntimeError(f"read_image: {source}: damaged PNG ({error})") from error


def _decode(data: bytes, source: str) -> Any:
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
    width, height, depth, color, _, _, interlace = struct.unpack(">IIBBBBB", header)
    if interlace:
        raise RuntimeError(
            f"read_image: {source} is an interlaced PNG, which needs Pillow. Install it with "
            "`pip install adjoint[images]`."
        )
    channels = _CHANNELS[color]
    stride = (width * channels * depth + 7) // 8
    lines = np.frombuffer(zlib.decompress(b"".join(packed)), np.uint8)
    rows = _unfilter(lines.reshape(height, stride + 1), max(1, channels * depth // 8))
    if depth == 16:
        pixels = rows.copy().view(">u2").astype(np.uint16)
    elif depth < 8:
        bits = np.unpackbits(rows, axis=1)[:, : width * depth].reshape(height, width, depth)
        pixels = bits.dot(1 << np.arange(depth)[::-1]).astype(np.uint8)
        if color != 3:
            pixels = pixels * (255 // (2**depth - 1))
    else:
        pixels = rows
    pixels = pixels.reshape(height, width, channels)
    if color == 3:
        if palette is None:
            raise ValueError("no palette")
        return palette[pixels[..., 0]]
    return pixels[..., 0] if channels == 1 else pixels


def _unfilter(lines: Any, step: int) -> Any:
    """Undo the prediction each line was stored with."""
    out = np.zeros((len(lines) + 1, lines.shape[1] - 1 + step), np.uint8)  # a border of zeros
    for y, line in enumerate(lines):
        kind, row, above = int(line[0]), out[y + 1], out[y]
        row[step:] = line[1:]
        if kind == 2:
            row += above
        elif kind == 1:
            for c in range(step):
                row[step + c :: step] = np.cumsum(row[step + c :: step], dtype=np.uint8)
        elif kind in (3, 4):
            _predict(row, above, step, kind)
        elif kind:
            raise ValueError(f"filter {kind}")
    return np.ascontiguousarray(out[1:, step:])


def _predict(row: Any, above: Any, step: int, kind: int) -> None:
    current, previous = row.tolist(), above.tolist()
    for i in range(step, len(current)):
        a, b, c = current[i - step], previous[i], previous[i - step]
        if kind == 3:
            guess = (a + b) >> 1
        else:
            pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
            guess = a if pa <= pb and pa <= pc else (b if pb <= pc else c)
        current[i] = (current[i] + guess) & 255
    row[:] = current


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
