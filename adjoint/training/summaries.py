"""The values TensorBoard shows: numbers, histograms, images, texts, hyperparameters, graphs.

Each function gives a message of TensorBoard's own protocol; the library is imported when the first
one is made.
"""

from __future__ import annotations

import time
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from adjoint.data.readers import png
from adjoint.engine.core.availability.libraries import need
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.tensor.tensor import Tensor

# Edges of buckets that grow by a tenth, in both directions from zero.
_POSITIVE = 1e-12 * 1.1 ** np.arange(774)
EDGES = np.concatenate([-_POSITIVE[::-1], [0.0], _POSITIVE])
_MESSAGES = {
    "event": "tensorboard.compat.proto.event_pb2",
    "graph": "tensorboard.compat.proto.graph_pb2",
    "hparams": "tensorboard.plugins.hparams.api_pb2",
    "hparams_data": "tensorboard.plugins.hparams.plugin_data_pb2",
    "summary": "tensorboard.compat.proto.summary_pb2",
    "tensor": "tensorboard.compat.proto.tensor_pb2",
    "types": "tensorboard.compat.proto.types_pb2",
}


@cache
def messages() -> Any:
    """The modules of TensorBoard's protocol by short names."""
    return SimpleNamespace(
        **{name: need(path, "SummaryWriter") for name, path in _MESSAGES.items()}
    )


def to_array(value: Any) -> Any:
    """A tensor, array or number as an array."""
    if isinstance(value, Tensor):
        value = value.detach().to("cpu")
        return np.asarray((value.float() if value.dtype.is_half else value).numpy())
    return np.asarray(value)


def _summary(**fields: Any) -> Any:
    proto = messages().summary
    return proto.Summary(value=[proto.Summary.Value(**fields)])


def metadata(plugin: str, content: bytes = b"") -> Any:
    """What tells TensorBoard which plugin shows a value."""
    kind = messages().summary.SummaryMetadata
    return kind(plugin_data=kind.PluginData(plugin_name=plugin, content=content))


def scalar(tag: str, value: Any, *, as_tensor: bool = False, double: bool = False) -> Any:
    """A number; `as_tensor` is the newer form, which alone can hold a double."""
    number = float(to_array(value).squeeze())
    if not as_tensor:
        return _summary(tag=tag, simple_value=number)
    protos = messages()
    kind, field = ("DT_DOUBLE", "double_val") if double else ("DT_FLOAT", "float_val")
    tensor = protos.tensor.TensorProto(
        dtype=getattr(protos.types, kind), tensor_shape={}, **{field: [number]}
    )
    return _summary(tag=tag, tensor=tensor, metadata=metadata("scalars"))


def histogram(tag: str, values: Any, bins: Any = "tensorflow") -> Any:
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
    proto = messages().summary.HistogramProto(
        min=flat.min(),
        max=flat.max(),
        num=flat.size,
        sum=flat.sum(),
        sum_squares=flat @ flat,
        bucket_limit=limits[first + 1 : last + 2].tolist(),
        bucket=counts[first : last + 1].tolist(),
    )
    return _summary(tag=tag, histo=proto)


def picture(tag: str, pixels: Any) -> Any:
    """An image (H, W, C) of bytes."""
    height, width, channels = pixels.shape
    image = messages().summary.Summary.Image(
        height=height,
        width=width,
        colorspace=channels,
        encoded_image_string=png.encode(pixels[:, :, 0] if channels == 1 else pixels),
    )
    return _summary(tag=tag, image=image)


def arrange(value: Any, dataformats: str, columns: int = 8) -> Any:
    """Images in any order of dimensions as one image (H, W, C) of bytes, `columns` in a row."""
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
    columns = min(count, columns)
    rows = -(-count // columns)
    grid = np.zeros((rows * height, columns * width, channels), np.uint8)
    for i, one in enumerate(array):
        y, x = i // columns * height, i % columns * width
        grid[y : y + height, x : x + width] = one
    return grid


def words(tag: str, value: str) -> Any:
    """A text, shown as Markdown."""
    protos = messages()
    tensor = protos.tensor.TensorProto(
        dtype=protos.types.DT_STRING,
        tensor_shape={"dim": [{"size": 1}]},
        string_val=[value.encode()],
    )
    return _summary(tag=f"{tag}/text_summary", tensor=tensor, metadata=metadata("text"))


# -- hyperparameters ------------------------------------------------------------------------------


def _value(value: Any) -> tuple[str, dict[str, Any]]:
    """The type of a hyperparameter, and its value."""
    if isinstance(value, bool):
        return "DATA_TYPE_BOOL", {"bool_value": value}
    if isinstance(value, str):
        return "DATA_TYPE_STRING", {"string_value": value}
    if isinstance(value, (int, float, np.number, Tensor)):
        return "DATA_TYPE_FLOAT64", {"number_value": float(value)}
    raise ValueError(
        "add_hparams: value should be one of int, float, str, bool, or Tensor, received "
        f"{type(value).__name__}"
    )


def hyperparameters(
    settings: dict[str, Any], metrics: dict[str, Any], choices: dict[str, list[Any]]
) -> list[Any]:
    """The three values that describe one run of an experiment.

    `choices` names the values a hyperparameter may have, where these are few.
    """
    protos = messages()
    infos = []
    for name, value in settings.items():
        info = protos.hparams.HParamInfo(name=name, type=_value(value)[0])
        if name in choices:
            info.domain_discrete.extend(choices[name])
        infos.append(info)
    measured = [protos.hparams.MetricInfo(name={"tag": name}) for name in metrics]
    start = protos.hparams_data.SessionStartInfo(start_time_secs=time.time())
    for name, value in settings.items():
        for field, content in _value(value)[1].items():
            setattr(start.hparams[name], field, content)
    contents = {
        "experiment": {
            "experiment": protos.hparams.Experiment(hparam_infos=infos, metric_infos=measured)
        },
        "session_start_info": {"session_start_info": start},
        "session_end_info": {
            "session_end_info": protos.hparams_data.SessionEndInfo(status="STATUS_SUCCESS")
        },
    }
    return [
        _summary(
            tag=f"_hparams_/{tag}",
            metadata=metadata(
                "hparams", protos.hparams_data.HParamsPluginData(**body).SerializeToString()
            ),
        )
        for tag, body in contents.items()
    ]


# -- graphs ---------------------------------------------------------------------------------------


def drawing(graph: DataflowGraph) -> Any:
    """A captured graph, a node per operation."""
    names = {id(value): f"input/{value.name}" for value in graph.inputs}
    nodes: list[dict[str, Any]] = [{"name": n, "op": "input"} for n in names.values()]
    for node in graph:
        name = f"{node.record.name}/{node.outputs[0].name}" if node.outputs else node.record.name
        names |= {id(value): name for value in node.outputs}
        inputs = [names[id(x)] for x in node.inputs if id(x) in names]
        nodes.append({"name": name, "op": node.record.name, "input": inputs})
    return messages().graph.GraphDef(node=nodes)
