"""Recurrent networks in compiled programs: one node, which a GPU's program has cuDNN run."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.array.kernels.nn import recurrent as kernels
from adjoint.engine.backends.array.libraries import recurrent as library
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.nn import recurrent_networks as networks
from adjoint.engine.ops.nn.recurrent_networks import RecurrentNetwork
from tests.test_recurrent_networks import ASKED, CLOSE, OPTIONS, layer_of


def gradients_of(layer: Any, x: Any, run: Any) -> list[Any]:
    """A loss and the gradients of a layer's parameters and of its input."""
    x = x.detach().requires_grad_()
    layer.zero_grad()
    loss = run(x)
    loss.backward()
    return [loss.detach(), x.grad, *(p.grad.clone() for p in layer.parameters())]


@pytest.mark.parametrize(("kind", "options"), [("LSTM", "one layer"), ("GRU", "batch first")])
def test_compiled_whole(kind: str, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that is one node of a program means its composition, where no library runs it."""
    ad.manual_seed(11)
    layer = layer_of(kind, OPTIONS[options], 3, 2)
    x = ad.randn(4, 5, 3)

    def run(x: Any) -> Any:
        out, last = layer(x)
        return out.square().mean() + (last[0] if kind == "LSTM" else last).sum()

    want = gradients_of(layer, x, run)
    plain = run(x).detach()
    asked: list[RecurrentNetwork] = []

    def choose(network: RecurrentNetwork, index: int) -> RecurrentNetwork:
        asked.append(network)
        return network

    monkeypatch.setitem(networks.CHOOSE, "cpu", choose)
    monkeypatch.setitem(networks.KEPT, "cpu", lambda network, index: 24)
    compiled = ad.compile(run)
    for mine, theirs in zip(gradients_of(layer, x, compiled), want, strict=True):
        ad.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    assert asked
    with ad.no_grad():
        ad.testing.assert_close(compiled(x), plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("cell", "sizes", "is_whole"),
    [
        ("LSTM", (64, 64, 128, 2), True), ("GRU", (64, 64, 128, 2), True),
        ("RNN_TANH", (64, 64, 128, 2), True), ("LSTM", (64, 64, 64, 1), True),
        ("LSTM", (48, 8, 64, 1), True), ("GRU", (32, 64, 128, 1), True),
        ("RNN_TANH", (32, 64, 128, 1), True), ("LSTM", (16, 8, 64, 1), False),
        ("LSTM", (32, 8, 64, 1), False), ("LSTM", (48, 4, 32, 1), False),
        ("LSTM", (64, 1, 256, 1), False), ("LSTM", (64, 64, 256, 1), False),
        ("LSTM", (64, 64, 512, 2), False),
    ],
)  # fmt: skip
def test_which_are_called_in_programs(
    cell: str, sizes: tuple[int, ...], is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was measured to be quicker, of (length, batch, states, layers)."""
    length, batch, hidden, layers = sizes
    network = RecurrentNetwork(
        cell, "float32", length, batch, hidden, hidden, layers, 1, True, algorithm=3
    )
    monkeypatch.setattr(kernels, "prepared", lambda index, network: SimpleNamespace(kept=40))
    assert kernels.kept(network, 0) == (40 if is_whole else None)
    assert kernels.kept(replace(network, algorithm=0), 0) is None


def test_compiled_with_dropout_is_no_library_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between layers elements are dropped, which no library is asked to do."""
    layer = ad.nn.GRU(3, 2, 2, dropout=0.5)
    x = ad.randn(4, 5, 3)
    ad.manual_seed(3)
    want = layer(x)[0]

    def choose(network: RecurrentNetwork, index: int) -> RecurrentNetwork:
        raise AssertionError(network)

    monkeypatch.setitem(networks.CHOOSE, "cpu", choose)
    compiled = ad.compile(lambda x: layer(x)[0])
    ad.manual_seed(3)
    ad.testing.assert_close(compiled(x), want, rtol=1e-5, atol=1e-6)


def test_what_is_exported_has_no_library_s_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(network: RecurrentNetwork, index: int) -> RecurrentNetwork:
        raise AssertionError(network)

    monkeypatch.setitem(networks.CHOOSE, "cpu", choose)
    layer, x = ad.nn.GRU(3, 2), ad.randn(4, 5, 3)
    with monkeypatch.context() as eager:
        eager.delitem(networks.CHOOSE, "cpu")
        want = layer(x)[0]
    ad.export.save(ad.export.export(layer, (x,)), tmp_path / "layer.pt2")
    found = ad.export.load(tmp_path / "layer.pt2").module()(x)[0]
    ad.testing.assert_close(found, want, rtol=1e-5, atol=1e-6)


INTERPRETED = """
import importlib
import adjoint as ad
from adjoint.engine.backends.triton.program.calls import DeviceCall
from adjoint.engine.ops.nn import recurrent_networks as networks
importlib.import_module("tests.triton_interpreter")
networks.CHOOSE["cpu"] = lambda network, index: network
networks.KEPT["cpu"] = lambda network, index: 24
called, run = [], DeviceCall.__call__
def noted(self, *given):
    called.append(self.node.record.name)
    return run(self, *given)
DeviceCall.__call__ = noted
layer = ad.nn.LSTM(5, 4, 2)
optimizer = ad.optim.SGD(layer.parameters(), lr=0.1)
x = ad.randn(3, 2, 5)
def step(x):
    loss = layer(x)[0].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
state = {name: value.clone() for name, value in layer.state_dict().items()}
want = [float(step(x)) for _ in range(3)]
layer.load_state_dict(state)
compiled = ad.compile(step, backend="interpreted-triton")
found = [float(compiled(x)) for _ in range(3)]
assert max(abs(a - b) for a, b in zip(found, want)) < 1e-6, (found, want)
assert called == ["recurrent_network", "recurrent_network_gradient"] * 3, called
print("done")
"""


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="Triton interprets the kernels")
def test_a_program_of_the_gpu_calls_it_between_its_graphs() -> None:
    """In Triton's interpreter, where the composition is what is called."""
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "done", done.stderr[-3000:]


@ASKED
@pytest.mark.cuda
@pytest.mark.parametrize("options", ["two layers", "deep both ways, no biases", "batch first"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN_TANH"])
def test_compiled_by_cudnn(kind: str, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long networks are one call forward and one backward in compiled steps, short ones none."""
    calls: list[str] = []
    for name in ("forward", "backward"):
        run_it = getattr(library.PreparedNetwork, name)

        def noted(*given: Any, name: str = name, run_it: Any = run_it, **how: Any) -> Any:
            calls.append(name)
            return run_it(*given, **how)

        monkeypatch.setattr(library.PreparedNetwork, name, noted)
    for length, wanted in ((40, ["forward", "backward"]), (4, [])):
        ad.manual_seed(12)
        layer = layer_of(kind, OPTIONS[options], 8, 32).to("cuda")
        x = ad.randn(*((6, length) if options == "batch first" else (length, 6)), 8).to("cuda")

        def run(x: Any, layer: Any = layer) -> Any:
            out, last = layer(x)
            return out.sin().mean() + (last[0] if kind == "LSTM" else last).square().mean()

        with CONTEXT.having(reference=True):
            want = gradients_of(layer, x, run)
        compiled = ad.compile(run)
        gradients_of(layer, x, compiled)
        for _ in range(2):
            del calls[:]
            found = gradients_of(layer, x, compiled)
            assert calls == wanted
            for mine, theirs in zip(found, want, strict=True):
                ad.testing.assert_close(mine, theirs, **CLOSE[ad.float32])
        with ad.no_grad():
            ad.testing.assert_close(compiled(x), want[0], **CLOSE[ad.float32])
