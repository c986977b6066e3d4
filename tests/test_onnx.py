"""ONNX models as modules: the standard's node cases, real graphs, training, and files that lie."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from adjoint.onnx import OnnxError, backend, load  # noqa: E402

RNG = np.random.default_rng(0)
# What cannot agree: draws, whose bits the standard leaves open, and roundings of the reference.
LEAST = 1860


def model_of(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: list[str],
    weights: dict[str, Any] | None = None,
    opset: int = 18,
    **more: Any,
) -> Any:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(v, n) for n, v in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **more)


def perceptron() -> Any:
    nodes = [
        helper.make_node("Gemm", ["x", "0.weight", "0.bias"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Shape", ["r"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one"], ["n"]),
        helper.make_node("Concat", ["n", "minus"], ["to"], axis=0),
        helper.make_node("Reshape", ["r", "to"], ["flat"]),
        helper.make_node("MatMul", ["flat", "out"], ["y"]),
    ]
    weights = {
        "0.weight": RNG.normal(size=(6, 4)).astype(np.float32),
        "0.bias": np.zeros(6, np.float32),
        "out": RNG.normal(size=(6, 2)).astype(np.float32),
        "zero": np.array([0]),
        "one": np.array([1]),
        "minus": np.array([-1]),
    }
    return model_of(nodes, {"x": ["n", 4]}, ["y"], weights)


def test_a_model_is_a_module_that_trains_and_compiles() -> None:
    module = load(perceptron())
    assert {name for name, _ in module.named_parameters()} == {"w_0_weight", "w_0_bias", "out"}
    x = ad.tensor(RNG.normal(size=(5, 4)).astype(np.float32))
    w, b, out = (p.detach().numpy() for p in module.parameters())
    np.testing.assert_allclose(
        module(x).detach().numpy(), np.maximum(x.numpy() @ w.T + b, 0) @ out, rtol=1e-5, atol=1e-6
    )
    optimizer = ad.optim.SGD(module.parameters(), lr=0.01)

    def step(x: ad.Tensor) -> ad.Tensor:
        loss = (module(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = ad.compile(step, fullgraph=True)
    losses = [compiled(x).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[-1]


def test_inputs_by_name_and_wrong_ones() -> None:
    module = load(perceptron())
    x = ad.ones(2, 4)
    assert module(x=x).equal(module(x))
    for call in (lambda: module(), lambda: module(x, x), lambda: module(x, z=x)):
        with pytest.raises(TypeError, match=r"the model takes \['x'\]"):
            call()


def branching() -> Any:
    def branch(name: str, op: str) -> Any:
        node = helper.make_node(op, ["x"], [name])
        return helper.make_graph(
            [node], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)]
        )

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
        helper.make_node(
            "If",
            ["positive"],
            ["y"],
            then_branch=branch("a", "Exp"),
            else_branch=branch("b", "Neg"),
        ),
    ]
    return model_of(nodes, {"x": [3]}, ["y"], {"zero": np.array(0, np.float32)})


def test_a_branch_on_values_is_recorded() -> None:
    module = load(branching())
    compiled = ad.compile(load(branching()), fullgraph=True)
    for sign in (1.0, -1.0):
        x = ad.full((3,), sign)
        wanted = x.exp() if sign > 0 else -x
        assert module(x).allclose(wanted)
        assert compiled(x).allclose(wanted)


def test_functions_of_the_model_are_called() -> None:
    double = helper.make_function(
        "mine", "Scaled", ["a"], ["c"],
        [
            helper.make_node("Constant", [], ["k"], value_float=1.0),
            helper.make_node("Elu", ["a"], ["e"]),
            helper.make_node("Mul", ["e", "k"], ["c"]),
        ],
        [helper.make_opsetid("", 18)], ["alpha"],
    )  # fmt: skip
    double.node[1].attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type=1)
    )
    model = model_of(
        [helper.make_node("Scaled", ["x"], ["y"], domain="mine", alpha=2.0)], {"x": [2]}, ["y"]
    )
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.functions.append(double)
    x = ad.tensor([-1.0, 1.0])
    assert load(model)(x).allclose(nn.functional.elu(x, 2.0))


# -- files that lie -----------------------------------------------------------------------------


def external(location: str, **entries: Any) -> Any:
    tensor = TensorProto(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4]}, ["y"])
    model.graph.initializer.append(tensor)
    return model


def test_external_data_is_read_within_the_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    values = np.arange(4, dtype=np.float32)
    for place in (tmp_path / "secret", folder / "data"):
        place.write_bytes(bytes(4) + values.tobytes())
    (folder / "link").symlink_to(tmp_path / "secret")
    path = folder / "m.onnx"

    def written(model: Any) -> Path:
        path.write_bytes(model.SerializeToString())
        return path

    good = load(written(external("data", offset=4, length=16)))
    np.testing.assert_array_equal(good(ad.zeros(4)).detach().numpy(), values)
    bad = {
        "../secret": {}, str(tmp_path / "secret"): {}, "link": {}, "": {}, "missing": {}, ".": {},
        "data": {"offset": 8}, "data ": {}, "a\\..\\b": {},
    }  # fmt: skip
    for location, entries in bad.items():
        with pytest.raises(OnnxError, match="tensor 'w'"):
            load(written(external(location, **entries)))
    for entries in ({"offset": -4}, {"offset": "x"}, {"length": 1 << 40}, {"offset": 1 << 62}):
        with pytest.raises(OnnxError, match="tensor 'w'"):
            load(written(external("data", **entries)))
    with pytest.raises(OnnxError, match="give the path"):
        load(external("data"))


def test_files_that_are_no_models() -> None:
    whole = perceptron().SerializeToString()
    for cut in (0, 1, 7, len(whole) // 2, len(whole) - 3):
        with pytest.raises(OnnxError):
            load(whole[:cut])
    for _ in range(200):  # damaged: read, or refused, and nothing else
        data = bytearray(whole)
        for place in RNG.integers(0, len(data), 3):
            data[place] = RNG.integers(0, 256)
        with contextlib.suppress(OnnxError, UnicodeDecodeError):
            load(bytes(data))


def test_models_that_never_end_are_refused() -> None:
    """Functions that stand for too much, a Loop of absurdly many rounds, names given twice."""
    calls = [
        helper.make_function(
            "f", f"F{k}", ["x"], ["y"],
            [helper.make_node(f"F{k + 1}", [a], [b], domain="f") for a, b in ("xt", "ty")],
            [helper.make_opsetid("f", 1)],
        )
        for k in range(40)
    ]  # fmt: skip
    relu = helper.make_node("Relu", ["x"], ["y"])
    own = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    calls.append(helper.make_function("f", "F40", ["x"], ["y"], [relu], own))
    itself = helper.make_function(
        "f", "G", ["x"], ["y"], [helper.make_node("G", ["x"], ["y"], domain="f")], own
    )
    for name, words in (("F0", "stand for"), ("G", "call itself")):
        model = model_of([helper.make_node(name, ["x"], ["y"], domain="f")], {"x": [2]}, ["y"])
        model.functions.extend([*calls, itself])
        model.opset_import.append(helper.make_opsetid("f", 1))
        with pytest.raises(OnnxError, match=words):
            load(model)

    ends = [("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, []), ("v", 1, [2])]
    infos = [helper.make_tensor_value_info(*end) for end in ends]
    outputs = [helper.make_tensor_value_info("go", TensorProto.BOOL, []), infos[2]]
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["go"])], "b", infos, outputs)
    turn = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    weights = {"n": np.array(1 << 62)}
    with pytest.raises(OnnxError, match="rounds"):
        load(model_of([turn], {"x": [2]}, ["y"], weights))(ad.ones(2))

    model = model_of([relu], {"x": [2]}, ["y"])
    model.graph.input.append(model.graph.input[0])
    with pytest.raises(OnnxError, match="same name"):
        load(model)


def test_absurd_sizes_are_refused() -> None:
    huge = TensorProto(name="w", data_type=1, dims=[1 << 40], raw_data=b"1234")
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4]}, ["y"])
    model.graph.initializer.append(huge)
    with pytest.raises(OnnxError, match="elements"):
        load(model)
    shape = np.array([1 << 31, 4])
    for node in (
        helper.make_node("ConstantOfShape", ["shape"], ["y"]),
        helper.make_node("RandomNormal", [], ["y"], shape=[1 << 20, 1 << 20]),
        helper.make_node("Tile", ["matrix", "shape"], ["y"]),
    ):
        weights = {"shape": shape, "matrix": np.ones((2, 2), np.float32)}
        with pytest.raises(OnnxError, match="refused"):
            load(model_of([node], {}, ["y"], weights))()


def test_graphs_that_make_no_sense() -> None:
    circle = [helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    with pytest.raises(OnnxError, match="circle"):
        load(model_of(circle, {"x": [1]}, ["a"]))
    twice = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Abs", ["x"], ["a"])]
    with pytest.raises(OnnxError, match="two nodes"):
        load(model_of(twice, {"x": [1]}, ["a"]))
    one = ad.ones(1)
    with pytest.raises(OnnxError, match="nothing before makes it"):
        load(model_of([helper.make_node("Relu", ["nowhere"], ["y"])], {"x": [1]}, ["y"]))(one)
    with pytest.raises(OnnxError, match="'Strange' of domain 'far.away' is not known"):
        load(
            model_of(
                [helper.make_node("Strange", ["x"], ["y"], domain="far.away")], {"x": [1]}, ["y"]
            )
        )(one)
    with pytest.raises(OnnxError, match="newer than"):
        load(model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"], opset=99))
    with pytest.raises(OnnxError, match="attributes \\['speed'\\] of Relu"):
        load(model_of([helper.make_node("Relu", ["x"], ["y"], speed=3)], {"x": [1]}, ["y"]))(one)


def test_a_function_that_calls_itself_is_refused() -> None:
    again = helper.make_function(
        "mine", "Again", ["a"], ["b"], [helper.make_node("Again", ["a"], ["b"], domain="mine")],
        [helper.make_opsetid("mine", 1)],
    )  # fmt: skip
    model = model_of([helper.make_node("Again", ["x"], ["y"], domain="mine")], {"x": [1]}, ["y"])
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.functions.append(again)
    with pytest.raises(OnnxError, match="call itself"):
        load(model)(ad.ones(1))


# -- the standard's cases -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "group",
    ["test_lstm", "test_quantizelinear", "test_scan", "test_sequence_map", "test_softmax_axis"],
)
def test_some_node_cases(group: str) -> None:
    from tests.onnx_cases import score

    result = score(group, group.removeprefix("test_").removesuffix("_axis"))
    assert not result.failed
    assert result.passed


@pytest.mark.slow
def test_node_cases(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.onnx_cases import score

    result = score()
    with capsys.disabled():
        print(f"\n{result}")
    assert len(result.passed) >= LEAST


def test_the_backend_names_its_devices() -> None:
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    with pytest.raises(ValueError, match="not supported"):
        backend.prepare(perceptron(), "CUDA")
    (y,) = backend.run(perceptron(), [np.ones((2, 4), np.float32)])
    assert y.shape == (2, 2)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (helper.make_node("Softmax", ["x"], ["y"], axis=0.5), "axis of Softmax must be int"),
        (helper.make_node("Transpose", ["x"], ["y"], perm="10"), "perm of Transpose must be list"),
        (helper.make_node("Transpose", ["x"], ["y"], perm=[0.5, 1.0]), "must be list"),
        (helper.make_node("Elu", ["x"], ["y"], alpha="x"), "alpha of Elu must be float"),
        (helper.make_node("Gelu", ["x"], ["y"], approximate=1), "must be str"),
        (
            helper.make_node("Loop", ["three", "", "x"], ["y"], body=0.5),
            "Loop needs a graph, received a float",
        ),
    ],
)
def test_attributes_of_another_kind_are_refused(node: Any, words: str) -> None:
    model = model_of([node], {"x": (2, 3)}, ["y"], {"three": np.array(3)}, opset=20)
    with pytest.raises(OnnxError, match=words):
        load(model)(ad.ones(2, 3))


@pytest.mark.parametrize("field", ["producer_name", "doc_string", "domain"])
def test_texts_that_are_none(field: str) -> None:
    model = perceptron()
    setattr(model, field, "QQQQ")
    model.graph.doc_string = "QQQQ"
    with pytest.raises(OnnxError, match="not UTF-8"):
        load(model.SerializeToString().replace(b"QQQQ", b"\xff\xfe\xff\xfe"))


def test_an_encoded_image_is_decoded_and_nothing_else() -> None:
    """PostScript is an image to Pillow too, and runs another program."""
    images = pytest.importorskip("PIL.Image")
    images.init()
    from tests.hostile.crafted_published import EPS, blank
    from tests.hostile.published_readers import image

    node = helper.make_node("ImageDecoder", ["x"], ["y"], pixel_format="BGR")
    value = [helper.make_tensor_value_info(n, TensorProto.UINT8, None) for n in ("x", "y")]
    graph = helper.make_graph([node], "graph", value[:1], value[1:])
    run = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    for form in ("PNG", "JPEG", "BMP", "TIFF", "WEBP", "JPEG2000"):
        if form in images.SAVE:
            got = run(ad.tensor(np.frombuffer(image(form), np.uint8).copy()))
            assert got.shape == (24, 20, 3)
    for data in (EPS, blank(9000, 9000), b"abc"):
        with pytest.raises(OnnxError, match="ImageDecoder"):
            run(ad.tensor(np.frombuffer(data, np.uint8).copy()))


def test_sources_of_a_model(tmp_path: Path) -> None:
    """A path, an open file, bytes or a message; what is none of them is refused by name."""
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"])
    data, path = model.SerializeToString(), tmp_path / "relu.onnx"
    path.write_bytes(data)
    with path.open("rb") as file:
        for source in (str(path), path, file, io.BytesIO(data), data, bytearray(data), model):
            assert load(source)(ad.tensor([-1.0, 2.0])).tolist() == [0, 2]
    with pytest.raises(TypeError, match="gives str, not bytes. Open it 'rb'"):
        load(io.StringIO("text"))
    with pytest.raises(TypeError, match="expected a path, a binary file, bytes .* received int"):
        load(3)
