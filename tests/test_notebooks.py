"""What notebooks show: complete, escaped."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.training import Trainer, summary


def test_modules_open() -> None:
    text = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))._repr_html_()
    assert text.count("<details") == 4
    assert "weight  float32[3, 2]" in text
    assert "9 parameters" in text


def test_names_are_escaped() -> None:
    kind = type("<script>", (nn.Linear,), {})
    assert "<script>" not in kind(1, 1)._repr_html_()


def test_tensors() -> None:
    assert "<table>" in ad.ones(2, 3)._repr_html_()
    assert "<td>0.5</td>" in (ad.ones(1, 1) / 2)._repr_html_()
    assert "<pre>" in ad.ones(100)._repr_html_()
    assert "requires grad" in ad.ones(2, requires_grad=True)._repr_html_()


def test_summaries_and_histories() -> None:
    model = nn.Linear(2, 1)
    assert "<td style='text-align:left'>total</td>" in summary(model, ad.ones(1, 2))._repr_html_()
    trainer = Trainer(model, ad.optim.SGD(model.parameters(), 0.1), nn.MSELoss(), progress=False)
    history = trainer.fit([(ad.ones(4, 2), ad.zeros(4, 1))], epochs=2)
    assert history._repr_html_().count("<tr>") == 3


def test_compiled_functions_say_what_they_are() -> None:
    double = ad.compile(lambda x: x * 2)
    assert (
        repr(double)
        == "<compiled test_compiled_functions_say_what_they_are.<locals>.<lambda>: not called yet>"
    )
    assert "not called yet" in double._repr_html_()
    double(ad.ones(3))
    assert "1 program, recorded 1 time" in repr(double)
    assert "<lambda>" not in double._repr_html_()
    assert "steps" in double._repr_html_()


def test_bars_are_shown_in_notebooks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = type("ZMQInteractiveShell", (), {})()
    layer = ad.nn.Linear(2, 1)
    data = [(ad.ones(4, 2), ad.ones(4, 1))] * 3
    trainer = Trainer(layer, ad.optim.SGD(layer.parameters(), lr=0.1), ad.nn.MSELoss())
    trainer.fit(data, epochs=1)
    assert "/3 [" not in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    trainer.fit(data, epochs=2)
    shown = capsys.readouterr()
    assert "/3 [" in shown.out  # tqdm's bar: 0/3 [00:00<?, ?it/s]
    assert shown.err == ""
