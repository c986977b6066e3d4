"""Programs give the numbers that were written down of PyTorch (`tests/recorded`)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import adjoint as ad
from tests.recorded import ABSENT, TOPICS, different, numbers_of, plain, programs_of

CASES = [(topic, name) for topic in TOPICS for name in programs_of(topic)]
# What rounds otherwise by right: PyTorch counts in fewer digits, or sums in another order.
LOOSE = {
    "ASGD 1 foreach": 1e-6, "ASGD 2 foreach": 1e-6, "Muon": 2e-2, "LBFGS wolfe far far": 1e-4,
    "LBFGS": 1e-6, "GeneralizedPareto": 1e-5, "Multinomial": 1e-6, "VonMises": 1e-6, "Beta": 1e-7,
    "fake_quantize": 1e-6, "polygamma": 1e-8, "_standard_gamma_grad": 1e-3,
    "CELU": 1e-6, "Hardsigmoid": 1e-6,
}  # fmt: skip
recorded = cache(numbers_of)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("topic", "name"), CASES, ids=[f"{t}: {n}" for t, n in CASES])
def test_numbers(topic: str, name: str) -> None:
    want = recorded(topic).get(name, ABSENT)
    got = plain(programs_of(topic)[name](ad))
    if (
        topic == "calls" and want != ABSENT
    ):  # samples that are new are written down where PyTorch is
        got = {call: got[call] for call in want if call in got}
        want = {call: want[call] for call in got}
    loose = next((LOOSE[part] for part in LOOSE if part in name), 1e-9)
    found = different(got, want, loose, loose)
    assert not found, found[:10]


@pytest.mark.parametrize("topic", TOPICS)
def test_most_is_written_down(topic: str) -> None:
    """All of it, says `make compare`, once it was written down anew."""

    def known(numbers: Any) -> bool:
        return any(n != ABSENT for n in numbers.values()) if topic == "calls" else numbers != ABSENT

    names, numbers = programs_of(topic), recorded(topic)
    assert sum(name in numbers and known(numbers[name]) for name in names) > 0.9 * len(names)
