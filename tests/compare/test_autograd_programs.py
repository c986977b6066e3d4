"""Small programs around the tape, run under both frameworks: same values, same kind of error."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.compare.programs import custom, engine, hooks, leaves, modes, more, writes  # noqa: F401
from tests.compare.programs.registry import PROGRAMS, Program

torch: Any = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]


def simple(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [simple(v) for v in value]
    if hasattr(value, "detach"):
        return value.detach().numpy()
    return value


def same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(ours, list):
        assert len(ours) == len(theirs), (ours, theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    elif isinstance(ours, np.ndarray):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    else:
        assert ours == theirs


def outcome(fn: Program, lib: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return simple(fn(lib))
    except Exception as error:
        return error


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_program(fn: Program) -> None:
    theirs = outcome(fn, torch)
    assert not isinstance(theirs, (NameError, AttributeError)), theirs
    if isinstance(theirs, Exception):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            fn(adjoint)
        kinds = [k.__name__ for k in type(caught.value).__mro__]
        assert type(theirs).__name__ in kinds, (theirs, caught.value)
        return
    same(simple(fn(adjoint)), theirs)
