"""What numbers of Python's become beside tensors, and which are refused, against PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import adjoint as ad
from tests.number_ranges import DTYPES, NUMBERS, OPERATIONS, outcome

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compare


def agree(ours: Any, theirs: Any) -> bool:
    """Whether both refuse, of several reasons perhaps another one, or give the same."""
    if isinstance(theirs, Exception):
        return isinstance(ours, type(theirs)) or (
            isinstance(ours, Exception) and isinstance(ours, (NotImplementedError, RuntimeError))
        )
    return bool(ours == theirs)


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_numbers_become_what_they_become_in_pytorch(operation: str) -> None:
    differing = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in DTYPES:
            for number in NUMBERS:
                ours = outcome(ad, operation, dtype, number)
                theirs = outcome(torch, operation, dtype, number)
                if not agree(ours, theirs):
                    differing.append((dtype, number, ours, theirs))
    assert not differing, differing[:5]
