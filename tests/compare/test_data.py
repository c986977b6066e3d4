"""Collation, splitting and batching against PyTorch's."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from adjoint.utils import data as ours

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compare
Pair = namedtuple("Pair", "a b")

BATCHES: list[Any] = [
    [1, 2], [1.5, 2.5], [True, False], ["a", "b"], [b"a", b"b"], [np.int8(1), np.int8(2)],
    [np.ones((2, 3), np.float16), np.zeros((2, 3), np.float16)], [(1, 2.0), (3, 4.0)],
    [[1, 2], [3, 4]], [{"k": 1, "l": [2, "x"]}, {"k": 3, "l": [4, "y"]}], [Pair(1, 2), Pair(3, 4)],
    [np.array(3), np.array(4)], [((1,), 2), ((3,), 4)],
]  # fmt: skip


def plain(value: Any) -> Any:
    """Tensors of either kind as (dtype, list), containers as they are."""
    if hasattr(value, "dtype"):
        return str(value.dtype).split(".")[-1], value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    return value


@pytest.mark.parametrize("batch", BATCHES, ids=repr)
def test_collate_and_convert(batch: Any) -> None:
    theirs = torch.utils.data
    assert plain(ours.default_collate(batch)) == plain(theirs.default_collate(batch))
    assert plain(ours.default_convert(batch)) == plain(theirs.default_convert(batch))


@pytest.mark.parametrize(
    "batch",
    [[object()], [None], [[1], [1, 2]], [np.array(["a"])], [{"a": 1}, {"b": 1}]],
    ids=lambda v: type(v[0]).__name__ if v else "empty",
)
def test_collate_errors_have_the_same_type(batch: Any) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        torch.utils.data.default_collate(batch)
    with pytest.raises(theirs.type):
        ours.default_collate(batch)


@pytest.mark.parametrize("options", [
    {}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None},
    {"sampler": [2, 0, 1]}, {"batch_sampler": [[0, 1], [5]]}, {"batch_size": 4, "num_workers": 2},
])  # fmt: skip
def test_batches(options: dict[str, Any]) -> None:
    mine: Any = ours.DataLoader(range(10), **options)  # type: ignore[arg-type]
    theirs = torch.utils.data.DataLoader(range(10), **options)
    assert len(mine) == len(theirs)
    assert [plain(b) for b in mine] == [plain(b) for b in theirs]


@pytest.mark.parametrize("n", [1, 2, 7, 12])
@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_shares(n: int, drop_last: bool) -> None:
    for rank in range(5):
        mine = ours.DistributedSampler(range(n), 5, rank, shuffle=False, drop_last=drop_last)
        theirs = torch.utils.data.DistributedSampler(
            range(n), 5, rank, shuffle=False, drop_last=drop_last
        )
        if drop_last and n < 5:
            continue  # PyTorch's shares are empty or negative here
        assert list(mine) == list(theirs)


def test_names() -> None:
    for name in ours.__all__:
        assert hasattr(torch.utils.data, name)
