"""Every example runs, in its quick form."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from math import log
from pathlib import Path

import pytest

from adjoint.datasets import shakespeare
from tests.forking import ROOT, TRAINING, Forking, forking

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {"array_api": "scipy"}  # what is not among our dependencies


@pytest.fixture(scope="module")
def process() -> Iterator[Forking]:
    with forking(*TRAINING) as process:
        yield process


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_runs(path: Path, tmp_path: Path, process: Forking) -> None:
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    status, said, errors = process.run(path, "--quick", folder=tmp_path)
    assert status == 0, errors
    assert said.strip()
    if path.stem == "char_gpt":
        found = re.search(r"on Macbeth (\d+\.\d+)", said)
        assert found is not None
        # More than how frequent each character is: it has learned which follow which.
        assert float(found[1]) < entropy(shakespeare()) - 0.2


def entropy(text: str) -> float:
    """Of a character, from its frequency alone, in nats."""
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(p * log(p) for p in shares)
