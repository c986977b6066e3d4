"""What `SummaryWriter` writes for TensorBoard's plugins, read back and compared with NumPy."""

from __future__ import annotations

import inspect
import io
import json
import math
import warnings
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.training.projector import CONFIGURATION
from adjoint.training.writer import SummaryWriter

pytest.importorskip("tensorboard", reason="event files are written and read by tensorboard")

# PyTorch 2.13's public methods: names of arguments after self, those with a default with it.
METHODS = """
add_audio tag snd_tensor global_step=None sample_rate=44100 walltime=None
add_custom_scalars layout
add_custom_scalars_marginchart tags category='default' title='untitled'
add_custom_scalars_multilinechart tags category='default' title='untitled'
add_embedding mat metadata=None label_img=None global_step=None tag='default' metadata_header=None
add_figure tag figure global_step=None close=True walltime=None
add_graph model input_to_model=None verbose=False use_strict_trace=True
add_histogram tag values global_step=None bins='tensorflow' walltime=None max_bins=None
add_histogram_raw tag min max num sum sum_squares bucket_limits bucket_counts global_step=None walltime=None
add_hparams hparam_dict metric_dict hparam_domain_discrete=None run_name=None global_step=None
add_image tag img_tensor global_step=None walltime=None dataformats='CHW'
add_image_with_boxes tag img_tensor box_tensor global_step=None walltime=None rescale=1 dataformats='CHW' labels=None
add_images tag img_tensor global_step=None walltime=None dataformats='NCHW'
add_mesh tag vertices colors=None faces=None config_dict=None global_step=None walltime=None
add_onnx_graph prototxt
add_pr_curve tag labels predictions global_step=None num_thresholds=127 weights=None walltime=None
add_pr_curve_raw tag true_positive_counts false_positive_counts true_negative_counts false_negative_counts precision recall global_step=None num_thresholds=127 weights=None walltime=None
add_scalar tag scalar_value global_step=None walltime=None new_style=False double_precision=False
add_scalars main_tag tag_scalar_dict global_step=None walltime=None
add_tensor tag tensor global_step=None walltime=None
add_text tag text_string global_step=None walltime=None
add_video tag vid_tensor global_step=None fps=4 walltime=None
close
flush
get_logdir
"""


@pytest.mark.parametrize("line", METHODS.split("\n")[1:-1], ids=lambda line: line.split()[0])
def test_every_method_of_pytorch(line: str) -> None:
    name, *arguments = line.split()
    _, *ours = inspect.signature(getattr(SummaryWriter, name)).parameters.values()
    empty = inspect.Parameter.empty
    assert [
        one.name if one.default is empty else f"{one.name}={one.default!r}" for one in ours
    ] == arguments


def events(folder: Path) -> list[Any]:
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    (path,) = folder.glob("events*")
    return [Event.FromString(raw) for raw in RawEventFileLoader(str(path)).Load()][1:]


def written(folder: Path, do: Callable[[SummaryWriter], None]) -> list[Any]:
    """The values of the one event that was written."""
    with SummaryWriter(folder) as writer:
        do(writer)
    (event,) = events(folder)
    assert event.step == 3
    return list(event.summary.value)


def numbers(value: Any) -> Any:
    from tensorboard.util.tensor_util import make_ndarray

    with warnings.catch_warnings():  # NumPy 2.5 does not like how tensorboard reads halves
        warnings.filterwarnings("ignore", "Setting the dtype", DeprecationWarning)
        return make_ndarray(value.tensor)


def pixels(value: Any) -> Any:
    image = pytest.importorskip("PIL.Image", reason="Pillow reads the image back")
    return image.open(io.BytesIO(value.image.encoded_image_string))


@pytest.mark.parametrize("weighted", [False, True])
def test_precision_and_recall(tmp_path: Path, weighted: bool) -> None:
    draw = np.random.default_rng(0)
    truth, guessed = draw.random(60) < 0.4, np.append(draw.random(58), [0.0, 1.0])
    weight = draw.random(60) if weighted else np.ones(60)
    (value,) = written(
        tmp_path,
        lambda writer: writer.add_pr_curve(
            "p", ad.tensor(truth), ad.tensor(guessed), 3, 201, weight if weighted else None
        ),
    )
    rows = []
    for threshold in np.arange(201) / 200:
        called = guessed >= threshold
        tp, fp, tn, fn = (
            weight[a & b].sum()
            for a, b in [(called, truth), (called, ~truth), (~called, ~truth), (~called, truth)]
        )
        rows.append([tp, fp, tn, fn, tp / (tp + fp) if tp + fp else 0, tp / (tp + fn)])
    np.testing.assert_allclose(numbers(value), np.array(rows).T, rtol=1e-6, atol=1e-6)
    from tensorboard.plugins.pr_curve import metadata

    about = value.metadata.plugin_data
    assert about.plugin_name == metadata.PLUGIN_NAME
    assert metadata.parse_plugin_metadata(about.content).num_thresholds == 201


def test_precision_and_recall_found_elsewhere(tmp_path: Path) -> None:
    rows = np.arange(18.0).reshape(6, 3)
    (value,) = written(
        tmp_path, lambda writer: writer.add_pr_curve_raw("p", *rows, global_step=3, weights=2)
    )
    assert np.array_equal(numbers(value), rows)


def test_histogram_counted_elsewhere(tmp_path: Path) -> None:
    (value,) = written(
        tmp_path,
        lambda writer: writer.add_histogram_raw("h", -1, 3, 4, 6, 14, [1, 2, 3], [1, 1, 2], 3),
    )
    found = value.histo
    assert [found.min, found.max, found.num, found.sum, found.sum_squares] == [-1, 3, 4, 6, 14]
    assert (list(found.bucket_limit), list(found.bucket)) == ([1, 2, 3], [1, 1, 2])


def test_mesh(tmp_path: Path) -> None:
    from tensorboard.plugins.mesh import metadata

    draw = np.random.default_rng(1)
    points, colours = draw.random((2, 4, 3), np.float32), draw.integers(0, 256, (2, 4, 3))
    faces, settings = draw.integers(0, 4, (2, 5, 3)), {"camera": {"fov": 75}}
    values = written(
        tmp_path, lambda writer: writer.add_mesh("m", points, colours, faces, settings, 3)
    )
    assert [value.tag for value in values] == ["m_VERTEX", "m_FACE", "m_COLOR"]
    for value, expected, kind in zip(values, [points, faces, colours], [1, 2, 3], strict=True):
        assert np.array_equal(numbers(value), expected)
        about = metadata.parse_plugin_metadata(value.metadata.plugin_data.content)
        assert (about.name, about.content_type, about.components) == ("m", kind, 0b1110)
        assert list(about.shape) == list(expected.shape)
        assert json.loads(about.json_config) == settings


def test_sound(tmp_path: Path) -> None:
    samples = np.sin(np.arange(500) / 9).astype(np.float32)
    (value,) = written(
        tmp_path, lambda writer: writer.add_audio("a", ad.tensor(samples)[None], 3, 8000)
    )
    assert (value.audio.sample_rate, value.audio.length_frames) == (8000.0, 500)
    with wave.open(io.BytesIO(value.audio.encoded_audio_string)) as file:
        assert file.getparams()[:4] == (1, 2, 8000, 500)
        read = np.frombuffer(file.readframes(500), "<i2")
    assert np.abs(read / 32767 - samples).max() < 1 / 32767
    with pytest.warns(UserWarning, match="clipped"), SummaryWriter(tmp_path / "b") as writer:
        writer.add_audio("a", [2.0, 0.0])


def test_videos_side_by_side(tmp_path: Path) -> None:
    sequence = pytest.importorskip("PIL.ImageSequence", reason="Pillow writes videos")
    films = np.zeros((5, 4, 3, 5, 6), np.uint8)
    for film in range(5):
        for moment in range(4):
            films[film, moment, film % 3, moment, :] = (
                255  # a line that goes down, red, green, blue
            )
    (value,) = written(tmp_path, lambda writer: writer.add_video("v", ad.tensor(films), 3, 5))
    assert (value.image.height, value.image.width, value.image.colorspace) == (10, 24, 3)
    shown = pixels(value)
    assert (shown.n_frames, shown.info["duration"], shown.info["loop"]) == (4, 200, 0)
    for moment, frame in enumerate(sequence.Iterator(shown)):
        places = np.asarray(frame.convert("RGB")).reshape(2, 5, 4, 6, 3).transpose(0, 2, 4, 1, 3)
        assert np.array_equal(places.reshape(8, 3, 5, 6)[:5], films[:, moment])
        assert not places[1, 1:].any()


def test_image_with_boxes(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image", reason="Pillow draws boxes")
    (value,) = written(
        tmp_path,
        lambda writer: writer.add_image_with_boxes(
            "b", ad.zeros(12, 14, 1), np.array([[2, 3, 9, 10]]), 3, dataformats="HWC"
        ),
    )
    expected = np.zeros((12, 14, 3), np.uint8)
    expected[3:11, 2:10, 0] = 255
    expected[5:9, 4:8, 0] = 0
    assert np.array_equal(np.asarray(pixels(value)), expected)
    (larger,) = written(
        tmp_path / "larger",
        lambda writer: writer.add_image_with_boxes(
            "b", ad.ones(3, 12, 14), [[2, 3, 9, 10]], 3, rescale=2, labels=["x"]
        ),
    )
    assert (larger.image.height, larger.image.width) == (24, 28)
    assert pixels(larger).size == (28, 24)


@pytest.mark.parametrize(
    "dtype",
    "float64 float32 float16 int64 int32 int16 int8 uint8 bool complex64 complex128".split(),
)
def test_tensor(tmp_path: Path, dtype: str) -> None:
    array = np.array([[0, 1, 2.5], [3, -4, 5]]).astype("int64").astype(dtype)
    (value,) = written(tmp_path, lambda writer: writer.add_tensor("t", ad.tensor(array), 3))
    read = numbers(value)
    assert (read.dtype, value.metadata.plugin_data.plugin_name) == (array.dtype, "tensor")
    assert np.array_equal(read, array)


def test_tensor_of_bfloat16(tmp_path: Path) -> None:
    given = ad.tensor([1.0, -2.5]).to(ad.bfloat16)
    (value,) = written(tmp_path, lambda writer: writer.add_tensor("t", given, 3))
    assert list(value.tensor.half_val) == [0x3F80, 0xC020]


def test_layouts(tmp_path: Path) -> None:
    from tensorboard.plugins.custom_scalar import layout_pb2, metadata

    with SummaryWriter(tmp_path) as writer:
        writer.add_custom_scalars(
            {"T": {"x": ["Multiline", ["a", "b"]], "y": ["Margin", ["m", "l", "u"]]}, "U": {}}
        )
        writer.add_custom_scalars_multilinechart(["a"], title="one")
        writer.add_custom_scalars_marginchart(["m", "l", "u"], "c")
    values = [event.summary.value[0] for event in events(tmp_path)]
    assert {value.tag for value in values} == {metadata.CONFIG_SUMMARY_TAG}
    both, lines, margin = (layout_pb2.Layout.FromString(v.tensor.string_val[0]) for v in values)
    assert [category.title for category in both.category] == ["T", "U"]
    x, y = both.category[0].chart
    assert (x.title, list(x.multiline.tag)) == ("x", ["a", "b"])
    (series,) = y.margin.series
    assert (series.value, series.lower, series.upper) == ("m", "l", "u")
    assert (lines.category[0].title, lines.category[0].chart[0].title) == ("default", "one")
    assert (margin.category[0].title, margin.category[0].chart[0].title) == ("c", "untitled")


def test_points(tmp_path: Path) -> None:
    from google.protobuf import text_format  # type: ignore[import-untyped]
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    draw = np.random.default_rng(2)
    points, images = draw.random((5, 4)), draw.integers(0, 256, (5, 3, 6, 7), np.uint8)
    labels = [[f"name {i}", i] for i in range(5)]
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(ad.tensor(points), labels, images, 3, "a/b", ["name", "number"])
    with SummaryWriter(tmp_path) as writer:  # a run that goes on keeps what there was
        writer.add_embedding(ad.tensor([[1, 2]]), ["only"])
        with pytest.warns(UserWarning, match="is replaced"):
            writer.add_embedding(ad.tensor([[3, 4]]), ["only"])
    known = text_format.Parse((tmp_path / CONFIGURATION).read_text(), ProjectorConfig())
    first, second = known.embeddings
    assert (first.tensor_name, second.tensor_name) == ("a/b:00003", "default:00000")
    assert np.array_equal(np.loadtxt(tmp_path / first.tensor_path), points)
    table = (tmp_path / first.metadata_path).read_text().splitlines()
    assert [row.split("\t") for row in table] == [
        ["name", "number"], *([name, str(i)] for name, i in labels)
    ]  # fmt: skip
    assert list(first.sprite.single_image_dim) == [7, 6]
    sprite = ad.vision.io.read_image(str(tmp_path / first.sprite.image_path)).numpy()
    assert sprite.shape == (3, 18, 21)
    for i, image in enumerate(images):
        y, x = i // 3 * 6, i % 3 * 7
        assert np.array_equal(sprite[:, y : y + 6, x : x + 7], image)
    assert (tmp_path / second.tensor_path).read_text() == "3\t4\n"
    assert (tmp_path / second.metadata_path).read_text() == "only\n"


def test_graph_of_onnx(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx reads its files")
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    make = onnx.helper
    value = lambda name: make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, "n"])
    weight = make.make_tensor("w", onnx.TensorProto.FLOAT, [1], [1.0])
    nodes = [
        make.make_node("LeakyRelu", ["x"], ["h"], alpha=0.5),
        make.make_node("Add", ["h", "w"], ["y"]),
    ]
    graph = make.make_graph(nodes, "g", [value("x")], [value("y")], [weight])
    onnx.save(make.make_model(graph), tmp_path / "m.onnx")
    with SummaryWriter(tmp_path) as writer:
        writer.add_onnx_graph(tmp_path / "m.onnx")
    (event,) = events(tmp_path)
    drawn = {node.name: node for node in GraphDef.FromString(event.graph_def).node}
    assert {name: (node.op, list(node.input)) for name, node in drawn.items()} == {
        "weight/w": ("weight", []),
        "input/x": ("input", []),
        "LeakyRelu/h": ("LeakyRelu", ["input/x"]),
        "Add/y": ("Add", ["LeakyRelu/h", "weight/w"]),
        "output/y": ("output", ["Add/y"]),
    }
    (shape,) = drawn["input/x"].attr["_output_shapes"].list.shape
    assert [size.size for size in shape.dim] == [2, -1]
    assert b"0.5" in drawn["LeakyRelu/h"].attr["alpha"].s


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("add_pr_curve", ("p", [1, 0], [0.5]), "2 labels and 1 predictions"),
        ("add_pr_curve", ("p", [1, 0], [0.5, 1.5]), "from 0 to 1"),
        ("add_pr_curve", ("p", [1, 0], [0.5, math.nan]), "from 0 to 1"),
        ("add_pr_curve", ("p", [1, 0], [0.5, 0.5], 0, 1), "2 or more"),
        ("add_pr_curve", ("p", [1, 0, 1], [0.5] * 3, 0, 5, [1, 2]), "2 weights for 3"),
        ("add_pr_curve_raw", ("p", [1], [1], [1], [1], [1], [1, 2]), "of one length"),
        ("add_histogram_raw", ("h", 0, 1, 2, 1, 1, [1], [1, 1]), "as many of both"),
        ("add_mesh", ("m", np.zeros((4, 3))), r"vertices must be \(B, N, 3\)"),
        ("add_mesh", ("m", np.zeros((1, 4, 3)), np.zeros((1, 4, 4))), "colors must be"),
        ("add_audio", ("a", np.zeros((2, 9))), "expected one channel"),
        ("add_audio", ("a", [math.nan, 0]), "not all finite"),
        ("add_video", ("v", np.zeros((1, 2, 4, 5, 5))), "1 or 3 channels"),
        ("add_video", ("v", np.zeros((1, 2, 3, 5, 5)), 0, 0), "more than 0"),
        ("add_tensor", ("t", np.array(["a"])), "expected numbers"),
        ("add_image_with_boxes", ("b", np.zeros((3, 9, 9)), [1, 2, 3, 4]), "must be"),
        ("add_image_with_boxes", ("b", np.zeros((3, 9, 9)), [[1, 2, 3, 4]], 0, None, 1, "CHW", []), "as many labels"),
        ("add_custom_scalars", ({"T": {"y": ["Margin", ["a", "b"]]}},), "3 tags"),
        ("add_custom_scalars", ({"T": {"y": ["Line", ["a"]]}},), "'Multiline' or 'Margin'"),
        ("add_embedding", (np.zeros(3),), "expected points"),
        ("add_embedding", (np.zeros((3, 2)), ["a"]), "1 labels for 3 points"),
        ("add_embedding", (np.zeros((1, 2)), ["a\tb"]), "cannot hold tabs"),
        ("add_embedding", (np.zeros((1, 2)), [["a"]], None, 0, "t", ["x", "y"]), "2 columns"),
        ("add_embedding", (np.zeros((2, 2)), None, np.zeros((1, 3, 4, 4))), "label_img must be"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    tmp_path: Path, method: str, arguments: tuple[Any, ...], message: str
) -> None:
    if method in ("add_video", "add_image_with_boxes"):
        pytest.importorskip("PIL.Image", reason="Pillow draws it")
    with SummaryWriter(tmp_path) as writer, pytest.raises(ValueError, match=message):
        getattr(writer, method)(*arguments)
    assert not events(tmp_path)
    assert not (tmp_path / CONFIGURATION).exists()
