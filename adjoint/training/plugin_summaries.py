"""The values TensorBoard's plugins show: tensors, curves, meshes, sounds, videos, layouts.

Each function gives a message of TensorBoard's own protocol, as those of `summaries` do.
"""

from __future__ import annotations

import io
import json
import warnings
import wave
from typing import Any

import numpy as np

from adjoint.engine.core.availability.libraries import need
from adjoint.engine.core.dtype import bfloat16
from adjoint.engine.tensor.tensor import Tensor
from adjoint.training import summaries

LARGEST_SAMPLE = 32767  # of a sound of 16 bits
# A dtype of NumPy's -> its name in TensorBoard's protocol, and the field its numbers are in.
FIELDS = {
    "float64": ("DT_DOUBLE", "double_val"),
    "float32": ("DT_FLOAT", "float_val"),
    "float16": ("DT_HALF", "half_val"),
    "complex128": ("DT_COMPLEX128", "dcomplex_val"),
    "complex64": ("DT_COMPLEX64", "scomplex_val"),
    "int64": ("DT_INT64", "int64_val"),
    "int32": ("DT_INT32", "int_val"),
    "int16": ("DT_INT16", "int_val"),
    "int8": ("DT_INT8", "int_val"),
    "uint64": ("DT_UINT64", "uint64_val"),
    "uint32": ("DT_UINT32", "uint32_val"),
    "uint16": ("DT_UINT16", "int_val"),
    "uint8": ("DT_UINT8", "int_val"),
    "bool": ("DT_BOOL", "bool_val"),
}


def _value(**fields: Any) -> Any:
    return summaries.messages().summary.Summary.Value(**fields)


def _summary(*values: Any) -> Any:
    return summaries.messages().summary.Summary(value=values)


def _tensor(array: Any) -> Any:
    """An array of numbers; half precision goes as bits, complex numbers as pairs."""
    kind, field = FIELDS[array.dtype.name]
    flat = np.ascontiguousarray(array).ravel()
    if array.dtype == np.float16:
        flat = flat.view(np.uint16)
    elif array.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    return _content(kind, field, array.shape, flat)


def _content(kind: str, field: str, shape: Any, numbers: Any) -> Any:
    protos = summaries.messages()
    return protos.tensor.TensorProto(
        dtype=getattr(protos.types, kind),
        tensor_shape={"dim": [{"size": size} for size in shape]},
        **{field: numbers.tolist()},
    )


def _plugin(path: str) -> Any:
    return need(f"tensorboard.plugins.{path}", "SummaryWriter")


def tensor(tag: str, value: Any) -> Any:
    """A tensor with its dtype and shape."""
    if isinstance(value, Tensor):
        value = value.detach().to("cpu")
    if isinstance(value, Tensor) and value.dtype is bfloat16:
        # NumPy has no such dtype: its bits are the first half of a float32's.
        bits = np.asarray(value.float().numpy()).ravel().view(np.uint32) >> 16
        content = _content("DT_BFLOAT16", "half_val", value.shape, bits)
    else:
        array = np.asarray(value.numpy() if isinstance(value, Tensor) else value)
        if array.dtype.name not in FIELDS:
            raise ValueError(f"add_tensor: {tag!r}: expected numbers, got {array.dtype}")
        content = _tensor(array)
    return _summary(_value(tag=tag, tensor=content, metadata=summaries.metadata("tensor")))


def histogram(
    tag: str,
    least: float,
    largest: float,
    count: int,
    total: float,
    squares: float,
    limits: Any,
    counts: Any,
) -> Any:
    """A histogram that was counted elsewhere; `limits` are the right edges of buckets."""
    limits, counts = (summaries.to_array(one).ravel().tolist() for one in (limits, counts))
    if len(limits) != len(counts):
        raise ValueError(
            f"add_histogram_raw: {tag!r}: {len(limits)} bucket_limits and {len(counts)} "
            "bucket_counts: there must be as many of both"
        )
    proto = summaries.messages().summary.HistogramProto(
        min=least,
        max=largest,
        num=count,
        sum=total,
        sum_squares=squares,
        bucket_limit=limits,
        bucket=counts,
    )
    return _summary(_value(tag=tag, histo=proto))


# -- precision and recall -------------------------------------------------------------------------


def precision_recall(labels: Any, predictions: Any, count: int, weights: Any) -> list[Any]:
    """True and false positives, true and false negatives, precision and recall by thresholds.

    The thresholds are `count` numbers from 0 to 1 at equal distances; what is predicted with as
    much or more counts as positive.

    >>> rows = precision_recall([1, 0, 1], [1.0, 0.0, 0.5], 3, None)
    >>> [float(number) for number in rows[5]]
    [1.0, 1.0, 0.5]
    """
    truth = summaries.to_array(labels).ravel() != 0
    guessed = summaries.to_array(predictions).ravel()
    if guessed.size != truth.size:
        raise ValueError(
            f"add_pr_curve: {truth.size} labels and {guessed.size} predictions: there must be as "
            "many of both"
        )
    if not ((guessed >= 0) & (guessed <= 1)).all():
        raise ValueError("add_pr_curve: predictions must be probabilities, from 0 to 1")
    if count < 2:
        raise ValueError(f"add_pr_curve: num_thresholds must be 2 or more, got {count}")
    weight = summaries.to_array(1.0 if weights is None else weights).astype(np.float64)
    if weight.size not in (1, truth.size):
        raise ValueError(f"add_pr_curve: {weight.size} weights for {truth.size} labels")
    weight = np.broadcast_to(weight.ravel(), truth.shape)
    # The highest threshold that each prediction reaches, and the weight that reaches each or more.
    reached = np.floor(guessed * (count - 1)).astype(np.int64)

    def reaching(chosen: Any) -> Any:
        found = np.bincount(reached[chosen], weight[chosen], minlength=count)
        return found[::-1].cumsum()[::-1]

    true_positives, false_positives = reaching(truth), reaching(~truth)
    true_negatives = false_positives[0] - false_positives
    false_negatives = true_positives[0] - true_positives

    def share(divisor: Any) -> Any:
        zeros = np.zeros(count)
        return np.divide(true_positives, divisor, out=zeros, where=divisor > 0)

    counts = [true_positives, false_positives, true_negatives, false_negatives]
    return [
        *counts,
        share(true_positives + false_positives),
        share(true_positives + false_negatives),
    ]


def curve(tag: str, rows: list[Any]) -> Any:
    """Six rows as `precision_recall` gives them, a number for each threshold."""
    arrays = [summaries.to_array(row).astype(np.float32).ravel() for row in rows]
    lengths = {array.size for array in arrays}
    if len(lengths) != 1:
        raise ValueError(
            f"add_pr_curve_raw: {tag!r}: counts, precision and recall must be of one length, got "
            f"{[array.size for array in arrays]}"
        )
    about = _plugin("pr_curve.metadata").create_summary_metadata("", "", lengths.pop())
    return _summary(_value(tag=tag, tensor=_tensor(np.stack(arrays)), metadata=about))


# -- meshes ---------------------------------------------------------------------------------------


def mesh(tag: str, vertices: Any, colors: Any, faces: Any, settings: Any) -> Any:
    """Points in space, with triangles between them and colours where these are given."""
    library = _plugin("mesh.metadata")
    kinds = _plugin("mesh.plugin_data_pb2").MeshPluginData
    parts = {kinds.VERTEX: vertices, kinds.FACE: faces, kinds.COLOR: colors}
    arrays = {
        kind: summaries.to_array(part).astype(np.float32)
        for kind, part in parts.items()
        if part is not None
    }
    for kind, array in arrays.items():
        if array.ndim != 3 or array.shape[2] != 3:
            name = {kinds.VERTEX: "vertices", kinds.FACE: "faces", kinds.COLOR: "colors"}[kind]
            raise ValueError(f"add_mesh: {tag!r}: {name} must be (B, N, 3), got {array.shape}")
    mask = library.get_components_bitmask(arrays)
    return _summary(
        *(
            _value(
                tag=library.get_instance_name(tag, kind),
                tensor=_tensor(array),
                metadata=library.create_summary_metadata(
                    tag, "", kind, mask, array.shape, json_config=json.dumps(settings or {})
                ),
            )
            for kind, array in arrays.items()
        )
    )


# -- sounds and pictures --------------------------------------------------------------------------


def sound(tag: str, samples: Any, rate: int) -> Any:
    """A sound of one channel, numbers from -1 to 1, as a WAV file of 16 bits."""
    array = summaries.to_array(samples).astype(np.float64)
    if array.size == 0 or array.size != max(array.shape, default=1):
        raise ValueError(f"add_audio: {tag!r}: expected one channel (L) or (1, L): {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"add_audio: {tag!r}: the samples are not all finite")
    if np.abs(array).max() > 1:
        warnings.warn(f"add_audio: {tag!r}: samples beyond -1 and 1 are clipped", stacklevel=3)
    numbers = (array.ravel().clip(-1, 1) * LARGEST_SAMPLE).astype("<i2")
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(numbers.tobytes())
    audio = summaries.messages().summary.Summary.Audio(
        sample_rate=rate,
        num_channels=1,
        length_frames=numbers.size,
        encoded_audio_string=stream.getvalue(),
        content_type="audio/wav",
    )
    return _summary(_value(tag=tag, audio=audio))


def frames(tag: str, value: Any) -> Any:
    """Videos (N, T, C, H, W) as the frames (T, H, W, C) of one, in bytes, all side by side.

    The places are a power of two, in no more rows than columns, and dark where none is left.

    >>> frames("v", np.zeros((3, 5, 1, 4, 6))).shape
    (5, 4, 24, 1)
    """
    array = summaries.to_array(value)
    if array.ndim != 5 or array.shape[2] not in (1, 3) or 0 in array.shape:
        raise ValueError(
            f"add_video: {tag!r}: expected (N, T, C, H, W) with 1 or 3 channels, got {array.shape}"
        )
    if array.dtype != np.uint8:
        array = (array.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)
    count, length, channels, height, width = array.shape
    rows = 1 << (count.bit_length() - 1) // 2
    columns = (1 << (count - 1).bit_length()) // rows
    grid = np.zeros((rows * columns, length, channels, height, width), np.uint8)
    grid[:count] = array
    grid = grid.reshape(rows, columns, length, channels, height, width)
    return grid.transpose(2, 0, 4, 1, 5, 3).reshape(
        length, rows * height, columns * width, channels
    )


def video(tag: str, value: Any, rate: float) -> Any:
    """Videos as one animated GIF."""
    library = need("PIL.Image", "add_video")
    if rate <= 0:
        raise ValueError(f"add_video: {tag!r}: fps must be more than 0, got {rate}")
    pixels = frames(tag, value)
    _, height, width, channels = pixels.shape
    pictures = [library.fromarray(one[..., 0] if channels == 1 else one) for one in pixels]
    stream = io.BytesIO()
    pictures[0].save(
        stream,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=round(1000 / rate),
        loop=0,  # for ever
    )
    image = summaries.messages().summary.Summary.Image(
        height=height,
        width=width,
        colorspace=channels,
        encoded_image_string=stream.getvalue(),
    )
    return _summary(_value(tag=tag, image=image))


def boxed(tag: str, pixels: Any, boxes: Any, labels: list[str] | None, rescale: float) -> Any:
    """An image (H, W, C) of bytes with boxes drawn in red, enlarged by a factor."""
    library = need("PIL.Image", "add_image_with_boxes")
    drawing = need("PIL.ImageDraw", "add_image_with_boxes")
    places = summaries.to_array(boxes)
    if places.ndim != 2 or places.shape[1] != 4:
        raise ValueError(f"add_image_with_boxes: {tag!r}: boxes must be (N, 4), got {places.shape}")
    if labels is not None and len(labels) != len(places):
        raise ValueError(
            f"add_image_with_boxes: {tag!r}: {len(places)} boxes want as many labels, "
            f"received {len(labels)}"
        )
    grey = pixels.shape[2] == 1
    image = library.fromarray(np.ascontiguousarray(pixels[..., 0] if grey else pixels))
    image = image.convert("RGB") if grey else image
    pen = drawing.Draw(image)
    for k, (left, top, right, bottom) in enumerate(places.tolist()):
        pen.rectangle((left, top, right, bottom), outline="red", width=2)
        if labels is not None:
            pen.text((left + 3, top + 3), str(labels[k]), fill="red")
    if rescale != 1:
        size = [round(side * rescale) for side in image.size]
        image = image.resize(size, library.Resampling.LANCZOS)
    return summaries.picture(tag, np.asarray(image))


# -- layouts --------------------------------------------------------------------------------------


def layout(charts: dict[str, dict[str, Any]]) -> Any:
    """Which numbers are in which diagram: categories, their charts, a kind and tags for each."""
    library, about = _plugin("custom_scalar.layout_pb2"), _plugin("custom_scalar.metadata")
    categories = []
    for category, of_category in charts.items():
        found = []
        for title, (kind, tags) in of_category.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise ValueError(
                        f"add_custom_scalars: {title!r}: a margin has 3 tags (the value, what is "
                        f"below and above it), got {len(tags)}"
                    )
                series = dict(zip(("value", "lower", "upper"), tags, strict=True))
                found.append(library.Chart(title=title, margin={"series": [series]}))
            elif kind == "Multiline":
                found.append(library.Chart(title=title, multiline={"tag": tags}))
            else:
                raise ValueError(
                    f"add_custom_scalars: {title!r}: a chart is 'Multiline' or 'Margin', got "
                    f"{kind!r}"
                )
        categories.append(library.Category(title=category, chart=found))
    protos = summaries.messages()
    content = protos.tensor.TensorProto(
        dtype=protos.types.DT_STRING,
        tensor_shape={},
        string_val=[library.Layout(category=categories).SerializeToString()],
    )
    return _summary(
        _value(
            tag=about.CONFIG_SUMMARY_TAG,
            tensor=content,
            metadata=about.create_summary_metadata(),
        )
    )


# -- graphs of ONNX -------------------------------------------------------------------------------


def _sizes(info: Any) -> dict[str, Any]:
    """The shape of a value of ONNX, -1 for a size that is open."""
    if not info.type.tensor_type.HasField("shape"):
        return {}
    dimensions = info.type.tensor_type.shape.dim
    sizes = [{"size": d.dim_value if d.HasField("dim_value") else -1} for d in dimensions]
    return {"_output_shapes": {"list": {"shape": [{"dim": sizes}]}}}


def onnx_drawing(path: Any) -> Any:
    """A file of ONNX as a graph, a node per operation, input, output and weight."""
    library = need("onnx", "add_onnx_graph")
    graph = library.load(path, load_external_data=False).graph
    weights = {weight.name for weight in graph.initializer}
    names = {name: f"weight/{name}" for name in weights}
    nodes: list[dict[str, Any]] = [{"name": name, "op": "weight"} for name in names.values()]
    for info in graph.input:
        if info.name not in weights:
            names[info.name] = f"input/{info.name}"
            nodes.append({"name": names[info.name], "op": "input", "attr": _sizes(info)})
    for node in graph.node:  # in an order in which what is needed comes first
        place = next((f"{node.op_type}/{name}" for name in node.output if name), node.op_type)
        inputs = [names[name] for name in node.input if name in names]
        attributes = {
            one.name: {"s": library.helper.printable_attribute(one).encode()}
            for one in node.attribute
        }
        nodes.append({"name": place, "op": node.op_type, "input": inputs, "attr": attributes})
        names |= {name: place for name in node.output if name}
    for info in graph.output:
        name, made = f"output/{info.name}", names[info.name]
        nodes.append({"name": name, "op": "output", "input": [made], "attr": _sizes(info)})
    return summaries.messages().graph.GraphDef(node=nodes)
