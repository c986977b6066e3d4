"""What was written down of PyTorch (`tests/recorded`) is still what it gives."""

from __future__ import annotations

import pytest

from tests.recorded import TOPICS, different, numbers_of, plain, programs_of

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("topic", TOPICS)
def test_numbers(topic: str) -> None:
    numbers, found = numbers_of(topic), []
    assert numbers.keys() == programs_of(topic).keys(), "python -m tests.recorded.write"
    for name, program in programs_of(topic).items():
        torch.manual_seed(0)
        found += different(plain(program(torch)), numbers[name], 1e-6, 1e-6, name)
    assert not found, found[:10]
