"""PyTorch's names around compile: backends, marks, settings."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import _dynamo, nn
from adjoint.engine.capture.recordings import retracing


@pytest.mark.parametrize("backend", ["inductor", "eager", "aot_eager"])
def test_pytorchs_backends(backend: str) -> None:
    assert ad.compile(lambda x: x * 2, backend=backend)(ad.ones(2)).tolist() == [2, 2]
    assert backend not in ad.compiler.list_backends()


def test_disabled_function_refuses_to_be_recorded() -> None:
    @ad.compiler.disable(reason="it writes a log")
    def log(x: Any) -> Any:
        return x.sum().item()

    assert log(ad.ones(2)) == 2
    assert log.__name__ == "log"
    with pytest.raises(RuntimeError, match=r"log is marked .*\(it writes a log\).*outside"):
        ad.compile(lambda x: log(x))(ad.ones(2))


def test_disabled_module() -> None:
    layer = ad.compiler.disable(nn.Linear(2, 1))
    assert layer(ad.ones(3, 2)).shape == (3, 1)
    with pytest.raises(RuntimeError, match="forward is marked"):
        ad.compile(lambda x: layer(x))(ad.ones(3, 2))


def test_marks_that_ask_for_nothing() -> None:
    @ad.compiler.allow_in_graph
    def double(x: Any) -> Any:
        return x * 2

    @ad.compiler.assume_constant_result
    def three() -> int:
        return 3

    seen = []

    def f(x: Any) -> Any:
        seen.append((ad.compiler.is_dynamo_compiling(), ad.compiler.is_exporting()))
        return double(x) * three()

    ad.compiler.cudagraph_mark_step_begin()
    assert ad.compile(f)(ad.ones(1)).tolist() == [6]
    assert seen == [(True, False)]


def test_dynamo_reset_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retracing, "LIMIT", 8)
    f = ad.compile(lambda x: x + 1)
    f(ad.ones(2))
    ad._dynamo.reset()
    f(ad.ones(2))
    assert f.traces == 2
    ad._dynamo.config.cache_size_limit = 1
    assert ad._dynamo.config.recompile_limit == 1
    with pytest.warns(UserWarning, match="recorded 2 times"):
        f(ad.ones(3))


def test_dynamo_settings_without_effect_say_so() -> None:
    import adjoint._dynamo.config as settings

    assert settings is ad._dynamo.config
    ad._dynamo.config.suppress_errors = False  # as it is
    with pytest.warns(UserWarning, match="suppress_errors = True has no effect"):
        ad._dynamo.config.suppress_errors = True
    with pytest.raises(AttributeError, match="supress_errors"):
        ad._dynamo.config.supress_errors = True


def test_explain_tells_the_graph_or_why_there_is_none() -> None:
    layer = nn.Linear(2, 3)
    for f in (layer, lambda x: layer(x)):
        told = _dynamo.explain(f)(ad.ones(1, 2))
        assert (told.graph_count, told.graph_break_count, told.op_count) == (1, 0, 1)
        assert told.graphs[0].graph.nodes
        assert told.out_guards
    assert "Graph Count: 1\nGraph Break Count: 0\nOp Count: 1" in str(told)

    def branching(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x

    told = _dynamo.explain(branching, ad.ones(2))  # the form of old
    assert (told.graph_count, told.graph_break_count, told.op_count) == (0, 1, 0)
    assert "the value of a tensor" in told.break_reasons[0].reason
    with pytest.raises(ZeroDivisionError):
        _dynamo.explain(lambda x: x / (1 // 0))(ad.ones(2))
