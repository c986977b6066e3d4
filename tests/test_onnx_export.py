"""Models written as ONNX: they give what their source gives, at sizes other than the example's."""

from __future__ import annotations

import io
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import models, nn
from adjoint.nn import functional as F

onnx = pytest.importorskip("onnx")

from adjoint.onnx import OnnxError, export, load  # noqa: E402
from tests.conformance.cases import make, rows  # noqa: E402
from tests.samples import S  # noqa: E402
from tests.test_models import SHAPES, tiny_ddpm  # noqa: E402


def ops(program: Any) -> set[str]:
    return {node.op_type for node in program.model_proto.graph.node}


class Attend(nn.Module):
    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return F.scaled_dot_product_attention(x, x, x, is_causal=True)


FAR_OUT = ad.tensor([-200.0, -1e6, -math.inf, math.inf, 1e6, 0.1, 1.0, 0.5, -3.3, 88.0, math.nan])
# function, arguments, dynamic dimensions
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "arithmetic": (lambda x, y: (x + 2 * y - x / 3) ** 2, (ad.randn(2, 3), ad.randn(3)), [{0: "n"}, None]),
    "functions": (lambda x: ad.log1p(x * x) + ad.expm1(-x.abs()) + ad.tanh(x).sqrt().nan_to_num(), (ad.rand(4, 3),), [{0: "n"}]),
    "small": (lambda x: (ad.log1p(x) + ad.expm1(x)) * 1e6, (ad.rand(4, 3) * 1e-6,), [{0: "n"}]),
    "sizes": (lambda x: x.reshape(x.shape[0] * x.shape[1], -1).sum(0) / x.shape[0], (ad.randn(2, 3, 4),), [{0: "a", 1: "b"}]),
    "quotient": (lambda x: x.reshape(x.shape[0] // 2, 2, -1).mean(1), (ad.randn(4, 6),), [{0: "n"}]),
    "slices": (lambda x: ad.cat([x[:, 1:], x[:, :1]], 1)[:, ::2].flip(0), (ad.randn(3, 5),), [{0: "n", 1: "m"}]),
    "new axes": (lambda x: x[None, :, 0, None] * ad.ones(x.shape[0], 1), (ad.randn(3, 5),), [{0: "n"}]),
    "positions": (lambda x: x + ad.arange(x.shape[1], dtype=ad.float32) * 0.5, (ad.randn(2, 5),), [{1: "t"}]),
    "comparison": (lambda x: ad.where((x > 0) & ~(x > 1) | (x != x), x, -x).clamp(-1, 2), (ad.randn(9),), [{0: "n"}]),
    "integers": (lambda x: (x // 3) * 10 + x % 3, (ad.arange(-6, 6),), [{0: "n"}]),
    "indices": (lambda x, i: x[i] + x.gather(0, i[:, None].expand(-1, 3)), (ad.randn(5, 3), ad.tensor([0, 4, 2])), [None, {0: "n"}]),
    "written": (lambda x: _written(x), (ad.randn(4, 4),), [{0: "n"}]),
    "reductions": (lambda x: (x.amax(1), x.argmin(1), x.logsumexp(0), x.var(1), x.prod(1)), (ad.randn(3, 4),), [{0: "n"}]),
    "triangle": (lambda x: (x @ x.mT).tril() + ad.eye(4), (ad.randn(2, 4, 4),), [{0: "n"}]),
    "pooling": (lambda x: F.avg_pool2d(F.max_pool2d(x, 3, 2, 1), 2), (ad.randn(2, 3, 9, 9),), [{0: "n"}]),
    "transposed": (lambda x: F.conv_transpose2d(x, ad.ones(2, 3, 3, 3), stride=2, padding=1, output_padding=1), (ad.randn(1, 2, 4, 4),), None),
    "resized": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (ad.randn(1, 2, 4, 4),), None),
    "halves": (lambda x: F.softmax(x * 2, -1), (ad.randn(3, 4).half(),), [{0: "n"}]),
    "branch": (lambda x: ad.cond(x.sum() > 0, lambda v: v.exp(), lambda v: -v, (x,)), (ad.randn(3, 4),), None),
    "scan": (lambda x: ad.scan(lambda c, row: (c * 0.5 + row, c * row), x[0] * 0, x)[1], (ad.randn(5, 3),), None),
    "loop": (lambda x: ad.while_loop(lambda v: v.abs().sum() > 1, lambda v: v / 2, (x,)), (ad.randn(3),), None),
    "order": (lambda x: (*x.topk(3, 1), x.sort(1, descending=True).indices, x.median(1).values, x.kthvalue(2, 1).values, x.median(), x.mode(1).values), (ad.randn(3, 7),), [{0: "n"}]),
    "running": (lambda x: (x.cumprod(1), x.cummax(1).values, x.cummin(0).indices, x.logcumsumexp(1)), (ad.randn(3, 4),), None),
    "searched": (lambda x, e: ad.bucketize(x, e) + ad.searchsorted(e, x, right=True) + ad.isin(x, e), (ad.randn(3, 5), ad.tensor([-1.0, 0.0, 1.0])), [{0: "n"}, None]),
    "put": (lambda x, i: (x.index_add(0, i, ad.ones(2, 5)), x.index_copy(0, i, ad.ones(2, 5)), x.scatter_reduce(0, i[None, :, None].expand(1, 2, 5)[0], ad.ones(2, 5), "amax"), x[i][:, i]), (ad.randn(3, 5), ad.tensor([0, 2])), None),
    "apart": (lambda x, i: x[i, :, i] + x[:, i, i].T, (ad.randn(4, 4, 4), ad.tensor([0, -1, 2, 3])), [None, {0: "n"}]),
    "diagonals": (lambda x: (x.diagonal(1), ad.diag_embed(x), x.roll((1, -2), (0, 1)), x.diag()), (ad.randn(4, 4),), None),
    "windows": (lambda x: (F.fold(F.unfold(x, 3, 2, 1), (6, 6), 3, 2, 1), x.unfold(2, 3, 2)), (ad.randn(2, 3, 6, 6),), [{0: "n"}]),
    "largest": (lambda x: (*F.max_pool2d(x, 2, return_indices=True), F.adaptive_max_pool2d(x, 3)), (ad.randn(1, 2, 7, 7),), [{0: "n"}]),
    "numbers": (lambda x, y: (ad.atan2(x, y), ad.hypot(x, y), ad.lerp(x, y, 0.3), ad.logaddexp(x, y), ad.xlogy(x, y.abs()), ad.copysign(x, y), x.isfinite(), ad.fmax(x, y), x.erfc(), ad.sinc(x)), (ad.randn(9), ad.randn(9)), [{0: "n"}, {0: "n"}]),
    "shifts": (lambda x: (x << 2, x >> 1, ad.div(x.float(), 3, rounding_mode="trunc")), (ad.arange(-5, 5),), [{0: "n"}]),
    "one number": (lambda x, y: (x + y.sum(), x.reshape(1)), (ad.tensor(2.0), ad.randn(3)), [None, {0: "n"}]),
    "resized openly": (lambda x, y: F.interpolate(x, size=y.shape[-2:], mode="bilinear") + y, (ad.randn(1, 2, 3, 4), ad.randn(1, 2, 6, 9)), [{2: "h", 3: "w"}, {2: "H", 3: "W"}]),
    "doubled": (lambda x: F.interpolate(x, scale_factor=2) + F.interpolate(x, scale_factor=2.0, mode="bicubic"), (ad.randn(1, 2, 4, 5),), [{2: "h", 3: "w"}]),
    "pooled openly": (lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.pad(x, (2, 1, 1, 0), "reflect"), F.pad(x, (2, 1, 0, 1), "replicate")), (ad.randn(1, 2, 6, 7),), [{2: "h", 3: "w"}]),
    "convolved openly": (lambda x, k: (F.conv2d(x, k, stride=2, padding=1), F.conv2d(x, k, stride=3, padding=2, dilation=2), F.conv_transpose2d(x, k, stride=2, output_padding=1)), (ad.randn(1, 2, 7, 8), ad.randn(2, 2, 3, 3)), [{2: "h", 3: "w"}, None]),
    "largest openly": (lambda x: (F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.adaptive_max_pool2d(x, 1), *F.max_pool2d(x, 3, 2, 1, 2, return_indices=True)), (ad.randn(1, 2, 9, 8),), [{2: "h", 3: "w"}]),
    "covered openly": (lambda x: (*[F.adaptive_avg_pool2d(x, k) for k in (2, 3)], *F.adaptive_max_pool2d(x, (2, 5), return_indices=True)), (ad.randn(1, 2, 12, 12),), [{2: "h", 3: "w"}]),
    "cut openly": (lambda x: (x[:, -3:-1], x.roll(7, 1), x.roll(-2, 1), -(-x.shape[1] // 2) + x, F.interpolate(x[None], scale_factor=1.5, mode="linear", align_corners=True)), (ad.randn(2, 5),), [{1: "t"}]),
    "picked openly": (lambda x: (*x.topk(2), *x.kthvalue(2), *x.sort(-1, descending=True)), (ad.randn(2, 6),), [{1: "t"}]),
    "far out": (lambda x, y: (F.elu(x), x.expm1(), x % y, x // y, ad.lerp(x, y, 0.7), ad.atan2(x, y), ad.hypot(x, y), ad.angle(x)), (FAR_OUT, FAR_OUT.flip(0)), [{0: "n"}, {0: "n"}]),
    "not all numbers": (lambda x: (*x.nanmedian(1), x.nanmedian()), (ad.tensor([[1.0, math.nan, 3.0, 2.0, 2.0], [math.nan] * 5, [math.inf, 1.0, math.nan, math.nan, math.inf]]),), None),
    "small integers": (lambda x, y: (x // y, x % y, x**2, x.round(), x.isnan(), ad.copysign(x, y), ad.div(x, y, rounding_mode="trunc")), (ad.tensor([127, -128, -128, 127, 7], dtype=ad.int8), ad.tensor([-2, 3, 7, -7, -7], dtype=ad.int8)), [{0: "n"}, {0: "n"}]),
    "a root of sizes": (lambda x: x / x.shape[1] ** 0.5, (ad.randn(2, 5),), [{1: "t"}]),
    "attention": (Attend(), (ad.randn(2, 2, 5, 4),), [{0: "b", 2: "t"}]),
}  # fmt: skip


def _written(x: ad.Tensor) -> ad.Tensor:
    out = x.clone()
    out[:, 1:3] = x[:, :2] * 2
    out[0] += 1
    return out


@pytest.mark.parametrize("size", [7, 8, 9, 16])
def test_what_no_window_reaches_is_not_cut_off(size: int) -> None:
    model = nn.Sequential(nn.Conv2d(4, 6, 1, 2), nn.Conv2d(6, 5, 3, 3, padding=1)).eval()
    x = ad.randn(1, 4, size, size + 1)
    program = export(model, (x,))
    assert {"Conv", "Pad"} & ops(program) == {"Conv"}
    message = onnx.shape_inference.infer_shapes(program.model_proto, strict_mode=True)
    shape = [d.dim_value for d in message.graph.output[0].type.tensor_type.shape.dim]
    assert shape == list(model(x).shape)


@pytest.mark.parametrize("opset", [18, 24])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, opset: int) -> None:
    fn, args, dynamic = PROGRAMS[name]
    export(fn, args, dynamic=dynamic, opset_version=opset)  # compares by itself


def small_models() -> dict[str, Any]:
    def given(name: str) -> Any:
        shape = SHAPES[name][1]
        return ad.randint(0, 17, shape) if name in ("gpt2", "llama", "bert") else ad.randn(*shape)

    return {name: (SHAPES[name][0], (given(name),)) for name in SHAPES} | {
        "lstm": (lambda: models.LSTMLanguageModel(17, 8, 2), (ad.zeros(3, 5).long(),)),
        "vae": (lambda: models.VAE(16, 32, 2), (ad.rand(4, 16),)),
        "ddpm": (tiny_ddpm, (ad.randn(2, 3, 8, 8), ad.tensor([1, 5]))),
    }


WITHOUT_FORM = "no form in ONNX|the shape of the result|is asked for at|a model returns tensors"


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in rows() if not row.random], ids=repr)
def test_samples_give_the_same_or_are_refused(row: S) -> None:
    case = make(row, ad.float32)
    if (
        ".quantized_" in row.path
    ):  # a weight's sums are known before, and are no numbers of any kind
        weight = case.tensors[3]
        case.tensors[5] = weight.sum(tuple(range(1, weight.ndim)), dtype=ad.int32)
    try:
        export(lambda *given: case.fn(*given), tuple(case.tensors))  # compares by itself
    except (OnnxError, RuntimeError) as error:
        if not re.search(WITHOUT_FORM, str(error)):
            raise


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 20, 24])
@pytest.mark.parametrize("name", [*SHAPES, "lstm", "vae", "ddpm"])
def test_the_zoo(name: str, opset: int) -> None:
    make, args = small_models()[name]
    export(make(), args, dynamic=[{0: "batch"}] * len(args), opset_version=opset)


@pytest.mark.parametrize("name", ["gpt2", "bert", "lenet"])
def test_models_read_back(name: str, tmp_path: Path) -> None:
    make, args = small_models()[name]
    model = make().eval()
    export(model, args, tmp_path / "m.onnx", dynamic=[{0: "batch"}])
    again = load(tmp_path / "m.onnx")
    held = {tuple(p.shape) for p in again.parameters()}
    assert held <= {tuple(p.shape) for p in model.parameters()}
    assert len(held) > 3
    with ad.no_grad():
        np.testing.assert_allclose(again(*args).numpy(), model(*args).numpy(), rtol=1e-4, atol=1e-5)


def cut_into_windows(x: ad.Tensor) -> ad.Tensor:
    n, h, w, c = x.shape
    x = x.roll((-2, 1), (1, 2)).view(n, h // 4, 4, w // 4, 4, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c).softmax(1)


class BothWays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 3, bidirectional=True)

    def forward(self, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        out, (_, last) = self.layer(x)
        return out, last


AGAIN: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "cut into windows": (cut_into_windows, (ad.randn(1, 8, 8, 2),), [{0: "b", 1: "h", 2: "w"}]),
    "a length of its own": (BothWays(), (ad.randn(5, 2, 4),), [{0: "t", 1: "b"}]),
    "pieces": (lambda x: ad.stack(x.chunk(3, 1)).flip(2), (ad.randn(2, 9, 4),), [{0: "b", 2: "c"}]),
    "groups": (lambda x: F.group_norm(x, 2), (ad.randn(1, 4, 6, 5),), [{0: "b", 2: "h", 3: "w"}]),
} | PROGRAMS  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if k > 3 else ()) for k, name in enumerate(AGAIN)]
)  # fmt: skip
def test_models_read_are_written_again_for_all_sizes(name: str) -> None:
    fn, args, dynamic = AGAIN[name]
    program = export(fn, args, dynamic=dynamic)
    again = load(program.model_proto)
    export(again, args, dynamic=dynamic)  # compares by itself


@pytest.mark.parametrize("most", [9, 50, 1000])
def test_a_choice_by_size_is_not_taken_for_other_sizes(most: int) -> None:
    def chosen(x: ad.Tensor) -> ad.Tensor:
        return x * 2 if x.shape[0] > most else x

    with pytest.raises(OnnxError, match=f"at sizes {{'n': {most + 1}}} differs"):
        export(chosen, (ad.randn(4, 3),), dynamic=[{0: "n"}])


def test_the_model_is_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout())
    net[0].bias.requires_grad_(False)
    before = [p.requires_grad for p in net.parameters()], net.training
    ad.onnx.export(net, (ad.ones(4, 3),))
    assert ([p.requires_grad for p in net.parameters()], net.training) == before
    net(ad.ones(4, 3)).sum().backward()
    assert net[0].weight.grad is not None


def test_nodes_name_their_modules() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2)))
    nodes = export(model, ad.randn(1, 4), opset_version=18).model_proto.graph.node
    named = {n.op_type: {p.key: p.value for p in n.metadata_props}.get("module") for n in nodes}
    assert named["Gemm"] == "Sequential.2.0"
    assert any(n.name.startswith("Sequential.0/Gemm") for n in nodes)


def test_composites_keep_their_names() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(16, 4),
        nn.LayerNorm(4),
        nn.Softmax(-1),
    )
    found = ops(export(model, ad.randn(2, 3, 4, 4), dynamic=[{0: "n"}]))
    assert {"Conv", "BatchNormalization", "Gelu", "Gemm", "LayerNormalization", "Softmax"} <= found
    assert "Attention" in ops(export(Attend(), ad.randn(1, 2, 3, 4), opset_version=24))
    assert "If" in ops(export(*PROGRAMS["branch"][:2]))
    assert "Scan" in ops(export(*PROGRAMS["scan"][:2]))
    assert "Loop" in ops(export(*PROGRAMS["loop"][:2]))


RECURRENT: dict[str, tuple[Any, str]] = {
    "lstm": (lambda: nn.LSTM(4, 8), "LSTM"),
    "deep lstm": (
        lambda: nn.LSTM(4, 8, 2, batch_first=True, bidirectional=True, bias=False), "LSTM"),
    "gru": (lambda: nn.GRU(4, 8, 2, bidirectional=True), "GRU"),
    "gru without biases": (lambda: nn.GRU(4, 8, bias=False), "GRU"),
    "rnn": (lambda: nn.RNN(4, 8), "RNN"),
    "rnn of relu": (lambda: nn.RNN(4, 8, nonlinearity="relu"), "RNN"),
    "projected": (lambda: nn.LSTM(4, 8, proj_size=3), "Scan"),
}  # fmt: skip


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_keep_their_names(name: str) -> None:
    """One operator a layer and direction; what it gives is compared by the export itself."""
    make, operator = RECURRENT[name]
    net = make()
    sizes = {"input": {0: "first", 1: "second"}}
    message = export(net, ad.randn(5, 3, 4), dynamic=sizes).model_proto
    kinds = [node.op_type for node in message.graph.node]
    layers = getattr(net, "num_layers", 1) * (2 if net.bidirectional else 1)
    assert kinds.count(operator) == layers
    assert "MatMul" not in kinds or operator == "Scan"


def test_a_loop_that_is_no_layer_stays_one() -> None:
    def fn(x: Any, w: Any) -> Any:
        def cell(h: Any, row: Any) -> Any:
            h = (row + h @ w.T).tanh() * 0.5
            return h, h

        return ad.scan(cell, ad.zeros(3, 4), x)[1]

    message = export(fn, (ad.randn(5, 3, 4), ad.randn(4, 4))).model_proto
    assert "Scan" in [node.op_type for node in message.graph.node]


def test_layers_that_loop_in_a_new_process() -> None:
    program = "import adjoint as ad; ad.onnx.export(ad.nn.LSTM(4, 8), ad.zeros(5, 2, 4))"
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ)


def test_what_has_no_form_is_listed_at_once_and_no_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"before")

    def strange(x: ad.Tensor) -> ad.Tensor:
        a = ad.nextafter(x, x + 1)
        return ad.special.erfinv(a) + ad.frexp(x)[0]

    with pytest.raises(OnnxError) as raised:
        export(strange, ad.rand(3), path)
    text = str(raised.value)
    line = strange.__code__.co_firstlineno
    for name, place in (("nextafter", line + 1), ("erfinv", line + 2), ("frexp", line + 2)):
        assert any(
            name in row and f"test_onnx_export.py:{place}" in row for row in text.splitlines()
        ), text
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_size_that_python_fixed_is_refused(tmp_path: Path) -> None:
    def fixed(x: ad.Tensor) -> ad.Tensor:
        return sum((x[k] for k in range(len(x))), start=ad.zeros(3))

    with pytest.raises(OnnxError, match="sizes|one size"):
        export(fixed, ad.randn(4, 3), tmp_path / "m.onnx", dynamic=[{0: "n"}])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dynamo", [True, False])
def test_the_spelling_of_pytorch(dynamo: bool, tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    path = str(tmp_path / "m.onnx")
    how: dict[str, Any] = (
        {"dynamic_shapes": ({0: "batch"},)}
        if dynamo
        else {"dynamic_axes": {"x": {0: "batch"}, "y": {0: "batch"}}}
    )
    export(
        model,
        (ad.randn(1, 3),),
        path,
        input_names=["x"],
        output_names=["y"],
        opset_version=18,
        dynamo=dynamo,
        **how,
    )
    graph = onnx.load(path).graph
    assert [i.name for i in graph.input] == ["x"]
    assert [o.name for o in graph.output] == ["y"]
    assert [d.dim_param or d.dim_value for d in graph.input[0].type.tensor_type.shape.dim] == [
        "batch",
        3,
    ]
    assert [d.dim_param or d.dim_value for d in graph.output[0].type.tensor_type.shape.dim] == [
        "batch",
        2,
    ]
    assert {t.name for t in graph.initializer} == {"weight", "bias"}
    assert model.training


class Nested(nn.Module):
    def forward(self, x: Any, pair: Any, *, scale: Any = None) -> Any:
        y = x + pair[0] * pair[1]["k"]
        return {"y": y if scale is None else y * scale}


X, PAIR = ad.randn(4, 3), (ad.randn(4, 3), {"k": ad.randn(4, 3)})
BATCH = ad.export.Dim("b", min=1, max=64)
AUTO, DYNAMIC = ad.export.Dim.AUTO, ad.export.Dim.DYNAMIC
IN_PAIR = ({0: BATCH}, {"k": {0: BATCH}})
# model, arguments, options -> the inputs' names and shapes
SPELLINGS: dict[str, tuple[Any, Any, dict[str, Any], list[tuple[str, list[Any]]]]] = {
    "parameters": (Nested(), (X, PAIR), {"dynamic_shapes": {"x": {0: BATCH}, "pair": IN_PAIR}, "report": False, "optimize": True}, [("x", ["b", 3]), ("pair_0", ["b", 3]), ("pair_1_k", ["b", 3])]),
    "in order": (Nested(), (X, PAIR), {"dynamic_shapes": ({0: BATCH}, IN_PAIR)}, [("x", ["b", 3]), ("pair_0", ["b", 3]), ("pair_1_k", ["b", 3])]),
    "renamed": (Nested(), (X, PAIR), {"dynamic_shapes": {"x": {0: "b"}, "pair": IN_PAIR, "scale": None}, "kwargs": {"scale": ad.ones(())}, "input_names": ["first"]}, [("first", ["b", 3]), ("pair_0", ["b", 3]), ("pair_1_k", ["b", 3]), ("scale", [])]),
    "hints": (nn.Linear(3, 2), (X,), {"dynamic_shapes": [(AUTO, AUTO)]}, [("input", ["input_dim_0", 3])]),
    "some of a row": (nn.Linear(3, 2), X, {"dynamic_shapes": {"input": (DYNAMIC, None)}, "input_names": ["z"]}, [("z", ["z_dim_0", 3])]),
    "the first exporter": (nn.Linear(3, 2), X, {"dynamic_axes": {"z": [0], "out": [0]}, "input_names": ["z"], "output_names": ["out"], "dynamo": False, "training": ad.onnx.TrainingMode.EVAL, "operator_export_type": ad.onnx.OperatorExportTypes.ONNX, "keep_initializers_as_inputs": False}, [("z", ["z_dim_0", 3])]),
    "arguments in another order": (lambda a, b: a - b.sum(), (), {"kwargs": {"b": ad.ones(3), "a": ad.ones(2)}}, [("a", [2]), ("b", [3])]),
    "a dict": (lambda batch: batch["x"] + batch["y"], ({"x": X, "y": X},), {"dynamic_shapes": {"batch": {"x": {0: "n"}, "y": {0: "n"}}}}, [("batch_x", ["n", 3]), ("batch_y", ["n", 3])]),
    "many": (lambda *rows: sum(rows), (X, X), {"dynamic_shapes": {"rows": ({0: "n"}, {0: "n"})}}, [("rows_0", ["n", 3]), ("rows_1", ["n", 3])]),
    "a program": (ad.export.export(nn.Linear(3, 2), (X,), dynamic_shapes=({0: BATCH},)), (X,), {"dynamic_shapes": ({0: "b"},)}, [("args_0", ["b", 3])]),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_ways_to_say_what_is_exported(name: str) -> None:
    model, args, options, wanted = SPELLINGS[name]
    file = io.BytesIO()
    assert not ad.onnx.is_in_onnx_export()
    export(model, args, file, **options)
    inputs = onnx.load_from_string(file.getvalue()).graph.input
    shapes = [[d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in inputs]
    assert list(zip([i.name for i in inputs], shapes, strict=True)) == wanted


@pytest.mark.parametrize("opset", [26, 27, 28, 29])
def test_the_newest_opsets(opset: int) -> None:
    """One that a runtime does not know is compared by reading it; one that onnx lacks is refused."""
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU())
    if opset > min(28, onnx.defs.onnx_opset_version()):
        with pytest.raises(ValueError, match="opset_version"):
            export(model, X, opset_version=opset)
    else:
        message = export(model, X, dynamic=[{0: "n"}], opset_version=opset).model_proto
        assert message.opset_import[0].version == opset


def test_weights_beside_the_model(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    export(model, ad.randn(2, 64), tmp_path / "m.onnx", external_data=True)
    assert (tmp_path / "m.onnx").stat().st_size < 4000
    assert (tmp_path / "m.onnx.data").stat().st_size >= 64 * 64 * 4
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    x = ad.randn(3, 64)
    fixed = load(tmp_path / "m.onnx")
    np.testing.assert_allclose(
        fixed(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-4, atol=1e-5
    )


def test_arguments_that_make_no_sense() -> None:
    model = nn.Linear(3, 2)
    x = ad.randn(2, 3)
    for error, options in (
        (ValueError, {"opset_version": 9}),
        (ValueError, {"input_names": ["a", "b"]}),
        (ValueError, {"dynamic": {"nothing": {0: "n"}}}),
        (IndexError, {"dynamic": [{5: "n"}]}),
        (ValueError, {"dynamic": [{0: "n"}], "dynamic_axes": {"input": [0]}}),
        (NotImplementedError, {"export_params": False}),
        (NotImplementedError, {"report": True}),
        (NotImplementedError, {"keep_initializers_as_inputs": True}),
        (TypeError, {"nonsense": 1}),
        (ValueError, {"dynamic_shapes": {"input": {0: 2.5}}}),
    ):
        with pytest.raises(error):
            export(model, x, **options)
