"""Datasets, samplers, collation."""

from __future__ import annotations

import random
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.io.checkpoint import rng_state, set_rng_state
from adjoint.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)


class Count(IterableDataset[int]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Any:
        return iter(range(self.n))


def test_tensor_dataset_rows_and_mismatch() -> None:
    data = TensorDataset(ad.arange(6).reshape(3, 2), ad.arange(3))
    x, y = data[1]
    assert x.tolist() == [2, 3]
    assert y.item() == 1
    with pytest.raises(AssertionError, match="Size mismatch"):
        TensorDataset(ad.zeros(3), ad.zeros(4))


def test_joined_datasets() -> None:
    both: ConcatDataset[int] = ConcatDataset([range(3), range(10, 12)])
    assert [both[i] for i in range(5)] == [0, 1, 2, 10, 11]
    assert both[-1] == 11
    with pytest.raises(ValueError, match="absolute value"):
        both[-6]
    assert list(ChainDataset([Count(2), Count(3)])) == [0, 1, 0, 1, 2]
    assert StackDataset(range(3), "abc").__getitems__([0, 2]) == [(0, "a"), (2, "c")]
    with pytest.raises(ValueError, match="Size mismatch"):
        StackDataset(range(3), "ab")


def test_random_split_by_fraction_covers_all_once() -> None:
    parts = random_split(range(10), [0.5, 0.3, 0.2], ad.Generator().manual_seed(1))
    assert [len(p) for p in parts] == [5, 3, 2]
    assert sorted(i for p in parts for i in p) == list(range(10))
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(range(10), [3, 3])
    with pytest.warns(UserWarning, match="is 0"):
        random_split(range(1), [0.5, 0.5])


@pytest.mark.parametrize(
    "halves",
    [
        lambda data, g: [part.indices for part in random_split(data, [0.5, 0.5], generator=g)],
        lambda data, g: np.split(np.array(list(RandomSampler(data, generator=g))), 2),
        lambda data, g: np.split(np.array(list(SubsetRandomSampler(data, generator=g))), 2),
        lambda data, g: np.split(np.array(list(DistributedSampler(data, 1, 0, seed=7))), 2),
    ],
    ids=["random_split", "RandomSampler", "SubsetRandomSampler", "DistributedSampler"],
)
def test_orders_are_unrelated_to_labels_of_the_same_seed(halves: Any) -> None:
    labels = ad.randint(0, 2, (1000,), generator=ad.Generator().manual_seed(7)).numpy()
    for half in halves(range(1000), ad.Generator().manual_seed(7)):
        assert 0.4 < labels[half].mean() < 0.6


def test_samplers() -> None:
    drawn = list(RandomSampler(range(5), num_samples=12))
    assert sorted(drawn[:5]) == sorted(drawn[5:10]) == list(range(5))
    assert len(drawn) == 12
    assert len(list(RandomSampler(range(5), replacement=True, num_samples=40))) == 40
    assert sorted(SubsetRandomSampler([3, 5, 9])) == [3, 5, 9]
    assert set(WeightedRandomSampler([0, 0, 1.0, 1.0], 20)) == {2, 3}
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="positive integer"):
        BatchSampler(range(5), 0, False)
    with pytest.raises(ValueError, match="1d sequence"):
        WeightedRandomSampler([[1.0]], 1)  # type: ignore[list-item]


def test_distributed_sampler_shares() -> None:
    shares = [list(DistributedSampler(range(10), 3, r, seed=4)) for r in range(3)]
    assert [len(s) for s in shares] == [4, 4, 4]
    assert {i for s in shares for i in s} == set(range(10))
    dropped = [list(DistributedSampler(range(10), 3, r, drop_last=True)) for r in range(3)]
    assert [len(s) for s in dropped] == [3, 3, 3]
    sampler = DistributedSampler(range(10), 2, 0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first
    with pytest.raises(ValueError, match="Invalid rank"):
        DistributedSampler(range(3), 2, 2)


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("batch", "wanted"),
    [
        ([1, 2], ad.tensor([1, 2])),
        ([1.0, 2.0], ad.tensor([1.0, 2.0], dtype=ad.float64)),
        ([np.float32(1), np.float32(2)], ad.tensor([1.0, 2.0])),
        ([np.ones(2), np.zeros(2)], ad.tensor([[1.0, 1], [0, 0]], dtype=ad.float64)),
        ([True, False], ad.tensor([True, False])),
    ],
)
def test_collate_leaves(batch: Any, wanted: ad.Tensor) -> None:
    made = default_collate(batch)
    assert made.dtype is wanted.dtype
    assert made.tolist() == wanted.tolist()


def test_collate_containers() -> None:
    made = default_collate(
        [{"a": (1, "x"), "p": Point(1, 2.0)}, {"a": (2, "y"), "p": Point(3, 4.0)}]
    )
    assert made["a"][0].tolist() == [1, 2]
    assert list(made["a"][1]) == ["x", "y"]
    assert isinstance(made["p"], Point)
    assert made["p"].y.tolist() == [2.0, 4.0]
    assert isinstance(default_convert((np.ones(1), "s"))[0], ad.Tensor)


def test_collate_refuses() -> None:
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([ad.zeros(2), ad.zeros(3)])
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1, 2], [1]])
    with pytest.raises(TypeError, match="found <class 'object'>"):
        default_collate([object()])
    with pytest.raises(TypeError, match="numpy arrays"):
        default_collate([np.array(["a"])])


def test_loader_options_refused() -> None:
    data = range(4)
    for options, text in [
        ({"num_workers": -1}, "non-negative"),
        ({"timeout": -1}, "non-negative"),
        ({"prefetch_factor": 2}, "multiprocessing"),
        ({"persistent_workers": True}, "num_workers > 0"),
        ({"sampler": range(4), "shuffle": True}, "mutually exclusive"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "mutually exclusive"),
        ({"num_workers": 1, "multiprocessing_context": "nonsense"}, "valid start method"),
    ]:
        with pytest.raises(ValueError, match=text):
            DataLoader(data, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected unspecified shuffle"):
        DataLoader(Count(3), shuffle=True)
    loader: DataLoader[Any] = DataLoader(data)
    with pytest.raises(ValueError, match="should not be set"):
        loader.batch_size = 3


def test_loader_without_batching_and_subsets() -> None:
    class Arrays(Dataset[Any]):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, i: int) -> Any:
            return np.full(2, i)

    items = list(DataLoader(Arrays(), batch_size=None))
    assert [x.tolist() for x in items] == [[0, 0], [1, 1], [2, 2]]
    assert len(DataLoader(Subset(Arrays(), [0, 1]), batch_size=2)) == 1
    assert [b.tolist() for b in DataLoader(Count(5), batch_size=2, drop_last=True)] == [
        [0, 1],
        [2, 3],
    ]


class Restarting(IterableDataset[int]):
    """Its own iterator, which starts over whenever one is asked for."""

    def __iter__(self) -> Restarting:
        self.rest = iter(range(5))
        return self

    def __next__(self) -> int:
        return next(self.rest)


def test_a_stream_that_is_its_own_iterator_is_asked_once() -> None:
    batches = [batch.tolist() for batch in DataLoader(Restarting(), batch_size=2)]
    assert batches == [[0, 1], [2, 3], [4]]
    whole: Any = DataLoader(Restarting(), batch_size=2, drop_last=True)
    assert [batch.tolist() for batch in whole] == [[0, 1], [2, 3]]


class LyingStream(IterableDataset[int]):
    """A stream of more than it says."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Any:
        return iter(range(3))


def longer_than_said() -> None:
    loader: DataLoader[Any] = DataLoader(LyingStream())
    assert len(loader) == 1
    list(loader)


def test_a_length_asked_for_while_reading_is_no_promise() -> None:
    """`list` asks for it once it has the iterator: no warning, as in PyTorch."""
    assert len(list(DataLoader(LyingStream()))) == 3


WARNS: dict[str, tuple[str, Callable[[], Any]]] = {
    "split": ("index 1 is 0", lambda: random_split(range(1), [0.9, 0.1])),
    "workers": ("worker processes", lambda: DataLoader(range(4), num_workers=1 << 20)),
    "pin_memory": ("no accelerator", lambda: next(iter(DataLoader([1, 2], pin_memory=True)))),
    "stream": ("reported to be 1", longer_than_said),
}


@pytest.mark.parametrize("name", WARNS)
def test_warnings_name_the_line_of_the_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjoint.data.iterators.is_available", lambda: False)
    text, fn = WARNS[name]
    with pytest.warns(UserWarning, match=text) as caught:
        fn()
    assert {each.filename for each in caught} == {__file__}


class Drawn:
    """Indices that somebody's own sampler draws, at once or as they are asked for."""

    def __init__(self, source: str, at_once: bool) -> None:
        self.source, self.at_once = source, at_once

    def __len__(self) -> int:
        return 8

    def draw(self) -> int:
        return {
            "adjoint": lambda: int(ad.randint(0, 8, (1,)).item()),
            "python": lambda: random.randrange(8),
            "numpy": lambda: int(np.random.randint(8)),
        }[self.source]()

    def __iter__(self) -> Iterator[int]:
        draws = (self.draw() for _ in range(8))
        yield from list(draws) if self.at_once else draws


class DrawnStream(ad.utils.data.IterableDataset[int]):
    """The same as a stream."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn

    def __iter__(self) -> Iterator[int]:
        return iter(self.drawn)


def seeded(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    ad.manual_seed(seed)


@pytest.mark.parametrize("source", ["adjoint", "python", "numpy"])
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("kind", ["sampler", "batch_sampler", "stream"])
def test_an_order_drawn_elsewhere_is_continued(source: str, at_once: bool, kind: str) -> None:
    def loader() -> Any:
        drawn: Any = Drawn(source, at_once)
        if kind == "stream":
            return DataLoader(DrawnStream(drawn), batch_size=2)
        if kind == "batch_sampler":
            batches = ad.utils.data.BatchSampler(drawn, 2, False)
            return DataLoader(range(8), batch_sampler=batches)
        return DataLoader(range(8), batch_size=2, sampler=drawn)

    def rest(batches: Any) -> list[Any]:
        left = [batch.tolist() for batch in batches]
        return [left, random.random(), np.random.rand(), ad.rand(1).item()]

    seeded(1)
    whole = loader()
    batches = iter(whole)
    for _ in range(2):
        next(batches)
    position, states = whole.position(), rng_state()
    want = rest(batches)
    seeded(2)
    again = loader()
    set_rng_state(states)
    again.continue_from(position)
    assert rest(again) == want
