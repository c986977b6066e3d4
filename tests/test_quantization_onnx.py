"""Quantised models in ONNX: pairs of QuantizeLinear and DequantizeLinear, run by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.quantization as q
from adjoint import nn
from tests.test_quantization import CONFIGS, FUSED, Net, Tied, both

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


def operators(program: Any) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node if node.op_type != "Constant"]


def run(program: Any, x: Any) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    data = program.model_proto.SerializeToString()
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


@pytest.mark.parametrize("backend", ["onednn", "qnnpack"])
def test_a_static_network_is_qdq(backend: str) -> None:
    ad.manual_seed(0)
    model = q.fuse_modules(Net().eval(), FUSED)
    model.qconfig = q.get_default_qconfig(backend)
    prepared, x = q.prepare(model), ad.rand(32, 1, 8, 8)
    with ad.no_grad():
        prepared(x)
        made = q.convert(prepared)
        program = ad.onnx.export(made, x)
        got, want = run(program, x), made(x).numpy()
    names = operators(program)
    assert names.count("QuantizeLinear") == 6
    assert names.count("Conv") == 2
    assert names.count("Gemm") == 2
    assert "Sub" not in names  # nothing stands between the pairs
    step = made.fc2.scale.item()
    assert (np.abs(got - want) > 0.5 * step).mean() < 0.05
    assert np.abs(got - want).max() <= 2.5 * step


@pytest.mark.parametrize("opset", [20, 21])
@pytest.mark.parametrize("name", CONFIGS)
def test_quantised_weights(name: str, opset: int) -> None:
    ad.manual_seed(0)
    model, at = Tied(), ad.arange(40).reshape(4, 10)
    q.quantize_(model, CONFIGS[name][0], both)
    program = ad.onnx.export(model, at, opset_version=opset)
    with ad.no_grad():
        want = model(at).numpy()
    np.testing.assert_allclose(run(program, at), want, rtol=1e-3, atol=2e-2 * np.abs(want).max())
    kinds = {t.data_type for t in program.model_proto.graph.initializer}
    bytes_of_two = opset == 21 and "int4" in name.replace("intx", "int4")
    assert (21 in kinds) == bytes_of_two  # UINT4


def test_fake_quantisation_is_qdq_too() -> None:
    model = nn.Sequential(nn.Linear(8, 4)).train()
    model.qconfig = q.get_default_qat_qconfig("onednn")
    prepared = q.prepare_qat(model)
    x = ad.randn(16, 8)
    prepared(x)
    prepared.apply(q.disable_observer)
    program = ad.onnx.export(prepared.eval(), x)
    names = operators(program)
    assert names.count("QuantizeLinear") == names.count("DequantizeLinear") == 2
