"""The values TensorBoard shows: numbers, histograms, images, texts, hyperparameters, graphs."""

from __future__ import annotations

import struct
import time
from typing import Any

import numpy as np

from adjoint.data.readers import png
from adjoint.engine.graph.ir import Graph
from adjoint.engine.tensor.tensor import Tensor
from adjoint.training.events import double, nested, number, text

# Edges of buckets that grow by a tenth, in both directions from zero.
_POSITIVE = 1e-12 * 1.1 ** np.arange(774)
EDGES = np.concatenate([-_POSITIVE[::-1], [0.0], _POSITIVE])


def to_array(value: Any) -> Any:
    """A tensor, array or number as an array."""
    if isinstance(value, Tensor):
        value = value.detach().to("cpu")
        return np.asarray((value.float() if value.dtype.is_half else value).numpy())
    return np.asarray(value)


def summary(*values: bytes) -> bytes:
    """The part of an event that holds values."""
    return nested(5, b"".join(nested(1, value) for value in values))


def scalar(tag: str, value: Any) -> bytes:
    """A number."""
    return text(1, tag) + b"\x15" + struct.pack("<f", float(to_array(value).squeeze()))


def histogram(tag: str, values: Any, bins: Any = "tensorflow") -> bytes:
    """How many values lie in which range."""
    flat = to_array(values).astype(np.float64).ravel()
    if flat.size == 0:
        raise ValueError(f"add_histogram: {tag!r}: the input has no element")
    if not np.isfinite(flat).all():
        raise ValueError(f"add_histogram: {tag!r}: the values are not all finite")
    edges = EDGES if isinstance(bins, str) and bins == "tensorflow" else bins
    counts, limits = np.histogram(flat, edges)
    used = np.nonzero(counts)[0]
    first, last = max(int(used[0]) - 1, 0), int(used[-1])
    counts, limits = counts[first : last + 1], limits[first + 1 : last + 2]
    body = b"".join(
        double(field, value)
        for field, value in (
            (1, flat.min()), (2, flat.max()), (3, flat.size), (4, flat.sum()), (5, flat @ flat),
        )
    )  # fmt: skip
    body += nested(6, limits.astype("<f8").tobytes()) + nested(7, counts.astype("<f8").tobytes())
    return text(1, tag) + nested(5, body)


def picture(tag: str, pixels: Any) -> bytes:
    """An image (H, W, C) of bytes."""
    height, width, channels = pixels.shape
    encoded = png.encode(pixels[:, :, 0] if channels == 1 else pixels)
    body = number(1, height) + number(2, width) + number(3, channels) + nested(4, encoded)
    return text(1, tag) + nested(4, body)


def arrange(value: Any, dataformats: str) -> Any:
    """Images in any order of dimensions as one image (H, W, C) of bytes, in rows of eight."""
    array, order = to_array(value), dataformats.upper()
    if array.ndim != len(order) or set(order) - set("NCHW") or len(set(order)) != len(order):
        raise ValueError(
            f"add_image: an array of shape {array.shape} does not fit dataformats={dataformats!r}"
        )
    for letter in "NCHW":
        if letter not in order:
            array, order = array[None], letter + order
    array = array.transpose([order.index(letter) for letter in "NHWC"])
    if array.dtype != np.uint8:
        array = (array.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)
    count, height, width, channels = array.shape
    columns = min(count, 8)
    rows = -(-count // columns)
    grid = np.zeros((rows * height, columns * width, channels), np.uint8)
    for i, one in enumerate(array):
        y, x = i // columns * height, i % columns * width
        grid[y : y + height, x : x + width] = one
    return grid


def _plugin(tag: str, plugin: str, content: bytes = b"") -> bytes:
    return text(1, tag) + nested(9, nested(1, text(1, plugin) + (nested(2, content))))


def words(tag: str, value: str) -> bytes:
    """A text, shown as Markdown."""
    tensor = number(1, 7) + nested(2, nested(2, number(1, 1))) + text(8, value)
    return _plugin(f"{tag}/text_summary", "text") + nested(8, tensor)


# -- hyperparameters ------------------------------------------------------------------------------


def _value(value: Any) -> tuple[int, bytes]:
    """The type of a hyperparameter, and its value."""
    if isinstance(value, bool):
        return 2, b"\x20" + bytes([value])
    if isinstance(value, str):
        return 1, text(3, value)
    if isinstance(value, (int, float, np.number, Tensor)):
        return 3, double(2, float(value))
    raise ValueError(
        "add_hparams: value should be one of int, float, str, bool, or Tensor, received "
        f"{type(value).__name__}"
    )


def hyperparameters(settings: dict[str, Any], metrics: dict[str, Any]) -> list[bytes]:
    """The three values that describe one run of an experiment."""
    infos = b"".join(
        nested(4, text(1, name) + number(4, _value(value)[0])) for name, value in settings.items()
    )
    infos += b"".join(nested(5, nested(1, text(2, name))) for name in metrics)
    start = b"".join(
        nested(1, text(1, name) + nested(2, _value(value)[1])) for name, value in settings.items()
    )
    contents = {
        "_hparams_/experiment": nested(2, infos),
        "_hparams_/session_start_info": nested(3, start + double(5, time.time())),
        "_hparams_/session_end_info": nested(4, number(1, 1)),
    }
    return [summary(_plugin(tag, "hparams", body)) for tag, body in contents.items()]


# -- graphs ---------------------------------------------------------------------------------------


def drawing(graph: Graph) -> bytes:
    """A captured graph, a node per operation."""
    names = {id(value): f"input/{value.name}" for value in graph.inputs}
    out = b"".join(nested(1, text(1, name) + text(2, "input")) for name in names.values())
    for node in graph:
        name = f"{node.record.name}/{node.outputs[0].name}" if node.outputs else node.record.name
        names |= {id(value): name for value in node.outputs}
        inputs = [names[id(x)] for x in node.inputs if id(x) in names]
        body = text(1, name) + text(2, node.record.name)
        out += nested(1, body + b"".join(text(3, x) for x in inputs))
    return nested(4, out)
