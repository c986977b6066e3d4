"""Both profilers say of the same model that the same kind of operation dominates."""

from __future__ import annotations

import pytest

from benchmarks import profiler_tables

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compare


@pytest.mark.parametrize(("model", "kind"), [("mlp", "product"), ("cnn", "convolution")])
def test_the_same_operations_dominate(
    model: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert profiler_tables.main([model, "--steps", "3"]) == 0
    leaders = [line.split()[2] for line in capsys.readouterr().out.splitlines()]
    assert leaders == [kind, kind]
