"""Every module that both frameworks have, over PyTorch's module database."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
# PyTorch's own test modules need packages that are not installed with it.
pytest.importorskip("torch.testing._internal.common_modules", exc_type=ImportError)
pytestmark = pytest.mark.compare

from tests.compare.modules import entries, failures  # noqa: E402
from tests.compare.refusals import failures as refusals  # noqa: E402


@pytest.mark.parametrize(
    ("name", "info"), list(entries()), ids=lambda x: x if isinstance(x, str) else ""
)
def test_module(name: str, info: Any) -> None:
    """Outputs, gradients, state, printed form, and five captured steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, bad = failures(name, info, limit=12)
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    ("name", "info"), list(entries()), ids=lambda x: x if isinstance(x, str) else ""
)
def test_refusals(name: str, info: Any) -> None:
    """Inputs of a wrong rank, size or dtype raise what PyTorch raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bad = list(refusals(name, info, limit=6))
    assert not bad, "\n".join(bad)
