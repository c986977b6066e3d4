"""Recurrent layers of int8 against NumPy and their float layers; static layers in files."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.quantization as q
from adjoint import nn
from adjoint.nn.utils.rnn import pack_sequence
from adjoint.quantization.formats import files
from adjoint.quantization.modules.recurrent import RECURRENT

LAYERS: dict[str, Any] = {
    "lstm": lambda: nn.LSTM(12, 20),
    "lstm both ways": lambda: nn.LSTM(12, 20, 2, bidirectional=True),
    "lstm projected": lambda: nn.LSTM(12, 20, proj_size=6),
    "gru": lambda: nn.GRU(12, 20, 2),
    "gru without bias": lambda: nn.GRU(12, 20, bias=False, bidirectional=True),
    "rnn": lambda: nn.RNN(12, 20, nonlinearity="relu"),
}
CELLS: dict[str, Any] = {
    "lstm": lambda: nn.LSTMCell(12, 20),
    "gru": lambda: nn.GRUCell(12, 20, bias=False),
    "rnn": lambda: nn.RNNCell(12, 20, nonlinearity="relu"),
}


def parts(result: Any) -> list[Any]:
    """All tensors of a result."""
    return (
        [part for each in result for part in parts(each)] if isinstance(result, tuple) else [result]
    )


def quantized(layer: nn.Module) -> tuple[Any, Any]:
    """A model of one layer, and the same with products of int8."""
    model = nn.Sequential(layer)
    return model, q.quantize_dynamic(model, {type(layer)})


@pytest.mark.parametrize("name", LAYERS)
def test_layers_stay_near_their_floats(name: str) -> None:
    ad.manual_seed(0)
    model, made = quantized(LAYERS[name]())
    assert type(made[0]) is RECURRENT[type(model[0])]
    x = ad.randn(7, 3, 12)
    packed = pack_sequence([ad.randn(5, 12), ad.randn(2, 12)])
    for given in (x, packed):
        got, want = made(given), model(given)
        for a, b in zip(parts(got[1]), parts(want[1]), strict=True):
            assert 0 < (a - b).abs().max() < 0.03 * b.abs().max()
    for a, b in zip(parts(ad.compile(made)(x)), parts(made(x)), strict=True):
        ad.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CELLS)
def test_cells_stay_near_their_floats(name: str) -> None:
    ad.manual_seed(0)
    model, made = quantized(CELLS[name]())
    x = ad.randn(3, 12)
    for a, b in zip(parts(made(x)), parts(model(x)), strict=True):
        assert 0 < (a - b).abs().max() < 0.03 * b.abs().max()


def rounded(x: Any) -> Any:
    """What numbers become in 256 steps between their least and their greatest, in NumPy."""
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = np.float32((high - low) / 255)
    zero = np.clip(-128 - np.round(low / scale), -128, 127)
    return (np.clip(np.round(x * (np.float32(1) / scale)) + zero, -128, 127) - zero) * scale


def test_a_long_memory_in_numpy() -> None:
    ad.manual_seed(0)
    model, made = quantized(nn.LSTM(12, 20))
    x = np.random.default_rng(0).normal(size=(6, 3, 12)).astype(np.float32)
    weight = {
        side: made[0].get_submodule(f"{side}_l0").dequantize().numpy() for side in ("ih", "hh")
    }
    bias = sum(getattr(model[0], f"bias_{side}_l0").detach().numpy() for side in ("ih", "hh"))
    projected = rounded(x) @ weight["ih"].T + bias
    h = c = np.zeros((3, 20), np.float32)
    wanted = []
    for at in projected:
        state = rounded(h) if h.any() else h
        i, f, g, o = np.split(at + state @ weight["hh"].T, 4, -1)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        wanted.append(h)
    out, (_, last) = made(ad.tensor(x))
    np.testing.assert_allclose(out.detach().numpy(), np.stack(wanted), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last[0].detach().numpy(), c, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [LAYERS["lstm both ways"], LAYERS["gru"], CELLS["rnn"]])
def test_recurrent_models_in_files(make: Any, tmp_path: Path) -> None:
    _, made = quantized(make())
    x = ad.randn(4, 2, 12) if isinstance(made[0], nn.RNNBase) else ad.randn(2, 12)
    path = tmp_path / "m.safetensors"
    q.save_quantized(made, path)
    other = q.load_quantized(nn.Sequential(make()), path).eval()
    for a, b in zip(parts(other(x)), parts(made(x)), strict=True):
        assert (a == b).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_layers": 10**9}, "products"),
        ({"num_layers": 2}, "expected products"),
        ({"hidden_size": 10**12}, "expected products"),
        ({"mode": "GRU"}, "expected products"),
        ({"mode": "os.system"}, "mode"),
    ],
)
def test_damaged_files_of_recurrent_layers(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    _, made = quantized(nn.LSTM(4, 4))
    path = tmp_path / "m.safetensors"
    q.save_quantized(made, path)
    about = json.loads(ad.io.safetensors.load_metadata(path)[files.KEY])
    about["layers"]["0"].update(change)
    ad.io.safetensors.save_file(
        ad.io.safetensors.load_file(path), path, {files.KEY: json.dumps(about)}
    )
    with pytest.raises(RuntimeError, match=words):
        q.load_quantized(nn.Sequential(nn.LSTM(4, 4)), path)


@pytest.mark.parametrize("norm", [lambda: nn.LayerNorm(8), lambda: nn.ELU(0.7)])
def test_layers_between_quantised_ones_in_files(norm: Any, tmp_path: Path) -> None:
    ad.manual_seed(0)
    model = q.QuantWrapper(nn.Sequential(nn.Linear(6, 8), norm(), nn.Linear(8, 3))).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    model.qconfig = q.default_qconfig
    fresh = copy.deepcopy(model)
    for parameter in fresh.parameters():
        nn.init.zeros_(parameter)
    prepared, x = q.prepare(model), ad.randn(16, 6)
    prepared(x)
    made = q.convert(prepared)
    q.save_quantized(made, tmp_path / "m.safetensors")
    loaded = q.load_quantized(fresh, tmp_path / "m.safetensors")
    assert (loaded(x) == made(x)).all()
    other = q.QuantWrapper(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))
    with pytest.raises(RuntimeError, match="the model has a ReLU there"):
        q.load_quantized(other, tmp_path / "m.safetensors")
